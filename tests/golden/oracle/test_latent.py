"""Families with latent attention, against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same

Config = dict[str, Any]

_STREAM: Config = {
    "hidden_size": 96,
    "num_hidden_layers": 4,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_MLA: Config = {
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "q_lora_rank": 40,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 20,
    "qk_rope_head_dim": 8,
    "v_head_dim": 14,
    "attention_bias": False,
}
_MOE: Config = {
    "intermediate_size": 176,
    "moe_intermediate_size": 36,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 2,
    "topk_group": 1,
}
_INDEX: Config = {"index_n_heads": 5, "index_head_dim": 12, "index_topk": 64}

BASES: dict[str, Config] = {
    "deepseek_v2": {**_STREAM, **_MLA, **_MOE, "architectures": ["DeepseekV2ForCausalLM"], "topk_method": "greedy"},
    "deepseek_v3": {**_STREAM, **_MLA, **_MOE, "architectures": ["DeepseekV3ForCausalLM"], "num_nextn_predict_layers": 1},
    "deepseek_v32": {**_STREAM, **_MLA, **_MOE, **_INDEX, "architectures": ["DeepseekV32ForCausalLM"]},
    "glm4_moe_lite": {**_STREAM, **_MLA, **_MOE, "architectures": ["Glm4MoeLiteForCausalLM"]},
    "glm_moe_dsa": {**_STREAM, **_MLA, **_MOE, **_INDEX, "architectures": ["GlmMoeDsaForCausalLM"]},
}
VARIANTS: dict[str, tuple[str, Config]] = {
    "v2": ("deepseek_v2", {}),
    "v2 lite": ("deepseek_v2", {"q_lora_rank": None}),
    "v2 by groups": ("deepseek_v2", {"topk_method": "group_limited_greedy"}),
    "v2 tied": ("deepseek_v2", {"tie_word_embeddings": True}),
    "v3": ("deepseek_v3", {}),
    "v3 uncompressed": ("deepseek_v3", {"q_lora_rank": None}),
    "v3 biases": ("deepseek_v3", {"attention_bias": True}),
    "v3 all dense": ("deepseek_v3", {"first_k_dense_replace": 4}),
    "v3 all experts": ("deepseek_v3", {"first_k_dense_replace": 0}),
    "v3.2": ("deepseek_v32", {}),
    "glm flash": ("glm4_moe_lite", {}),
    "glm flash listed": (
        "glm4_moe_lite",
        {"mlp_layer_types": ["dense", "dense", "sparse", "sparse"], "first_k_dense_replace": 2},
    ),
    "glm-5": ("glm_moe_dsa", {}),
    "glm-5.2 by step": ("glm_moe_dsa", {"index_topk_freq": 2, "index_skip_topk_offset": 2, "num_hidden_layers": 7}),
    "glm-5.2 by letters": ("glm_moe_dsa", {"index_topk_pattern": "FSSF"}),
    "glm-5.2 listed": ("glm_moe_dsa", {"indexer_types": ["full", "shared", "full", "shared"], "index_topk_freq": 4}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    """Parameters, cache and FLOP of small models."""
    model_type, changes = VARIANTS[name]
    assert_same({"model_type": model_type, **BASES[model_type], **changes})
