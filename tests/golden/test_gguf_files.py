"""GGUF files of small models: names and types of tensors by the `gguf` package, weights by transformers' own classes.

Each model is built by transformers on its meta device. Its tensors get the names that `gguf` maps theirs to, experts stacked as
llama.cpp has them, and types mixed as its quantiser does: some values and down projections in 6 bits, vectors in fp32. What is
read back has to be that file to the byte, and that model to the last parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline import analyze, load_model
from roofline.blocks.model import Model
from roofline.blocks.precision import resolve_precision
from roofline.dtypes import FORMATS
from roofline.graph.build import CANONICAL, build
from roofline.predict.memory import weights_by_path
from roofline.predict.parameters import count_parameters
from roofline.specs.deployment import Deployment

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

HIDDEN, WIDTH, LAYERS, VOCAB, EXPERTS = 256, 512, 4, 512, 4
BASE = {
    "hidden_size": HIDDEN, "intermediate_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
    "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "tie_word_embeddings": False, "pad_token_id": 0,
}  # fmt: skip
LLM, ATTENTION, ROPE, SSM = gguf.Keys.LLM, gguf.Keys.Attention, gguf.Keys.Rope, gguf.Keys.SSM
HEADS = {ATTENTION.HEAD_COUNT: 4, ATTENTION.HEAD_COUNT_KV: 2}
COMMON = {
    LLM.CONTEXT_LENGTH: 1024,
    LLM.EMBEDDING_LENGTH: HIDDEN,
    LLM.BLOCK_COUNT: LAYERS,
    LLM.FEED_FORWARD_LENGTH: WIDTH,
    **HEADS,
}
SPARSE = {LLM.EXPERT_COUNT: EXPERTS, LLM.EXPERT_USED_COUNT: 2, LLM.EXPERT_FEED_FORWARD_LENGTH: 256}
SPARSE_OF_512 = {LLM.EXPERT_COUNT: EXPERTS, LLM.EXPERT_USED_COUNT: 2}
HEAD_64 = {ATTENTION.KEY_LENGTH: 64, ATTENTION.VALUE_LENGTH: 64}
MLA = {
    ATTENTION.HEAD_COUNT: 4, ATTENTION.HEAD_COUNT_KV: 1, ATTENTION.KV_LORA_RANK: 256, ATTENTION.Q_LORA_RANK: 256,
    ATTENTION.KEY_LENGTH: 256 + 32, ATTENTION.VALUE_LENGTH: 256, ATTENTION.KEY_LENGTH_MLA: 96, ATTENTION.VALUE_LENGTH_MLA: 64,
    ROPE.DIMENSION_COUNT: 32, LLM.LEADING_DENSE_BLOCK_COUNT: 1, LLM.EXPERT_SHARED_COUNT: 1, LLM.EXPERT_WEIGHTS_SCALE: 2.5,
}  # fmt: skip
HYBRID = {
    ATTENTION.HEAD_COUNT_KV: [0, 2, 0, 0], SSM.CONV_KERNEL: 4, SSM.INNER_SIZE: 512, SSM.STATE_SIZE: 32, SSM.GROUP_COUNT: 1,
    SSM.TIME_STEP_RANK: 8, LLM.EXPERT_SHARED_FEED_FORWARD_LENGTH: 512,
}  # fmt: skip
_HYBRID = {
    "layer_types": ["mamba", "attention", "mamba", "mamba"], "shared_intermediate_size": 512, "num_local_experts": 0,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_d_state": 32, "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_d_head": 64,
}  # fmt: skip
_SPARSE = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 256}

_DELTA = {
    "head_dim": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "partial_rotary_factor": 0.25,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
}  # fmt: skip
DELTA = {
    **HEAD_64, ROPE.DIMENSION_COUNT: 16, SSM.CONV_KERNEL: 4, SSM.STATE_SIZE: 64, SSM.GROUP_COUNT: 2, SSM.TIME_STEP_RANK: 4,
    SSM.INNER_SIZE: 512, LLM.FULL_ATTENTION_INTERVAL: 4,
}  # fmt: skip
SHARED = {LLM.EXPERT_SHARED_FEED_FORWARD_LENGTH: 256}

# By the architecture of the file: transformers' config, its keys, and what the file has of keys.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}, {ROPE.DIMENSION_COUNT: 64}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}, {}),
    "qwen2moe": (
        "Qwen2MoeConfig",
        {**_SPARSE, "shared_expert_intermediate_size": 512},
        {**SPARSE, LLM.EXPERT_SHARED_FEED_FORWARD_LENGTH: 512},
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 128}, {ATTENTION.KEY_LENGTH: 128, ATTENTION.VALUE_LENGTH: 128}),
    "qwen3moe": ("Qwen3MoeConfig", {**_SPARSE, "head_dim": 64}, {**SPARSE, **HEAD_64}),
    "gemma": ("GemmaConfig", {"head_dim": 64, "tie_word_embeddings": True}, HEAD_64),
    "gemma2": (
        "Gemma2Config",
        {"head_dim": 64, "sliding_window": 256, "tie_word_embeddings": True},
        {**HEAD_64, ATTENTION.SLIDING_WINDOW: 256, LLM.ATTN_LOGIT_SOFTCAPPING: 50.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"head_dim": 64, "sliding_window": 256, "tie_word_embeddings": True},
        {**HEAD_64, ATTENTION.SLIDING_WINDOW: 256},
    ),
    "phi3": ("Phi3Config", {}, {ATTENTION.SLIDING_WINDOW: 512, ROPE.DIMENSION_COUNT: 64}),
    "deepseek2": (
        "DeepseekV3Config",
        {
            "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_shared_experts": 1,
            "first_k_dense_replace": 1, "kv_lora_rank": 256, "q_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
            "v_head_dim": 64, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1,
        },
        {**SPARSE, **MLA},
    ),
    "gpt-oss": (
        "GptOssConfig",
        {
            "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "head_dim": 64, "sliding_window": 128,
            "intermediate_size": 256,
        },
        {**SPARSE, **HEAD_64, ATTENTION.SLIDING_WINDOW: 128},
    ),
    "glm4": ("Glm4Config", {"head_dim": 64, "attention_bias": True}, {**HEAD_64, ROPE.DIMENSION_COUNT: 32}),
    "glm4moe": (
        "Glm4MoeConfig",
        {
            "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_shared_experts": 1,
            "first_k_dense_replace": 1, "head_dim": 64, "use_qk_norm": True, "n_group": 1, "topk_group": 1,
        },
        {**SPARSE, **HEAD_64, LLM.LEADING_DENSE_BLOCK_COUNT: 1, LLM.EXPERT_SHARED_COUNT: 1, ROPE.DIMENSION_COUNT: 32},
    ),
    "command-r": ("CohereConfig", {"tie_word_embeddings": True, "use_qk_norm": True}, {LLM.LOGIT_SCALE: 0.0625}),
    "cohere2": ("Cohere2Config", {"tie_word_embeddings": True, "sliding_window": 256}, {ATTENTION.SLIDING_WINDOW: 256}),
    "granite": ("GraniteConfig", {}, {LLM.RESIDUAL_SCALE: 0.2}),
    "granitehybrid": ("GraniteMoeHybridConfig", _HYBRID, HYBRID),
    "olmo2": ("Olmo2Config", {}, {}),
    "falcon": (
        "FalconConfig",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 512, "tie_word_embeddings": True},
        {},
    ),
    "starcoder2": ("Starcoder2Config", {"use_bias": True, "tie_word_embeddings": True}, {}),
    "smollm3": ("SmolLM3Config", {}, {}),
    "arcee": ("ArceeConfig", {}, {}),
    "ernie4_5": ("Ernie4_5Config", {"head_dim": 64}, HEAD_64),
    "exaone4": (
        "Exaone4Config",
        {"sliding_window": 256, "sliding_window_pattern": 4, "layer_types": [*["sliding_attention"] * 3, "full_attention"]},
        {ATTENTION.SLIDING_WINDOW: 256},
    ),
    "hunyuan-dense": ("HunYuanDenseV1Config", {"head_dim": 64}, HEAD_64),
    "seed_oss": ("SeedOssConfig", {"head_dim": 64}, HEAD_64),
    "minimax-m2": (
        "MiniMaxM2Config",
        {"num_local_experts": EXPERTS, "num_experts_per_tok": 2, "head_dim": 64, "intermediate_size": 256},
        {**SPARSE, **HEAD_64, ROPE.DIMENSION_COUNT: 32},
    ),
    "granitemoe": (
        "GraniteMoeConfig",
        {"num_local_experts": EXPERTS, "num_experts_per_tok": 2},
        {LLM.EXPERT_COUNT: EXPERTS, LLM.EXPERT_USED_COUNT: 2},
    ),
    "olmoe": ("OlmoeConfig", {"num_experts": EXPERTS, "num_experts_per_tok": 2, "intermediate_size": 512}, SPARSE_OF_512),
    "dots1": (
        "Dots1Config",
        {
            "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_shared_experts": 1,
            "first_k_dense_replace": 1, "head_dim": 64, "n_group": 1, "topk_group": 1, "sliding_window": None,
        },
        {**SPARSE, **HEAD_64, LLM.LEADING_DENSE_BLOCK_COUNT: 1, LLM.EXPERT_SHARED_COUNT: 1},
    ),
    "qwen3next": (
        "Qwen3NextConfig",
        {**_SPARSE, **_DELTA, "shared_expert_intermediate_size": 256, "decoder_sparse_step": 1},
        {**SPARSE, **SHARED, **DELTA},
    ),
    "qwen35": ("Qwen3_5TextConfig", _DELTA, DELTA),
    "qwen35moe": (
        "Qwen3_5MoeTextConfig",
        {**_SPARSE, **_DELTA, "shared_expert_intermediate_size": 256},
        {**SPARSE, **SHARED, **DELTA},
    ),
    "nemotron_h": (
        "NemotronHConfig",
        {
            "head_dim": 64, "layers_block_type": ["mamba", "attention", "mlp", "mamba"], "mamba_num_heads": 8,
            "mamba_head_dim": 64,
            "n_groups": 2, "ssm_state_size": 32, "conv_kernel": 4,
        },
        {
            **HEAD_64, ATTENTION.HEAD_COUNT_KV: [0, 2, 0, 0], LLM.FEED_FORWARD_LENGTH: [0, 0, 512, 0], SSM.CONV_KERNEL: 4,
            SSM.INNER_SIZE: 512, SSM.STATE_SIZE: 32, SSM.GROUP_COUNT: 2, SSM.TIME_STEP_RANK: 8,
        },
    ),
    "qwen2vl": ("Qwen2Config", {}, {ROPE.DIMENSION_SECTIONS: [16, 24, 24, 0]}),  # whose language model is Qwen2
    "qwen3vl": ("Qwen3Config", {"head_dim": 64}, {**HEAD_64, LLM.NUM_DEEPSTACK_LAYERS: 3}),
    "qwen3vlmoe": ("Qwen3MoeConfig", {**_SPARSE, "head_dim": 64}, {**SPARSE, **HEAD_64}),
    "mistral3": ("MistralConfig", {"head_dim": 64, "sliding_window": None}, HEAD_64),
}  # fmt: skip
ARCHITECTURES = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}


def _built(name: str) -> Any:
    config, keys, _ = MODELS[name]
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**{**BASE, **keys}))


def _stacked(name: str, shape: tuple[int, ...], architecture: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors that llama.cpp's converter makes of one: experts and latents in parts of their own."""
    inputs_first = architecture == "gpt-oss"
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    prefix = f"blk.{layer[1]}." if layer else ""
    if (experts := re.search(r"experts\.(gate_up|down)_proj(_bias)?$", name)) is not None:
        ending = ".bias" if experts[2] else ".weight"
        rows = shape[1:] if experts[2] else shape[:0:-1] if inputs_first else shape[1:]
        if experts[1] == "down":
            yield f"{prefix}ffn_down_exps{ending}", (shape[0], *rows)
        else:
            for part in ("gate", "up"):
                yield f"{prefix}ffn_{part}_exps{ending}", (shape[0], rows[0] // 2, *rows[1:])
    elif name.endswith("kv_b_proj.weight"):
        yield f"{prefix}attn_k_b.weight", (4, 256, 64)
        yield f"{prefix}attn_v_b.weight", (4, 64, 256)
    elif "_linear.weight" in name:
        yield from _granite(prefix, name.removesuffix(".weight"), shape)
    elif name.endswith("e_score_correction_bias"):
        yield f"{prefix}exp_probs_b.bias", shape
    else:
        yield name, shape


def _granite(prefix: str, name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Granite's blocks: gate and up one below the other, of experts or of the one MLP that all tokens have."""
    ending = "_exps.weight" if "block_sparse_moe" in name else ".weight"
    if name.endswith("output_linear"):
        yield f"{prefix}ffn_down{ending}", shape
    else:
        for part in ("gate", "up"):
            yield f"{prefix}ffn_{part}{ending}", (*shape[:-2], shape[-2] // 2, shape[-1])


_ENDINGS = (".weight", ".bias")


def _tensors(name: str, model: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors of a GGUF file, from those of a model."""
    names = gguf.get_tensor_name_map(ARCHITECTURES[name], LAYERS)
    tied = model.config.tie_word_embeddings
    buffers = {key: value for key, value in model.named_buffers() if key.endswith("e_score_correction_bias")}
    for key, value in {**model.state_dict(), **buffers}.items():
        if tied and key == "lm_head.weight":
            continue
        older = key.replace("model.", "backbone.", 1) if name == "nemotron_h" else key  # as the converter knows it
        for part, shape in _stacked(older, tuple(value.shape), name):
            part = part.replace("moe.router.weight", "moe.router.layer.weight")  # noqa: PLW2901 - as older classes call it
            mapped = part if part.startswith("blk.") else names.get_name(part, try_suffixes=_ENDINGS)
            if mapped is None and part.endswith(".dt_bias"):
                mapped = names.get_name(part.replace("dt_bias", "dt_proj.bias"), try_suffixes=_ENDINGS)
            if part.endswith(".sinks"):  # as the converter calls them
                mapped = f"{mapped}.weight"
            assert mapped is not None, f"{part}: gguf has no name for it"
            yield mapped, tuple(size for size in shape if size != 1) if "conv1d" in mapped else shape


def _type(name: str, shape: tuple[int, ...]) -> Any:
    """The type of a tensor, as in files of Q4_K_M: half of the values and down projections, and the LM head, in 6 bits."""
    types = gguf.GGMLQuantizationType
    if len(shape) == 1 or not name.endswith(".weight") or re.search(r"norm|conv1d|ffn_gate_inp|sinks", name) or shape[-1] % 32:
        return types.F32
    if shape[-1] % 256:
        return types.Q5_0
    layer = re.match(r"blk\.(\d+)\.", name)
    more = name == "output.weight" or (layer and int(layer[1]) % 2 and re.search(r"attn_v|ffn_down|attn_k_b", name))
    return types.Q6_K if more else types.MXFP4 if "ffn_up_exps" in name else types.Q4_K


def _write(path: Path, name: str, tensors: list[tuple[str, tuple[int, ...]]], more: dict[str, Any] | None = None) -> int:
    """Write a GGUF file; returns the bytes of its tensors."""
    writer = gguf.GGUFWriter(str(path), name)
    keys = {**COMMON, **MODELS[name][2], **(more or {})}
    for key, value in keys.items():
        place = key.format(arch=name)
        if isinstance(value, list):
            writer.add_array(place, value)
        elif isinstance(value, float):
            writer.add_float32(place, value)
        else:
            writer.add_uint32(place, value)
    writer.add_token_list([f"token {index}" for index in range(VOCAB)])
    writer.add_float32(f"{name}.rope.freq_base", 10000.0)
    size = 0
    for tensor, shape in tensors:
        kind = _type(tensor, shape)
        per_block, block = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((*shape[:-1], shape[-1] // per_block * block), np.uint8)
        if kind == gguf.GGMLQuantizationType.F32:
            data = np.zeros(shape, np.float32)
        writer.add_tensor(tensor, data, raw_dtype=None if data.dtype == np.float32 else kind)
        size += data.nbytes
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return size


def _bytes(model: Model) -> float:
    precision, _ = resolve_precision(model, Deployment(), FORMATS)
    return float(sum(weights_by_path(build(model, Deployment(), precision, CANONICAL)).values()))


@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_read_to_the_byte(name: str, tmp_path: Path) -> None:
    """Bytes of the operators' weights are those of the tensors in the file; parameters are those of transformers' class."""
    built = _built(name)
    path = tmp_path / f"{name}.gguf"
    written = _write(path, name, list(_tensors(name, built)))
    model = load_model(path)
    assert count_parameters(model).total == sum(value.numel() for value in built.parameters())
    beside = 4 * sum(model.apart.values())  # corrections of routers, in fp32
    assert _bytes(model) + beside == pytest.approx(written, abs=0.5)


def test_mixtral_is_a_llama_with_experts(tmp_path: Path) -> None:
    """Llama's architecture has `expert_count` where the model is Mixtral."""
    with torch.device("meta"):
        config = transformers.MixtralConfig(**{**BASE, "num_local_experts": EXPERTS, "num_experts_per_tok": 2})
        built = transformers.AutoModelForCausalLM.from_config(config)
    path = tmp_path / "mixtral.gguf"
    more = {LLM.EXPERT_COUNT: EXPERTS, LLM.EXPERT_USED_COUNT: 2}
    written = _write(path, "llama", list(_tensors("llama", built)), more=more)
    model = load_model(path)
    assert count_parameters(model).total == sum(value.numel() for value in built.parameters())
    assert _bytes(model) == pytest.approx(written, abs=0.5)


def test_operators_have_the_bytes_of_their_tensors(tmp_path: Path) -> None:
    """Odd layers have values and down projections of 6.5625 bits, even ones of 4.5, whatever the mean of the file."""
    path = tmp_path / "llama.gguf"
    _write(path, "llama", list(_tensors("llama", _built("llama"))))
    model = load_model(path)
    precision, _ = resolve_precision(model, Deployment(), FORMATS)
    weights = weights_by_path(build(model, Deployment(), precision, CANONICAL))
    even = [size for path, size in weights.items() if path.endswith("mlp/down_proj")]
    assert even == [2 * 512 * 256 * 144 / 256, 2 * 512 * 256 * 210 / 256]
    fused = [size for path, size in weights.items() if path.endswith("qkv_proj")]
    assert fused == [2 * 512 * 256 * 144 / 256, 2 * 256 * (384 * 144 + 128 * 210) / 256]  # 256 queries, 128 keys, 128 values
    assert weights["embedding"] == 512 * 256 * 144 / 256
    assert weights["lm_head"] == 512 * 256 * 210 / 256
    assert weights["final_norm"] == 256 * 4


def test_analyze_answers(tmp_path: Path) -> None:
    """Memory of the weights is that of the file's tensors."""
    path = tmp_path / "qwen3.gguf"
    written = _write(path, "qwen3", list(_tensors("qwen3", _built("qwen3"))))
    assert analyze(path, "apple-m4-max").memory.weights_bytes == pytest.approx(written, abs=0.5)  # as llama.cpp loads it
    result = analyze(path, "h100-sxm", engine="vllm")
    norms = 2 * (LAYERS * (2 * HIDDEN + 2 * 128) + HIDDEN)  # which vLLM loads in 16 bits
    assert result.memory.weights_bytes == pytest.approx(written - norms, abs=0.5)
