"""Formulas in MathML: what LaTeX says, in elements that browsers draw and screen readers read."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import STRATEGIES

from roofline.blocks.model_files import load_model
from roofline.cost import FIELDS
from roofline.formulas.latex import latex, substituted
from roofline.formulas.mathml import _named, mathml, spaced, substituted_mathml, symbol_mathml
from roofline.formulas.symbolic import evaluate, symbol
from roofline.numeric import ceil_div, floor_div
from roofline.operators import OPERATORS
from roofline.operators.base import Operator
from roofline.predict.explain import Explanation, explain, explain_step
from roofline.predict.explain.explain import QUANTITIES
from roofline.predict.request import prepare
from roofline.symbols import TABLE

B, L, N_Q, N_KV, D, S, W, E, K, B_KV = (
    symbol(name) for name in ("B", "L", "n_q", "n_kv", "d_head", "S_c", "w", "E", "k", "b_kv")
)
TIMES = "<mo>\u2062</mo>"
MODELS = ("llama-3.1-8b", "deepseek-v2-lite", "gemma-3-12b")  # one kind of layer; latent attention and experts; windows

GOLDEN = [
    # 2 L n_kv d_head b_kv
    (
        2 * L * N_KV * D * B_KV,
        (
            f"<mn>2</mn>{TIMES}<mi>L</mi>{TIMES}<msub><mi>n</mi><mi>kv</mi></msub>{TIMES}<msub><mi>d</mi><mi>head</mi></msub>{TIMES}"
            "<msub><mi>b</mi><mi>kv</mi></msub>"
        ),
    ),
    # P over beta
    (symbol("P") / symbol("beta"), "<mfrac><mi>P</mi><mi>β</mi></mfrac>"),
    # L (n_q + 2 n_kv), whose sum stands after its last symbol
    (
        L * (N_Q + 2 * N_KV),
        (
            f"<mi>L</mi>{TIMES}<mrow><mo>(</mo><msub><mi>n</mi><mi>q</mi></msub><mo>+</mo><mn>2</mn>{TIMES}"
            "<msub><mi>n</mi><mi>kv</mi></msub><mo>)</mo></mrow>"
        ),
    ),
    # experts that a batch meets: E (1 - (1 - k/E)^B)
    (
        E * (1 - (1 - K / E) ** B),
        (
            f"<mi>E</mi>{TIMES}<mrow><mo>(</mo><mn>1</mn><mo>−</mo><msup><mrow><mo>(</mo><mn>1</mn><mo>−</mo>"
            "<mfrac><mi>k</mi><mi>E</mi></mfrac><mo>)</mo></mrow><mi>B</mi></msup><mo>)</mo></mrow>"
        ),
    ),
    # the smaller of S_c and w - 1
    (
        sympy.Min(S, W - 1),
        (
            "<mrow><mi>min</mi><mo>\u2061</mo><mrow><mo>(</mo><msub><mi>S</mi><mi>c</mi></msub><mo>,</mo><mi>w</mi><mo>−</mo>"
            "<mn>1</mn><mo>)</mo></mrow></mrow>"
        ),
    ),
    # blocks of w tokens, the last one filled or not
    (
        ceil_div(B + 1, W),
        "<mrow><mo>⌈</mo><mfrac><mrow><mi>B</mi><mo>+</mo><mn>1</mn></mrow><mi>w</mi></mfrac><mo>⌉</mo></mrow>",
    ),
    (
        floor_div(B + 1, W),
        "<mrow><mo>⌊</mo><mfrac><mrow><mi>B</mi><mo>+</mo><mn>1</mn></mrow><mi>w</mi></mfrac><mo>⌋</mo></mrow>",
    ),
    (-sympy.sqrt(B + 1), "<mo>−</mo><msqrt><mrow><mi>B</mi><mo>+</mo><mn>1</mn></mrow></msqrt>"),
    (symbol("L", "a"), '<msub><mi>L</mi><mi mathvariant="normal">a</mi></msub>'),
]


@pytest.mark.parametrize(("expr", "inside"), GOLDEN)
def test_elements(expr: sympy.Expr, inside: str) -> None:
    """Letters are identifiers, digits numbers, signs operators; brackets are as high as what stands in their row."""
    assert mathml(expr) == f"<math>{inside}</math>"


def test_numbers_are_put_in_and_not_worked_out() -> None:
    """8 + 2*8 is not merged, and 14336 is read as one number."""
    expr = L * (N_Q + 2 * N_KV)
    row = "<mrow><mo>(</mo><mn>8</mn><mo>+</mo><mn>2</mn><mo>⋅</mo><mn>8</mn><mo>)</mo></mrow>"
    assert substituted_mathml(expr, {L: 14336, N_Q: 8, N_KV: 8}) == f"<math><mn>14\u202f336</mn><mo>⋅</mo>{row}</math>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (4096, "<mn>4096</mn>"),
        (2.039e12, "<mn>2\u202f039\u202f000\u202f000\u202f000</mn>"),
        (123456789.125, "<mn>123\u202f456\u202f789.1</mn>"),
        (-12345, "<mo>−</mo><mn>12\u202f345</mn>"),
        (2.5e-7, "<mn>2.5</mn><mo>⋅</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>7</mn></mrow></msup>"),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    """Digits in threes from five on; a power of ten as such; a minus is a sign."""
    assert substituted_mathml(B, {B: value}) == f"<math>{shown}</math>"


def test_a_power_of_ten_is_raised_in_brackets() -> None:
    """(2.5 * 10^-7)^2 is not 2.5 * 10^(-7^2)."""
    assert substituted_mathml(symbol("b_w") ** 2, {symbol("b_w"): 2.5e-7}).startswith(
        "<math><msup><mrow><mo>(</mo><mn>2.5</mn>"
    )


def test_spaced_numbers_are_the_same_numbers() -> None:
    """Nothing but spaces is added."""
    assert [spaced(value).replace("\u202f", "") for value in (0, 99999, 100000, 1e15, 0.5)] == [
        "0", "99999", "100000", "1000000000000000", "0.5",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_every_name_of_the_nomenclature(entry: Any) -> None:
    """The same name as in LaTeX, alone, and as that of one kind of layer."""
    assert _flat(_read(symbol_mathml({"beta": "β"}.get(entry.name, entry.name)))) == _flat_latex(entry.latex)
    variant = symbol(entry.name, "full-attention")
    assert _flat(_read(mathml(variant))) == _flat_latex(latex(variant))


@pytest.mark.parametrize("name", ["<b>", "a_{<}", r"x_{\foo{a}}", r"\hat{x}", "a b", "", r"\notgreek"])
def test_other_names_are_refused(name: str) -> None:
    """No text reaches an element that is not known to be harmless."""
    with pytest.raises((ValueError, KeyError)):
        _named(name)


def test_a_symbol_that_is_not_of_ours_is_harmless() -> None:
    """Its name is reduced to letters, digits and dashes."""
    assert mathml(sympy.Symbol('<img src="x">')) == "<math><mi>img-src-x</mi></math>"


@cache
def _explained(model: str) -> list[Explanation]:
    request = prepare(load_model(model)[0], "h200-sxm", tensor_parallel_size=2, batch=3)
    parts = [part for _, found in explain_step(request) for part in found.parts]
    for subject, quantity in QUANTITIES.items():
        if subject == "max_context" and model == "gemma-3-12b":
            continue  # no closed form beside windows
        if subject == "encoder" and model != "gemma-3-12b":
            continue  # of the three, the one that sees images
        images = {"images": 2} if subject == "encoder" else {}
        options = {"segments": "3x1@500,1x20@0"} if subject == "mixed" else {"output_len": 100, **images}
        if quantity.group != "speculative decoding":
            result = explain(model, subject, "h200-sxm", ignore_capacity=True, **options)
            parts += [result, *result.parts]
    return parts


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_same_numbers_symbols_and_signs_as_in_latex(model: str) -> None:
    """Every quantity of every operator, in symbols and with numbers."""
    assert len(_explained(model)) > 100
    for part in _explained(model):
        assert _flat(_read(part.mathml)) == _flat_latex(part.latex), part.subject
        assert _flat(_read(part.substituted_mathml)) == _flat_latex(part.substituted_latex), part.subject


@pytest.mark.parametrize("model", MODELS)
def test_what_is_written_is_worth_its_value(model: str) -> None:
    """The elements, worked out by their own rules: rows, fractions, powers, brackets."""
    for part in _explained(model):
        # of rates, times and bytes four digits are shown
        assert float(_worth(_read(part.substituted_mathml))) == pytest.approx(part.value, rel=3e-3), part.subject


@pytest.mark.parametrize("model", MODELS)
def test_only_elements_and_attributes_of_mathml_core(model: str) -> None:
    """And each with as many children as it takes."""
    counts = {"mfrac": 2, "msup": 2, "msub": 2, "mi": 0, "mn": 0, "mo": 0}
    for part in _explained(model):
        for written in (part.mathml, part.substituted_mathml):
            for element in _read(written).iter():
                assert element.tag in {"math", "mrow", *counts}
                assert set(element.attrib.items()) <= {("mathvariant", "normal")}
                assert len(element) == counts.get(element.tag, len(element))
                assert bool(element.text) == (counts.get(element.tag) == 0)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.kind)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_every_kind_of_operator(cls: type[Operator], data: st.DataObject) -> None:
    """Whatever its structure is: the signs of LaTeX, and the value of the formula."""
    operator = data.draw(STRATEGIES[cls])
    structure = ("experts", "top_k") if getattr(operator, "skew", 0) else ()  # of which skewed routing takes one by one
    dims = {name: value for name, value in operator.dims().items() if name not in structure}
    symbols = dict(zip(dims, (symbol(entry.name) for entry in TABLE if entry.whole), strict=False))
    values = {symbols[name]: value for name, value in dims.items()}
    cost = replace(operator, **symbols).cost()
    for expr in (sympy.sympify(getattr(cost, field)) for field in FIELDS):
        assert _flat(_read(mathml(expr))) == _flat_latex(latex(expr))
        written = substituted_mathml(expr, values)
        assert _flat(_read(written)) == _flat_latex(substituted(expr, values, as_latex=True))
        assert float(_worth(_read(written))) == pytest.approx(float(evaluate(expr, values)), rel=1e-4)


def _read(written: str) -> Element:
    return fromstring(written)  # noqa: S314 - our own


# What both tongues say, as one list of names, numbers and signs

_LATEX_TOKEN = re.compile(
    r"(?P<name>(?:\\beta|\\eta|[A-Za-z])(?:_(?:\w|\{(?:[^{}]|\\mathrm\{[^{}]*\})*\}))?)|(?P<number>\d+(?:\{,\}\d+)*(?:\.\d+)?)"
    r"(?P<unit>\\,\\mathrm\{[^{}]*\})?"
    r"|(?P<sign>[-+(),]|\\(?:cdot|lceil|rceil|lfloor|rfloor|max|min))|(?P<nothing>\\left|\\right|\\frac|\\,|[{}^ ])"
)
_SIGNS = {r"\cdot": "⋅", r"\lceil": "⌈", r"\rceil": "⌉", r"\lfloor": "⌊", r"\rfloor": "⌋", "-": "−"}


def _flat_latex(text: str) -> list[str]:
    found, end = [], 0
    while end < len(text):
        match = _LATEX_TOKEN.match(text, end)
        assert match, text[end:]
        end = match.end()
        if match["name"]:
            found.append(re.sub(r"\\mathrm|[{}]", "", match["name"]).replace("\\beta", "β").replace("\\eta", "η"))
        elif match["unit"]:
            unit = match["unit"].removeprefix(r"\,\mathrm{").removesuffix("}").replace(r"\mu ", "µ")
            found.append(f"{match['number'].replace('{,}', ',')} {unit}")
        elif not match["nothing"]:
            found.append(_SIGNS.get(match[0], match[0].removeprefix("\\")))
    return found


def _flat(element: Element) -> list[str]:
    if element.tag == "msub":
        base, index = element
        return [f"{base.text}_{''.join(index.itertext())}"]
    if len(element) == 0:
        text = (element.text or "").replace("\u202f", "")
        return [] if text in ("\u2062", "\u2061") else [text]
    return [token for child in element for token in _flat(child)]


def test_the_comparison_can_fail() -> None:
    """Another order, number, name or sign is seen."""
    assert _flat(_read(mathml(B - L))) != _flat_latex(latex(L - B))
    assert _flat(_read(mathml(2 * B))) != _flat_latex(latex(3 * B))
    assert _flat(_read(mathml(symbol("L", "a")))) != _flat_latex(latex(symbol("L", "b")))
    assert _flat(_read(substituted_mathml(B * L, {B: 1, L: 2}))) != _flat_latex(substituted(B + L, {B: 1, L: 2}, as_latex=True))


# Working a formula out from its elements


def _worth(element: Element) -> Any:
    match element.tag:
        case "mn":
            digits, _, unit = (element.text or "").replace("\u202f", "").replace(",", "").partition(" ")
            return (
                Fraction(digits) * _PREFIXES[unit[0] if unit[0] in _PREFIXES and len(unit) > 1 else ""]
                if unit
                else Fraction(digits)
            )
        case "mfrac":
            above, below = map(_worth, element)
            return above / below
        case "msup":
            base, exponent = map(_worth, element)
            return base**exponent if exponent == int(exponent) and abs(exponent) < 100 else float(base) ** float(exponent)
    children = list(element)
    if element.tag == "mrow" and children[0].tag == "mi":
        _, _, brackets = children
        listed = [_sum(part) for part in _split(list(brackets)[1:-1], ",")]
        return {"max": max, "min": min}[children[0].text or ""](listed)
    if children[0].text in _ROUNDED:
        closing, rounded = _ROUNDED[children[0].text]
        assert children[-1].text == closing
        return rounded(_sum(children[1:-1]))
    return _sum(children)


_PREFIXES = {
    "P": Fraction(10**15), "T": Fraction(10**12), "G": Fraction(10**9), "M": Fraction(10**6), "k": Fraction(1000),
    "": Fraction(1), "m": Fraction(1, 1000), "µ": Fraction(1, 10**6), "n": Fraction(1, 10**9),
}  # fmt: skip
_ROUNDED: dict[str | None, tuple[str, Any]] = {"(": (")", Fraction), "⌈": ("⌉", math.ceil), "⌊": ("⌋", math.floor)}


def _split(children: list[Element], sign: str) -> list[list[Element]]:
    found: list[list[Element]] = [[]]
    for child in children:
        if child.text == sign:
            found.append([])
        else:
            found[-1].append(child)
    return found


def _sum(children: list[Element]) -> Any:
    total, factors, sign = Fraction(0), [], 1
    for child in (*children, None):
        if child is None or child.text in ("+", "−"):
            total += sign * math.prod(factors) if factors else 0
            factors, sign = [], -1 if child is not None and child.text == "−" else 1
        elif child.tag != "mo":
            factors.append(_worth(child))
    return total
