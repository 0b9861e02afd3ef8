"""`quantization_config` in a config.json: schemes of the model, and layers that are exempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.blocks import config_json as reading
from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import SpecError
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def _read(config: dict[str, Any]) -> Model:
    return read(parse_json(json.dumps(config), "config.json"), Origin("test", "Test"))


def _schemes(model: Model) -> list[tuple[str, tuple[str, ...]]]:
    return [(scheme.name, scheme.roles) for scheme in model.quantization]


def test_without() -> None:
    """No key, no scheme; null is no key."""
    assert _read(LLAMA).quantization == ()
    assert _read({**LLAMA, "quantization_config": None}).quantization == ()


def test_every_linear_layer() -> None:
    """FP8 in blocks, of all projections but the LM head."""
    model = _read({**LLAMA, "quantization_config": FP8})
    assert _schemes(model) == [("fp8_block", ("linear",))]
    assert list(model.layer_types) == ["decoder"]


def test_layers_that_are_left() -> None:
    """The first and the last layer are not quantised, nor is one output projection: types of their own."""
    left = ["model.layers.0", "model.layers.3", "model.layers.2.self_attn.o_proj", "lm_head"]
    model = _read({**LLAMA, "quantization_config": {**FP8, "modules_to_not_convert": left}})
    assert model.layer_sequence == ("decoder_unquantized", "decoder", "decoder_unquantized_2", "decoder_unquantized")
    bare = {name: set(kind.unquantized) for name, kind in model.layer_types.items()}
    assert bare["decoder"] == set()
    assert bare["decoder_unquantized_2"] == {"attention/o_proj"}
    assert {"mlp", "attention/o_proj"} <= bare["decoder_unquantized"]


def test_a_whole_type_that_is_left() -> None:
    """Where all layers of a name are left, the name stays."""
    deepseek = {
        **LLAMA, "model_type": "deepseek_v3", "num_key_value_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 32,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 64, "n_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1,
        "topk_group": 1, "topk_method": "noaux_tc", "num_nextn_predict_layers": 0,
    }  # fmt: skip
    model = _read({**deepseek, "quantization_config": {**FP8, "modules_to_not_convert": ["model.layers.0"]}})
    assert model.layer_sequence == ("dense", "moe", "moe", "moe")
    assert model.layer_types["dense"].unquantized
    assert not model.layer_types["moe"].unquantized


def test_names_of_the_family() -> None:
    """Patterns mean the names of the family's checkpoints: Mixtral's experts are in block_sparse_moe."""
    left = {**FP8, "modules_to_not_convert": ["block_sparse_moe.experts"]}
    assert _schemes(_read({**MIXTRAL, "quantization_config": left})) == [("fp8_block", ("attention",))]
    other = {**FP8, "modules_to_not_convert": ["mlp.experts"]}  # nothing is called so
    assert _schemes(_read({**MIXTRAL, "quantization_config": other})) == [("fp8_block", ("attention", "experts"))]


def test_around_a_language_model() -> None:
    """A config of several parts has it beside them."""
    nested = {"model_type": "gemma3", "quantization_config": FP8, "vision_config": {"hidden_size": 8}, "text_config": {
        **{key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}, "model_type": "gemma3_text",
        "head_dim": 64, "sliding_window": 16,
    }}  # fmt: skip
    assert _schemes(_read(nested)) == [("fp8_block", ("linear",))]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"quant_method": "no-such"}, "no-such"),
        ({**FP8, "weight_block_size": [1, 2, 3]}, "weight_block_size"),
        ({**FP8, "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]}, "weights of one role"),
    ],
)
def test_what_is_not_understood(said: dict[str, Any], message: str) -> None:
    """Refused, with the place in the file."""
    with pytest.raises(SpecError, match=message) as caught:
        _read({**LLAMA, "quantization_config": said})
    assert (caught.value.line, caught.value.column) == (1, json.dumps({**LLAMA, "q": 1}).index('"q"') + 1)


def test_a_family_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What patterns mean there is not made up; the flag that helps is named."""
    monkeypatch.setattr(reading, "modules", lambda model: {})
    with pytest.raises(SpecError, match="--quantization"):
        _read({**LLAMA, "quantization_config": FP8})
