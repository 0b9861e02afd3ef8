"""Formulas on a page: one box for each operator, harmless whatever names say, with the values of the analysis."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.cost import FIELDS
from roofline.predict.analyze import analyze
from roofline.predict.explain import explain_step
from roofline.predict.explain.explanation import meaning
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.result import OperatorResult, Phase
from roofline.report.cells import op_key
from roofline.report.formulas import NEW, Explained, Sharing, formulas, listed, models
from roofline.report.page import LARGEST_FORMULAS

H200 = "h200-sxm"
HOSTILE = "</title><script>alert('1')</script>\"]]>&\u202e\x00\ud800\ufffe é"
CASES = {
    "llama-3.1-8b": {"batch": 3, "input_len": 1500, "context": 2700},
    "deepseek-v2-lite": {"batch": 2},
    "gemma-3-12b": {"input_len": 3000, "context": 5000},
    "deepseek-v3": {"tensor_parallel_size": 8},
}


class _Page(HTMLParser):
    """What a page has: every element with its attributes, and of each box its texts and values by quantity."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.boxes: dict[str, dict[str, float]] = {}
        self.texts: dict[str, str] = {}
        self._inside = ""
        self._quantity: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag == "details":
            self._inside = found["id"] or ""
            self.boxes[self._inside], self.texts[self._inside] = {}, ""
        if tag == "dt":
            self._quantity = ""
        elif self._quantity and found.get("data-value"):
            self.boxes[self._inside][self._quantity.strip()] = float(found["data-value"] or "")

    def handle_data(self, data: str) -> None:
        if self.elements[-1][0] == "dt":
            self._quantity = data
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


@cache
def _request(model: str) -> ResolvedRequest:
    return prepare(load_model(model)[0], H200, **CASES[model])


@cache
def _page(model: str) -> _Page:
    return _Page(formulas(_request(model)))


@cache
def _explained(model: str) -> list[Explained]:
    return [Explained(phase, found) for phase, found in explain_step(_request(model))]


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_a_box_for_each_operator(model: str) -> None:
    """In the order of the phases, each with the id that a click on its point looks for; no id occurs twice."""
    wanted = [f"op-{op_key(phase.name, operator.path)}" for phase, operator in _operators(model)]
    page = _page(model)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert [found for found in ids if (found or "").startswith("op-")] == wanted
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", found or "") for found in ids)


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_values_are_those_of_the_analysis(model: str) -> None:
    """Work, traffic by kind, intensity and time of every operator, all of its repeats together."""
    shown_by = _shown_by(model)
    page = _page(model)
    for phase, operator in _operators(model):
        key = op_key(phase.name, operator.path)
        # a value that another operator shares is not said twice
        shown = {**page.boxes[f"op-{shown_by[key].key}"], **page.boxes[f"op-{key}"]}
        for name in FIELDS:
            assert shown.get(meaning(name), 0) == pytest.approx(getattr(operator.cost, name), rel=1e-9), (key, name)
        if meaning("time_bound") in shown:
            assert shown[meaning("time_bound")] == pytest.approx(operator.time.bound, rel=1e-9)
        if meaning("arithmetic_intensity") in shown:
            assert shown[meaning("arithmetic_intensity")] == pytest.approx(operator.cost.arithmetic_intensity, rel=1e-9)


def _operators(model: str) -> list[tuple[Phase, OperatorResult]]:
    """Those of the analysis but for the engine's share of a step, which is measured and has no formula."""
    result = analyze(model, H200, ignore_capacity=True, **CASES[model])
    return [(phase, operator) for phase in result.phases for operator in phase.operators if operator.path != "engine"]


def _shown_by(model: str) -> dict[str, Explained]:
    """Where the page has the formulas of each operator: its own links say so."""
    operators = {operator.key: operator for operator in _explained(model)}
    found, inside = {}, ""
    for tag, attributes in _page(model).elements:
        if tag == "details":
            inside = (attributes["id"] or "").removeprefix("op-")
            found[inside] = operators.get(inside)
        elif tag == "a" and (attributes["href"] or "").startswith("#in-"):
            found[inside] = operators[(attributes["href"] or "").removeprefix("#in-")]
    return {key: operator for key, operator in found.items() if operator is not None}


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_a_page_does_not_grow_too_large(model: str) -> None:
    """Formulas of a model with 28 operators stand by themselves; of those with more some are shared, or a page packs them."""
    is_packed = len(formulas(_request(model)).encode()) > LARGEST_FORMULAS
    assert is_packed == (model != "llama-3.1-8b")
    is_shared = any(key != shown.key for key, shown in _shown_by(model).items())
    assert is_shared == (model != "llama-3.1-8b")


@pytest.mark.slow
@pytest.mark.parametrize("sharing", get_args(Sharing))
@pytest.mark.parametrize("model", CASES)
def test_what_is_shared_means_the_same(model: str, sharing: Sharing) -> None:
    """Another operator's formulas, with the differences that are told, have this operator's values."""
    for operator in _explained(model):
        shown = models(_explained(model), sharing)[operator.key]
        totals = {symbol: value for symbol, value, _ in operator.explanation.legend if symbol not in operator.legend}
        values = {symbol: value for symbol, (value, _) in shown.legend.items()} | totals
        differences = operator.differences(shown)
        values |= {other: value for _, value, other in differences}
        assert sharing != "none" or differences == []
        assert sharing == "lengths" or (NEW in operator.legend) == (NEW in shown.legend)
        for part, other_part in zip(operator.explanation.parts, shown.explanation.parts, strict=True):
            assert _worth(other_part.formula, values) == pytest.approx(part.value, rel=1e-9), (operator.key, part.subject)


_TOKEN = re.compile(r"[^\s·()⌈⌉⌊⌋,^/√+-][^\s·()⌈⌉⌊⌋,^/√]*")


def _worth(formula: str, values: dict[str, float]) -> float:
    """A formula in text, worked out by Python."""
    text = re.sub(
        r"[^\s·()⌈⌉⌊⌋,^/√+-][^\s·()⌈⌉⌊⌋,^/√]*", lambda it: f"({values[it[0]]!r})" if it[0] in values else it[0], formula
    )
    for sign, written in {"·": "*", "^": "**", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")"}.items():
        text = text.replace(sign, written)
    return float(eval(text, {"ceil": math.ceil, "floor": math.floor, "max": max, "min": min}))  # noqa: S307 - our own


def test_another_value_of_the_same_symbol_is_told() -> None:
    """The peak of another dtype, say."""
    model = next(operator for operator in _explained("llama-3.1-8b") if operator.explanation.subject == "layers/mlp/down_proj")
    legend = tuple((symbol, 1e15 if symbol == "P" else value, about) for symbol, value, about in model.explanation.legend)
    other = Explained(model.phase, replace(model.explanation, subject="other", legend=legend))
    assert other.shape("names") == model.shape("names")
    assert other.differences(model) == [("P", 1e15, "P")]
    page = listed([model, other], {model.key: model, other.key: model})
    assert ", with <math><mi>P</mi><mo>=</mo><mn>1 PFLOP/s</mn></math>.</p>" in page


def test_formulas_that_differ_in_more_than_names_are_not_shared() -> None:
    """Projections of another shape, attention of a prompt and of one token."""
    shown_by = models(_explained("llama-3.1-8b"), "lengths")
    paths = {
        (path, phase): shown_by[op_key(phase, f"layers/{path}")].explanation.subject
        for path in ("attention/core", "attention/qkv_proj", "mlp/norm")
        for phase in ("prefill", "decode")
    }
    assert paths["attention/core", "prefill"] == paths["attention/core", "decode"] == "layers/attention/core"
    assert shown_by[op_key("decode", "layers/attention/core")].phase == "decode"
    assert paths["attention/qkv_proj", "decode"] == "layers/attention/qkv_proj"
    assert shown_by[op_key("decode", "layers/attention/qkv_proj")].phase == "prefill"  # with S_q = 1
    assert paths["mlp/norm", "decode"] == "layers/attention/norm"


def test_the_legend_has_every_symbol_once() -> None:
    """With the value that it has; what is explained here is no symbol of the legend."""
    text = formulas(_request("llama-3.1-8b"))
    rows = re.findall(r'<tr><td>(.*?)</td><td class="number">(.*?)</td><td>(.*?)</td></tr>', text)
    assert len({symbol for symbol, _, _ in rows}) == len(rows)
    named = {re.sub("<[^>]*>", "", symbol): re.sub("<[^>]*>|\u202f", "", value) for symbol, value, _ in rows}
    assert named == {
        "B": "3", "Sq": "1500", "Sc": "2700", "L": "32", "dmodel": "4096", "dff": "14336", "nq": "32", "nkv": "8",
        "dhead": "128", "V": "128256", "bw": "2", "ba": "2", "bkv": "2",
        "P": "989.4 TFLOP/s", "β": "4.8 TB/s", "Pv": "67 TFLOP/s",
    }  # fmt: skip


@pytest.mark.parametrize("model", CASES)
def test_only_harmless_elements_and_attributes(model: str) -> None:
    """No script, no style; links lead into the page or to https, and tell nobody where they were followed."""
    _check_harmless(_page(model))


def _check_harmless(page: _Page) -> None:
    html = {
        "details",
        "summary",
        "div",
        "dl",
        "dt",
        "dd",
        "p",
        "span",
        "a",
        "h3",
        "ol",
        "li",
        "table",
        "caption",
        "thead",
        "tbody",
    }
    math = {"math", "mrow", "mi", "mn", "mo", "mfrac", "msub", "msup"}
    known = {"class", "id", "role", "tabindex", "aria-label", "data-value", "href", "rel", "scope", "open", "mathvariant"}
    for tag, attributes in page.elements:
        assert tag in html | math | {"tr", "th", "td"}
        assert set(attributes) <= known
        if tag == "a" and not (attributes["href"] or "").startswith("#"):
            assert urlsplit(attributes["href"] or "").scheme == "https"
            assert attributes["rel"] == "noreferrer"
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {
        (attributes["href"] or "")[1:] for tag, attributes in page.elements if tag == "a" and "rel" not in attributes
    } <= ids


@pytest.mark.slow
def test_hostile_names_are_nothing_but_text() -> None:
    """Of layer types, which stand in paths, in ids and below symbols."""
    plain = load_model("deepseek-v2-lite")[0]
    names = {"dense": HOSTILE, "moe": "m" * 10_000}
    hostile = _renamed(plain, names)
    page, calm = _Page(formulas(prepare(hostile, H200))), _Page(formulas(prepare(plain, H200)))
    _check_harmless(page)
    wanted = {f"op-{op_key(phase, found.subject)}" for phase, found in explain_step(prepare(hostile, H200))}
    assert {box for box in page.boxes if box.startswith("op-")} == wanted
    assert len(wanted) == len(calm.boxes) - 1  # and the symbols
    shown = page.texts[f"op-{op_key('decode', f'layers/{HOSTILE}/attention/norm')}"]
    assert f"layers/{HOSTILE}/attention/norm".replace("\x00", "").replace("\u202e", "") in shown


def _renamed(model: Model, names: dict[str, str]) -> Model:
    return model.model_copy(
        update={
            "layer_types": {names[name]: layer for name, layer in model.layer_types.items()},
            "layers": tuple(
                group.model_copy(update={"pattern": tuple(names[name] for name in group.pattern)}) for group in model.layers
            ),
        }
    )


def test_what_has_no_formulas_says_why() -> None:
    """In one sentence, instead of formulas."""
    text = formulas(prepare(load_model("llama-3.1-8b")[0], H200, segments="2x64@100,1x1@500", shared_prefix=50))
    assert re.fullmatch(r'<p class="note">[^<]*--segments[^<]*</p>\n', text)


@pytest.mark.slow
def test_the_same_bytes_again() -> None:
    """Nothing depends on the order of sets."""
    request = _request("deepseek-v2-lite")
    assert formulas(request) == formulas(request)
    operators = _explained("deepseek-v2-lite")
    assert listed(operators, models(operators, "none")) == listed(operators, models(operators, "none"))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["prefill", "decode"]), st.text(alphabet="ab-25fF/_.é\u05ff\U0001f600 ")), max_size=8)
)
def test_keys_are_different_where_operators_are(operators: list[tuple[str, str]]) -> None:
    """Whatever a path is made of; an underscore before an "f" has the digits of U+05FF."""
    keys: dict[str, Any] = {}
    for phase, path in operators:
        key = op_key(phase, path)
        assert re.fullmatch(r"[A-Za-z0-9-]+", key)
        assert keys.setdefault(key, (phase, path)) == (phase, path)
    assert op_key("decode", "_f") != op_key("decode", "\u05ff")
