"""gpt-oss, Llama 4, GLM and MiniMax-M2 against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same

Config = dict[str, Any]

BASE: Config = {
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
EXPERTS: Config = {"num_local_experts": 8, "num_experts_per_tok": 3}
SLIDE, FULL, CHUNK = "sliding_attention", "full_attention", "chunked_attention"

GPT_OSS = {**BASE, **EXPERTS, "model_type": "gpt_oss", "attention_bias": True, "sliding_window": 16}
LLAMA4 = {
    **BASE,
    **EXPERTS,
    "model_type": "llama4_text",
    "intermediate_size_mlp": 200,
    "attention_chunk_size": 256,
    "interleave_moe_layer_step": 1,
    "use_qk_norm": True,
    "no_rope_layers": [],
}
GLM = {**BASE, "model_type": "glm", "attention_bias": True, "pad_token_id": 0}
GLM4 = {**GLM, "model_type": "glm4"}
GLM4V = {
    **BASE,
    "model_type": "glm4v_text",
    "pad_token_id": 0,
    "head_dim": 16,
    "rope_scaling": {"type": "default", "mrope_section": [1, 1, 2]},
}
GLM4_MOE = {
    **GLM,
    "model_type": "glm4_moe",
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 2,
    "use_qk_norm": False,
    "num_nextn_predict_layers": 0,
    "n_group": 1,
    "topk_group": 1,
}
GLM4V_MOE = {**GLM4_MOE, "model_type": "glm4v_moe_text"}
MINIMAX = {**BASE, **EXPERTS, "model_type": "minimax_m2", "rotary_dim": 12, "use_qk_norm": True, "use_routing_bias": True}

SMALL: dict[str, Config] = {
    "gpt_oss": GPT_OSS,
    "gpt_oss without biases of attention": {**GPT_OSS, "attention_bias": False},
    "gpt_oss layer_types": {**GPT_OSS, "layer_types": [FULL, FULL, SLIDE, SLIDE, SLIDE]},
    "glm": GLM,
    "glm tied, without biases": {**GLM, "tie_word_embeddings": True, "attention_bias": False},
    "glm4": GLM4,
    "glm4_moe": GLM4_MOE,
    "glm4_moe with norms": {**GLM4_MOE, "use_qk_norm": True, "attention_bias": False},
    "glm4_moe sparse alone": {**GLM4_MOE, "first_k_dense_replace": 0},
    "minimax_m2": MINIMAX,
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, cache and FLOP of each switch."""
    assert_same(SMALL[name])


LLAMA4S: dict[str, Config] = {
    "all sparse": LLAMA4,
    "every second sparse": {**LLAMA4, "interleave_moe_layer_step": 2, "use_qk_norm": False},
    "listed": {**LLAMA4, "moe_layers": [0, 4]},
    "listed without rotary positions": {**LLAMA4, "no_rope_layers": [1, 0, 1, 1, 0]},
    "layer_types": {**LLAMA4, "layer_types": [FULL, CHUNK, CHUNK, FULL, FULL], "attention_bias": True},
}


@pytest.mark.parametrize("name", LLAMA4S)
def test_llama4(name: str) -> None:
    """Parameters and cache; its module computes all experts for every token, so that FLOP are those of one of one expert."""
    config = LLAMA4S[name]
    assert_same(config, leave_out={"flops": "the module computes all experts for every token"})
    one = {**config, "num_local_experts": 1, "num_experts_per_tok": 1}
    assert_same(one)


# What config.json of published models says, as far as it changes counts.
PUBLISHED: dict[str, Config] = {
    # https://huggingface.co/openai/gpt-oss-120b/blob/main/config.json
    "gpt-oss-120b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
        "max_position_embeddings": 131072, "tie_word_embeddings": False, "attention_bias": True, "sliding_window": 128,
        "num_local_experts": 128, "num_experts_per_tok": 4, "experts_per_token": 4, "initial_context_length": 4096,
        "layer_types": [SLIDE, FULL] * 18, "swiglu_limit": 7.0,
    },
    # https://huggingface.co/meta-llama/Llama-4-Maverick-17B-128E-Instruct/blob/main/config.json
    "llama-4-maverick": {
        "model_type": "llama4", "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1408},
        "text_config": {
            "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
            "vocab_size": 202048, "max_position_embeddings": 1048576, "attention_chunk_size": 8192,
            "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": False,
            "no_rope_layers": [], "attention_bias": False, "for_llm_compressor": False, "floor_scale": 8192,
            "attn_scale": 0.1, "attn_temperature_tuning": True, "output_router_logits": False,
        },
    },
    # https://huggingface.co/zai-org/GLM-4.6/blob/main/config.json
    "glm-4.6": {
        "model_type": "glm4_moe", "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 92,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552,
        "max_position_embeddings": 202752, "tie_word_embeddings": False, "attention_bias": True, "use_qk_norm": True,
        "first_k_dense_replace": 3, "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1536, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5,
        "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    },
    # https://huggingface.co/zai-org/GLM-4-9B-0414/blob/main/config.json
    "glm-4-9b-0414": {
        "model_type": "glm4", "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 151552,
        "max_position_embeddings": 32768, "tie_word_embeddings": False, "attention_bias": False,
        "partial_rotary_factor": 0.5, "pad_token_id": 151329,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published sizes, layer by layer."""
    assert_same(
        PUBLISHED[name],
        leave_out={"cache": "the small ones show it", "state": "none", "flops": "the small ones show them"},
    )


# https://huggingface.co/zai-org/GLM-4.5V/blob/main/config.json and https://huggingface.co/zai-org/GLM-4.1V-9B-Thinking
VISION = {"glm4_moe": GLM4V_MOE, "glm4": GLM4V}


@pytest.mark.parametrize("alike", VISION)
def test_vision_models(alike: str) -> None:
    """Language models of vision models are those of their text models: biases of Q, K and V, and no norms of them."""
    assert_same(VISION[alike], model_type=alike, attention_bias=True)
