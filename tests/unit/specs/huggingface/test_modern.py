"""Traps in the configs of newer families, each with numbers that can be checked by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.errors import SpecError
from roofline.predict.parameters import count_parameters
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin, read
from roofline.specs.model import Model

Config = dict[str, Any]


def model(config: Config) -> Model:
    return read(parse_json(json.dumps(config, indent=1), "config.json"), Origin("test", "Test"))


def total(config: Config) -> int:
    return count_parameters(model(config)).total


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
    assert "key sliding_window is missing" in refused(without(on, "sliding_window"))
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


@pytest.mark.parametrize("config", [QWEN3, QWEN3_MOE], ids=["qwen3", "qwen3_moe"])
def test_qwen3_needs_head_dim(config: Config) -> None:
    """It is not hidden_size over the heads (here 16)."""
    assert column(config, "head_dim") == [32] * 4
    assert "key head_dim is missing" in refused(without(config, "head_dim"))


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


def test_layers_for_prediction_stand_apart() -> None:
    """MiMo's MTP layer is said, not counted."""
    mimo = {**QWEN2, "model_type": "mimo", "num_nextn_predict_layers": 1, "attention_bias": True}
    assert total(mimo) == total(QWEN2)
    assert [choice.name for choice in model(mimo).assumptions] == ["num_nextn_predict_layers"]
