"""Qwen3-Next, Qwen3.5, MiMo-V2-Flash, Step 3.5, Hunyuan and dots.llm1 against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same, counted_by_us

Config = dict[str, Any]

BASE: Config = {
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SLIDE, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
EXPERTS: Config = {
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "shared_expert_intermediate_size": 56,
}
DELTA: Config = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
NEXT = {**BASE, **EXPERTS, **DELTA, "model_type": "qwen3_next", "decoder_sparse_step": 1, "mlp_only_layers": []}
QWEN35 = {**BASE, **DELTA, "model_type": "qwen3_5_text"}
QWEN35_MOE = {**BASE, **DELTA, **EXPERTS, "model_type": "qwen3_5_moe_text"}
ROTATED = {kind: {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5} for kind in (FULL, SLIDE)}
MIMO: Config = {
    **BASE,
    "model_type": "mimo_v2_flash",
    "v_head_dim": 16,
    "num_key_value_heads": 1,
    "num_hidden_layers": 7,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "sliding_window": 16,
    "layer_types": [FULL, SLIDE, SLIDE, SLIDE, SLIDE, FULL, SLIDE],
    "mlp_layer_types": ["dense"] + ["sparse"] * 6,
    "rope_parameters": ROTATED,
}
HUNYUAN = {**BASE, "model_type": "hunyuan_v1_dense", "attention_bias": False, "use_qk_norm": True}
HUNYUAN_MOE = {**HUNYUAN, "model_type": "hunyuan_v1_moe", "num_experts": 8, "moe_topk": 3}
DOTS1: Config = {
    **BASE,
    "model_type": "dots1",
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 1,
    "sliding_window": None,
    "n_group": 1,
    "topk_group": 1,
}

SMALL: dict[str, Config] = {
    "qwen3_next": NEXT,
    "qwen3_next every third": {**NEXT, "full_attention_interval": 3},
    "qwen3_next with dense layers": {**NEXT, "decoder_sparse_step": 2, "mlp_only_layers": [3], "attention_bias": True},
    "qwen3_5": QWEN35,
    "qwen3_5 layer_types": {**QWEN35, "layer_types": [FULL, LINEAR, LINEAR, FULL] * 2},
    "qwen3_5_moe": QWEN35_MOE,
    "mimo_v2_flash": MIMO,
    "mimo_v2_flash with biases": {**MIMO, "attention_bias": True},
    "hunyuan_v1_dense": HUNYUAN,
    "hunyuan_v1_dense with biases": {**HUNYUAN, "attention_bias": True, "tie_word_embeddings": True},
    "hunyuan_v1_moe": HUNYUAN_MOE,
    "dots1": DOTS1,
    "dots1 slides": {**DOTS1, "sliding_window": 16, "max_window_layers": 5, "attention_bias": True},
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, cache, state and FLOP of each switch."""
    assert_same(SMALL[name])


# What config.json of published models says, as far as it changes counts.
PUBLISHED: dict[str, Config] = {
    # https://huggingface.co/Qwen/Qwen3.6-27B/blob/main/config.json
    "qwen3.6-27b": {
        "model_type": "qwen3_5", "tie_word_embeddings": False, "vision_config": {"depth": 27, "hidden_size": 1152},
        "text_config": {
            "model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
            "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248320,
            "max_position_embeddings": 262144, "attention_bias": False, "attn_output_gate": True, "dtype": "bfloat16",
            "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
            "layer_types": [LINEAR, LINEAR, LINEAR, FULL] * 16, "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False, "mamba_ssm_dtype": "float32",
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        },
    },
    # https://huggingface.co/tencent/Hunyuan-7B-Instruct/blob/main/config.json
    "hunyuan-7b": {
        "model_type": "hunyuan_v1_dense", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attention_head_dim": 128,
        "vocab_size": 128167, "org_vocab_size": 128167, "max_position_embeddings": 262144, "tie_word_embeddings": True,
        "attention_bias": False, "mlp_bias": False, "use_cla": False, "cla_share_factor": 2, "use_qk_norm": True,
        "num_experts": 1, "add_classification_head": False, "class_num": 0, "dense_list": [4096, 0], "norm_type": "rms",
        "pool_type": "last", "use_rotary_pos_emb": True, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
    },
    # https://huggingface.co/tencent/Hunyuan-A13B-Instruct/blob/main/config.json
    "hunyuan-a13b": {
        "model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attention_head_dim": 128,
        "vocab_size": 128167, "max_position_embeddings": 32768, "tie_word_embeddings": True, "attention_bias": False,
        "mlp_bias": False, "use_cla": False, "cla_share_factor": 2, "use_qk_norm": True, "num_experts": 64,
        "moe_topk": [8] * 32, "moe_intermediate_size": [3072] * 32, "num_shared_expert": [1] * 32,
        "use_mixed_mlp_moe": True, "moe_layer_num_skipped": 0, "group_limited_greedy": False, "moe_drop_tokens": False,
    },
    # https://huggingface.co/rednote-hilab/dots.llm1.inst/blob/main/config.json
    "dots.llm1": {
        "model_type": "dots1", "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 152064, "max_position_embeddings": 32768,
        "tie_word_embeddings": False, "attention_bias": False, "first_k_dense_replace": 1, "n_routed_experts": 128,
        "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "sliding_window": None,
        "n_group": 1, "topk_group": 1, "scoring_func": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    },
}  # fmt: skip

_WAYS = {"cache": "the small ones show it", "state": "the small ones show it", "flops": "the small ones show them"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters of published sizes, layer by layer."""
    assert_same(PUBLISHED[name], leave_out=_WAYS)


# https://huggingface.co/XiaomiMiMo/MiMo-V2-Flash/blob/main/config.json
MIMO_V2_FLASH: Config = {
    "model_type": "mimo_v2_flash", "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 48,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "vocab_size": 152576,
    "max_position_embeddings": 262144, "tie_word_embeddings": False, "attention_bias": False,
    "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "swa_rope_theta": 10000, "rope_theta": 5000000, "partial_rotary_factor": 0.334, "sliding_window": 128,
    "sliding_window_size": 128, "attention_chunk_size": 128, "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False, "attention_value_scale": 0.707, "n_routed_experts": 256,
    "n_shared_experts": None, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "hybrid_block_size": None,
    "hybrid_layer_pattern": [0 if index == 0 or (index + 1) % 6 == 0 else 1 for index in range(48)],
    "moe_layer_freq": [0] + [1] * 47, "routed_scaling_factor": None, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
    "layernorm_epsilon": 1e-5, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
}  # fmt: skip


def test_mimo_v2_flash_as_its_authors_wrote_it() -> None:
    """Their lists of 0 and 1 are the rule of the class of transformers."""
    assert_same(MIMO_V2_FLASH, leave_out=_WAYS)


STEP: Config = {
    **BASE,
    "model_type": "step3p5",
    "num_attention_groups": 2,
    "moe_num_experts": 8,
    "moe_top_k": 3,
    "moe_intermediate_size": 40,
    "share_expert_dim": 48,
    "moe_layers_enum": "2,3,5,6,7",
    "sliding_window": 16,
    "layer_types": [FULL, SLIDE, SLIDE, SLIDE] * 2,
    "attention_other_setting": {"attention_type": SLIDE, "num_attention_heads": 10, "num_attention_groups": 2, "head_dim": 24},
}
STEPS: dict[str, Config] = {
    "more heads in sliding layers": STEP,
    "as many heads everywhere": {key: value for key, value in STEP.items() if key != "attention_other_setting"},
    "listed past the end": {**STEP, "num_nextn_predict_layers": 2, "layer_types": [*STEP["layer_types"], SLIDE, SLIDE]},
}


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str) -> None:
    """Parameters and cache. transformers has it as a vision model alone: its language model and LM head are compared."""
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("transformers", minversion="5.20")
    config = {key: value for key, value in STEPS[name].items() if key not in ("model_type", "num_key_value_heads")}
    with torch.device("meta"):
        built = library.Step3p7Config(text_config=dict(config), vision_config={"num_hidden_layers": 1})
        built._attn_implementation = "eager"
        network = library.Step3p7ForConditionalGeneration(built).eval()
    ours, text = counted_by_us(STEPS[name]), network.model.language_model
    layers = [sum(weight.numel() for weight in layer.parameters()) for layer in text.layers]
    assert ours.layers == layers
    table = 331 * 96
    assert (
        ours.total
        == sum(layers) + 2 * table + 96
        == sum(w.numel() for w in [*text.parameters(), *network.lm_head.parameters()])
    )
    assert ours.cache == [2 * 2 * 24] * 8  # keys and values of 2 heads of 24
