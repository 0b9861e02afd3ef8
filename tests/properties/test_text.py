"""Whatever text comes in: a value, or one error of ours."""

from __future__ import annotations

import re
from copy import deepcopy
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import RooflineError, SpecError
from roofline.specs.library import shipped
from roofline.specs.workload import parse_segments
from roofline.specs.yaml_file import YamlFile, read_yaml
from roofline.text import clean, csv_cell, markdown_cell
from roofline.units import MAX_COUNT, parse_count, parse_quantity

LIGHT = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
UNITS = {"GiB": 2**30, "MiB": 2**20, "GB": 10**9, "kB": 10**3, "TiB": 2**40}


@LIGHT
@given(number=st.decimals(0, 10**12, allow_nan=False, allow_infinity=False, places=4), unit=st.sampled_from(sorted(UNITS)))
def test_quantities_are_exact(number: Any, unit: str) -> None:
    """A decimal number times its prefix, without a rounding on the way."""
    exact = Fraction(number) * UNITS[unit]
    parsed = parse_quantity(f"{number:f} {unit}", "byte")
    assert parsed == (int(exact) if exact.denominator == 1 else float(exact))


@LIGHT
@given(number=st.integers(0, MAX_COUNT))
def test_counts_are_exact(number: int) -> None:
    """Plain, grouped, and in k where it is whole."""
    assert parse_count(str(number)) == parse_count(f"{number:,}") == parse_count(f"{number:_}") == number
    if number * 1024 <= MAX_COUNT:
        assert parse_count(f"{number}k") == number * 1024


@pytest.mark.slow
@LIGHT
@given(text=st.text(max_size=60) | st.from_regex(r"[0-9.,_eExk+-]{0,20} ?[A-Za-z/]{0,8}", fullmatch=True))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    """Nothing but a RooflineError comes out of reading a flag."""
    for read in (lambda: parse_quantity(text, "byte"), lambda: parse_count(text), lambda: parse_segments(text)):
        try:
            value = read()
        except RooflineError:
            continue
        assert isinstance(value, (int, float, tuple))


@LIGHT
@given(text=st.text(alphabet=st.sampled_from("abc:-#&*![]{}|>'\"%@`,? \n\t~0123456789<."), max_size=80) | st.text(max_size=40))
def test_any_yaml_is_data_or_an_error(tmp_path: Path, text: str) -> None:
    """A file of any text is a mapping or one SpecError."""
    path = tmp_path / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        answer: object = read_yaml(path).data
    except SpecError as error:
        answer = str(error)
    assert isinstance(answer, dict) or str(answer).startswith(str(path))


values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers(), max_size=2)
    | st.just({"kind": "gqa"})
)


@cache
def _right() -> YamlFile:
    """A model's file as it is shipped."""
    return read_yaml(shipped("models") / "gpt-oss-20b.yaml")


@pytest.mark.slow
@LIGHT
@given(data=st.data(), value=values)
def test_any_value_anywhere_is_a_model_or_an_error(data: st.DataObject, value: object) -> None:
    """Whatever stands in the place of one value of a model's file, it is a model or one SpecError with a line."""
    file = _right()
    data_of_file = deepcopy(file.data)
    node: Any = data_of_file
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node)))))
        if isinstance(node[key], (dict, list)) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = value
        break
    try:
        answer: object = YamlFile(file.path, data_of_file, file.marks, "").validate(Model)
    except SpecError as error:
        answer = error.line
    assert isinstance(answer, (Model, int))


@LIGHT
@given(text=st.text(max_size=30))
def test_cleaned_text_is_harmless(text: str) -> None:
    """No controls; no formula at the start of a cell; no bare sign of Markdown."""
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", clean(text))
    assert not str(csv_cell(text)).startswith(("=", "+", "-", "@"))
    assert not re.search(r"(?<!\\)(\\\\)*[|<>`]", markdown_cell(text))


@pytest.mark.slow
@LIGHT
@given(name=st.text(max_size=20))
@example(name="~no-such-user")
@example(name="a\x00/b")
def test_any_name_is_a_model_or_an_error(name: str) -> None:
    """Looking a name up never does anything but find or refuse."""
    try:
        model, _ = load_model(name)
    except RooflineError:
        return
    assert model.name


def test_the_suite_has_something_to_find() -> None:
    """The file that is broken above loads when nothing is broken."""
    with pytest.raises(SpecError):
        read_yaml(shipped("models") / "nowhere.yaml")
    assert load_model("gpt-oss-20b")[0].name == "gpt-oss-20b"
