"""Axes of a figure: widths of texts, ticks, ranges, categories, and the positions of bars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

from roofline.report.figure import Axis, Figure, Series

_Value = TypeVar("_Value")
_NARROW = "iljrtfI.,:;|'!()[] "
_WIDE = "mwMW@%—…"


def text_width(text: str, size: float) -> float:
    """Estimated width in pixels of a text in a sans-serif font of `size` pixels; rather too wide than too narrow.

    >>> text_width("ms", 10) < text_width("MS", 10) < text_width("100 ms", 10)
    True
    """
    widths = [_letter(letter) for letter in text]
    return size * sum(widths)


def _letter(letter: str) -> float:
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.9
    if "A" <= letter <= "Z":
        return 0.71
    return 0.61 if letter < "\u1100" else 1.0


def shorten(text: str, most: int) -> str:
    """The text cut to at most `most` characters, the last of which is an ellipsis if any are missing.

    >>> shorten("achievable", 6), shorten("roof", 6)
    ('achie…', 'roof')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


# Ticks: round numbers, with SI prefixes where the unit takes them

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
    """A tick of an axis: its value in the axis' base unit (a category's index), and its text."""

    value: float
    text: str


def tick_text(value: float, unit: str) -> str:
    """A tick's text: the value, in the base unit `unit`, with the SI prefix that suits it; "%" takes a fraction.

    >>> tick_text(1e-05, "s"), tick_text(2e14, "FLOP/s"), tick_text(16384, "tokens"), tick_text(-0.2, "%")
    ('10 µs', '200 TFLOP/s', '16,384', '-20 %')
    """
    return _text(value, unit, value)


def axis_title(axis: Axis) -> str:
    """The axis' title, followed by the unit where the ticks do not show it.

    >>> axis_title(Axis(title="prompt", scale="log", unit="tokens")), axis_title(Axis(title="time", scale="log", unit="s"))
    ('prompt, tokens', 'time')
    """
    carried = axis.unit in ("", "%") or axis.unit in _PREFIXED or axis.unit in axis.title
    if carried or axis.scale == "category":
        return axis.title
    return f"{axis.title}, {axis.unit}" if axis.title != "" else axis.unit


def linear_ticks(low: float, high: float, unit: str, most: int) -> list[Tick]:
    """At most `most` ticks at multiples of 1, 2, 2.5 or 5 times a power of ten, all with one SI prefix.

    No step is more than twice the one before it, so that with `most` of 4 or more there is never a single tick. `low` and
    `high` are the ends of the axis in base units of `unit`, `high` the larger one.

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
    """At most `most` ticks at powers of ten, or of two for counts such as tokens; linear ones on a short axis.

    `low` and `high` are the ends of the axis in base units of `unit`, above 0.

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


# Spans: range, categories and ticks of an axis, and the places of bars

_FEWEST_TICKS = 4
"""Ticks at most, below which no axis goes so that texts do not meet: with fewer there may be a single one."""
TICK_GAP = 6.0
"""Pixels between texts of ticks side by side, at the least."""
_BAR = 0.66
"""Share of a category that its bars take."""
_HUGE = 1e300
"""Beyond it is no number that can be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One axis, ready to draw: its range in base units. Categories are at 0, 1, 2, ...; on y they go from top to bottom."""

    scale: str
    low: float
    high: float
    categories: tuple[str, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a series' bars are: from `offset` on, `width` wide, both in categories, relative to the category's index."""

    offset: float
    width: float


def span(figure: Figure, side: str, most: int, length: float = 640.0) -> Span:
    """The axis on `side` ("x" or "y") with at most `most` ticks, or one tick per category.

    `length` is its approximate length in pixels: bars with texts at their ends leave space for them.
    """
    axis = figure.x if side == "x" else figure.y
    if axis.scale == "category":
        names = _categories(figure, side)
        places = [Tick(value=float(index), text=name) for index, name in enumerate(names)]
        end = max(len(names), 1) - 0.5
        if side == "x" and len([name for name in names if _is_number(name)]) == len(names):
            places = _thinned(places, -0.5, end, "category", length)
        return Span(scale="category", low=-0.5, high=end, categories=tuple(names), ticks=tuple(places))
    low, high = _log_range(figure, side, axis) if axis.scale == "log" else _linear_range(figure, side, axis, length)
    make = log_ticks if axis.scale == "log" else linear_ticks
    ticks = make(low, high, axis.unit, most)
    while side == "x" and most > _FEWEST_TICKS and _crowded(ticks, low, high, axis.scale, length):
        most -= 1
        ticks = make(low, high, axis.unit, most)
    if side == "x":
        ticks = _thinned(ticks, low, high, axis.scale, length)
    if axis.unit in _PREFIXED and axis.title.endswith(f" {axis.unit}"):  # the title says it once
        ticks = [Tick(value=tick.value, text=tick.text.removesuffix(axis.unit).strip()) for tick in ticks]
    return Span(scale=axis.scale, low=low, high=high, categories=(), ticks=tuple(ticks))


def _thinned(ticks: list[Tick], low: float, high: float, scale: str, length: float) -> list[Tick]:
    """Every tick, or every second, third, ... where the texts of more would meet: two or more, with zero if that can be."""
    stride, thinned = 1, ticks
    while 2 * stride < len(ticks) and _crowded(thinned, low, high, scale, length):
        stride += 1
        zeros = [index for index, tick in enumerate(ticks) if tick.value == 0 and scale == "linear"]
        first = zeros[0] % stride if len(zeros) > 0 and zeros[0] % stride + stride < len(ticks) else 0
        thinned = [tick for index, tick in enumerate(ticks) if index % stride == first]
    return thinned


def _is_number(name: str) -> bool:
    """Whether a category is a number, so that its place says it even where its text is left out."""
    return len(name) > 0 and len([letter for letter in name if letter in "0123456789.,"]) == len(name)


def _crowded(ticks: list[Tick], low: float, high: float, scale: str, length: float) -> bool:
    """Whether the texts of some ticks would meet on a horizontal axis of `length` pixels."""
    on = Span(scale=scale, low=low, high=high, categories=(), ticks=())
    return nearest([share(on, tick.value) * length for tick in ticks], [tick.text for tick in ticks]) < TICK_GAP


def nearest(places: list[float], texts: list[str]) -> float:
    """Pixels between the two texts of ticks that are nearest to one another, each in the middle of its place; 1e9 of one."""
    widths = [text_width(text, 12) for text in texts]
    gaps = [places[index + 1] - places[index] - (widths[index] + widths[index + 1]) / 2 for index in range(len(places) - 1)]
    return min(gaps, default=1e9)


def position(on: Span, value: float | str | None) -> float | None:
    """A value's position on its axis in base units, or the index of its category; None if it cannot be drawn.

    Not drawn are None, an unknown category, what is not finite, and 0 or less on a logarithmic axis.

    >>> lane = Span(scale="category", low=-0.5, high=1.5, categories=("compute", "memory"), ticks=())
    >>> position(lane, "memory"), position(lane, "link")
    (1.0, None)
    """
    if value is None:
        return None
    if on.scale == "category":
        name = _category(value)
        return float(on.categories.index(name)) if name in on.categories else None
    if isinstance(value, str) or not drawable(value) or (on.scale == "log" and value <= 0):
        return None
    return value


def share(on: Span, place: float) -> float:
    """A position as a fraction of the axis: 0 at its low end, 1 at its high end.

    >>> share(Span(scale="log", low=1, high=100, categories=(), ticks=()), 10)
    0.5
    """
    if on.scale == "log":
        return math.log(max(place, on.low * 1e-9) / on.low) / math.log(on.high / on.low)
    return (place - on.low) / (on.high - on.low)


def _category(value: float | str) -> str:
    """A category's name; numbers can be categories too.

    >>> _category(4096), _category("8k")
    ('4,096', '8k')
    """
    return value if isinstance(value, str) else f"{value:,.12g}"


def evenly_spaced(values: list[_Value], most: int) -> list[_Value]:
    """At most `most` (2 or more) of some values, evenly spaced, with the first and the last.

    >>> evenly_spaced([1, 2, 4, 8, 16, 32], 3)
    [1, 4, 32]
    """
    if len(values) <= most:
        return values
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def drawable(value: float) -> bool:
    """Whether a number is finite."""
    return -_HUGE < value < _HUGE


def has_horizontal_bars(figure: Figure) -> bool:
    """Whether the figure's bars are horizontal, which they are if its categories are on y."""
    return figure.y.scale == "category"


def slots(figure: Figure) -> list[Slot]:
    """For each series, where its bars are within a category: all at the same place, or side by side if they would overlap."""
    bars = [index for index, series in enumerate(figure.series) if series.kind == "bars"]
    whole = Slot(offset=-_BAR / 2, width=_BAR)
    if not _cover(figure):
        return [whole for _ in figure.series]
    each = _BAR / len(bars)
    return [
        Slot(offset=-_BAR / 2 + bars.index(index) * each, width=each) if index in bars else whole
        for index, _ in enumerate(figure.series)
    ]


def bar_ends(series: Series, index: int, lies: bool) -> tuple[float, float]:
    """Where bar `index` of a series starts and ends along its length, in units of that axis; an absent length counts as 0.

    `lies` says that bars are horizontal, so that their lengths are on x.
    """
    length = series.x[index] if lies else series.y[index]
    start = series.base[index] if len(series.base) > 0 else 0.0
    return start, start + (0.0 if length is None or isinstance(length, str) else length)


def _cover(figure: Figure) -> bool:
    """Whether bars of two series overlap in some category by more than rounding."""
    lies = has_horizontal_bars(figure)
    seen: dict[str, list[tuple[int, float, float]]] = {}
    for number, series in enumerate(figure.series):
        if series.kind != "bars":
            continue
        for index, name in enumerate(series.y if lies else series.x):
            start, end = bar_ends(series, index, lies)
            low, high = min(start, end), max(start, end)
            bars = seen.setdefault("" if name is None else _category(name), [])
            for other, lowest, highest in bars:
                if other != number and min(high, highest) - max(low, lowest) > 1e-6 * max(high - low, highest - lowest):
                    return True
            bars.append((number, low, high))
    return False


def _categories(figure: Figure, side: str) -> list[str]:
    names: list[str] = []
    for series in figure.series:
        for value in series.x if side == "x" else series.y:
            if value is not None and _category(value) not in names:
                names.append(_category(value))
    return names


def _reached(figure: Figure, side: str) -> list[float]:
    """Every number that has to be inside the axis."""
    reached: list[float] = []
    for series in figure.series:
        along = series.x if side == "x" else series.y
        if series.kind == "bars" and (side == "x") == has_horizontal_bars(figure):
            for index, _ in enumerate(along):
                reached += bar_ends(series, index, has_horizontal_bars(figure))
        elif series.kind == "band" and side == "y":
            reached += [*series.low, *series.high]
        elif series.kind == "band" and len(series.x_high) > 0:
            reached += [value for value in along if value is not None and not isinstance(value, str)]
            reached += [*series.x_high]
        else:
            reached += [value for value in along if value is not None and not isinstance(value, str)]
    for mark in figure.marks:
        place = mark.x if side == "x" else mark.y
        reached += [] if place is None else [place]
    for zone in figure.zones:
        edges = (zone.x0, zone.x1) if side == "x" else (zone.y0, zone.y1)
        reached += [edge for edge in edges if edge is not None]
    return [value for value in reached if drawable(value)]


def _linear_range(figure: Figure, side: str, axis: Axis, length: float) -> tuple[float, float]:
    reached = _reached(figure, side)
    low, high = min(reached, default=0.0), max(reached, default=1.0)
    bars = [series for series in figure.series if series.kind == "bars" and (side == "x") == has_horizontal_bars(figure)]
    if len(bars) > 0 or 0 <= low < 0.4 * high:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        low, high = low - max(abs(low) / 2, 0.5), high + max(abs(high) / 2, 0.5)
    texts = [
        text_width(text, 11) + 14 if side == "x" else 18.0 for series in bars if len(series.base) == 0 for text in series.short
    ]
    reserved = min(max(texts, default=0.0) / length, 0.3)
    pad = (high - low) * max(reserved / (1 - 2 * reserved), 0.05)
    padded = low if low == 0 else low - pad, high if high == 0 else high + pad
    return _given(axis, padded, -_HUGE)


def _log_range(figure: Figure, side: str, axis: Axis) -> tuple[float, float]:
    reached = [value for value in _reached(figure, side) if value > 0]
    low, high = min(reached, default=1.0), max(reached, default=10.0)
    factor = max((high / low) ** 0.06, 1.15)
    return _given(axis, (low / factor, high * factor), 0.0)


def _given(axis: Axis, fitted: tuple[float, float], above: float) -> tuple[float, float]:
    """The axis' own ends where it has them and they make a range."""
    low = fitted[0] if axis.low is None or axis.low <= above else axis.low
    high = fitted[1] if axis.high is None else axis.high
    return (low, high) if low < high else fitted
