"""A model by its parts and layer types, with numbers that a reader can check."""

from __future__ import annotations

import pytest

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.predict.parameters import (
    count_parameters,
    kv_bytes_per_token,
    layer_kinds,
    layer_letters,
    layer_pattern,
    parameters_by_part,
    state_bytes_per_sequence,
)
from roofline.specs.library import ids, shipped

MODELS = [*ids("models"), str(shipped("models") / "_template.yaml")]


def _model(name: str) -> Model:
    return load_model(name)[0]


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up(name: str) -> None:
    """Parts to the total and the active parameters; layers and what stands around them too."""
    model = _model(name)
    counted, parts, kinds = count_parameters(model), parameters_by_part(model), layer_kinds(model)
    assert sum(part.parameters for part in parts) == counted.total
    assert sum(part.active for part in parts) == counted.active
    assert sum(kind.count for kind in kinds) == model.num_hidden_layers
    assert sum(kind.kv_bytes_per_token * kind.count for kind in kinds) == kv_bytes_per_token(model)
    assert sum(kind.state_bytes * kind.count for kind in kinds) == state_bytes_per_sequence(model)


def test_parts_of_a_dense_model() -> None:
    """GPT-2 small: 12 layers of width 768; tables of 50,257 tokens and 1,024 positions; the LM head is the table."""
    parts = {part.name: part.parameters for part in parameters_by_part(_model("gpt2"))}
    assert parts == {
        "embedding": (50257 + 1024) * 768,
        "norms": (2 * 12 + 1) * 2 * 768,
        "attention": 12 * (4 * 768 * 768 + 4 * 768),
        "mlp": 12 * (2 * 768 * 3072 + 3072 + 768),
    }


def test_parts_of_a_mixture() -> None:
    """Mixtral 8x7B: 8 experts of three matrices 4096 x 14336 in each of 32 layers, of which a token uses 2."""
    parts = {part.name: part for part in parameters_by_part(_model("mixtral-8x7b"))}
    assert parts["experts"].parameters == 32 * 8 * 3 * 4096 * 14336
    assert parts["experts"].active == 32 * 2 * 3 * 4096 * 14336
    assert parts["router"].parameters == 32 * 4096 * 8
    assert "mlp" not in parts


def test_layers_of_two_kinds() -> None:
    """Gemma 3 12B: five sliding layers, then a full one, eight times; 8 KV heads of 256 at 2 bytes, keys and values."""
    model = _model("gemma-3-12b")
    assert layer_pattern(model) == "8 x sssssf"
    sliding, full = layer_kinds(model)
    assert (sliding.letter, sliding.count, sliding.windows) == ("s", 40, (1024,))
    assert (full.letter, full.count, full.windows) == ("f", 8, ())
    assert sliding.kv_bytes_per_token == full.kv_bytes_per_token == 2 * 8 * 256 * 2
    assert sliding.mixer == "GQA, 16 query and 8 KV heads of 256"


def test_letters_are_different() -> None:
    """As many letters as names, as long as there are letters."""
    names = [f"layer_{number}" for number in range(60)]
    assert len(set(layer_letters(names).values())) == 60
    assert layer_letters([f"x{number}" for number in range(80)])["x79"] == "?"
