"""Ticks: round, in order, inside the axis, and saying the number at which they stand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.report.axes import Tick, axis_title, linear_ticks, log_ticks, tick_text
from roofline.report.figure import Axis
from roofline.units import parse_quantity

_NUMBERS = {"FLOP/byte", "tokens", "sequences", "", "GiB"}


def _read(text: str, unit: str) -> float:
    """What a reader takes a tick's text for; units are read by the parser of the spec files."""
    if text == "0":
        return 0.0
    if unit == "%":
        return float(text.removesuffix(" %").replace(",", "")) / 100
    if unit in _NUMBERS:
        return float(text.replace(",", ""))
    sign = -1 if text.startswith("-") else 1
    return sign * float(parse_quantity(text.removeprefix("-").replace(",", ""), {"B": "byte"}.get(unit, unit)))


def _check(ticks: list[Tick], low: float, high: float, unit: str, most: int) -> None:
    values = [tick.value for tick in ticks]
    slack = 1e-8 * (high - low)
    assert len(values) <= most
    assert all(before < after for before, after in pairwise(values))
    assert all(low - slack <= value <= high + slack for value in values)
    assert [_read(tick.text, unit) for tick in ticks] == pytest.approx(values, rel=1e-9, abs=1e-9 * (high - low))
    assert len({tick.text for tick in ticks}) == len(ticks)


@pytest.mark.parametrize("unit", ["s", "FLOP/s", "B", "FLOP/byte", "tokens", "%", ""])
@given(low=st.floats(-1e3, 1e3), length=st.floats(1e-2, 1e6), most=st.integers(4, 9))
def test_linear_ticks_say_where_they_stand(unit: str, low: float, length: float, most: int) -> None:
    if unit == "tokens":
        length += 2  # there are no fractions of tokens to put ticks at
    ticks = linear_ticks(low, low + length, unit, most)
    _check(ticks, low, low + length, unit, most)
    assert len(ticks) >= (1 if unit == "tokens" else 2)


@pytest.mark.parametrize(("unit", "lowest"), [("s", -9), ("FLOP/s", 0), ("FLOP/byte", -6), ("tokens", 0)])
@given(above=st.floats(0, 8), decades=st.floats(1, 9), most=st.integers(4, 9))
def test_logarithmic_ticks_say_where_they_stand(unit: str, lowest: int, above: float, decades: float, most: int) -> None:
    low = 10 ** (lowest + above)
    high = low * 10**decades
    ticks = log_ticks(low, high, unit, most)
    values = [tick.value for tick in ticks]
    assert 2 <= len(ticks) <= most
    assert all(before < after for before, after in pairwise(values))
    assert all(low * (1 - 1e-8) <= value <= high * (1 + 1e-8) for value in values)
    assert [_read(tick.text, unit) for tick in ticks] == pytest.approx(values, rel=1e-9)


def test_decades_have_their_own_prefixes() -> None:
    assert [tick.text for tick in log_ticks(1e-5, 1e-2, "s", 5)] == ["10 µs", "100 µs", "1 ms", "10 ms"]
    assert [tick.text for tick in log_ticks(1e12, 1e15, "FLOP/s", 5)] == ["1 TFLOP/s", "10 TFLOP/s", "100 TFLOP/s", "1 PFLOP/s"]


def test_a_linear_axis_has_one_prefix() -> None:
    assert [tick.text for tick in linear_ticks(0, 1.1e-3, "s", 7)] == ["0", "0.2 ms", "0.4 ms", "0.6 ms", "0.8 ms", "1 ms"]


def test_many_decades_are_thinned_and_few_are_filled() -> None:
    assert [tick.value for tick in log_ticks(1e-3, 1e12, "", 6)] == pytest.approx([1e-3, 1, 1e3, 1e6, 1e9, 1e12])
    assert [tick.value for tick in log_ticks(1, 90, "", 7)] == [1, 2, 5, 10, 20, 50]


def test_tokens_double() -> None:
    """2^7 to 2^17 is ten doublings: every second one makes six ticks."""
    values = [tick.value for tick in log_ticks(128, 131072, "tokens", 6)]
    assert values == [256, 1024, 4096, 16384, 65536]
    assert all(math.log2(value).is_integer() for value in values)


def test_there_is_no_half_of_a_sequence() -> None:
    assert [tick.value for tick in linear_ticks(0, 3, "sequences", 8)] == [0, 1, 2, 3]
    assert [tick.value for tick in linear_ticks(0, 11, "sequences", 5)] == [0, 5, 10], "nor steps of two and a half"


def test_seconds_have_no_prefix_above_one() -> None:
    assert tick_text(2000, "s") == "2,000 s"
    assert tick_text(2000, "W") == "2 kW"


@pytest.mark.parametrize(
    ("axis", "title"),
    [
        (Axis(title="TTFT", scale="log", unit="s"), "TTFT"),
        (Axis(title="change", scale="linear", unit="%"), "change"),
        (Axis(title="intensity", scale="log", unit="FLOP/byte"), "intensity, FLOP/byte"),
        (Axis(title="memory in GiB", scale="linear", unit="GiB"), "memory in GiB"),
        (Axis(title="", scale="linear", unit="GiB"), "GiB"),
        (Axis(title="batch", scale="category", unit="sequences"), "batch"),
    ],
)
def test_a_title_names_the_unit_that_ticks_do_not_carry(axis: Axis, title: str) -> None:
    assert axis_title(axis) == title
