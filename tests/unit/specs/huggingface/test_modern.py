"""Traps in the configs of newer families, each with numbers that can be checked by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.blocks.precision import resolve_precision
from roofline.errors import SpecError
from roofline.graph.build import CANONICAL, build
from roofline.predict.memory import weights_by_path
from roofline.predict.parameters import count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin

Config = dict[str, Any]


def model(config: Config) -> Model:
    return read(parse_json(json.dumps(config, indent=1), "config.json"), Origin("test", "Test"))


def total(config: Config) -> int:
    return count_parameters(model(config)).total


def stored(config: Config) -> float:
    """Bytes of the weights."""
    found = model(config)
    precision, _ = resolve_precision(found, Deployment(), {"bf16", "fp16", "fp8", "fp4"})
    return sum(weights_by_path(build(found, Deployment(), precision, CANONICAL)).values())


def without(config: Config, *names: str) -> Config:
    return {key: value for key, value in config.items() if key not in names}


def refused(config: Config) -> str:
    with pytest.raises(SpecError) as caught:
        model(config)
    return str(caught.value)


def section(config: Config, role: str = "mixer") -> list[Config]:
    """The mixer, or the feed-forward block, of every layer."""
    found = model(config)
    return [getattr(found.layer_types[name], role).model_dump() for name in found.layer_sequence]


def column(config: Config, key: str, role: str = "mixer") -> list[Any]:
    """One key of the mixer, or the feed-forward block, of every layer."""
    return [layer.get(key) for layer in section(config, role)]


# Qwen

QWEN2: Config = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "use_sliding_window": False, "sliding_window": 128, "max_window_layers": 3, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN3 = {**QWEN2, "model_type": "qwen3", "head_dim": 32}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
QWEN2_MOE = {**QWEN2, **EXPERTS, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 48}
QWEN3_MOE = {**QWEN3, **EXPERTS, "model_type": "qwen3_moe"}


def test_qwen2_has_biases_that_no_key_names() -> None:
    """4 heads of 16: q and o are 64 x 64, k and v 64 x 32, and q, k, v have 64 + 32 + 32 biases."""
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 128 + 3 * 64 * 96 + 2 * 64
    assert total(QWEN2) == 2 * 100 * 64 + 4 * layer + 64
    assert "attention_bias: false is not understood" in refused({**QWEN2, "attention_bias": False})


@pytest.mark.parametrize("config", [QWEN2, QWEN3, QWEN2_MOE, QWEN3_MOE], ids=lambda config: config["model_type"])
def test_a_window_that_is_off_does_nothing(config: Config) -> None:
    """Published configs carry the size of a window that `use_sliding_window` switches off."""
    assert column(config, "sliding_window") == [None] * 4
    assert column(without(config, "use_sliding_window", "sliding_window"), "sliding_window") == [None] * 4


def test_the_default_of_the_switch_is_on_record() -> None:
    """A size without the switch is off, as the class has it, and the model says so."""
    names = {choice.name for choice in model(without(QWEN2, "use_sliding_window")).assumptions}
    assert names == {"use_sliding_window"}


@pytest.mark.parametrize(
    ("config", "slide"),
    [
        (QWEN2, [None, None, None, 128]),  # from layer 3 on
        (QWEN3, [None, None, None, 128]),
        (QWEN2_MOE, [128, None, 128, None]),  # every second of the first three
        (QWEN3_MOE, [128, 128, 128, 128]),  # all
    ],
    ids=["qwen2", "qwen3", "qwen2_moe", "qwen3_moe"],
)
def test_a_window_that_is_on(config: Config, slide: list[int | None]) -> None:
    """Each family has its own rule for which layers slide."""
    assert column({**config, "use_sliding_window": True}, "sliding_window") == slide


def test_a_window_that_is_on_needs_its_keys() -> None:
    """The size, and from which layer on."""
    on = {**QWEN2, "use_sliding_window": True}
    assert "use_sliding_window: is true, but there is no sliding_window" in refused(without(on, "sliding_window"))
    assert "key max_window_layers is missing" in refused(without(on, "max_window_layers"))
    assert "use_sliding_window: must be true or false" in refused({**QWEN2, "use_sliding_window": None})


def test_layer_types_have_the_last_word() -> None:
    """Which layers slide stands in newer files; unknown kinds and other lengths are refused."""
    on = {**QWEN2, "use_sliding_window": True}
    given = ["sliding_attention", "full_attention", "full_attention", "full_attention"]
    assert column({**on, "layer_types": given}, "sliding_window") == [128, None, None, None]
    assert "one entry for each of the 4 layers" in refused({**on, "layer_types": given[:3]})
    assert "layer_types[1]" in refused({**on, "layer_types": [given[0], "ful_attention", *given[2:]]})
    assert "layer_types[0]" in refused({**QWEN2, "layer_types": given})  # slides, but the switch is off


def test_head_dim_of_qwen3() -> None:
    """It is not hidden_size over the heads (here 16): every dense class has 128, those with experts differ."""
    assert column(QWEN3, "head_dim") == column(QWEN3_MOE, "head_dim") == [32] * 4
    assert column(without(QWEN3, "head_dim"), "head_dim") == [128] * 4
    assert "key head_dim is missing" in refused(without(QWEN3_MOE, "head_dim"))


@pytest.mark.parametrize("key", ["num_experts", "num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step"])
def test_experts_are_never_guessed(key: str) -> None:
    """The class has defaults for all of them; the file has to say."""
    assert f"key {key}" in refused(without(QWEN3_MOE, key))
    assert f"key {key}" in refused(without(QWEN2_MOE, key))


def test_dense_layers_among_sparse_ones() -> None:
    """Every second layer is a mixture of experts, but not layer 3: layer 1 alone."""
    mixed = {**QWEN3_MOE, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    assert column(mixed, "kind", "mlp") == ["gated_mlp", "moe", "gated_mlp", "gated_mlp"]
    assert "key intermediate_size is missing" in refused(without(mixed, "intermediate_size"))
    assert column(without(QWEN3_MOE, "intermediate_size"), "kind", "mlp") == ["moe"] * 4  # not needed


def test_the_shared_expert_has_a_gate() -> None:
    """64 weights a layer beside router (8 x 64), experts (8 x 3 x 64 x 16) and shared expert (3 x 64 x 48)."""
    attention = 2 * 64 * 64 + 2 * 64 * 32 + 128
    layer = attention + 8 * 64 + 8 * 3 * 64 * 16 + 3 * 64 * 48 + 64 + 2 * 64
    assert total(QWEN2_MOE) == 2 * 100 * 64 + 4 * layer + 64


def test_vision_models_say_what_is_counted() -> None:
    """Keys beside `vision_config`, or in `text_config`: the same model, and a note."""
    parts = {"vision_config": {"depth": 2, "hidden_size": 32}}
    flat = {**QWEN2, "model_type": "qwen2_vl", **parts}
    nested = {"model_type": "qwen2_vl", **parts, "text_config": {**QWEN2, "model_type": "qwen2_vl_text"}}
    assert total(flat) == total(nested) == total(QWEN2)
    assert "vision_config" in model(flat).notes[0]
    assert "vision_config" in model(nested).notes[0]
    assert "hidden_size over num_attention_heads (64 / 4)" in refused({**flat, "head_dim": 32})


def test_tied_embeddings_inside_and_around() -> None:
    """The key may stand in either place; said twice, it has to say the same."""
    text = {**without(QWEN3, "use_sliding_window", "sliding_window"), "model_type": "qwen3_vl_text"}
    inside = {"model_type": "qwen3_vl", "text_config": {**text, "tie_word_embeddings": True}}
    around = {"model_type": "qwen3_vl", "tie_word_embeddings": True, "text_config": without(text, "tie_word_embeddings")}
    assert total(inside) == total(around) == total(QWEN3) - 100 * 64
    assert "says otherwise" in refused({**inside, "tie_word_embeddings": False})
    assert "key text_config.tie_word_embeddings is missing" in refused(without(around, "tie_word_embeddings"))


def test_layers_for_prediction_stand_apart() -> None:
    """MiMo's MTP layer is said, not counted."""
    mimo = {**QWEN2, "model_type": "mimo", "num_nextn_predict_layers": 1, "attention_bias": True}
    assert total(mimo) == total(QWEN2)
    assert [choice.name for choice in model(mimo).assumptions] == ["num_nextn_predict_layers"]


# Gemma

BARE: Config = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "vocab_size": 100, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA2 = {**BARE, "model_type": "gemma2", "sliding_window": 16}
GEMMA3 = {**BARE, "model_type": "gemma3_text", "sliding_window": 16}
SLIDE, FULL = "sliding_attention", "full_attention"
GEMMA4 = {
    **BARE, "model_type": "gemma4_text", "layer_types": [SLIDE, SLIDE, FULL] * 2, "sliding_window": 16,
    "global_head_dim": 64, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 100, "use_double_wide_mlp": False,
    "enable_moe_block": False, "tie_word_embeddings": True,
}  # fmt: skip


def test_gemma_is_tied_where_nothing_is_said() -> None:
    """The class is tied, so files leave the key out: 100 x 64 once, and 4 norms a layer; 4 heads of 32 and 2."""
    layer = 2 * 64 * 128 + 2 * 64 * 64 + 3 * 64 * 96 + 4 * 64
    assert total(GEMMA2) == 100 * 64 + 6 * layer + 64
    assert [choice.name for choice in model(GEMMA2).assumptions] == ["tie_word_embeddings"]
    assert total({**GEMMA2, "tie_word_embeddings": False}) == 2 * 100 * 64 + 6 * layer + 64


def test_gemma_windows_that_no_key_lists() -> None:
    """Gemma 2: even layers slide. Gemma 3: all but every sixth, or another number of them."""
    assert column(GEMMA2, "sliding_window") == [16, None] * 3
    assert column(GEMMA3, "sliding_window") == [16] * 5 + [None]
    assert column({**GEMMA3, "sliding_window_pattern": 3}, "sliding_window") == [16, 16, None] * 2
    assert "key sliding_window" in refused(without(GEMMA2, "sliding_window"))
    assert "key sliding_window is missing" in refused(without(GEMMA3, "sliding_window"))
    assert "say different things" in refused({**GEMMA2, "sliding_window_size": 32})
    assert "use_bidirectional_attention" in refused({**GEMMA3, "use_bidirectional_attention": True})


def test_gemma3_nested_leaves_out_what_the_class_has() -> None:
    """4B has neither heads nor vocabulary: 8 and 4 heads of 256, and 262,208 rows. One number of heads is half a pair."""
    text = {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6}
    nested = {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {**text, "sliding_window": 16}}
    layer = 2 * 64 * 8 * 256 + 2 * 64 * 4 * 256 + 3 * 64 * 96 + 4 * 64 + 2 * 256
    assert total(nested) == 262_208 * 64 + 6 * layer + 64
    names = {choice.name for choice in model(nested).assumptions}
    assert names >= {"num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "tie_word_embeddings"}
    half = {**nested, "text_config": {**nested["text_config"], "num_key_value_heads": 2}}
    assert "key text_config.num_attention_heads is missing" in refused(half)
    for key in ("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"):
        assert f"key {key} is missing" in refused(without(GEMMA3, key))  # flat files have all of them


def test_gemma4_kinds_of_heads() -> None:
    """Sliding layers: 2 KV heads of 32. Full ones: 1 of 64, whose projection is keys and values at once."""
    sliding = 2 * 64 * 128 + 2 * 64 * 64 + 2 * 32
    full = 2 * 64 * 256 + 64 * 64 + 2 * 64
    rest = 3 * 64 * 96 + 4 * 64
    assert total(GEMMA4) == 100 * 64 + 4 * (sliding + rest) + 2 * (full + rest) + 64
    two = {**GEMMA4, "attention_k_eq_v": False}  # then full layers have as many KV heads as others
    assert total(two) - total(GEMMA4) == 2 * 3 * 64 * 64


@pytest.mark.parametrize(
    "key",
    ["global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "num_kv_shared_layers", "layer_types", "head_dim",
     "hidden_size_per_layer_input", "use_double_wide_mlp", "enable_moe_block", "sliding_window"],
)  # fmt: skip
def test_gemma4_switches_are_never_guessed(key: str) -> None:
    """A missing one is named."""
    assert f"key {key} is missing" in refused(without(GEMMA4, key))


def test_gemma4_layers_that_share_keys() -> None:
    """The last three have no keys and values; doubled, they have twice the width."""
    shared = {**GEMMA4, "num_kv_shared_layers": 3, "use_double_wide_mlp": True}
    assert column(shared, "kv_shared") == [False] * 3 + [True] * 3
    assert column(shared, "intermediate_size", "mlp") == [96] * 3 + [192] * 3
    assert "num_kv_shared_layers" in refused({**GEMMA4, "num_kv_shared_layers": 4})  # leaves no full layer
    assert "layer_types" in refused({**GEMMA4, "layer_types": [FULL] * 5 + [SLIDE]})


def test_gemma4_experts_stand_beside_the_dense_block() -> None:
    """A layer more: router (8 x 64, a norm, 8 scales), experts (8 x 3 x 64 x 16) and three norms."""
    experts = {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 16}
    more = 8 * 64 + 64 + 8 + 8 * 3 * 64 * 16 + 3 * 64
    assert total({**GEMMA4, **experts}) - total(GEMMA4) == 6 * more
    for key in ("num_experts", "top_k_experts", "moe_intermediate_size"):
        assert f"key {key}" in refused(without({**GEMMA4, **experts}, key))


# gpt-oss, Llama 4, GLM, MiniMax-M2

GPT_OSS = {
    **BARE, "model_type": "gpt_oss", "tie_word_embeddings": False, "attention_bias": True, "sliding_window": 16,
    "num_local_experts": 8, "experts_per_token": 2,
}  # fmt: skip
LLAMA4 = {
    **BARE, "model_type": "llama4_text", "intermediate_size_mlp": 200, "attention_chunk_size": 64, "num_local_experts": 8,
    "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": True,
}  # fmt: skip
GLM4_MOE = {
    **BARE, "model_type": "glm4_moe", "tie_word_embeddings": False, "attention_bias": True, "use_qk_norm": False,
    "first_k_dense_replace": 2, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "num_nextn_predict_layers": 1,
}  # fmt: skip
MINIMAX = {
    **BARE, "model_type": "minimax_m2", "tie_word_embeddings": False, "num_local_experts": 8, "num_experts_per_tok": 2,
    "rotary_dim": 16, "use_qk_norm": True, "num_mtp_modules": 3, "attn_type_list": [1] * 6,
}  # fmt: skip


def test_gpt_oss_biases_and_sinks() -> None:
    """Biases of q (128), k, v (64 each), o (64), router (8) and experts (8 x (192 + 64)), and 4 sinks a layer."""
    matrices = 2 * 64 * 128 + 2 * 64 * 64 + 8 * 64 + 8 * 3 * 64 * 96
    biases = 128 + 2 * 64 + 64 + 8 + 8 * (2 * 96 + 64) + 4
    assert total(GPT_OSS) == 2 * 100 * 64 + 6 * (matrices + biases + 2 * 64) + 64
    assert column(GPT_OSS, "sliding_window") == [16, None] * 3  # where layer_types are absent


def test_two_names_for_one_number_have_to_agree() -> None:
    """gpt-oss writes the experts of a token under two names."""
    assert total({**GPT_OSS, "num_experts_per_tok": 2}) == total(GPT_OSS)
    assert "say different things" in refused({**GPT_OSS, "num_experts_per_tok": 4})


def test_llama4_layers() -> None:
    """Odd layers (from 0) are sparse, every fourth sees everything and has no positions, hence no norm."""
    assert column(LLAMA4, "kind", "mlp") == ["gated_mlp", "moe"] * 3
    assert column(LLAMA4, "attention_chunk_size") == [64, 64, 64, None, 64, 64]
    assert column(LLAMA4, "qk_norm") == ["l2", "l2", "l2", "none", "l2", "l2"]
    assert column(LLAMA4, "rotary_dim") == [None, None, None, 0, None, None]
    assert column({**LLAMA4, "moe_layers": [0]}, "kind", "mlp") == ["moe"] + ["gated_mlp"] * 5
    assert column(LLAMA4, "intermediate_size", "mlp")[0] == 200
    assert column(LLAMA4, "shared_intermediate_size", "mlp")[1] == 96
    for key in ("intermediate_size_mlp", "attention_chunk_size", "interleave_moe_layer_step", "use_qk_norm"):
        assert f"key {key} is missing" in refused(without(LLAMA4, key))
    assert "must be a list of layers" in refused({**LLAMA4, "moe_layers": [6]})
    assert "whole numbers" in refused({**LLAMA4, "no_rope_layers": [1, 0]})


def test_glm4_moe_layers() -> None:
    """Two dense layers of 96, four with 8 experts and one shared of 16; biases of q, k and v alone; corrections apart."""
    attention = 2 * 64 * 128 + 2 * 64 * 64 + 128 + 2 * 64
    sparse = 8 * 64 + 9 * 3 * 64 * 16
    assert total(GLM4_MOE) == 2 * 100 * 64 + 6 * (attention + 2 * 64) + 2 * 3 * 64 * 96 + 4 * sparse + 64
    assert model(GLM4_MOE).apart == {"router_correction_bias": 4 * 8}
    for key in ("head_dim", "use_qk_norm", "attention_bias", "first_k_dense_replace", "n_shared_experts"):
        assert f"key {key} is missing" in refused(without(GLM4_MOE, key))


def test_minimax_norms_are_as_wide_as_all_heads() -> None:
    """128 weights for queries and 64 for keys; `intermediate_size` is that of an expert; modules for MTP stand apart."""
    layer = 2 * 64 * 128 + 2 * 64 * 64 + 128 + 64 + 8 * 64 + 8 * 3 * 64 * 96 + 2 * 64
    assert total(MINIMAX) == 2 * 100 * 64 + 6 * layer + 64
    assert model(MINIMAX).apart == {"router_correction_bias": 6 * 8}
    assert "num_mtp_modules" in {choice.name for choice in model(MINIMAX).assumptions}
    assert "attn_type_list" in refused({**MINIMAX, "attn_type_list": [1] * 5 + [0]})
    assert "shared_intermediate_size" in refused({**MINIMAX, "shared_intermediate_size": 96})


# Hybrids: Qwen3-Next, MiMo-V2-Flash, Step, Hunyuan, dots.llm1

LINEAR = "linear_attention"
NEXT: Config = {
    **BARE, "model_type": "qwen3_next", "num_hidden_layers": 4, "tie_word_embeddings": False, "decoder_sparse_step": 1,
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 48,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
}  # fmt: skip
MIMO: Config = {
    **BARE, "model_type": "mimo_v2_flash", "num_hidden_layers": 3, "num_key_value_heads": 1, "v_head_dim": 16,
    "tie_word_embeddings": False, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1], "swa_num_key_value_heads": 2,
    "sliding_window": 128, "sliding_window_size": 128, "add_swa_attention_sink_bias": True,
}  # fmt: skip
STEP: Config = {
    **BARE, "model_type": "step3p5", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "share_expert_dim": 24, "moe_layers_enum": "1,2,3,4,5", "sliding_window": 16, "layer_types": [FULL] + [SLIDE] * 5,
    "attention_other_setting": {"attention_type": SLIDE, "num_attention_heads": 6, "head_dim": 32},
}  # fmt: skip
HUNYUAN: Config = {
    **BARE, "model_type": "hunyuan_v1_moe", "tie_word_embeddings": True, "attention_bias": False, "num_experts": 8,
    "moe_topk": [2] * 6, "num_shared_expert": [1] * 6, "moe_intermediate_size": [96] * 6, "use_cla": False,
}  # fmt: skip


def test_gated_delta_net_and_gated_attention() -> None:
    """Queries (128) and as many gates; q, k (2 x 16 each), v and z (4 x 24 each), beta and decay (4 each) in linear layers."""
    experts = 8 * 64 + 8 * 3 * 64 * 16 + 3 * 64 * 48 + 64 + 2 * 64  # router, experts, shared one and its gate, two norms
    full = 64 * (2 * 128 + 2 * 64) + 128 * 64 + 2 * 32
    convolved = 2 * 32 + 96
    linear = 64 * (convolved + 96 + 2 * 4) + 4 * convolved + 2 * 4 + 24 + 96 * 64
    assert total(NEXT) == 2 * 100 * 64 + 4 * experts + full + 3 * linear + 64
    assert column(NEXT, "kind") == ["gated_delta_net"] * 3 + ["gqa"]
    for key in ("full_attention_interval", "linear_num_value_heads", "linear_conv_kernel_dim", "head_dim"):
        assert f"key {key} is missing" in refused(without(NEXT, key))
    listed = {**without(NEXT, "full_attention_interval"), "layer_types": [FULL, LINEAR, FULL, LINEAR]}
    assert column(listed, "kind") == ["gqa", "gated_delta_net"] * 2


def test_mimo_v2_by_the_keys_of_its_authors() -> None:
    """1 slides, with twice the KV heads, sinks, and a window of 128 tokens before the query's own."""
    assert column(MIMO, "sliding_window") == [None, 129, 129]
    assert column(MIMO, "num_key_value_heads") == [1, 2, 2]
    assert column(MIMO, "sinks") == [False, True, True]
    assert column(MIMO, "v_head_dim") == [16, 16, 16]
    assert column(MIMO, "kind", "mlp") == ["gated_mlp", "moe", "moe"]
    assert column(without(MIMO, "sliding_window_size"), "sliding_window") == [None, 128, 128]
    assert "hybrid_layer_pattern" in refused({**MIMO, "hybrid_layer_pattern": [0, 1, 2]})
    assert "layer_types" in refused({**MIMO, "layer_types": [FULL, FULL, SLIDE]})
    assert "swa_head_dim" in refused({**MIMO, "swa_head_dim": 64})
    assert "key layer_types is missing" in refused(without(MIMO, "hybrid_layer_pattern"))


def test_step_layers() -> None:
    """Sliding layers have 6 query heads; a gate for each head has one row of 64; lists may go on for MTP layers."""
    assert column(STEP, "num_attention_heads") == [4, 6, 6, 6, 6, 6]
    attention = [64 * (heads * 32 + 2 * 64) + heads * 32 * 64 + heads * 64 + 2 * 32 for heads in (4, 6, 6, 6, 6, 6)]
    sparse = 8 * 64 + 8 * 3 * 64 * 16 + 3 * 64 * 24
    assert total(STEP) == 2 * 100 * 64 + sum(attention) + 6 * 2 * 64 + 3 * 64 * 96 + 5 * sparse + 64
    longer = {**STEP, "num_nextn_predict_layers": 2, "layer_types": [*STEP["layer_types"], SLIDE, SLIDE]}
    assert total(longer) == total(STEP)
    assert "layer_types" in refused({**STEP, "layer_types": [*STEP["layer_types"], SLIDE]})
    assert "moe_layers_enum" in refused({**STEP, "moe_layers_enum": "1,6"})
    assert "moe_layers_enum" in refused({**STEP, "moe_layers_enum": "all"})
    other = {**STEP["attention_other_setting"], "head_dim": 64}
    assert "attention_other_setting.head_dim" in refused({**STEP, "attention_other_setting": other})


def test_hunyuan_lists() -> None:
    """A number, or one for each layer; keys of other layers (CLA) are refused."""
    layer = 2 * 64 * 128 + 2 * 64 * 64 + 2 * 32 + 8 * 64 + 9 * 3 * 64 * 96 + 2 * 64
    assert total(HUNYUAN) == 100 * 64 + 6 * layer + 64
    assert total({**HUNYUAN, "moe_topk": 2, "num_shared_expert": 1, "moe_intermediate_size": 96}) == total(HUNYUAN)
    assert "must be a list of 6" in refused({**HUNYUAN, "moe_topk": [2] * 5})
    assert "moe_topk" in refused({**HUNYUAN, "moe_topk": 9})
    assert "use_cla" in refused({**HUNYUAN, "use_cla": True})
    assert "key moe_topk" in refused(without(HUNYUAN, "moe_topk"))


@pytest.mark.parametrize(("model_type", "why"), [("phi3small", "block-sparse"), ("phi4flash", "SambaY")])
def test_families_that_are_not_understood(model_type: str, why: str) -> None:
    """Refused with the reason, not read as what they resemble."""
    assert why in refused({**BARE, "model_type": model_type})


def test_scales_of_a_mixer_whose_projections_are_two() -> None:
    """Qwen3.5 has z apart from q, k and v, which Qwen3-Next has not: six matrices a layer, each with two scales in NVFP4."""
    config = {
        **without(QWEN2, "use_sliding_window", "sliding_window", "max_window_layers"), "model_type": "qwen3_5_text",
        "head_dim": 16,
        "layer_types": ["linear_attention"] * 4, "linear_num_key_heads": 8, "linear_num_value_heads": 8,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "partial_rotary_factor": 0.25,
    }  # fmt: skip
    quantized = {"quant_algo": "NVFP4", "quant_method": "modelopt", "ignore": ["lm_head", "*in_proj_b*", "*in_proj_a"]}
    packed = 4 * 64 * 64 + 64 * 64 + 3 * 64 * 96  # q, k, v and z, the output, the feed-forward block
    saved = 4 * (2 * packed - packed // 2 - packed // 16 - 8 * 6)
    assert stored(config) - stored({**config, "quantization_config": quantized}) == saved


def test_laguna_says_twice_which_layers_are_dense() -> None:
    """Its published configs have Qwen's keys beside `mlp_layer_types`, and `gating_types` beside `gating`: both must agree."""
    laguna = {
        **QWEN3_MOE, "model_type": "laguna", "shared_expert_intermediate_size": 16, "layer_types": ["full_attention"] * 4,
        "mlp_layer_types": ["dense", *["sparse"] * 3], "mlp_only_layers": [0], "gating": "per-head",
        "gating_types": ["per_head"] * 4,
    }  # fmt: skip
    assert total(laguna) == total(without(laguna, "mlp_only_layers", "decoder_sparse_step", "gating_types"))
    assert "mlp_only_layers: it and decoder_sparse_step say otherwise" in refused({**laguna, "mlp_only_layers": [1]})
    assert "gating_types[1]" in refused({**laguna, "gating_types": ["per_head", *["per_element"] * 3]})


@pytest.mark.parametrize(
    ("config", "matrices", "inputs"),
    [
        # qkv_proj, o_proj, gate_up_proj, down_proj
        ({**QWEN2, "model_type": "phi3"}, 4, 3 * 64 + 96),
        ({**QWEN2, "model_type": "llama"}, 7, 6 * 64 + 96),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_scales_of_matrices_that_are_stored_as_one(config: Config, matrices: int, inputs: int) -> None:
    """NVFP4 has two scales in fp32 for each matrix, and GPTQ a number of four bytes for each input of each matrix."""
    config = {**without(config, "use_sliding_window", "max_window_layers"), "sliding_window": None}
    plain = total(config) - 2 * 100 * 64 - (2 * 4 + 1) * 64
    names = {"quant_algo": "NVFP4", "quant_method": "modelopt", "ignore": ["lm_head"]}
    rest = 2 * (2 * 100 * 64 + (2 * 4 + 1) * 64)
    assert stored({**config, "quantization_config": names}) == plain // 2 + plain // 16 + 4 * matrices * 8 + rest
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 16}
    groups = plain // 16
    assert stored({**config, "quantization_config": gptq}) == plain // 2 + groups * 2 + groups // 2 + 4 * inputs * 4 + rest


def test_positions_by_chunks() -> None:
    """Qwen2.5-7B-Instruct-1M: each query meets all keys; a sparse attention beside them is refused."""
    chunks = {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}
    for config in (QWEN2, QWEN3, QWEN3_MOE):
        assert total({**config, "dual_chunk_attention_config": chunks}) == total(config)
    sparse = {**chunks, "sparse_attention_config": {"0": {}}}
    assert "dual_chunk_attention_config" in refused({**QWEN2, "dual_chunk_attention_config": sparse})


def test_dots_has_experts_in_every_layer_behind_the_dense_ones() -> None:
    """`moe_layer_freq` says nothing else."""
    dots = {
        **without(QWEN2, "use_sliding_window", "sliding_window", "max_window_layers"), "model_type": "dots1",
        "first_k_dense_replace": 1, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }  # fmt: skip
    assert total({**dots, "moe_layer_freq": 1}) == total(dots)
    assert "moe_layer_freq: 2 is not understood" in refused({**dots, "moe_layer_freq": 2})
