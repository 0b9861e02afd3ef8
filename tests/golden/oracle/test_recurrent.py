"""Families with recurrent layers, against the modules of transformers."""

from __future__ import annotations

import pytest
from golden.oracle.machinery import assert_same, read_config
from golden.oracle.recurrent_configs import PUBLISHED, Config

from roofline.predict.parameters import count_parameters

_STREAM: Config = {
    "hidden_size": 96,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_HEADS: Config = {"num_attention_heads": 6, "num_key_value_heads": 2}
_BAMBA: Config = {
    "mamba_n_heads": 12,
    "mamba_d_head": 16,
    "mamba_n_groups": 3,
    "mamba_d_state": 20,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
_NEMOTRON: Config = {
    **_STREAM,
    **_HEADS,
    "head_dim": 20,
    "architectures": ["NemotronHForCausalLM"],
    "intermediate_size": 176,
    "mlp_bias": False,
    "mamba_num_heads": 12,
    "mamba_head_dim": 16,
    "n_groups": 3,
    "ssm_state_size": 20,
    "conv_kernel": 4,
    "chunk_size": 8,
    "use_conv_bias": True,
    "use_bias": False,
}
_NEMOTRON_MOE: Config = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 1,
    "moe_intermediate_size": 36,
    "moe_shared_expert_intermediate_size": 50,
    "n_group": 1,
    "topk_group": 1,
}
_KIMI: Config = {
    **_STREAM,
    "architectures": ["KimiLinearForCausalLM"],
    "num_hidden_layers": 5,
    "pad_token_id": 0,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "head_dim": 17,
    "intermediate_size": 176,
    "q_lora_rank": None,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 20,
    "qk_rope_head_dim": 8,
    "v_head_dim": 14,
    "mla_use_nope": True,
    "linear_attn_config": {
        "kda_layers": [1, 2, 3, 5],
        "full_attn_layers": [4],
        "num_heads": 5,
        "head_dim": 12,
        "short_conv_kernel_size": 4,
    },
    "num_experts": 8,
    "num_experts_per_token": 3,
    "num_shared_experts": 2,
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 36,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
}
_JAMBA: Config = {
    **_STREAM,
    **_HEADS,
    "architectures": ["JambaForCausalLM"],
    "num_hidden_layers": 4,
    "intermediate_size": 44,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_expand": 2,
    "mamba_d_state": 10,
    "mamba_d_conv": 4,
    "mamba_dt_rank": 7,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
_GRANITE: Config = {
    **_STREAM,
    **_HEADS,
    **_BAMBA,
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "num_hidden_layers": 4,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "position_embedding_type": "nope",
    "num_local_experts": 8,
    "num_experts_per_tok": 3,
    "intermediate_size": 36,
    "shared_intermediate_size": 50,
}
_MAMBA: Config = {
    **_STREAM,
    "architectures": ["MambaForCausalLM"],
    "num_hidden_layers": 3,
    "state_size": 10,
    "expand": 2,
    "conv_kernel": 4,
    "time_step_rank": "auto",
    "use_bias": False,
    "use_conv_bias": True,
}

BASES: dict[str, Config] = {
    "nemotron_h": _NEMOTRON,
    "kimi_linear": _KIMI,
    "jamba": _JAMBA,
    "granitemoehybrid": _GRANITE,
    "bamba": {
        **_STREAM,
        **_HEADS,
        **_BAMBA,
        "architectures": ["BambaForCausalLM"],
        "num_hidden_layers": 4,
        "intermediate_size": 176,
        "attn_layer_indices": [2],
    },
    "minimax": {
        **_STREAM,
        **_HEADS,
        "architectures": ["MiniMaxForCausalLM"],
        "num_hidden_layers": 4,
        "head_dim": 20,
        "intermediate_size": 44,
        "num_local_experts": 8,
        "num_experts_per_tok": 3,
        "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    },
    "mamba": _MAMBA,
    "falcon_mamba": {**_MAMBA, "architectures": ["FalconMambaForCausalLM"]},
    "mamba2": {
        **_STREAM,
        "architectures": ["Mamba2ForCausalLM"],
        "num_hidden_layers": 3,
        "num_heads": 12,
        "head_dim": 16,
        "n_groups": 3,
        "state_size": 20,
        "expand": 2,
        "conv_kernel": 4,
        "chunk_size": 8,
        "use_bias": False,
        "use_conv_bias": True,
    },
}
VARIANTS: dict[str, tuple[str, Config]] = {
    "nemotron-h": ("nemotron_h", {"hybrid_override_pattern": "M-M*M-", "num_hidden_layers": 6}),
    "nemotron-h biases": ("nemotron_h", {"hybrid_override_pattern": "M-*", "use_bias": True, "mlp_bias": True}),
    "nemotron-h listed": ("nemotron_h", {"layers_block_type": ["mamba", "mlp", "attention"], "use_conv_bias": False}),
    "nemotron-3": ("nemotron_h", {"hybrid_override_pattern": "MEM*E", **_NEMOTRON_MOE}),
    "nemotron-3 latent": (
        "nemotron_h",
        {"hybrid_override_pattern": "MEM*E", **_NEMOTRON_MOE, "moe_latent_size": 28, "num_nextn_predict_layers": 1},
    ),
    "kimi-linear": ("kimi_linear", {}),
    "kimi-linear, compressed queries": ("kimi_linear", {"q_lora_rank": 40}),
    "jamba": ("jamba", {}),
    "jamba dense": ("jamba", {"num_experts": 1}),
    "jamba biases": ("jamba", {"mamba_proj_bias": True, "mamba_conv_bias": False, "mamba_dt_rank": "auto"}),
    "granite 4 small": ("granitemoehybrid", {}),
    "granite 4 tied, biases": ("granitemoehybrid", {"tie_word_embeddings": True, "attention_bias": True}),
    "granite 4 without experts": ("granitemoehybrid", {"num_local_experts": 0, "num_experts_per_tok": 0}),
    "granite 4 attention alone": (
        "granitemoehybrid",
        {"layer_types": ["attention"] * 4, "position_embedding_type": "rope", "num_local_experts": 0},
    ),
    "bamba": ("bamba", {}),
    "bamba biases": ("bamba", {"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "mamba_d_head": "auto"}),
    "minimax": ("minimax", {}),
    "mamba": ("mamba", {}),
    "mamba biases": ("mamba", {"use_bias": True, "use_conv_bias": False, "time_step_rank": 9}),
    "mamba2": ("mamba2", {}),
    "falcon-mamba": ("falcon_mamba", {}),
}
# What cannot be compared, and why.
_SCAN = "the loop over tokens multiplies with batched products, which the counter does not tell from the projections"
_OUTPUT = "its outputs hold the cache under a name of their own"
LEFT_OUT: dict[str, dict[str, str]] = {
    "jamba": {"flops": _SCAN},
    "minimax": {"state": "its cache holds states in a list of its own"},
    "mamba": {"flops": _SCAN, "cache": _OUTPUT, "state": _OUTPUT},
    "falcon_mamba": {"flops": _SCAN, "cache": _OUTPUT, "state": _OUTPUT},
    "mamba2": {"flops": _OUTPUT, "cache": _OUTPUT, "state": _OUTPUT},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    """Parameters, cache, state, and FLOP of all but the recurrences, of small models."""
    model_type, changes = VARIANTS[name]
    assert_same({"model_type": model_type, **BASES[model_type], **changes}, leave_out=LEFT_OUT.get(model_type))


# Of full size.
_FULL = "small models of the family are run"
# Classes of the published models' own code, which transformers has under its own name and with its own words.
_OTHER = {"minimax_text_01", "minimax_m1"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published models, in all and layer by layer."""
    config = PUBLISHED[name]
    changes: Config = {}
    if config["model_type"] in _OTHER:
        words = ["full_attention" if kind else "linear_attention" for kind in config["attn_type_list"]]
        changes = {"model_type": "minimax", "layer_types": words}
    assert_same(config, leave_out={"cache": _FULL, "state": _FULL, "flops": _FULL}, **changes)


def test_kimi_linear_as_stored() -> None:
    """The files of Kimi-Linear-48B-A3B hold 49,122,681,728 numbers, with a correction for each expert of 26 layers."""
    parameters = count_parameters(read_config(PUBLISHED["kimi-linear-48b"]))
    assert parameters.apart == {"router_correction_bias": 26 * 256}
    assert parameters.total == 49_122_681_728 - 26 * 256
