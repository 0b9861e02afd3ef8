"""Models in symbols, and numbers put back."""

from __future__ import annotations

import pickle

import pytest
import sympy

from roofline.blocks.model_files import load_model
from roofline.dtypes import FORMATS, Precision
from roofline.formulas.symbolic import described, evaluate, label, quantity, symbol, symbolic_model, symbolic_precision
from roofline.numeric import maximum, minimum, ratio, triangle
from roofline.specs.library import ids
from roofline.specs.quantization import scheme
from roofline.symbols import TABLE


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_every_quantity_has_a_symbol(entry: object) -> None:
    """Positive, whole where the nomenclature says so, and written as it says."""
    found = symbol(entry.name)
    assert found.is_positive
    assert bool(found.is_integer) is entry.whole
    assert described(found).latex == entry.latex


def test_variants_are_apart() -> None:
    """The window of two layer types is two symbols; the subscript joins what is already below."""
    assert symbol("w", "sliding") != symbol("w")
    assert described(symbol("w", "sliding")).latex == r"w_{\mathrm{sliding}}"
    assert described(symbol("d_ff", "dense")).latex == r"d_{ff,\mathrm{dense}}"
    assert described(symbol("beta", "x")).latex == r"\beta_{\mathrm{x}}"


def test_names_from_files_are_harmless() -> None:
    """A layer type may be called anything; nothing of it reaches LaTeX as markup."""
    assert label(r"}\input{/etc/passwd}") == "input-etc-passwd"


def test_backend() -> None:
    """The operations of `numeric` on symbols."""
    a, b = symbol("S_c"), symbol("w")
    assert maximum(a, b) == sympy.Max(a, b)
    assert minimum(3, b) == sympy.Min(3, b)
    assert ratio(a, b) == a / b
    assert evaluate(triangle(a), {a: 4}) == 10  # 1 + 2 + 3 + 4


def test_llama() -> None:
    """One layer type: plain symbols, each with the number of config.json."""
    found = symbolic_model(load_model("llama-3.1-8b")[0])
    numbers = {"d_model": 4096, "V": 128256, "n_q": 32, "n_kv": 8, "d_head": 128, "d_ff": 14336}
    assert found.values == {symbol(name): value for name, value in numbers.items()}
    mixer = found.model.layer_types["decoder"].mixer
    assert mixer.num_key_value_heads == symbol("n_kv")
    assert mixer.sliding_window is None
    assert mixer.qkv_bias is False


def test_what_differs_between_layer_types_has_two_symbols() -> None:
    """Both types of gpt-oss share everything but the window, which only one of them has."""
    found = symbolic_model(load_model("gpt-oss-20b")[0])
    assert found.values[symbol("w")] == 128
    assert symbol("n_q") in found.values
    assert symbol("n_q", "sliding") not in found.values


def test_different_values_are_told_apart() -> None:
    """A model whose two types have different inner widths."""
    model, _ = load_model("gpt-oss-20b")
    full = model.layer_types["full"]
    wider = full.model_copy(update={"mlp": full.mlp.model_copy(update={"moe_intermediate_size": 4096})})
    found = symbolic_model(model.model_copy(update={"layer_types": {**model.layer_types, "full": wider}}))
    assert found.values[symbol("d_e", "full")] == 4096
    assert found.values[symbol("d_e", "sliding")] == 2880


@pytest.mark.parametrize("name", ids("models"))
def test_every_model(name: str) -> None:
    """Values put back into the symbolic copy give the model again."""
    model, _ = load_model(name)
    found = symbolic_model(model)
    assert evaluate(found.model.hidden_size, found.values) == model.hidden_size
    for layer, original in model.layer_types.items():
        for block, other in (
            (found.model.layer_types[layer].mixer, original.mixer),
            (found.model.layer_types[layer].mlp, original.mlp),
        ):
            for key in type(other).model_fields if other is not None else ():
                value = getattr(block, key)
                assert (evaluate(value, found.values) if isinstance(value, sympy.Basic) else value) == getattr(other, key)


def test_precision() -> None:
    """b_w of the roles that are stored in another format is a symbol of its own; scales keep their numbers."""
    mxfp4 = scheme("mxfp4").format
    bf16 = FORMATS["bf16"]
    found, values = symbolic_precision(Precision(weight=bf16, activation=bf16, kv=FORMATS["fp8"], roles=(("experts", mxfp4),)))
    assert found.dtypes("experts").weight.bytes == symbol("b_w", "experts")
    assert found.dtypes("linear").weight.bytes == symbol("b_w")
    assert values[symbol("b_w", "experts")] == 0.5
    assert found.dtypes("experts").weight.metadata == mxfp4.metadata
    assert values[symbol("b_kv")] == 1


def test_evaluate_is_exact() -> None:
    """Ints stay ints of any size; a quotient that is whole is an int."""
    batch, width = symbol("B"), symbol("d_model")
    assert evaluate(batch * width + 1, {batch: 2**60, width: 2**60}) == 2**120 + 1
    assert isinstance(evaluate(batch / width, {batch: 6, width: 3}), int)
    assert evaluate(batch / width, {batch: 1, width: 4}) == 0.25


def test_evaluate_a_large_power() -> None:
    """Of 64 experts with 1 a token, a hundred thousand tokens miss none: (63/64)^100000 is 10^-684, 0 to a float."""
    experts, tokens = symbol("E"), symbol("T")
    assert evaluate(experts * (1 - (1 - 1 / experts) ** tokens), {experts: 64, tokens: 100_000}) == 64


def test_two_quantities_of_one_name_keep_their_meanings() -> None:
    """A worksheet's W (weights read) and an explanation's W (weights on the device) are two symbols."""
    read = quantity("W", "W", "bytes", "weights read")
    held = quantity("W", "W", "bytes", "weights on the device")
    assert [described(one).meaning for one in (read, held)] == ["weights read", "weights on the device"]
    assert read != held


def test_symbols_are_pickled() -> None:
    """With what they mean: executed lessons are shared between processes."""
    one = symbol("B")
    other = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own
    assert (other, other.description) == (one, one.description)
