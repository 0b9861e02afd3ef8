"""Where an axis has its ticks, and what they say: round numbers, with SI prefixes where the unit takes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.report.figure import Axis

_PREFIXED = ("s", "B", "B/s", "byte/s", "FLOP", "FLOP/s", "OP/s", "W", "Hz", "J")
_PREFIXES = (
    ("E", 1e18),
    ("P", 1e15),
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("", 1.0),
    ("m", 1e-3),
    ("µ", 1e-6),
    ("n", 1e-9),
)
_COUNTS = ("tokens", "sequences", "devices")
"""Whole numbers, which people double: linear axes have no fractions of them, logarithmic ones have powers of two."""
_MANTISSAS = ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_SLACK = 1e-9
"""Share of a step by which a tick may miss the edge of its axis: the rounding of logarithms and products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A place on an axis, in base units, and its text."""

    value: float
    text: str


def tick_text(value: float, unit: str) -> str:
    """A tick's text, with the prefix that suits it.

    >>> tick_text(1e-05, "s"), tick_text(2e14, "FLOP/s"), tick_text(16384, "tokens"), tick_text(-0.2, "%")
    ('10 µs', '200 TFLOP/s', '16,384', '-20 %')
    """
    return _text(value, unit, value)


def axis_title(axis: Axis) -> str:
    """The title, with the unit where the ticks do not carry it.

    >>> axis_title(Axis(title="prompt", scale="log", unit="tokens")), axis_title(Axis(title="time", scale="log", unit="s"))
    ('prompt, tokens', 'time')
    """
    carried = axis.unit in ("", "%") or axis.unit in _PREFIXED or axis.unit in axis.title
    if carried or axis.scale == "category":
        return axis.title
    return f"{axis.title}, {axis.unit}" if axis.title != "" else axis.unit


def linear_ticks(low: float, high: float, unit: str, most: int) -> list[Tick]:
    """At most `most` multiples of 1, 2, 2.5 or 5 times a power of ten within the axis, all with one prefix.

    No step is more than twice the one before it, so that four places or more are never left with a single tick.

    >>> [tick.text for tick in linear_ticks(0, 0.0123, "s", 7)]
    ['0', '2 ms', '4 ms', '6 ms', '8 ms', '10 ms', '12 ms']
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    if unit in _COUNTS:
        power = max(power, 1.0)
    values: list[float] = []
    for times in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0):
        whole = unit not in _COUNTS or power >= 10 or times != 2.5
        values = _multiples(low, high, times * power)
        if whole and len(values) <= most:
            break
    like = max(abs(low), abs(high)) if unit in _PREFIXED else 0.0
    return [Tick(value=value, text="0" if abs(value) < power / 2 else _text(value, unit, like)) for value in values]


def log_ticks(low: float, high: float, unit: str, most: int) -> list[Tick]:
    """At most `most` powers of ten, or of two where people double, or multiples of a power within a short axis.

    >>> [tick.text for tick in log_ticks(2e-06, 0.5, "s", 8)]
    ['10 µs', '100 µs', '1 ms', '10 ms', '100 ms']
    >>> [tick.text for tick in log_ticks(100, 140000, "tokens", 6)]
    ['256', '1,024', '4,096', '16,384', '65,536']
    """
    values = _powers_of_two(low, high, most) if unit in _COUNTS else _decades(low, high, most)
    if len(values) < 3:
        return linear_ticks(low, high, unit, most)
    return [Tick(value=value, text=tick_text(value, unit)) for value in values]


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - _SLACK), math.floor(high / step + _SLACK)
    return [count * step for count in range(first, last + 1)]


def _powers_of_two(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log2(low) - _SLACK), math.floor(math.log2(high) + _SLACK)
    stride = max(1, math.ceil((last - first + 1) / most))
    return [2.0**exponent for exponent in range(math.ceil(first / stride) * stride, last + 1, stride)]


def _decades(low: float, high: float, most: int) -> list[float]:
    """The richest choice of multiples that is not too many; powers of ten with gaps where even those are."""
    first, last = math.floor(math.log10(low) + _SLACK), math.ceil(math.log10(high) - _SLACK)
    powers: list[float] = []
    for mantissas in _MANTISSAS:
        powers = [times * 10.0**exponent for exponent in range(first, last + 1) for times in mantissas]
        powers = [value for value in powers if low * (1 - _SLACK) <= value <= high * (1 + _SLACK)]
        if len(powers) <= most:
            return powers
    stride = math.ceil(len(powers) / most)
    return [value for value in powers if round(math.log10(value)) % stride == 0]


def _text(value: float, unit: str, like: float) -> str:
    """With the prefix that suits `like`. Seconds have none above 1, for 1,000 s is no ks; counts have none below."""
    if unit == "%":
        return f"{100 * value:,.12g} %"
    if unit not in _PREFIXED:
        return f"{value:,.12g}"
    highest, lowest = (1.0 if unit == "s" else 1e18), (1e-9 if unit in ("s", "J", "W") else 1.0)
    usable = [entry for entry in _PREFIXES if lowest <= entry[1] <= highest]
    fitting = [entry for entry in usable if abs(like) >= entry[1] * (1 - _SLACK)]
    prefix, scale = fitting[0] if len(fitting) > 0 else usable[len(usable) - 1]
    return f"{value / scale:,.12g} {prefix}{unit}"
