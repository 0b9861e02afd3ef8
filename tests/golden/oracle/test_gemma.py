"""Gemma 1 to 4 against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same

Config = dict[str, Any]

BASE: Config = {
    "hidden_size": 96,
    "intermediate_size": 176,
    "num_hidden_layers": 7,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
GEMMA = {**BASE, "model_type": "gemma", "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}
GEMMA2 = {**BASE, "model_type": "gemma2", "sliding_window": 16, "query_pre_attn_scalar": 24, "cache_implementation": "hybrid"}
GEMMA3 = {**BASE, "model_type": "gemma3_text", "sliding_window": 9, "query_pre_attn_scalar": 24}
SLIDE, FULL = "sliding_attention", "full_attention"
GEMMA4: Config = {
    **BASE,
    "model_type": "gemma4_text",
    "layer_types": [SLIDE, SLIDE, FULL, SLIDE, SLIDE, SLIDE, FULL],
    "sliding_window": 16,
    "global_head_dim": 40,
    "num_global_key_value_heads": None,
    "attention_k_eq_v": False,
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 331,
    "use_double_wide_mlp": False,
    "enable_moe_block": False,
    "num_experts": None,
    "top_k_experts": None,
    "moe_intermediate_size": None,
    "use_bidirectional_attention": "vision",
    "tie_word_embeddings": True,
}
GEMMA4_MOE = {**GEMMA4, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 40}
INPUTS = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300}
GEMMA3N: Config = {
    **BASE, **INPUTS, "model_type": "gemma3n_text", "intermediate_size": [176] * 4 + [200] * 3, "num_kv_shared_layers": 3,
    "layer_types": [SLIDE, SLIDE, FULL, SLIDE, SLIDE, SLIDE, FULL], "sliding_window": 16, "laurel_rank": 10,
    "altup_num_inputs": 4, "altup_active_idx": 0, "altup_correct_scale": True, "altup_coef_clip": 120.0,
    "activation_sparsity_pattern": [0.95] * 3 + [0.0] * 4, "tie_word_embeddings": True,
}  # fmt: skip
ONE_PROJECTION = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}

SMALL: dict[str, Config] = {
    "gemma": GEMMA,
    "gemma untied, with biases": {**GEMMA, "tie_word_embeddings": False, "attention_bias": True},
    "gemma2": GEMMA2,
    "gemma2 layer_types": {**GEMMA2, "layer_types": [FULL] * 3 + [SLIDE] * 4},
    "gemma3": GEMMA3,
    "gemma3 pattern": {**GEMMA3, "sliding_window_pattern": 3},
    "gemma3 layer_types": {**GEMMA3, "layer_types": [FULL] * 3 + [SLIDE] * 4, "sliding_window_pattern": 2},
    "gemma3n": GEMMA3N,
    "gemma3n defaults": {
        key: value
        for key, value in {**GEMMA3N, "intermediate_size": 176, "num_hidden_layers": 15, "num_kv_shared_layers": 5}.items()
        if key not in ("layer_types", "activation_sparsity_pattern", "altup_active_idx", "tie_word_embeddings")
    },
    "gemma3n three copies, untied, biases, nothing shared": {
        **GEMMA3N,
        "altup_num_inputs": 3,
        "altup_active_idx": 1,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "num_kv_shared_layers": 0,
    },
    "gemma4": GEMMA4,
    "gemma4 one projection": {**GEMMA4, **ONE_PROJECTION},
    "gemma4 inputs of the layers": {**GEMMA4, **INPUTS},
    "gemma4 shared keys": {**GEMMA4, **INPUTS, "num_kv_shared_layers": 3},
    "gemma4 shared keys, wide": {**GEMMA4, **INPUTS, "num_kv_shared_layers": 3, "use_double_wide_mlp": True},
    "gemma4 experts": GEMMA4_MOE,
    "gemma4 experts, one projection": {**GEMMA4_MOE, **ONE_PROJECTION},
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, cache and FLOP of each switch."""
    assert_same(SMALL[name])


def _nested(outer: str, **text: Any) -> Config:
    return {
        "model_type": outer,
        "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
        "text_config": {"model_type": f"{outer}_text", **text},
    }


def _gemma4(layers: int, every: int, **text: Any) -> Config:
    kinds = [FULL if (index + 1) % every == 0 else SLIDE for index in range(layers)]
    wide = {"head_dim": 256, "global_head_dim": 512, "vocab_size": 262144, "vocab_size_per_layer_input": 262144}
    return _nested("gemma4", **{**GEMMA4, **wide, "num_hidden_layers": layers, "layer_types": kinds, **text})


# What config.json of published models says, as far as it changes counts. Gemma 3 leaves out what its class has anyway.
PUBLISHED: dict[str, Config] = {
    # https://huggingface.co/google/gemma-2b/blob/main/config.json
    "gemma-2b": {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
        "max_position_embeddings": 8192, "attention_bias": False,
    },
    # https://huggingface.co/google/gemma-2-27b/blob/main/config.json
    "gemma-2-27b": {
        "model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 256000,
        "max_position_embeddings": 8192, "sliding_window": 4096, "sliding_window_size": 4096,
        "query_pre_attn_scalar": 144, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    },
    # https://huggingface.co/google/gemma-3-1b-it/blob/main/config.json
    "gemma-3-1b": {
        "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
        "max_position_embeddings": 32768, "sliding_window": 512, "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 256, "rope_local_base_freq": 10000, "attention_bias": False,
    },
    # https://huggingface.co/google/gemma-3-4b-it/blob/main/config.json
    "gemma-3-4b": _nested(
        "gemma3", hidden_size=2560, intermediate_size=10240, num_hidden_layers=34, sliding_window=1024,
        rope_scaling={"factor": 8.0, "rope_type": "linear"},
    ),
    # https://huggingface.co/google/gemma-3-27b-it/blob/main/config.json
    "gemma-3-27b": _nested(
        "gemma3", hidden_size=5376, intermediate_size=21504, num_hidden_layers=62, sliding_window=1024,
        head_dim=128, num_attention_heads=32, num_key_value_heads=16, query_pre_attn_scalar=168,
        rope_scaling={"factor": 8.0, "rope_type": "linear"},
    ),
    # https://huggingface.co/google/gemma-3n-E4B-it/blob/main/config.json
    "gemma-3n-E4B": _nested(
        "gemma3n", **{
            **GEMMA3N, "hidden_size": 2048, "intermediate_size": [16384] * 35, "num_hidden_layers": 35,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 262400,
            "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "laurel_rank": 64,
            "num_kv_shared_layers": 15, "sliding_window": 512, "max_position_embeddings": 32768,
            "layer_types": ([SLIDE] * 4 + [FULL]) * 7, "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 25,
        },
    ),
    # https://huggingface.co/google/gemma-4-26B-A4B-it/blob/main/config.json
    "gemma-4-26B-A4B": _gemma4(
        30, 6, hidden_size=2816, intermediate_size=2112, num_attention_heads=16, num_key_value_heads=8,
        num_global_key_value_heads=2, attention_k_eq_v=True, sliding_window=1024, max_position_embeddings=262144,
        enable_moe_block=True, num_experts=128, top_k_experts=8, moe_intermediate_size=704,
    ),
    # https://huggingface.co/google/gemma-4-E4B-it/blob/main/config.json
    "gemma-4-E4B": _gemma4(
        42, 6, hidden_size=2560, intermediate_size=10240, num_attention_heads=8, num_key_value_heads=2,
        num_kv_shared_layers=18, hidden_size_per_layer_input=256, sliding_window=512, max_position_embeddings=131072,
    ),
    # https://huggingface.co/google/gemma-4-E2B-it/blob/main/config.json
    "gemma-4-E2B": _gemma4(
        35, 5, hidden_size=1536, intermediate_size=6144, num_attention_heads=8, num_key_value_heads=1,
        num_kv_shared_layers=20, hidden_size_per_layer_input=256, sliding_window=512, max_position_embeddings=131072,
        use_double_wide_mlp=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published sizes, layer by layer."""
    assert_same(
        PUBLISHED[name],
        leave_out={"cache": "the small ones show it", "state": "none", "flops": "the small ones show them"},
    )
