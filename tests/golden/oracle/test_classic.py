"""Families of one decoder layer (or two kinds of it), against the modules of transformers."""

from __future__ import annotations

import pytest
from golden.oracle.classic_configs import PUBLISHED, Keys
from golden.oracle.machinery import assert_same, read_config

# Small models: wide enough that no two dimensions are the same. Each variant changes what stands before the bar.

STREAM: Keys = {
    "hidden_size": 96,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "pad_token_id": 0,  # some classes have one beyond this vocabulary
    "torch_dtype": "bfloat16",
}
OLD_NAMES: Keys = {"n_embd": 96, "n_layer": 3, "n_head": 6, "n_positions": 128, "vocab_size": 331, "torch_dtype": "float32"}
NEO: Keys = {
    **{key: value for key, value in STREAM.items() if not key.startswith(("num", "int", "tie"))},
    "num_heads": 6,
    "num_layers": 4,
    "window_size": 256,
}
FALCON: Keys = {
    **{key: value for key, value in STREAM.items() if key not in ("intermediate_size", "num_key_value_heads")},
    "multi_query": True,
    "new_decoder_architecture": False,
    "parallel_attn": True,
    "bias": False,
    "alibi": False,
}
DBRX: Keys = {
    "d_model": 96,
    "n_heads": 6,
    "n_layers": 3,
    "max_seq_len": 512,
    "vocab_size": 331,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 500000, "model_type": ""},
    "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 5, "moe_top_k": 2, "ffn_act_fn": {"name": "silu"}},
    "tie_word_embeddings": False,
}
BIASED = {"attention_bias": True}
EXPERTS = {"num_local_experts": 5, "num_experts_per_tok": 2}
KINDS = {"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]}
ERNIE_EXPERTS = {
    "use_bias": False,
    "moe_num_experts": 5,
    "moe_k": 2,
    "moe_intermediate_size": 40,
    "moe_num_shared_experts": 2,
    "moe_layer_start_index": 1,
    "moe_layer_end_index": -1,
    "moe_layer_interval": 1,
}

SMALL: dict[str, Keys] = {
    "gpt2": OLD_NAMES,
    "gpt2 | inner width": {**OLD_NAMES, "n_inner": 200, "tie_word_embeddings": False},
    "gpt_bigcode | one KV head": {**OLD_NAMES, "multi_query": True},
    "gpt_bigcode | multi-head": {**OLD_NAMES, "multi_query": False, "n_inner": 200},
    "gptj": {**OLD_NAMES, "rotary_dim": 8, "n_inner": None, "tie_word_embeddings": False},
    "gpt_neox": {**STREAM, "num_key_value_heads": None, "rotary_pct": 0.25, "use_parallel_residual": True},
    "gpt_neox | one after the other, no biases": {
        **STREAM,
        "num_key_value_heads": None,
        "rotary_pct": 1.0,
        "use_parallel_residual": False,
        "attention_bias": False,
    },
    "falcon | 7B": FALCON,
    "falcon | RW: multi-head, one after the other": {
        **FALCON,
        "multi_query": False,
        "parallel_attn": False,
        "bias": True,
        "alibi": True,
    },
    "falcon | 11B: one norm": {
        **FALCON,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
        "num_ln_in_parallel_attn": 1,
        "ffn_hidden_size": 200,
    },
    "cohere": {**STREAM, "attention_bias": False, "use_qk_norm": False},
    "cohere | R+: norms of queries and keys": {**STREAM, **BIASED, "use_qk_norm": True, "tie_word_embeddings": True},
    "cohere2": {**STREAM, "attention_bias": False, "sliding_window": 9, "sliding_window_pattern": 3},
    "cohere2 | layer_types": {**STREAM, **BIASED, **KINDS, "sliding_window": 9},
    "dbrx": DBRX,
    "mistral": {**STREAM, "sliding_window": None, "head_dim": 24},
    "mistral | window": {**STREAM, "sliding_window": 9},
    "ministral3": {**STREAM, "sliding_window": None, "head_dim": 24},
    "ministral | layer_types": {**STREAM, **KINDS, "sliding_window": 9, "head_dim": 24},
    "mixtral": {**STREAM, **EXPERTS, "sliding_window": None},
    "mixtral | window": {**STREAM, **EXPERTS, "sliding_window": 16, "head_dim": 24},
    "olmo": {**STREAM, "attention_bias": False, "num_key_value_heads": 6},
    "olmo2": {**STREAM, "attention_bias": False},
    "olmo2 | biases": {**STREAM, **BIASED, "tie_word_embeddings": True},
    "olmo3": {**STREAM, "attention_bias": False, "sliding_window": 9},
    "olmo3 | layer_types": {**STREAM, **KINDS, "attention_bias": False, "sliding_window": 9},
    "phi": {**STREAM, "num_key_value_heads": None, "partial_rotary_factor": 0.5},
    "phi | grouped, norms of queries and keys": {**STREAM, "partial_rotary_factor": 0.5, "qk_layernorm": True},
    "phi3": {**STREAM, "sliding_window": None},
    "phi3 | 4k: window": {**STREAM, "sliding_window": 9, "num_key_value_heads": 6},
    "phi3 | 4-mini: tied, partly rotated": {
        **STREAM,
        "sliding_window": 262144,
        "partial_rotary_factor": 0.75,
        "tie_word_embeddings": True,
    },
    "phimoe": {**STREAM, **EXPERTS, **BIASED, "lm_head_bias": True, "sliding_window": 9, "head_dim": 24},
    "phimoe | no biases": {**STREAM, **EXPERTS, "attention_bias": False, "lm_head_bias": False, "sliding_window": 512},
    "starcoder2": {**STREAM, "use_bias": True, "sliding_window": 9, "tie_word_embeddings": True},
    "starcoder2 | no biases": {**STREAM, "use_bias": False, "sliding_window": None},
    "opt": {**STREAM, "ffn_dim": 176, "word_embed_proj_dim": 96, "do_layer_norm_before": True},
    "opt | 350m": {**STREAM, "ffn_dim": 176, "word_embed_proj_dim": 40, "do_layer_norm_before": False},
    "opt | no parameters in norms, no biases": {
        **STREAM,
        "ffn_dim": 176,
        "word_embed_proj_dim": 96,
        "do_layer_norm_before": True,
        "layer_norm_elementwise_affine": False,
        "enable_bias": False,
    },
    "granite": {**STREAM, "attention_bias": False, "mlp_bias": False},
    "granite | biases": {**STREAM, **BIASED, "mlp_bias": True, "tie_word_embeddings": True},
    "granitemoe": {**STREAM, **EXPERTS, "attention_bias": False},
    "granitemoeshared": {**STREAM, **EXPERTS, "attention_bias": False, "shared_intermediate_size": 56},
    "apertus": {**STREAM, "attention_bias": False, "hidden_act": "xielu"},
    "apertus | biases, another activation": {**STREAM, **BIASED, "hidden_act": "relu"},
    "gpt_neo": {**NEO, "attention_types": [[["global", "local"], 2]]},
    "gpt_neo | inner width": {**NEO, "attention_types": [[["global"], 1], [["local"], 3]], "intermediate_size": 176},
    "bloom": {"n_embed": 96, "n_layer": 3, "n_head": 6, "vocab_size": 331, "seq_length": 128},
    "mpt": {"d_model": 96, "n_heads": 6, "n_layers": 3, "max_seq_len": 512, "vocab_size": 331, "attn_config": {"alibi": True}},
    "stablelm": {**STREAM, "use_qkv_bias": True, "partial_rotary_factor": 0.25},
    "stablelm | 12B: norms of each head, side by side": {**STREAM, "qk_layernorm": True, "use_parallel_residual": True},
    "nemotron": {**STREAM, "attention_bias": False, "mlp_bias": False, "head_dim": 24},
    "nemotron | biases": {**STREAM, **BIASED, "mlp_bias": True, "partial_rotary_factor": 0.5},
    "internlm3": {**STREAM, "bias": False, "qkv_bias": False, "head_dim": 24},
    "arcee": {**STREAM, "attention_bias": False, "mlp_bias": False},
    "arcee | biases": {**STREAM, **BIASED, "mlp_bias": True, "head_dim": 24},
    "seed_oss": {**STREAM, **BIASED, "attention_out_bias": False, "mlp_bias": False, "head_dim": 24},
    "seed_oss | other biases": {**STREAM, "attention_bias": False, "attention_out_bias": True, "mlp_bias": True},
    "smollm3": {**STREAM, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "sliding_window": 9},
    "smollm3 | window": {**STREAM, **BIASED, "mlp_bias": True, "use_sliding_window": True, "sliding_window": 9},
    "exaone4": {**STREAM, "sliding_window": None, "layer_types": ["full_attention"] * 4, "head_dim": 24},
    "exaone4 | window, every third full": {**STREAM, "sliding_window": 9, "sliding_window_pattern": 3},
    "exaone4 | window": {**STREAM, **KINDS, "sliding_window": 9, "sliding_window_pattern": "LLLG"},
    "ernie4_5": {**STREAM, "use_bias": False, "tie_word_embeddings": True},
    "ernie4_5 | biases": {**STREAM, "use_bias": True, "head_dim": 24},
    "ernie4_5_moe": {**STREAM, **ERNIE_EXPERTS},
    "ernie4_5_moe | some layers, none shared": {
        **STREAM,
        **ERNIE_EXPERTS,
        "moe_layer_start_index": 0,
        "moe_layer_end_index": 2,
        "moe_layer_interval": 2,
        "moe_num_shared_experts": 0,
    },
}
NOT_THEIR_KEYS = {
    "opt": ("intermediate_size", "num_key_value_heads"),
    "gpt_neox": ("num_key_value_heads",),
}
DIFFERENT: dict[str, dict[str, str]] = {
    "falcon | 11B: one norm": {"cache": "transformers keeps each KV head once for each of its query heads"},
    "dbrx": dict.fromkeys(
        ("cache", "state", "flops"), "its experts look at numbers, in a loop that PyTorch's counter cannot follow"
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, cache and FLOP."""
    model_type = name.split(" ", maxsplit=1)[0]
    keys = {key: value for key, value in SMALL[name].items() if key not in NOT_THEIR_KEYS.get(model_type, ())}
    assert_same({"model_type": model_type, **keys}, leave_out=DIFFERENT.get(name))


# Families whose code stands beside their weights and not in transformers. Their layers have Llama's matrices.
AS_LLAMA: dict[str, tuple[Keys, Keys]] = {
    "internlm": ({**STREAM, "num_key_value_heads": None, "bias": False}, {}),
    "internlm2": ({**STREAM, "bias": False, "head_dim": 16}, {}),
    "internlm2 | biases": ({**STREAM, "bias": True}, {"attention_bias": True}),
    "baichuan": ({**STREAM, "num_key_value_heads": None, "model_max_length": 512}, {}),
    "minicpm": ({**STREAM, "scale_emb": 12, "dim_model_base": 16, "scale_depth": 1.4, "tie_word_embeddings": True}, {}),
}


@pytest.mark.parametrize("name", AS_LLAMA)
def test_small_as_llama(name: str) -> None:
    """Parameters, cache and FLOP are those of the Llama module."""
    keys, changes = AS_LLAMA[name]
    assert_same({"model_type": name.split(" ", maxsplit=1)[0], **keys}, model_type="llama", **changes)


# Published models

COUNTED_SMALL = dict.fromkeys(("cache", "state", "flops"), "counted on small models, which run in less time")


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(name: str) -> None:
    """Parameters, in all and layer by layer."""
    assert_same(PUBLISHED[name], leave_out=COUNTED_SMALL)


def test_exaone_letters() -> None:
    """A pattern in letters is the list that it spells."""
    keys = {"model_type": "exaone4", **STREAM, "sliding_window": 9}
    spelled = read_config({**keys, "sliding_window_pattern": "LG"})
    assert spelled.layers == read_config({**keys, "layer_types": ["sliding_attention", "full_attention"] * 2}).layers


def test_exaone_4_5() -> None:
    """Its text part is EXAONE 4 under the name of its first release; layers for several tokens at once stand apart."""
    keys = {**STREAM, **KINDS, "sliding_window": 9, "sliding_window_pattern": "LLLG", "num_nextn_predict_layers": 1}
    assert_same({"model_type": "exaone4_5_text", **keys, "mtp_share_layers": True}, model_type="exaone4")
