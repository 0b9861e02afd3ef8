"""Recurrent mixers against the modules of transformers: parameters, FLOP of products, size of the state in its cache.

Models are shrunken, with widths that differ from each other, and run on the CPU. The counter sees what transformers
computes: projections as we count them, and of a scan whole squares of chunks that are filled up, which is written out
here. What our own rule counts of a scan is checked in `test_scans.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from roofline.blocks import kinds
from roofline.blocks.base import BlockContext, MixerBlock, Operators
from roofline.blocks.model import Model
from roofline.dtypes import BF16, Precision
from roofline.operators.gemm import Gemm
from roofline.operators.scan import Scan
from roofline.predict.parameters import count_parameters, kv_bytes_per_token, state_bytes_per_sequence
from roofline.specs.deployment import Conventions
from roofline.specs.workload import Step, decode, prefill, tokens

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, which has the modules, is not installed")
from torch.utils.flop_counter import FlopCounterMode

PRECISION = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
D = 48  # width of the stream
BATCH, PROMPT = 2, 10

# What a scan costs the counter, from batch, tokens and the block's keys.
Squares = Callable[[int, int, dict[str, Any]], int]


@dataclass(frozen=True)
class Family:
    """A config class with shrunken values, the name of its mixer's class, our keys, and the scan as the counter sees it."""

    config: str
    values: dict[str, Any]
    module: str
    kind: str
    keys: dict[str, Any]
    squares: Squares

    def block(self) -> MixerBlock:
        """Our mixer."""
        found = kinds("mixer")[self.kind].model_validate({"kind": self.kind, **self.keys})
        assert isinstance(found, MixerBlock)
        return found

    def model(self, layers: int = 2) -> Any:
        """The whole model, with random weights."""
        config = getattr(transformers, self.config)(vocab_size=64, num_hidden_layers=layers, **self.values)
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config).eval()

    def mixer(self) -> Any:
        """Its first mixer of the kind."""
        return next(module for module in self.model().modules() if type(module).__name__ == self.module)


def _mamba(batch: int, new: int, keys: dict[str, Any]) -> int:
    """Token by token: state times C for each channel."""
    return 2 * batch * new * keys["mamba_d_inner"] * keys["ssm_state_size"]


def _ssd(batch: int, new: int, keys: dict[str, Any]) -> int:
    """Filled-up chunks, B and C repeated for each head: C B^T, times x, B^T x, C S; states of all chunks by all chunks."""
    heads, d_k, d_v, c = (keys[name] for name in ("mamba_num_heads", "ssm_state_size", "mamba_head_dim", "chunk_size"))
    chunks = -(-new // c)
    inside = 2 * c * c * (d_k + d_v) + 4 * c * d_k * d_v
    return batch * heads * (chunks * inside + 2 * (chunks + 1) ** 2 * d_k * d_v)


def _delta(batch: int, new: int, keys: dict[str, Any]) -> int:
    """Filled-up chunks of 64: k k^T, q k^T, times values, three products with S; the triangular solver is not counted."""
    heads, d_k, d_v, c = (
        keys["linear_num_value_heads"],
        keys["linear_key_head_dim"],
        keys["linear_value_head_dim"],
        64,
    )
    return batch * heads * -(-new // c) * (2 * c * c * (2 * d_k + d_v) + 6 * c * d_k * d_v)


def _kda(batch: int, new: int, keys: dict[str, Any]) -> int:
    """Filled-up chunks of 64: T v, T k, times values, three products with S; scores are sums of products there."""
    heads, d, c = keys["linear_num_heads"], keys["linear_head_dim"], 64
    return batch * heads * -(-new // c) * (2 * c * c * 3 * d + 6 * c * d * d)


def _lightning(batch: int, new: int, keys: dict[str, Any]) -> int:
    """Chunks as long as they are: scores, times values, q S, k^T v."""
    heads, d, c = keys["num_attention_heads"], keys["head_dim"], keys["chunk_size"]
    lengths = [min(c, new - start) for start in range(0, new, c)]
    return sum(batch * heads * (4 * n * n * d + 4 * n * d * d) for n in lengths)


ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2}
WIDTHS = {"hidden_size": D, "intermediate_size": 32}
LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
SSD_KEYS = {
    "mamba_num_heads": 6, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 10, "conv_kernel": 3, "chunk_size": 4,
}  # fmt: skip
DELTA_KEYS = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 10, "linear_value_head_dim": 14,
    "linear_conv_kernel_dim": 3,
}  # fmt: skip
KDA_KEYS = {"linear_num_heads": 6, "linear_head_dim": 10, "linear_conv_kernel_dim": 3}
MAMBA_KEYS = {"mamba_d_inner": 2 * D, "ssm_state_size": 6, "time_step_rank": 5, "conv_kernel": 3}
MINIMAX = {"num_attention_heads": 6, "head_dim": 10}
# Other spellings of the same keys.
BAMBA = {
    "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 10, "mamba_d_conv": 3, "mamba_chunk_size": 4,
    "mamba_expand": 2,
}  # fmt: skip
JAMBA = {"mamba_dt_rank": 5, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_expand": 2}

FAMILIES = {
    "jamba": Family(
        "JambaConfig",
        WIDTHS | ATTENTION | JAMBA | {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1},
        "JambaMambaMixer", "mamba", MAMBA_KEYS | {"ssm_norms": True}, _mamba,
    ),
    "mamba": Family(
        "MambaConfig",
        {"hidden_size": D, "state_size": 6, "expand": 2, "conv_kernel": 3, "time_step_rank": 5, "use_bias": True},
        "MambaMixer", "mamba", MAMBA_KEYS | {"use_bias": True}, _mamba,
    ),
    "nemotron_h": Family(
        "NemotronHConfig",
        WIDTHS | ATTENTION | SSD_KEYS | {"layers_block_type": ["mamba", "attention"], "head_dim": 8},
        "NemotronHMamba2Mixer", "mamba2", SSD_KEYS, _ssd,
    ),
    "bamba": Family(
        "BambaConfig", WIDTHS | ATTENTION | BAMBA | {"attn_layer_indices": [1], "mamba_proj_bias": True},
        "BambaMixer", "mamba2", SSD_KEYS | {"use_bias": True}, _ssd,
    ),
    "granitemoehybrid": Family(
        "GraniteMoeHybridConfig",
        WIDTHS | ATTENTION | BAMBA
        | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 20, "mamba_conv_bias": False},
        "GraniteMoeHybridMambaLayer", "mamba2", SSD_KEYS | {"use_conv_bias": False}, _ssd,
    ),
    "falcon_h1": Family(
        "FalconH1Config", WIDTHS | ATTENTION | BAMBA | {"mamba_d_ssm": 96, "mamba_rms_norm": False, "head_dim": 12},
        "FalconH1Mixer", "mamba2", SSD_KEYS | {"mamba_rms_norm": False}, _ssd,
    ),
    "mamba2": Family(
        "Mamba2Config",
        {
            "hidden_size": D, "num_heads": 6, "head_dim": 16, "n_groups": 2, "state_size": 10, "conv_kernel": 3, "expand": 2,
            "chunk_size": 4,
        },
        "Mamba2Mixer", "mamba2", SSD_KEYS, _ssd,
    ),
    "qwen3_next": Family(
        "Qwen3NextConfig",
        WIDTHS | ATTENTION | DELTA_KEYS | LINEAR
        | {
            "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
            "shared_expert_intermediate_size": 8,
        },
        "Qwen3NextGatedDeltaNet", "gated_delta_net", DELTA_KEYS, _delta,
    ),
    "kimi_linear": Family(
        "KimiLinearConfig",
        WIDTHS | KDA_KEYS | LINEAR
        | {
            "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 12, "qk_rope_head_dim": 4, "v_head_dim": 8,
            "qk_nope_head_dim": 8, "mlp_layer_types": ["dense", "dense"], "pad_token_id": 0, "bos_token_id": 1,
            "eos_token_id": 2,
        },
        "KimiLinearDeltaAttention", "kda", KDA_KEYS, _kda,
    ),
    "minimax": Family(
        "MiniMaxConfig",
        WIDTHS | LINEAR | MINIMAX | {"num_key_value_heads": 2, "block_size": 4, "num_local_experts": 2},
        "MiniMaxLightningAttention", "lightning_attention", MINIMAX | {"chunk_size": 4}, _lightning,
    ),
}  # fmt: skip
each_family = pytest.mark.parametrize("name", FAMILIES)


def operators(block: MixerBlock, step: Step) -> Operators:
    """The operators of one layer."""
    site = BlockContext(hidden_size=D, step=step, tokens=tokens(step), precision=PRECISION, conventions=Conventions())
    return block.operators(site)


def products(found: Operators) -> int:
    """Matrix FLOP of the projections."""
    return sum(op.cost().matrix_flops for op in found.values() if isinstance(op, Gemm))


@each_family
def test_parameters(name: str) -> None:
    """Every parameter of the mixer, and no other."""
    family = FAMILIES[name]
    ours = sum(operator.parameters for operator in operators(family.block(), decode(1, 0)).values())
    assert ours == sum(parameter.numel() for parameter in family.mixer().parameters())


@each_family
@pytest.mark.parametrize("new", [PROMPT, 70])
def test_products(name: str, new: int) -> None:
    """FLOP of a prompt: our projections, and beside them the scan in squares. Convolutions are no products here."""
    family = FAMILIES[name]
    mixer, stream = family.mixer(), torch.randn(BATCH, new, D)
    arguments = ((None, None), None) if family.module.startswith("MiniMax") else ()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        mixer(stream, *arguments)
    counted = sum(n for op, n in counter.get_flop_counts()["Global"].items() if "convolution" not in str(op))
    ours = operators(family.block(), prefill(BATCH, new))
    squares = family.squares(BATCH, new, family.keys)
    assert counted == products(ours) + squares
    assert sum(op.cost().matrix_flops for op in ours.values() if isinstance(op, Scan)) <= squares


@each_family
def test_state(name: str) -> None:
    """Elements in the cache after a prompt: what `State` says, for each sequence, in the layout of its mathematical size."""
    family, state = FAMILIES[name], FAMILIES[name].block().state()
    assert state is not None
    with torch.no_grad():
        kept = family.model()(torch.randint(0, 64, (BATCH, PROMPT)), use_cache=True)
    cache = kept.past_key_values if hasattr(kept, "past_key_values") else kept.cache_params
    if family.module.startswith("MiniMax"):
        assert cache.get_linear_cache(0).numel() == BATCH * state.recurrent
        assert state.conv == 0
        return
    layer = cache.layers[0]
    assert layer.conv_states[0].shape == (BATCH, state.conv, state.conv_kernel)
    assert layer.recurrent_states[0].numel() == BATCH * state.recurrent
    assert state.bytes(PRECISION, allocated=False) * BATCH == (
        2 * layer.conv_states[0].numel() + 4 * layer.recurrent_states[0].numel()
    )


def test_kimi_linear() -> None:
    """Kimi Linear 48B: 20 layers of KDA and 7 of latent attention make its parameters, as transformers has them.

    The checkpoint lists 49,122,681,728, of which 256 for each of 26 routers are corrections, which are no weights.
    """
    every = range(1, 28)
    full = [4, 8, 12, 16, 20, 24, 27]
    linear = {
        "full_attn_layers": full, "kda_layers": [n for n in every if n not in full],
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
    }  # fmt: skip
    with torch.device("meta"):
        config = transformers.KimiLinearConfig(linear_attn_config=linear)
        theirs = transformers.AutoModelForCausalLM.from_config(config)
    kda = {"kind": "kda", "linear_num_heads": 32, "linear_head_dim": 128}
    mla = {
        "kind": "mla", "num_attention_heads": 32, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }  # fmt: skip
    dense = {"kind": "gated_mlp", "intermediate_size": 9216}
    moe = {
        "kind": "moe", "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 1024,
        "shared_intermediate_size": 1024,
    }  # fmt: skip
    model = Model.model_validate(
        {
            "schema_version": 1, "name": "kimi-linear", "title": "Kimi Linear 48B", "hidden_size": 2304, "vocab_size": 163_840,
            "max_position_embeddings": 1_048_576, "tie_word_embeddings": False, "sources": {},
            "layer_types": {
                "first": {"mixer": kda, "mlp": dense}, "linear": {"mixer": kda, "mlp": moe}, "full": {"mixer": mla, "mlp": moe},
            },
            "layers": [
                {"pattern": ["first", "linear", "linear", "full"]},
                {"pattern": ["linear", "linear", "linear", "full"], "repeat": 5},
                {"pattern": ["linear", "linear", "full"]},
            ],
        }
    )  # fmt: skip
    total = count_parameters(model).total
    assert total == sum(parameter.numel() for parameter in theirs.parameters())
    assert total + 26 * 256 == 49_122_681_728
    # Of every token: 7 latents of 576. Of every sequence: 20 layers of 32 matrices, and 3 x 4096 channels of 4 columns.
    assert kv_bytes_per_token(model) == 7 * 576 * 2
    assert state_bytes_per_sequence(model) == 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 4 * 2)
