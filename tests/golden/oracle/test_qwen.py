"""Qwen2, Qwen3, their mixtures of experts and vision models' text parts, and MiMo, against the modules of transformers."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from golden.oracle.machinery import assert_same, counted_by_transformers, counted_by_us

Config = dict[str, Any]

BASE: Config = {
    "hidden_size": 96,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "sliding_window": 16,
    "max_window_layers": 2,
}
EXPERTS: Config = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "decoder_sparse_step": 1}
QWEN2 = {**BASE, "model_type": "qwen2"}
QWEN2_MOE = {**BASE, **EXPERTS, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 72}
QWEN3 = {**BASE, "model_type": "qwen3", "head_dim": 24}
QWEN3_MOE = {**BASE, **EXPERTS, "model_type": "qwen3_moe", "head_dim": 24}
ON = {"use_sliding_window": True}

SMALL: dict[str, Config] = {
    "qwen2": QWEN2,
    "qwen2 tied": {**QWEN2, "tie_word_embeddings": True},
    "qwen2 with a head_dim": {**QWEN2, "head_dim": 40},
    "qwen2 slides from layer 2": {**QWEN2, **ON},
    "qwen2 slides nowhere": {**QWEN2, **ON, "max_window_layers": 4},
    "qwen2 layer_types": {**QWEN2, **ON, "layer_types": ["full_attention", "sliding_attention"] * 2},
    "qwen2_moe": QWEN2_MOE,
    "qwen2_moe without biases": {**QWEN2_MOE, "qkv_bias": False},
    "qwen2_moe slides every second layer below 3": {**QWEN2_MOE, **ON, "max_window_layers": 3},
    "qwen2_moe every second layer": {**QWEN2_MOE, "decoder_sparse_step": 2},
    "qwen2_moe with dense layers": {**QWEN2_MOE, "mlp_only_layers": [0, 3]},
    "qwen3": QWEN3,
    "qwen3 with biases": {**QWEN3, "attention_bias": True},
    "qwen3 slides": {**QWEN3, **ON},
    "qwen3_moe": QWEN3_MOE,
    "qwen3_moe slides everywhere": {**QWEN3_MOE, **ON},
    "qwen3_moe with dense layers": {**QWEN3_MOE, "decoder_sparse_step": 2, "mlp_only_layers": [3]},
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, cache and FLOP of each switch."""
    assert_same(SMALL[name])


# What config.json of published models says, as far as it changes counts.
PUBLISHED: dict[str, Config] = {
    # https://huggingface.co/Qwen/Qwen2.5-0.5B/blob/main/config.json
    "Qwen2.5-0.5B": {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
        "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 24,
    },
    # https://huggingface.co/Qwen/Qwen2.5-72B/blob/main/config.json
    "Qwen2.5-72B": {
        "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "max_position_embeddings": 131072,
        "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 80,
    },
    # https://huggingface.co/Qwen/Qwen2-57B-A14B/blob/main/config.json
    "Qwen2-57B-A14B": {
        "model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 151936, "max_position_embeddings": 131072,
        "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": 65536, "max_window_layers": 28,
        "decoder_sparse_step": 1, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480,
        "num_experts_per_tok": 8, "num_experts": 64,
    },
    # https://huggingface.co/Qwen/Qwen3-1.7B/blob/main/config.json
    "Qwen3-1.7B": {
        "model_type": "qwen3", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 40960, "tie_word_embeddings": True, "attention_bias": False,
        "use_sliding_window": False, "sliding_window": None, "max_window_layers": 28,
    },
    # https://huggingface.co/Qwen/Qwen3-235B-A22B/blob/main/config.json
    "Qwen3-235B-A22B": {
        "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 94,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 40960, "tie_word_embeddings": False, "attention_bias": False,
        "use_sliding_window": False, "sliding_window": None, "max_window_layers": 94, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    },
    # https://huggingface.co/Qwen/Qwen3-VL-8B-Instruct/blob/main/config.json
    "Qwen3-VL-8B": {
        "model_type": "qwen3_vl", "tie_word_embeddings": False, "vision_config": {"depth": 27, "hidden_size": 1152},
        "image_token_id": 151655, "vision_start_token_id": 151652,
        "text_config": {
            "model_type": "qwen3_vl_text", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
            "max_position_embeddings": 262144, "attention_bias": False, "dtype": "bfloat16",
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        },
    },
    # https://huggingface.co/Qwen/Qwen3-VL-30B-A3B-Instruct/blob/main/config.json
    "Qwen3-VL-30B-A3B": {
        "model_type": "qwen3_vl_moe", "tie_word_embeddings": False, "vision_config": {"depth": 27, "hidden_size": 1152},
        "text_config": {
            "model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
            "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
            "max_position_embeddings": 262144, "attention_bias": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
            "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "dtype": "bfloat16",
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published sizes, layer by layer; vision models are built as the text models that they are of."""
    model_type = {"Qwen3-VL-8B": "qwen3", "Qwen3-VL-30B-A3B": "qwen3_moe"}.get(name)
    alike = {"cache": "the small ones show it", "state": "none", "flops": "the small ones show them"}
    assert_same(PUBLISHED[name], model_type=model_type, leave_out=alike)


# https://huggingface.co/Qwen/Qwen2-VL-2B-Instruct/blob/main/config.json: the older, flat form
QWEN2_VL: Config = {
    "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "hidden_size": 1536,
    "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": True, "use_sliding_window": False,
    "sliding_window": 32768, "max_window_layers": 28, "torch_dtype": "bfloat16", "vision_start_token_id": 151652,
    "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3, "hidden_size": 1536},
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}  # fmt: skip


def test_flat_vision_model() -> None:
    """The flat form is Qwen2's text model: the same counts as the module of Qwen2."""
    inner = {key: value for key, value in QWEN2_VL.items() if key not in ("vision_config", "rope_scaling")}
    theirs = counted_by_transformers({**inner, "model_type": "qwen2"}, with_steps=False)
    ours = counted_by_us(QWEN2_VL)
    assert (ours.total, ours.layers) == (theirs.total, theirs.layers)


def test_nested_and_flat_are_the_same() -> None:
    """Newer versions write the same keys into text_config."""
    outside = ("vision_config", "architectures", "vision_start_token_id")
    inner = {key: value for key, value in QWEN2_VL.items() if key not in outside}
    nested = {
        **{key: QWEN2_VL[key] for key in outside},
        "model_type": "qwen2_vl",
        "text_config": {**inner, "model_type": "qwen2_vl_text"},
    }
    assert counted_by_us(nested).layers == counted_by_us(QWEN2_VL).layers
    assert counted_by_us(nested).total == counted_by_us(QWEN2_VL).total


INSIDE = {
    "qwen2_vl_text": ("Qwen2VLTextConfig", "qwen2_vl", "Qwen2VLTextModel", QWEN2),
    "qwen2_5_vl_text": ("Qwen2_5_VLTextConfig", "qwen2_5_vl", "Qwen2_5_VLTextModel", QWEN2),
    "qwen2_5_omni_text": ("Qwen2_5OmniTextConfig", "qwen2_5_omni", "Qwen2_5OmniThinkerTextModel", QWEN2),
    "qwen3_vl_text": ("Qwen3VLTextConfig", "qwen3_vl", "Qwen3VLTextModel", QWEN3),
    "qwen3_vl_moe_text": ("Qwen3VLMoeTextConfig", "qwen3_vl_moe", "Qwen3VLMoeTextModel", QWEN3_MOE),
    "qwen3_omni_moe_text": ("Qwen3OmniMoeTextConfig", "qwen3_omni_moe", "Qwen3OmniMoeThinkerTextModel", QWEN3_MOE),
}


@pytest.mark.parametrize("model_type", INSIDE)
def test_text_models_inside_others(model_type: str) -> None:
    """The text model of each vision or speech model, layer by layer, without an LM head (331 x 96)."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.20")
    kind, family, network, alike = INSIDE[model_type]
    config = {**alike, "model_type": model_type, "sliding_window": None}
    config.pop("use_sliding_window")
    home = f"transformers.models.{family}"
    settings = getattr(importlib.import_module(f"{home}.configuration_{family}"), kind).from_dict(config)
    with torch.device("meta"):
        text = getattr(importlib.import_module(f"{home}.modeling_{family}"), network)._from_config(settings)
    ours = counted_by_us({"model_type": family, "text_config": config})
    assert ours.layers == [sum(weight.numel() for weight in layer.parameters()) for layer in text.layers]
    assert ours.total == sum(weight.numel() for weight in text.parameters()) + 331 * 96
