"""The legend under a picture: an entry a name, in as many rows as they take."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.report.figure import Figure, Series
from roofline.report.frame import Box
from roofline.report.heat import is_hatched, steps
from roofline.report.letters import shorten, text_width
from roofline.report.roles import Look, in_legend, looks
from roofline.report.svg.bars import bar
from roofline.report.svg.elements import element, text
from roofline.report.svg.symbols import hatch_fill, stroke, symbol

_SWATCH, _GAP, ROW = 28.0, 18.0, 21.0
_LONGEST = 60


def legend(figure: Figure, key: str, width: float) -> tuple[str, float]:
    """The entries and the height they take, from 0 downwards."""
    parts, x, y = [], 0.0, ROW / 2
    for swatch, name in _entries(figure, key):
        wide = _SWATCH + 6 + text_width(name, 12)
        if x > 0 and x + wide > width:
            x, y = 0.0, y + ROW
        place = f"translate({x:.1f} {y:.1f})"
        parts.append(element("g", swatch, text(name, _SWATCH + 6, 0), transform=place))
        x += wide + _GAP
    return "".join(parts), y + ROW / 2 if parts else 0.0


def _entries(figure: Figure, key: str) -> Iterator[tuple[str, str]]:
    """Swatch, 28 pixels wide around height 0, and name."""
    for series, look, listed in zip(figure.series, looks(figure), in_legend(figure), strict=True):
        if series.kind == "heat":
            yield from _shades(series, key)
        elif listed:
            yield element("g", _swatch(series, look, key), class_=f"f-{look.hue}"), shorten(series.name, _LONGEST)


def _swatch(series: Series, look: Look, key: str) -> str:
    box = Box(left=2, top=-6, right=_SWATCH - 2, bottom=6)
    if series.kind == "bars":
        return bar(box, look, key)
    if series.kind == "band":
        return element("rect", x=box.left, y=box.top, width=box.right - box.left, height=12, class_="f-band")
    mark = symbol(look, _SWATCH / 2, 0, 14 if look.symbol == "line-ns" else 9) if look.symbol else ""
    return element("path", d=f"M0 0H{_SWATCH:g}", **stroke(look, 2)) + mark if series.kind == "line" else mark


def _shades(series: Series, key: str) -> Iterator[tuple[str, str]]:
    box = {"x": 6.0, "y": -7.0, "width": 16.0, "height": 14.0}
    for shade, words in steps(series):
        yield element("rect", **box, class_=f"f-heat-{shade} f-edge"), shorten(f"{series.name} {words}".strip(), _LONGEST)
    if series.hatched_name and any(
        is_hatched(series, row, column) for row, _ in enumerate(series.y) for column, _ in enumerate(series.x)
    ):
        swatch = element("rect", **box, class_="f-empty") + element("rect", **box, fill=hatch_fill(key, "/", "grey"))
        yield swatch, shorten(series.hatched_name, _LONGEST)
