"""Families with latent attention, against the modules of transformers."""

from __future__ import annotations

import pytest
from golden.oracle.latent_configs import PUBLISHED, Config
from golden.oracle.machinery import assert_same, read_config

from roofline.predict.parameters import count_parameters

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
    "deepseek_v4": {
        **_STREAM,
        "architectures": ["DeepseekV4ForCausalLM"],
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "q_lora_rank": 40,
        "qk_rope_head_dim": 8,
        "o_groups": 3,
        "o_lora_rank": 20,
        "sliding_window": 16,
        "compress_ratios": [0, 0, 4, 128, 4, 128, 0],
        "moe_intermediate_size": 36,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 3,
        "num_hash_layers": 2,
        "num_nextn_predict_layers": 1,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 3,
        **_INDEX,
    },
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
    "v4": ("deepseek_v4", {}),
    "v4 with two streams": ("deepseek_v4", {"hc_mult": 2, "num_hash_layers": 0}),
    "v4 in later words": (
        "deepseek_v4",
        {
            "layer_types": ["heavily_compressed_attention"] * 2 + ["compressed_sparse_attention", "sliding_attention"] * 2,
            "mlp_layer_types": ["hash_moe", *["moe"] * 5],
        },
    ),
    "v4 by shares of a head": (
        "deepseek_v4",
        {
            "partial_rotary_factor": 0.25,
            "qk_nope_head_dim": 24,
            "rope_interleave": True,
            "compress_rope_parameters": {"rope_type": "default", "rope_theta": 160000, "partial_rotary_factor": 0.25},
        },
    ),
    "glm-5.2 listed": ("glm_moe_dsa", {"indexer_types": ["full", "shared", "full", "shared"], "index_topk_freq": 4}),
}

# Layers of DeepSeek-V4 hold entries that stand for several tokens, and vectors that wait to become one.
LEFT_OUT = {"deepseek_v4": {"cache": "not every token has an entry of its own"}}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    """Parameters, cache and FLOP of small models."""
    model_type, changes = VARIANTS[name]
    assert_same({"model_type": model_type, **BASES[model_type], **changes}, leave_out=LEFT_OUT.get(model_type))


# Of full size.
_FULL = "small models of the family are run"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published models, in all and layer by layer."""
    config = PUBLISHED[name]
    # The class of Kimi-K2 is DeepSeek-V3's.
    model_type = "deepseek_v3" if config["model_type"] == "kimi_k2" else None
    assert_same(config, model_type=model_type, leave_out={"cache": _FULL, "state": _FULL, "flops": _FULL})


def test_glm_5_as_stored() -> None:
    """The files of GLM-5.1, which has the shapes of GLM-5, hold 753,864,139,008 numbers.

    They are those of the model, one more layer of experts with a projection of two streams and three norms (multi-token
    prediction), and the router's corrections.
    """
    layer = 9_877_404_416
    mtp = layer + 2 * 6144 * 6144 + 3 * 6144
    corrections = (78 - 3 + 1) * 256
    parameters = count_parameters(read_config(PUBLISHED["glm-5"]))
    assert parameters.total == 753_864_139_008 - mtp - corrections
    assert parameters.apart == {"router_correction_bias": corrections - 256}


def test_kimi_k2_inside_kimi_k2_5() -> None:
    """A wrapper has the language model in text_config, of another model_type; the tower beside it is not counted."""
    inner = PUBLISHED["kimi-k2"]
    wrapped = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        "text_config": inner,
        "vision_config": {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27},
    }
    assert count_parameters(read_config(wrapped)).total == count_parameters(read_config(inner)).total
