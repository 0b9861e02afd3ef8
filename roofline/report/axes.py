"""Axes of a figure: widths of texts, ticks, ranges, categories, and the places of bars."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.report.figure import Axis, Figure, Series

_NARROW = "iljrtfI.,:;|'!()[] "
_WIDE = "mwMW@%—…"


def text_width(text: str, size: float) -> float:
    """Pixels of a text in a sans-serif face of `size` pixels, rather more than less.

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
    """At most `most` characters, the last an ellipsis where some are missing.

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


# Spans: range, categories and ticks of an axis, and the places of bars

_BAR = 0.66
"""Share of a category that its bars take."""
_HUGE = 1e300
"""Beyond it is no number that can be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One axis, ready to draw. Categories stand at 0, 1, 2, ...; on y they go from top to bottom."""

    scale: str
    low: float
    high: float
    categories: tuple[str, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a series' bars stand: from `offset` on, `width` wide, in categories, around the category's place."""

    offset: float
    width: float


def span(figure: Figure, side: str, most: int, length: float = 640.0) -> Span:
    """The axis on `side` ("x" or "y") with at most `most` ticks, or one tick a category.

    `length` is its length in pixels, about: bars that have texts at their ends leave space for them.
    """
    axis = figure.x if side == "x" else figure.y
    if axis.scale == "category":
        names = _categories(figure, side)
        places = tuple(Tick(value=float(index), text=name) for index, name in enumerate(names))
        return Span(scale="category", low=-0.5, high=max(len(names), 1) - 0.5, categories=tuple(names), ticks=places)
    low, high = _log_range(figure, side, axis) if axis.scale == "log" else _linear_range(figure, side, axis, length)
    make = log_ticks if axis.scale == "log" else linear_ticks
    return Span(scale=axis.scale, low=low, high=high, categories=(), ticks=tuple(make(low, high, axis.unit, most)))


def position(on: Span, value: float | str | None) -> float | None:
    """A value's place on its axis in units of the axis; None for what cannot be drawn.

    >>> lane = Span(scale="category", low=-0.5, high=1.5, categories=("compute", "memory"), ticks=())
    >>> position(lane, "memory"), position(lane, "link")
    (1.0, None)
    """
    if value is None:
        return None
    if on.scale == "category":
        name = category(value)
        return float(on.categories.index(name)) if name in on.categories else None
    if isinstance(value, str) or not drawable(value) or (on.scale == "log" and value <= 0):
        return None
    return value


def share(on: Span, place: float) -> float:
    """A place as a share of the axis, 0 at its low end and 1 at its high end.

    >>> share(Span(scale="log", low=1, high=100, categories=(), ticks=()), 10)
    0.5
    """
    if on.scale == "log":
        return math.log(max(place, on.low * 1e-9) / on.low) / math.log(on.high / on.low)
    return (place - on.low) / (on.high - on.low)


def category(value: float | str) -> str:
    """A category's name; numbers can be categories too.

    >>> category(4096), category("8k")
    ('4,096', '8k')
    """
    return value if isinstance(value, str) else f"{value:,.12g}"


def drawable(value: float) -> bool:
    """Whether a number is finite."""
    return -_HUGE < value < _HUGE


def lying(figure: Figure) -> bool:
    """Whether bars lie: their categories are on y."""
    return figure.y.scale == "category"


def slots(figure: Figure) -> list[Slot]:
    """The place of each series' bars in a category: all the same, or side by side where they would cover one another."""
    bars = [index for index, series in enumerate(figure.series) if series.kind == "bars"]
    whole = Slot(offset=-_BAR / 2, width=_BAR)
    if not _cover(figure):
        return [whole for _ in figure.series]
    each = _BAR / len(bars)
    return [
        Slot(offset=-_BAR / 2 + bars.index(index) * each, width=each) if index in bars else whole
        for index, _ in enumerate(figure.series)
    ]


def ends(series: Series, index: int, lies: bool) -> tuple[float, float]:
    """Where a bar starts and ends along its length; an absent length is 0."""
    length = series.x[index] if lies else series.y[index]
    start = series.base[index] if len(series.base) > 0 else 0.0
    return start, start + (0.0 if length is None or isinstance(length, str) else length)


def _cover(figure: Figure) -> bool:
    """Whether bars of two series overlap in some category by more than rounding."""
    lies = lying(figure)
    seen: dict[str, list[tuple[int, float, float]]] = {}
    for number, series in enumerate(figure.series):
        if series.kind != "bars":
            continue
        for index, name in enumerate(series.y if lies else series.x):
            start, end = ends(series, index, lies)
            low, high = min(start, end), max(start, end)
            bars = seen.setdefault("" if name is None else category(name), [])
            for other, lowest, highest in bars:
                if other != number and min(high, highest) - max(low, lowest) > 1e-6 * max(high - low, highest - lowest):
                    return True
            bars.append((number, low, high))
    return False


def _categories(figure: Figure, side: str) -> list[str]:
    names: list[str] = []
    for series in figure.series:
        for value in series.x if side == "x" else series.y:
            if value is not None and category(value) not in names:
                names.append(category(value))
    return names


def _reached(figure: Figure, side: str) -> list[float]:
    """Every number that has to be inside the axis."""
    reached: list[float] = []
    for series in figure.series:
        along = series.x if side == "x" else series.y
        if series.kind == "bars" and (side == "x") == lying(figure):
            for index, _ in enumerate(along):
                reached += ends(series, index, lying(figure))
        elif series.kind == "band" and side == "y":
            reached += [*series.low, *series.high]
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
    bars = [series for series in figure.series if series.kind == "bars" and (side == "x") == lying(figure)]
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
