"""Families of softmax attention against the modules of transformers: parameters, KV cache and FLOP, to the last one.

Each case is a small configuration of a family and our file of the same model. The module is built and run on the meta
device (shapes alone) with eager attention under PyTorch's FLOP counter, which sees whole products: the mask is full,
logits are computed at every position, and a sliding layer reads what its cache keeps.
"""

from __future__ import annotations

import copy
import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.graph.build import CANONICAL, build
from roofline.graph.sharding import caches
from roofline.predict.parameters import TWO_BYTES, count_parameters
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import Segment

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, the modules, is not installed")
from torch.utils.flop_counter import FlopCounterMode

# Widths are odd on purpose: no two of them are equal, and hardly a product of two.
D, D_FF, VOCABULARY, LAYERS = 48, 112, 331, 4
N_Q, N_KV, D_HEAD, D_V, WINDOW = 6, 2, 20, 14, 9
EXPERTS, TOP_K, D_EXPERT, D_SHARED, D_LATENT = 10, 3, 28, 44, 26
DENSE = {"hidden_size": D, "vocab_size": VOCABULARY, "intermediate_size": D_FF, "num_hidden_layers": LAYERS}
HEADS = {"num_attention_heads": N_Q, "num_key_value_heads": N_KV, "head_dim": D_HEAD}
# Families whose heads divide the hidden size.
EVEN = {"num_attention_heads": N_Q, "num_key_value_heads": N_KV, "head_dim": D // N_Q}
MANY = {"num_attention_heads": N_Q, "num_key_value_heads": N_Q, "head_dim": D // N_Q}
UNTIED = {"tie_word_embeddings": False}

GATED: dict[str, Any] = {"kind": "gated_mlp", "intermediate_size": D_FF}
PLAIN: dict[str, Any] = {"kind": "mlp", "intermediate_size": D_FF}
MOE: dict[str, Any] = {
    "kind": "moe", "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": D_EXPERT,
}  # fmt: skip
LAYERNORM = {"function": "layernorm", "bias": True}


def gqa(heads: dict[str, int] = HEADS, **keys: Any) -> dict[str, Any]:
    return {"kind": "gqa", **heads, **keys}


@dataclass(frozen=True)
class Case:
    """A configuration of a family, and our file of it: layers by type, and keys of the model that are not the usual."""

    family: str
    config: dict[str, Any]
    types: dict[str, dict[str, Any]]
    pattern: tuple[str, ...]
    model: dict[str, Any] = field(default_factory=dict)
    counted_experts: int | None = None
    """Experts that the module multiplies each token with, where it takes all of them and discards what was not chosen."""
    device: str = "meta"
    """Where it runs: on the CPU, with numbers, where its routing looks at them."""

    def ours(self) -> Model:
        """The file, read."""
        return self._read(self.types)

    def ours_as_counted(self) -> Model:
        """The file with as many experts a token as the module multiplies."""
        types = copy.deepcopy(self.types)
        for layer in types.values():
            if self.counted_experts and layer.get("mlp", {}).get("kind") == "moe":
                layer["mlp"]["num_experts_per_tok"] = self.counted_experts
        return self._read(types)

    def _read(self, types: dict[str, dict[str, Any]]) -> Model:
        return Model.model_validate(
            {
                "schema_version": 1,
                "name": self.family,
                "title": self.family,
                "hidden_size": D,
                "vocab_size": VOCABULARY,
                "max_position_embeddings": 64,
                **UNTIED,
                **self.model,
                "layer_types": types,
                "layers": [{"pattern": self.pattern}],
                "sources": {},
            }
        )


SLIDE, FULL = "sliding_attention", "full_attention"
GEMMA = {"tie_word_embeddings": True}
GEMMA_QK = {"qk_norm": "head", "v_norm": True}
GLOBAL = {"num_attention_heads": N_Q, "num_key_value_heads": 3, "head_dim": 24}
GEMMA_CONFIG = DENSE | HEADS | {
    "num_hidden_layers": 6, "sliding_window": WINDOW, "global_head_dim": 24, "num_global_key_value_heads": 3,
    "attention_k_eq_v": True, "hidden_size_per_layer_input": 0,
}  # fmt: skip
GEMMA_LAYERS = {
    "sliding": {"mixer": gqa(sliding_window=WINDOW, **GEMMA_QK), "mlp": GATED, "norms": "both"},
    "full": {"mixer": gqa(GLOBAL, attention_k_eq_v=True, **GEMMA_QK), "mlp": GATED, "norms": "both"},
}
GEMMA_PATTERN = (*["sliding"] * 5, "full")
GEMMA_MOE = MOE | {
    "shared_intermediate_size": D_FF, "router_norm": True, "expert_scale": True, "branch_norms": True,
}  # fmt: skip
SMALL = HEADS | {"head_dim": 24}
LLAMA4_MOE = MOE | {"num_experts_per_tok": 1, "moe_intermediate_size": D_EXPERT, "shared_intermediate_size": D_EXPERT}
CHUNKED = gqa(attention_chunk_size=WINDOW, qk_norm="l2")

CASES = [
    Case("gemma4_text", GEMMA_CONFIG, GEMMA_LAYERS, GEMMA_PATTERN, GEMMA),
    Case(
        "gemma4_text",
        GEMMA_CONFIG | {
            "enable_moe_block": True, "num_experts": EXPERTS, "top_k_experts": TOP_K, "moe_intermediate_size": D_EXPERT,
        },
        {name: layer | {"mlp": GEMMA_MOE} for name, layer in GEMMA_LAYERS.items()},
        GEMMA_PATTERN,
        GEMMA,
    ),
    Case(  # E2B: inputs of the layers' own; the last four layers read the caches of the two before, with wider MLPs
        "gemma4_text",
        GEMMA_CONFIG | {
            "attention_k_eq_v": False, "hidden_size_per_layer_input": 10, "vocab_size_per_layer_input": 307,
            "num_kv_shared_layers": 4, "use_double_wide_mlp": True, "layer_types": [SLIDE, FULL] * 3,
        },
        {
            "sliding": GEMMA_LAYERS["sliding"],
            "full": {"mixer": gqa(SMALL, **GEMMA_QK), "mlp": GATED, "norms": "both"},
            "sliding_shared": {
                "mixer": gqa(sliding_window=WINDOW, kv_shared=True, **GEMMA_QK),
                "mlp": GATED | {"intermediate_size": 2 * D_FF},
                "norms": "both",
            },
            "full_shared": {
                "mixer": gqa(SMALL, kv_shared=True, **GEMMA_QK),
                "mlp": GATED | {"intermediate_size": 2 * D_FF},
                "norms": "both",
            },
        },
        ("sliding", "full", *["sliding_shared", "full_shared"] * 2),
        GEMMA | {"hidden_size_per_layer_input": 10, "vocab_size_per_layer_input": 307},
    ),
    Case(
        "llama4_text",
        DENSE | HEADS | {
            "intermediate_size": D_EXPERT, "intermediate_size_mlp": D_FF, "num_local_experts": EXPERTS,
            "attention_chunk_size": WINDOW, "interleave_moe_layer_step": 2,
        },
        {
            "dense": {"mixer": CHUNKED, "mlp": GATED},
            "experts": {"mixer": CHUNKED, "mlp": LLAMA4_MOE},
            "global_experts": {"mixer": gqa(rotary_dim=0), "mlp": LLAMA4_MOE},
        },
        ("dense", "experts", "dense", "global_experts"),
        counted_experts=EXPERTS,
    ),
    Case(
        "mimo_v2_flash",
        DENSE | HEADS | {
            "num_key_value_heads": 1, "v_head_dim": D_V, "sliding_window": WINDOW, "moe_intermediate_size": D_EXPERT,
            "n_routed_experts": EXPERTS, "num_experts_per_tok": TOP_K, "layer_types": [FULL, SLIDE, SLIDE, FULL],
            "attention_bias": True,
        },
        {
            "first": {"mixer": gqa(HEADS | {"num_key_value_heads": 1}, v_head_dim=D_V, qkv_bias=True), "mlp": GATED},
            "sliding": {
                "mixer": gqa(v_head_dim=D_V, qkv_bias=True, sliding_window=WINDOW, sinks=True), "mlp": MOE
            },
            "full": {"mixer": gqa(HEADS | {"num_key_value_heads": 1}, v_head_dim=D_V, qkv_bias=True), "mlp": MOE},
        },
        ("first", "sliding", "sliding", "full"),
    ),
    Case(
        "nemotron_h",
        DENSE | HEADS | {
            "hybrid_override_pattern": "*-E*", "n_routed_experts": EXPERTS, "num_experts_per_tok": TOP_K,
            "moe_intermediate_size": D_EXPERT, "moe_shared_expert_intermediate_size": D_SHARED, "moe_latent_size": D_LATENT,
        },
        {
            "attention": {"mixer": gqa(rotary_dim=0)},
            "mlp": {"mlp": PLAIN},
            "moe": {"mlp": MOE | {"gated": False, "shared_intermediate_size": D_SHARED, "moe_latent_size": D_LATENT}},
        },
        ("attention", "mlp", "moe", "attention"),
    ),
    Case(
        "qwen3_next",
        DENSE | HEADS | {
            "layer_types": [FULL] * LAYERS, "num_experts": EXPERTS, "num_experts_per_tok": TOP_K,
            "moe_intermediate_size": D_EXPERT, "shared_expert_intermediate_size": D_SHARED, "attention_bias": True,
        },
        {
            "layer": {
                "mixer": gqa(qk_norm="head", output_gate="elementwise", qkv_bias=True, o_bias=True),
                "mlp": MOE | {"shared_intermediate_size": D_SHARED, "shared_gate": True},
            }
        },
        ("layer",) * LAYERS,
    ),
    Case(
        "cohere",
        DENSE | EVEN | {"use_qk_norm": True},
        {
            "layer": {
                "mixer": gqa(EVEN, qk_norm="full", qk_norm_function="layernorm"), "mlp": GATED, "parallel": True
            }
        },
        ("layer",) * LAYERS,
        {"tie_word_embeddings": True, "norm": {"function": "layernorm"}},
    ),
    Case(
        "opt",  # 350M: narrow embeddings, norms after the sums, none at the end
        {
            "hidden_size": D, "vocab_size": VOCABULARY, "ffn_dim": D_FF, "num_hidden_layers": LAYERS,
            "num_attention_heads": N_Q, "word_embed_proj_dim": 22, "do_layer_norm_before": False,
            "max_position_embeddings": 64,
        },
        {"layer": {"mixer": gqa(MANY, qkv_bias=True, o_bias=True, rotary_dim=0), "mlp": PLAIN | {"bias": True}}},
        ("layer",) * LAYERS,
        {
            "tie_word_embeddings": True, "norm": LAYERNORM, "final_norm": False, "learned_positions": 66,
            "word_embed_proj_dim": 22,
        },
    ),
    Case(
        "gptj",
        {"n_embd": D, "vocab_size": VOCABULARY, "n_layer": LAYERS, "n_head": N_Q, "n_inner": D_FF, "rotary_dim": 4},
        {"layer": {"mixer": gqa(MANY, rotary_dim=4), "mlp": PLAIN | {"bias": True}, "parallel": True}},
        ("layer",) * LAYERS,
        {"norm": LAYERNORM, "lm_head_bias": True},
    ),
    Case(
        "phimoe",
        DENSE | EVEN | {
            "intermediate_size": D_EXPERT, "attention_bias": True, "lm_head_bias": True, "num_local_experts": EXPERTS,
            "num_experts_per_tok": 2, "sliding_window": WINDOW,
        },
        {
            "layer": {
                "mixer": gqa(EVEN, qkv_bias=True, o_bias=True, sliding_window=WINDOW),
                "mlp": MOE | {"num_experts_per_tok": 2},
            }
        },
        ("layer",) * LAYERS,
        {"norm": LAYERNORM, "lm_head_bias": True},
    ),
    Case(
        "hunyuan_v1_moe",
        DENSE | HEADS | {"intermediate_size": D_EXPERT, "num_experts": EXPERTS, "moe_topk": TOP_K},
        {"layer": {"mixer": gqa(qk_norm="head"), "mlp": MOE | {"shared_intermediate_size": D_EXPERT}}},
        ("layer",) * LAYERS,
    ),
    Case(
        "minimax_m2",
        DENSE | HEADS | {"intermediate_size": D_EXPERT, "num_local_experts": EXPERTS, "num_experts_per_tok": TOP_K},
        {"layer": {"mixer": gqa(qk_norm="full"), "mlp": MOE}},
        ("layer",) * LAYERS,
    ),
    Case(
        "glm4_moe",
        DENSE | HEADS | {
            "first_k_dense_replace": 1, "n_routed_experts": EXPERTS, "num_experts_per_tok": TOP_K, "n_shared_experts": 2,
            "moe_intermediate_size": D_EXPERT, "attention_bias": True, "use_qk_norm": True,
        },
        {
            "dense": {"mixer": gqa(qkv_bias=True, qk_norm="head"), "mlp": GATED},
            "experts": {
                "mixer": gqa(qkv_bias=True, qk_norm="head"), "mlp": MOE | {"shared_intermediate_size": 2 * D_EXPERT}
            },
        },
        ("dense", *["experts"] * (LAYERS - 1)),
    ),
    Case(
        "granitemoehybrid",
        DENSE | EVEN | {
            "intermediate_size": D_EXPERT, "shared_intermediate_size": D_SHARED, "num_local_experts": EXPERTS,
            "num_experts_per_tok": TOP_K, "layer_types": ["attention"] * LAYERS, "mamba_n_heads": N_Q,
        },
        {"layer": {"mixer": gqa(EVEN, rotary_dim=0), "mlp": MOE | {"shared_intermediate_size": D_SHARED}}},
        ("layer",) * LAYERS,
    ),
    Case(
        "jamba",
        DENSE | EVEN | {
            "attn_layer_period": 1, "attn_layer_offset": 0, "num_experts": EXPERTS, "num_experts_per_tok": TOP_K,
        },
        {
            "dense": {"mixer": gqa(EVEN, rotary_dim=0), "mlp": GATED},
            "experts": {"mixer": gqa(EVEN, rotary_dim=0), "mlp": MOE | {"moe_intermediate_size": D_FF}},
        },
        ("dense", "experts") * 2,
    ),
    Case(
        "bloom",
        {"hidden_size": D, "vocab_size": VOCABULARY, "n_layer": LAYERS, "n_head": N_Q},
        {
            "layer": {
                "mixer": gqa(MANY, qkv_bias=True, o_bias=True, rotary_dim=0),
                "mlp": PLAIN | {"intermediate_size": 4 * D, "bias": True},
            }
        },
        ("layer",) * LAYERS,
        {"tie_word_embeddings": True, "norm": LAYERNORM, "embedding_norm": True},
    ),
    Case(
        "olmo",
        DENSE | EVEN,
        {"layer": {"mixer": gqa(EVEN), "mlp": GATED}},
        ("layer",) * LAYERS,
        {"norm": {"function": "layernorm", "weight": False}},
    ),
    Case(
        "phi",
        DENSE | EVEN | {"qk_layernorm": True},
        {
            "layer": {
                "mixer": gqa(
                    EVEN, qkv_bias=True, o_bias=True, rotary_dim=4,
                    qk_norm="head", qk_norm_function="layernorm", qk_norm_bias=True,
                ),
                "mlp": PLAIN | {"bias": True},
                "parallel": True,
            }
        },
        ("layer",) * LAYERS,
        {"norm": LAYERNORM, "lm_head_bias": True},
    ),
    Case(
        "stablelm",
        DENSE | EVEN | {"qk_layernorm": True, "use_qkv_bias": True},
        {
            "layer": {
                "mixer": gqa(EVEN, qkv_bias=True, qk_norm="full", qk_norm_function="layernorm", rotary_dim=2), "mlp": GATED
            }
        },
        ("layer",) * LAYERS,
        {"norm": LAYERNORM},
    ),
    Case(
        "gpt_bigcode",
        {"n_embd": D, "vocab_size": VOCABULARY, "n_layer": LAYERS, "n_head": N_Q, "n_inner": D_FF, "n_positions": 64},
        {
            "layer": {
                "mixer": gqa(MANY | {"num_key_value_heads": 1}, qkv_bias=True, o_bias=True, rotary_dim=0),
                "mlp": PLAIN | {"bias": True},
            }
        },
        ("layer",) * LAYERS,
        {"tie_word_embeddings": True, "norm": LAYERNORM, "learned_positions": 64},
    ),
    Case(
        "starcoder2",
        DENSE | EVEN | {"use_bias": True, "sliding_window": WINDOW},
        {
            "layer": {
                "mixer": gqa(EVEN, qkv_bias=True, o_bias=True, sliding_window=WINDOW), "mlp": PLAIN | {"bias": True}
            }
        },
        ("layer",) * LAYERS,
        {"tie_word_embeddings": True, "norm": LAYERNORM},
    ),
    Case(
        "gpt_neox",
        DENSE | {"num_attention_heads": N_Q, "use_parallel_residual": True},
        {
            "layer": {
                "mixer": gqa(MANY, qkv_bias=True, o_bias=True, rotary_dim=2),
                "mlp": PLAIN | {"bias": True},
                "parallel": True,
                "parallel_norms": 2,
            }
        },
        ("layer",) * LAYERS,
        {"norm": LAYERNORM},
    ),
    Case(
        "gpt_oss",
        DENSE | HEADS | {
            "intermediate_size": D_EXPERT, "num_local_experts": EXPERTS, "num_experts_per_tok": TOP_K,
            "sliding_window": WINDOW, "layer_types": [SLIDE, FULL] * 2,
        },
        {
            name: {
                "mixer": gqa(qkv_bias=True, o_bias=True, sinks=True, **window),
                "mlp": MOE | {"bias": True, "router_bias": True},
            }
            for name, window in (("sliding", {"sliding_window": WINDOW}), ("full", {}))
        },
        ("sliding", "full") * 2,
    ),
    Case(
        "exaone4",
        DENSE | HEADS | {"sliding_window": WINDOW, "layer_types": [SLIDE, SLIDE, SLIDE, FULL]},
        {
            "sliding": {"mixer": gqa(qk_norm="head", sliding_window=WINDOW), "mlp": GATED, "norms": "post"},
            "full": {"mixer": gqa(qk_norm="head", rotary_dim=0), "mlp": GATED, "norms": "post"},
        },
        ("sliding", "sliding", "sliding", "full"),
    ),
    Case(
        "step3p7",
        {
            "text_config": DENSE | HEADS | {
                "num_sliding_attention_heads": 8, "sliding_window": WINDOW, "layer_types": [FULL, SLIDE] * 2,
                "n_routed_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": D_EXPERT,
                "share_expert_dim": D_SHARED, "moe_layers_enum": "2,3",
            },
            "vision_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
        },
        {
            f"{name}_{kind}": {"mixer": gqa(HEADS | heads, qk_norm="head", output_gate="headwise", **window), "mlp": mlp}
            for name, heads, window in (("full", {}, {}), ("sliding", {"num_attention_heads": 8}, {"sliding_window": WINDOW}))
            for kind, mlp in (("dense", GATED), ("experts", MOE | {"shared_intermediate_size": D_SHARED}))
        },
        ("full_dense", "sliding_dense", "full_experts", "sliding_experts"),
        device="cpu",
    ),
    Case(
        "dbrx",
        {
            "d_model": D, "n_heads": N_Q, "n_layers": LAYERS, "vocab_size": VOCABULARY,
            "attn_config": {"kv_n_heads": N_KV, "rope_theta": 1e4, "clip_qkv": 8},
            "ffn_config": {
                "hidden_size": D, "ffn_hidden_size": D_EXPERT, "moe_num_experts": EXPERTS, "moe_top_k": TOP_K,
                "ffn_act_fn": {"name": "silu"},
            },
        },
        {"layer": {"mixer": gqa(EVEN), "mlp": MOE}},
        ("layer",) * LAYERS,
        {"norm": {"function": "layernorm"}},
        device="cpu",
    ),
    Case(
        "afmoe",  # its correction of the router is a parameter, as large as a bias
        DENSE | HEADS | {
            "num_dense_layers": 1, "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": D_EXPERT,
            "num_shared_experts": 2, "sliding_window": WINDOW, "layer_types": [SLIDE, SLIDE, SLIDE, FULL],
        },
        {
            name: {"mixer": gqa(qk_norm="head", output_gate="elementwise", **window), "mlp": mlp, "norms": "both"}
            for name, window, mlp in (
                ("dense", {"sliding_window": WINDOW}, GATED),
                ("sliding", {"sliding_window": WINDOW}, MOE | {"router_bias": True, "shared_intermediate_size": 2 * D_EXPERT}),
                ("full", {"rotary_dim": 0}, MOE | {"router_bias": True, "shared_intermediate_size": 2 * D_EXPERT}),
            )
        },
        ("dense", "sliding", "sliding", "full"),
    ),
]  # fmt: skip

VISION = re.compile("vision|multi_modal")


@cache
def module(index: int) -> Any:
    """The module of a case."""
    case = CASES[index]
    config = transformers.AutoConfig.for_model(case.family, **case.config)
    config.tie_word_embeddings = case.model.get("tie_word_embeddings", False)
    kind = transformers.AutoModelForImageTextToText if "text_config" in case.config else transformers.AutoModelForCausalLM
    logging.disable(logging.WARNING)  # meta tensors have no numbers to initialise
    try:
        with torch.device(case.device):
            built = kind.from_config(config, attn_implementation="eager").eval().requires_grad_(False)
    finally:
        logging.disable(logging.NOTSET)
    if case.device == "meta":
        built.set_experts_implementation("batched_mm")  # routing that does not depend on numbers
    return built


def parameters(index: int) -> dict[str, int]:
    """Of the language model, tied ones once, by name."""
    found = module(index).named_parameters()
    return {name: tensor.numel() for name, tensor in found if not VISION.search(name)}


def run(model: Any, batch: int, new: int, cached: int) -> tuple[int, Any]:
    """FLOP by the counter of `new` tokens after `cached` ones, and the cache that is left."""

    def forward(tokens: int, past: Any) -> Any:
        ids = torch.zeros(batch, tokens, dtype=torch.long, device=model.device)
        return model(ids, past_key_values=past, use_cache=True).past_key_values

    with torch.no_grad():
        past = forward(cached, None) if cached else None
        with FlopCounterMode(display=False) as counter:
            past = forward(new, past)
    return counter.get_total_flops(), past


each_case = pytest.mark.parametrize("index", range(len(CASES)), ids=lambda index: f"{CASES[index].family}-{index}")


@each_case
def test_parameters(index: int) -> None:
    """All of the module's, tied ones once."""
    assert count_parameters(CASES[index].ours()).total == sum(parameters(index).values())


@each_case
def test_parameters_of_each_layer(index: int) -> None:
    """Layer by layer."""
    model, counted = CASES[index].ours(), Counter[int]()
    for name, size in parameters(index).items():
        if at := re.search(r"\.(?:layers|h|blocks)\.(\d+)\.", name):
            counted[int(at[1])] += size
    graph, many = build(model, Deployment(), TWO_BYTES, CANONICAL), len(model.layer_types) > 1
    for layer, name in enumerate(model.layer_sequence):
        prefix = f"layers/{name}/" if many else "layers/"
        assert sum(op.parameters for path, (op, _) in graph.items() if path.startswith(prefix)) == counted[layer], layer


# Below the window or chunk of 9 tokens, at its edge, and beyond it; a whole prompt, and one token after others.
STEPS = [(2, 7, 0), (1, 12, 0), (3, 1, 8), (2, 1, 30)]


@each_case
@pytest.mark.parametrize(("batch", "new", "cached"), STEPS)
def test_flop(index: int, batch: int, new: int, cached: int) -> None:
    """Matrix FLOP of a step."""
    deployment = Deployment(conventions=Conventions(mask="full", logits="all"))
    step = (Segment(batch, new, cached, decode=new == 1),)
    graph = build(CASES[index].ours_as_counted(), deployment, TWO_BYTES, step)
    ours = sum(op.cost().matrix_flops * repeat for op, repeat in graph.values())
    assert ours == run(module(index), batch, new, cached)[0]


@each_case
@pytest.mark.parametrize("length", [8, 30])
def test_cache(index: int, length: int) -> None:
    """Elements that the layers keep of a sequence.

    Beyond a window transformers keeps one token less than the window, for the next token brings its own.
    """
    past = run(module(index), 2, length, 0)[1]
    held = sum(layer.keys.numel() + layer.values.numel() for layer in past.layers if getattr(layer, "keys", None) is not None)
    kept = sum(
        found.elements * count * (length if found.window is None else min(length, found.window - 1))
        for found, count in caches(CASES[index].ours(), Deployment())
    )
    assert held == 2 * kept
