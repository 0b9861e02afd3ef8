"""Families with recurrent layers, against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same, read_config
from roofline.predict.parameters import count_parameters

Config = dict[str, Any]

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


# Of full size: config.json as published, without keys for training and generation.
def _attention_at(*indices: int, count: int, other: str = "mamba", word: str = "attention") -> list[str]:
    return [word if index in indices else other for index in range(count)]


_MINIMAX_01: Config = {
    "architectures": ["MiniMaxText01ForCausalLM"],
    "model_type": "minimax_text_01",
    "attn_type_list": [int(index % 8 == 7) for index in range(80)],
    "head_dim": 128,
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "layernorm_full_attention_alpha": 3.5565588200778455,
    "layernorm_full_attention_beta": 1.0,
    "layernorm_linear_attention_alpha": 3.5565588200778455,
    "layernorm_linear_attention_beta": 1.0,
    "layernorm_mlp_alpha": 3.5565588200778455,
    "layernorm_mlp_beta": 1.0,
    "max_position_embeddings": 10240000,
    "num_attention_heads": 64,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "postnorm": True,
    "rotary_dim": 64,
    "shared_intermediate_size": 0,
    "shared_moe_mode": "sigmoid",
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 200064,
}
_JAMBA_MINI: Config = {
    "architectures": ["JambaForCausalLM"],
    "model_type": "jamba",
    "attn_layer_offset": 4,
    "attn_layer_period": 8,
    "expert_layer_offset": 1,
    "expert_layer_period": 2,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_dt_rank": 256,
    "mamba_expand": 2,
    "mamba_proj_bias": False,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_logits_to_keep": 1,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_mamba_kernels": True,
    "vocab_size": 65536,
}
_KIMI_48B: Config = {
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "dtype": "bfloat16",
    "first_k_dense_replace": 1,
    "head_dim": 72,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "kv_lora_rank": 512,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    "mla_use_nope": True,
    "model_max_length": 1048576,
    "moe_intermediate_size": 1024,
    "moe_layer_freq": 1,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_attention_heads": 32,
    "num_expert_group": 1,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_hidden_layers": 27,
    "num_key_value_heads": 32,
    "num_nextn_predict_layers": 0,
    "num_shared_experts": 1,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "use_grouped_topk": True,
    "v_head_dim": 128,
    "vocab_size": 163840,
}
PUBLISHED: dict[str, Config] = {
    # https://huggingface.co/moonshotai/Kimi-Linear-48B-A3B-Instruct
    "kimi-linear-48b": _KIMI_48B,
    # https://huggingface.co/ai21labs/AI21-Jamba-Mini-1.5
    "jamba-1.5-mini": _JAMBA_MINI,
    # https://huggingface.co/ai21labs/AI21-Jamba-Large-1.5
    "jamba-1.5-large": {
        **_JAMBA_MINI,
        "hidden_size": 8192,
        "intermediate_size": 24576,
        "mamba_dt_rank": 512,
        "num_attention_heads": 64,
        "num_hidden_layers": 72,
    },
    # https://huggingface.co/MiniMaxAI/MiniMax-Text-01
    "minimax-text-01": _MINIMAX_01,
    # https://huggingface.co/MiniMaxAI/MiniMax-M1-80k
    "minimax-m1": {**_MINIMAX_01, "architectures": ["MiniMaxM1ForCausalLM"], "model_type": "minimax_m1"},
    # https://huggingface.co/ibm-granite/granite-4.0-h-small
    "granite-4.0-h-small": {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "attention_bias": False,
        "attention_multiplier": 0.0078125,
        "embedding_multiplier": 12,
        "hidden_size": 4096,
        "init_method": "mup",
        "intermediate_size": 768,
        "layer_types": _attention_at(5, 15, 25, 35, count=40),
        "logits_scaling": 16,
        "mamba_chunk_size": 256,
        "mamba_conv_bias": True,
        "mamba_d_conv": 4,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_expand": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 128,
        "mamba_proj_bias": False,
        "max_position_embeddings": 131072,
        "normalization_function": "rmsnorm",
        "num_attention_heads": 32,
        "num_experts_per_tok": 10,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "num_local_experts": 72,
        "position_embedding_type": "nope",
        "residual_multiplier": 0.22,
        "rope_scaling": None,
        "rope_theta": 10000,
        "shared_intermediate_size": 1536,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 100352,
    },
    # https://huggingface.co/nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
    "nemotron-3-nano": {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "attention_bias": False,
        "chunk_size": 128,
        "conv_kernel": 4,
        "expand": 2,
        "head_dim": 128,
        "hidden_dropout": 0.0,
        "hidden_size": 2688,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "intermediate_size": 1856,
        "mamba_head_dim": 64,
        "mamba_hidden_act": "silu",
        "mamba_num_heads": 64,
        "mamba_proj_bias": False,
        "mamba_ssm_cache_dtype": "float32",
        "max_position_embeddings": 262144,
        "mlp_bias": False,
        "mlp_hidden_act": "relu2",
        "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712,
        "n_group": 1,
        "n_groups": 8,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_attention_heads": 32,
        "num_experts_per_tok": 6,
        "num_hidden_layers": 52,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 1.0,
        "sliding_window": None,
        "ssm_state_size": 128,
        "tie_word_embeddings": False,
        "topk_group": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "use_mamba_kernels": True,
        "vocab_size": 131072,
    },
    # https://huggingface.co/mistralai/Mamba-Codestral-7B-v0.1
    "mamba-codestral": {
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "chunk_size": 256,
        "conv_kernel": 4,
        "expand": 2,
        "head_dim": 64,
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "n_groups": 8,
        "norm_before_gate": True,
        "num_heads": 128,
        "num_hidden_layers": 64,
        "rms_norm": True,
        "state_size": 128,
        "tie_word_embeddings": False,
        "time_step_rank": 256,
        "torch_dtype": "bfloat16",
        "use_bias": False,
        "use_conv_bias": True,
        "vocab_size": 32768,
    },
}
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
    parameters = count_parameters(read_config(_KIMI_48B))
    assert parameters.apart == {"router_correction_bias": 26 * 256}
    assert parameters.total == 49_122_681_728 - 26 * 256
