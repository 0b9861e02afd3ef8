"""Families of 2025 and 2026, and smaller ones, against the modules of transformers: shrunken, several draws each."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same, counted_by_transformers, counted_by_us, read_config

Config = dict[str, Any]

SLIDE, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
BASE: Config = {
    "hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 5, "num_attention_heads": 6, "num_key_value_heads": 2,
    "pad_token_id": 0,
    "head_dim": 16, "vocab_size": 331, "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
WIDE = {"head_dim": 24}
EXPERTS: Config = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
ROUTED: Config = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "n_shared_experts": 2}
WINDOW = {"sliding_window": 16}
BIASED = {"attention_bias": True}
LATENT: Config = {
    "num_key_value_heads": 6, "q_lora_rank": 28, "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}  # fmt: skip
DELTA: Config = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
NARROW = {"head_dim": None}


def _bases() -> dict[str, Config]:
    without_dim = {key: value for key, value in BASE.items() if key != "head_dim"}
    latent = {**without_dim, **LATENT}
    return {
        "cwm": {**BASE, **WIDE, **WINDOW, "layer_types": [FULL, SLIDE, SLIDE, SLIDE, FULL]},
        "iquestcoder": {**BASE, **WIDE},
        "internlm3": {**BASE, **WIDE, "attention_bias": False, "mlp_bias": False},
        "helium": {**BASE, "attention_bias": False},
        "jais2": {**without_dim, "attention_bias": True, "mlp_bias": True},
        "hyperclovax": {**BASE, "attention_bias": False, "mlp_bias": False, "use_post_norm": True},
        "granite_swa": {**without_dim, **WINDOW, "attention_bias": False, "mlp_bias": False},
        "granitemoe_swa": {
            **without_dim, **WINDOW, "attention_bias": False, "num_local_experts": 8, "num_experts_per_tok": 3,
            "shared_intermediate_size": 0,
        },
        "solar_open": {**BASE, **WIDE, **ROUTED, "attention_bias": False},
        "exaone_moe": {
            **BASE, **WIDE, **EXPERTS, **WINDOW, "num_shared_experts": 2, "first_k_dense_replace": 1,
            "layer_types": [SLIDE, SLIDE, SLIDE, FULL, FULL],
        },
        "afmoe": {
            **BASE, **WIDE, **EXPERTS, **WINDOW, "num_shared_experts": 2, "num_dense_layers": 1,
            "global_attn_every_n_layers": 4,
        },
        "laguna": {
            **BASE, **WIDE, **EXPERTS, **WINDOW, "shared_expert_intermediate_size": 56,
            "layer_types": [FULL, SLIDE, SLIDE, FULL, SLIDE], "num_attention_heads_per_layer": [6, 8, 8, 6, 8],
        },
        "beam": {
            **BASE, **WIDE, **EXPERTS, **WINDOW, "layer_types": [SLIDE, FULL, SLIDE, SLIDE, FULL], "n_group": 4,
            "topk_group": 2, "mlp_layer_types": ["dense", *["sparse"] * 4], "attention_bias": False,
            "rope_parameters": {SLIDE: {"rope_type": "default", "rope_theta": 1e4}, FULL: None},
        },
        "mellum": {**BASE, **WIDE, **EXPERTS, **WINDOW, "layer_types": [FULL, SLIDE, SLIDE, FULL, SLIDE]},
        "cohere2_moe": {
            **BASE, "num_experts": 8, "num_experts_per_tok": 3, "sliding_window": 16, "first_k_dense_replace": 1,
            "prefix_dense_intermediate_size": 72, "attention_bias": False, "num_shared_experts": 0,
        },
        "olmoe": {**without_dim, "num_experts": 8, "num_experts_per_tok": 3, "attention_bias": False},
        "flex_olmo": {**without_dim, "num_experts": 8, "num_experts_per_tok": 3, "attention_bias": False},
        "olmo_hybrid": {**without_dim, **DELTA, "attention_bias": False, "rope_parameters": None},
        "axk1": {**latent, **ROUTED, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
        "youtu": latent,
        "mistral4": {**latent, **ROUTED, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
        "minicpm3": {key: value for key, value in latent.items() if key != "v_head_dim"},
        "hy_v3": {**BASE, **WIDE, **EXPERTS, "num_shared_experts": 2},
        "flint": {**BASE, **WIDE, **EXPERTS, **WINDOW, "num_hidden_layers": 7, "shared_expert_intermediate_size": 56},
        "kolibri1": {**BASE, **WIDE, **EXPERTS, **WINDOW, "num_hidden_layers": 6, "shared_expert_intermediate_size": 56},
        "bitnet": {**without_dim, "attention_bias": False},
        "vaultgemma": {**BASE, **WIDE, **WINDOW, "attention_bias": False},
        "lfm2": {
            **without_dim, "conv_L_cache": 3, "conv_bias": False, "block_multiple_of": 16, "full_attn_idxs": [1, 4],
            "block_ffn_dim_multiplier": 1.5, "block_auto_adjust_ff_dim": True,
        },
        "lfm2_moe": {
            **without_dim, **EXPERTS, "conv_L_cache": 3, "conv_bias": False, "num_dense_layers": 2,
            "layer_types": ["conv", "conv", FULL, "conv", FULL],
        },
        "lfm3": {**BASE, **WIDE, **WINDOW, "conv_L_cache": 5, "layer_types": ["conv", "conv", FULL, "conv", SLIDE]},
        "falcon_h1": {
            **BASE, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 10,
            "mamba_d_conv": 3, "mamba_chunk_size": 4, "mamba_conv_bias": True, "mamba_rms_norm": False,
            "projectors_bias": False, "mamba_proj_bias": False,
        },
        "bailing_hybrid": {
            **without_dim, **LATENT, **EXPERTS, "q_lora_rank": None, "head_dim": 16, "n_shared_experts": 2, "n_group": 1,
            "topk_group": 1, "first_k_dense_replace": 1, "layer_group_size": 3, "short_conv_kernel_size": 4,
            "num_mtp_layers": 0,
        },
    }  # fmt: skip


BASES = _bases()
CHANGES: dict[str, tuple[Config, ...]] = {
    "cwm": ({"layer_types": [SLIDE] * 5}, {"layer_types": [FULL] * 5}),
    "iquestcoder": ({"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}),
    "internlm3": ({"attention_bias": True, "mlp_bias": True},),
    "helium": ({"attention_bias": True, "mlp_bias": True},),
    "jais2": ({"attention_bias": False}, {"mlp_bias": False, "tie_word_embeddings": True}),
    "hyperclovax": ({"use_post_norm": False, "attention_bias": True}, {"mlp_bias": True}),
    "granite_swa": ({**BIASED, "mlp_bias": True}, {"layer_rope_theta": [0, 1e4, 1e4, 1e5, 0]}),
    "granitemoe_swa": ({"shared_intermediate_size": 56}, BIASED),
    "solar_open": (BIASED, {"n_shared_experts": 1}),
    "exaone_moe": (
        {"layer_types": None, "sliding_window": 16, "sliding_window_pattern": 4},
        {"mlp_layer_types": ["sparse", "dense", "sparse", "dense", "sparse"]},
    ),
    "afmoe": ({"num_dense_layers": 2, "num_shared_experts": 1}, {"layer_types": [FULL, SLIDE] * 2 + [FULL]}),
    "laguna": (
        {"gating": "per-element"}, BIASED, {"mlp_layer_types": ["dense", "sparse"] * 2 + ["sparse"]},
        {"gating": "per-head", "gating_types": ["per_head"] * 5, "decoder_sparse_step": 1, "mlp_only_layers": [0]},
    ),
    "beam": ({"n_group": 2, "mlp_layer_types": ["sparse"] * 5}, {"layer_types": [FULL] * 5}, {"layer_types": [SLIDE] * 5}),
    "mellum": (BIASED, {"mlp_layer_types": ["dense", "sparse"] * 2 + ["dense"]}),
    "cohere2_moe": (
        {"num_shared_experts": 2}, {"rms_norm_eps": 1e-5, "tie_word_embeddings": True},
        {"prefix_dense_sliding_window_pattern": 3, "first_k_dense_replace": 3}, BIASED,
    ),
    "olmoe": (BIASED, {"clip_qkv": 8.0}),
    "flex_olmo": (BIASED,),
    "olmo_hybrid": (BIASED, {"rope_parameters": {"rope_theta": None, "rope_type": "default"}}),
    "axk1": (
        BIASED, {"n_group": 4, "topk_group": 2},
        {"first_k_dense_replace": None, "mlp_layer_types": ["dense", "sparse"] * 2 + ["dense"]},
    ),
    "youtu": (BIASED, {"q_lora_rank": None}, {"tie_word_embeddings": True}),
    "mistral4": ({"q_lora_rank": None}, {"first_k_dense_replace": 0}, BIASED),
    "minicpm3": ({"v_head_dim": 10}, {"q_lora_rank": None, "tie_word_embeddings": True}),
    "flint": (BIASED, {"mlp_only_layers": [2], "decoder_sparse_step": 2}, {"layer_types": [SLIDE, FULL] * 3 + [FULL]}),
    "kolibri1": ({"layer_types": [SLIDE, FULL] * 3}, {"tie_word_embeddings": True}),
    "bitnet": (BIASED, {"tie_word_embeddings": True}),
    "vaultgemma": (BIASED, {"layer_types": [FULL, SLIDE, SLIDE, SLIDE, FULL]}),
    "lfm2": (
        {"block_auto_adjust_ff_dim": False, "conv_bias": True},
        {"layer_types": ["conv", FULL, "conv", FULL, FULL], "tie_word_embeddings": True},
    ),
    "lfm2_moe": ({"conv_bias": True, "num_dense_layers": 1}, {"use_expert_bias": False}),
    "lfm3": ({"use_attention_gate": False, "use_sandwich_norm": False, **BIASED}, {"layer_types": None}),
    "falcon_h1": (
        {"mamba_rms_norm": True, "mamba_d_ssm": 48, "mamba_d_head": "auto", **BIASED},
        {"projectors_bias": True, "mamba_proj_bias": True, "mlp_bias": True, "mamba_conv_bias": False},
    ),
    "bailing_hybrid": (
        {"n_group": 4, "topk_group": 2, "layer_group_size": 2},
        {"layer_types": [LINEAR, FULL, LINEAR, FULL, FULL]},
    ),
    "hy_v3": (BIASED, {"mlp_layer_types": ["dense", "sparse"] * 2 + ["dense"]}),
}  # fmt: skip
SMALL: dict[str, Config] = {
    **{name: {"model_type": name, **keys} for name, keys in BASES.items()},
    **{
        f"{name} {number}": {"model_type": name, **BASES[name], **change}
        for name, changes in CHANGES.items()
        for number, change in enumerate(changes, 2)
    },
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, layer by layer, cache, state and FLOP."""
    assert_same(SMALL[name])


LONGCAT: Config = {
    **{key: value for key, value in BASE.items() if key not in ("head_dim", "num_hidden_layers", "intermediate_size")},
    **LATENT, "model_type": "longcat_flash", "num_layers": 3, "ffn_hidden_size": 72, "expert_ffn_hidden_size": 40,
    "n_routed_experts": 8, "moe_topk": 3, "zero_expert_num": 0, "head_dim": 8,
}  # fmt: skip


@pytest.mark.parametrize("change", [{}, {"attention_bias": True, "router_bias": True}, {"q_lora_rank": 30, "moe_topk": 2}])
def test_longcat(change: Config) -> None:
    """A layer is read as two, whose parameters are together those of the class'."""
    config = {**LONGCAT, **change}
    assert_same(config, leave_out={"layers": "a layer is read as two"}, device="cpu")
    ours = counted_by_us(config).layers
    assert [sum(pair) for pair in zip(ours[::2], ours[1::2], strict=True)] == counted_by_transformers(
        config, device="cpu", with_steps=False
    ).layers


HRM: Config = {
    **{key: value for key, value in BASE.items() if key != "num_key_value_heads"}, **WIDE, "model_type": "hrm_text",
    "num_hidden_layers": 3, "H_cycles": 2, "L_cycles": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {}, {"H_cycles": 1, "L_cycles": 1, "attention_bias": True, "mlp_bias": True}, {"H_cycles": 3, "L_cycles": 2},
        {"num_hidden_layers": 24, "num_layers_per_stack": 3, "prefix_lm": False, "tie_word_embeddings": True},
    ],
)  # fmt: skip
def test_hrm_text(change: Config) -> None:
    """Parameters once, cache and FLOP of each run through the two stacks."""
    config = {**HRM, **change}
    assert_same(config, leave_out={"layers": "those of one stack stand in the class, those of all runs here"})
    runs = config["H_cycles"] * (config["L_cycles"] + 1)
    assert len(counted_by_us(config).cache) == 3 * runs
    each = counted_by_transformers(config, with_steps=False).layers
    assert [size for size in counted_by_us(config).layers if size] == each * 2


GLIMMER: Config = {**BASE, **WIDE, **WINDOW, "model_type": "muse_glimmer_text", "attention_bias": False}
GLIMMER_TOWER = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.mark.parametrize(
    "change",
    [{}, {"num_hidden_layers": 4}, {"layer_types": [SLIDE, FULL, SLIDE, SLIDE, FULL], "layer_rope_theta": [0, 1e4, 0, 1e4, 0]}],
)
def test_muse_glimmer(change: Config) -> None:
    """The class is of the language model with its tower, which is not compared."""
    config = {"model_type": "muse_glimmer", "vision_config": GLIMMER_TOWER, "text_config": {**GLIMMER, **change}}
    assert_same(config, model_type="muse_glimmer")
    turned = [layer.mixer.rotary_dim != 0 for layer in read_config(config).layer_types.values()]
    assert any(turned)
    assert not all(turned)


def test_zero_experts() -> None:
    """They widen the router alone; in expectation as many fewer experts compute. The class holds weights of theirs in vain."""
    config = {**LONGCAT, "zero_expert_num": 4}
    theirs = counted_by_transformers(config, device="cpu", with_steps=False).total
    unused = 3 * 4 * 2 * LONGCAT["expert_ffn_hidden_size"] * LONGCAT["hidden_size"]
    assert counted_by_us(config).total == theirs - unused
    plain, fewer = counted_by_us({**LONGCAT, "moe_topk": 2}), counted_by_us(config)
    assert fewer.flops["decode"] - plain.flops["decode"] == 2 * 3 * 3 * 4 * LONGCAT["hidden_size"]  # tokens, layers, scores
