"""How a role looks: one table of hues, symbols, dashes and hatches, so that nothing depends on colour alone.

A hue has one meaning on all pages: blue is prefill and TTFT, orange decode and TPOT, gold ITL, ink E2E; green is compute, pink
memory and what it holds, purple links; grey is what no resource does, red a limit.

Hues keep 4.5:1 against the ground, so that texts on them can be read, and stay distinct for eyes without one kind of cone.
The same hues are custom properties in `reports/figures.css`, for the static pictures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from roofline.report.axes import drawable
from roofline.report.figure import Figure, Series

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "grey": "#646d78",
    "grid": "#dfe3e8",
    "blue": "#2272b8",
    "orange": "#b85a0c",
    "green": "#067a4c",
    "purple": "#5423a0",
    "pink": "#8d1060",
    "red": "#8c1d14",
    "gold": "#797234",
}
DARK = {
    "ground": "#12161b",
    "ink": "#e6e9ed",
    "grey": "#98a2ad",
    "grid": "#2b333c",
    "blue": "#8cc4f2",
    "orange": "#f2a860",
    "green": "#3fe8a8",
    "purple": "#b871f0",
    "pink": "#fa4d93",
    "red": "#e0605f",
    "gold": "#e8d52c",
}
FAINT = {
    colour: f"rgba({','.join(str(int(colour[start : start + 2], 16)) for start in (1, 3, 5))},0.19)"
    for table in (LIGHT, DARK)
    for colour in table.values()
}
"""Each of these colours, letting the ground through. As `rgba()`: not every plotly takes a hexadecimal opacity."""
HEAT_LIGHT = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")
HEAT_DARK = ("#12284d", "#173f74", "#1b5a94", "#1f78ab", "#2f97b7", "#53b4bb", "#84cdbd", "#bbe3c3", "#edf8d0")
HEAT_LIGHT_TEXT = ("#000", "#000", "#000", "#000", "#000", "#000", "#fff", "#fff", "#fff")
HEAT_DARK_TEXT = ("#fff", "#fff", "#fff", "#fff", "#000", "#000", "#000", "#000", "#000")

_HUES = ("blue", "orange", "green", "purple", "pink")
_BARE_HUES = ("purple", "pink", "green", "orange", "blue")
"""Lines without symbols are roofs and borders: their variants keep away from the hues of what lies under them."""
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down")
_DASHES = ("solid", "dash", "dashdot", "dot", "longdash")
_HATCHES = ("", "/", "x", "\\", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a role looks, in plotly's names. Without a symbol a line is bare; `hollow` is an outline alone."""

    hue: str
    symbol: str = ""
    dash: str = "solid"
    hatch: str = ""
    hollow: bool = False


_ROLES = {
    # phases
    "encoder": Look(hue="blue", symbol="diamond", dash="dot", hatch="."),
    "prefill": Look(hue="blue", symbol="circle"),
    "decode": Look(hue="orange", symbol="square", dash="dash", hatch="/"),
    "mixed": Look(hue="green", symbol="triangle-up", dash="dashdot", hatch="x"),
    "at-bound": Look(hue="grey", symbol="circle", hollow=True),
    "gap": Look(hue="grey"),
    # the time of a phase by operator
    "encoder-time": Look(hue="blue"),
    "prefill-time": Look(hue="blue"),
    "decode-time": Look(hue="orange"),
    "mixed-time": Look(hue="green"),
    "bound-mark": Look(hue="ink", symbol="line-ns"),
    "encoder-card": Look(hue="blue", symbol="diamond"),
    "prefill-card": Look(hue="blue", symbol="circle"),
    "decode-card": Look(hue="orange", symbol="square"),
    "mixed-card": Look(hue="green", symbol="triangle-up"),
    # latencies: estimates along something, and their bound
    "ttft": Look(hue="blue", symbol="circle"),
    "tpot": Look(hue="orange", symbol="circle"),
    "bare-bound": Look(hue="ink", dash="dash"),
    # distributions and objectives of latencies
    "TTFT": Look(hue="blue"),
    "TPOT": Look(hue="orange", dash="dash"),
    "ITL": Look(hue="gold", dash="dashdot"),
    "E2E": Look(hue="ink", dash="longdash"),
    # a server over time, without symbols
    "requests": Look(hue="ink"),
    "waiting": Look(hue="grey", dash="dash"),
    "prompts": Look(hue="blue"),
    "outputs": Look(hue="orange"),
    "blocks": Look(hue="pink"),
    # roofs
    "roof": Look(hue="ink"),
    "roof-achievable": Look(hue="grey", dash="dot"),
    # what a time goes to
    "compute": Look(hue="green", symbol="circle"),
    "memory": Look(hue="pink", symbol="square", dash="dash", hatch="/"),
    "link": Look(hue="purple", symbol="triangle-up", dash="dashdot", hatch="x"),
    "overhead": Look(hue="grey", symbol="diamond", dash="dot", hatch="."),
    # ways of bringing a sequence back, besides computing (compute) and copies of blocks (link)
    "gathered": Look(hue="purple", symbol="square", dash="dot", hatch="\\", hollow=True),
    "split": Look(hue="ink", dash="longdash", hatch="+"),
    # what a memory holds
    "weights": Look(hue="pink", symbol="circle"),
    "tower": Look(hue="pink", symbol="triangle-down", dash="dot", hatch="-"),
    "kv": Look(hue="pink", symbol="square", dash="dash", hatch="/"),
    "state": Look(hue="pink", symbol="diamond", dash="dashdot", hatch="\\"),
    "activations": Look(hue="pink", symbol="triangle-up", dash="longdash", hatch="x"),
    "reserve": Look(hue="grey", symbol="diamond", dash="dot", hatch="."),
    "draft": Look(hue="ink", symbol="x", dash="longdash", hatch="+"),
    "free": Look(hue="grey", symbol="circle", hollow=True),
    "missing": Look(hue="red", symbol="x"),
    # the basis of a number
    "bound": Look(hue="blue", symbol="circle", dash="dot", hollow=True),
    "estimate": Look(hue="blue", symbol="circle"),
    "sum": Look(hue="purple", symbol="diamond", dash="dashdot", hatch="\\"),
    "measured": Look(hue="ink", symbol="x", dash="longdash", hatch="+"),
    "pinned": Look(hue="grey", symbol="diamond", dash="dashdot", hatch="\\", hollow=True),
    # borders
    "slo": Look(hue="ink", dash="dash", hatch="."),
    "limit": Look(hue="red", symbol="x", dash="longdash", hatch="-"),
    "critical": Look(hue="ink", dash="dashdot"),
    "capacity": Look(hue="red", symbol="line-ns"),
    # directions of a change
    "less": Look(hue="grey", symbol="triangle-down"),
    "more": Look(hue="ink", symbol="triangle-up", dash="dash", hatch="/"),
}


_CARDS = ("encoder-card", "prefill-card", "decode-card", "mixed-card")
"""Roles whose variants, phases on other hardware, keep the hue and differ in the symbol."""


def look(role: str, variant: int = 0) -> Look:
    """The look of a role. A variant has the next hue, and the next symbol, or the next dash of a line without symbols.

    >>> look("estimate", 1).symbol, look("estimate", 1).hue, look("roof", 1).dash
    ('square', 'orange', 'dash')
    """
    first = _ROLES[role]
    if variant == 0:
        return first
    if role in _CARDS:
        return replace(first, symbol=_next(_SYMBOLS, first.symbol, 2 * variant))
    if first.symbol == "":
        return Look(hue=_next(_BARE_HUES, first.hue, variant), dash=_next(_DASHES, first.dash, variant), hatch=first.hatch)
    return Look(
        hue=_next(_HUES, first.hue, variant),
        symbol=_next(_SYMBOLS, first.symbol, variant),
        dash=first.dash,
        hatch=_next(_HATCHES, first.hatch, variant),
        hollow=first.hollow,
    )


def looks(figure: Figure) -> list[Look]:
    """The look of each series; a series without a variant is counted among those of its kind and role.

    A heat map takes its colours from its values, and none from its role.
    """
    counts: dict[str, int] = {}
    styles: list[Look] = []
    for series in figure.series:
        same = f"{series.kind} {series.role}"
        number = counts.get(same, 0)
        counts[same] = number + 1
        variant = number if series.variant is None else series.variant
        styles.append(Look(hue="ink") if series.kind == "heat" else look(series.role, variant))
    return styles


def in_legend(figure: Figure) -> list[bool]:
    """For each series, whether it has an entry in the legend: one per name with points, of what is no band if any."""
    listed: list[bool] = []
    for index, series in enumerate(figure.series):
        same = [i for i, other in enumerate(figure.series) if other.name == series.name]
        solid = [i for i in same if figure.series[i].kind != "band"]
        listed.append(series.name != "" and len(series.x) > 0 and index == (solid[0] if len(solid) > 0 else same[0]))
    return listed


def _next(among: tuple[str, ...], first: str, variant: int) -> str:
    """The one that lies `variant` places after `first`; what is not among them comes before them."""
    start = among.index(first) if first in among else -1
    return among[(start + variant) % len(among)]


# Heat maps: how dark each cell is, and what the legend says

STEPS = 9
"""Shades of a heat, as many as its tables of colours hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The range of a heat map's values; wide ranges are shaded by their logarithm."""

    low: float
    high: float
    log: bool

    def shade(self, value: float | None) -> int | None:
        """The shade of a value, 0 to 8; None for no value.

        >>> [Ramp(low=1, high=1000, log=True).shade(value) for value in (1, 30, 1000, None)]
        [0, 4, 8, None]
        """
        if value is None or not drawable(value):
            return None
        if self.low == self.high:
            return STEPS // 2
        part = (value - self.low) / (self.high - self.low)
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        return min(max(math.floor(part * STEPS), 0), STEPS - 1)

    def edge(self, shade: int) -> float:
        """Where a shade begins, as a fraction of the range of values; shade 9 would begin at 1."""
        if not self.log:
            return shade / STEPS
        grown: float = (self.high / self.low) ** (shade / STEPS)
        return (grown - 1) / (self.high / self.low - 1)


def ramp(series: Series) -> Ramp:
    """The range of the shades of a heat map: its own, else that of the values in colour, which hatched cells have not."""
    values = [value for value, _ in (series.shades if len(series.shades) > 0 else _coloured(series))]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return Ramp(low=low, high=high, log=low > 0 and high >= 8 * low)


def is_hatched(series: Series, row: int, column: int) -> bool:
    """Whether a cell is hatched; series without hatches have none."""
    return len(series.hatched) > 0 and series.hatched[row][column]


def cell_text(series: Series, row: int, column: int) -> str:
    """Text of a cell of a heat map, its lines separated by line feeds; "" if the map has no texts."""
    return series.texts[row][column] if len(series.texts) > 0 else ""


def steps(series: Series) -> list[tuple[int, str]]:
    """For the legend of a heat map: shade (0 to 8) and text of the lowest, the middle and the highest value."""
    cells = sorted(series.shades if len(series.shades) > 0 else _coloured(series), key=lambda cell: cell[0])
    scale = ramp(series)
    shades: list[tuple[int, str]] = []
    for index in (0, len(cells) // 2, len(cells) - 1):
        if 0 <= index < len(cells):
            value, text = cells[index]
            shade = scale.shade(value)
            if shade is not None and shade not in [seen for seen, _ in shades]:
                shades.append((shade, text.split("\n")[0]))
    return shades


def _coloured(series: Series) -> list[tuple[float, str]]:
    """Value and text of every cell that has a colour."""
    return [
        (value, cell_text(series, row, column))
        for row, values in enumerate(series.z)
        for column, value in enumerate(values)
        if value is not None and drawable(value) and not is_hatched(series, row, column)
    ]
