"""Lines, points and bands of a picture, in pixels of its frame."""

from __future__ import annotations

from roofline.report.figure import Series
from roofline.report.frame import Frame, diameter, drawn_first, spot
from roofline.report.letters import shorten
from roofline.report.roles import Look
from roofline.report.svg.elements import element, px, titled
from roofline.report.svg.symbols import stroke, symbol, upright

LONGEST_HOVER = 400
"""Characters of a text under the pointer."""


def hover(series: Series, index: int) -> str:
    """What the pointer shows of a point."""
    return shorten(series.labels[index].replace("\n", ", "), LONGEST_HOVER) if len(series.labels) > index else ""


def line(series: Series, look: Look, frame: Frame, clip: str) -> str:
    """Strokes between the points, with gaps where there is none, and symbols on them."""
    spots = [spot(frame, x, y) for x, y in zip(series.x, series.y, strict=True)]
    parts = element("path", d=_path(spots), clip_path=clip, **stroke(look, 2))
    if look.symbol:
        for index, place in enumerate(spots):
            if place is not None and _inside(place, frame):
                parts += titled(symbol(look, place[0], place[1], 8), hover(series, index))
    return parts


def points(series: Series, look: Look, frame: Frame) -> str:
    """Symbols, the large ones first."""
    parts = ""
    for index in drawn_first(series):
        place = spot(frame, series.x[index], series.y[index])
        if place is not None and _inside(place, frame):
            wide = upright(look, diameter(series, index, frame))
            shape = symbol(look, place[0], place[1], wide, clear=bool(series.size))
            parts += titled(shape, hover(series, index))
    return parts


def band(series: Series, frame: Frame, clip: str) -> str:
    """The area between two edges."""
    upper = [spot(frame, x, y) for x, y in zip(series.x, series.high, strict=True)]
    lower = [spot(frame, x, y) for x, y in zip(series.x, series.low, strict=True)]
    both = [(high, low) for high, low in zip(upper, lower, strict=True) if high is not None and low is not None]
    if not both:
        return ""
    path = f"{_path([high for high, _ in both])}L{_path([low for _, low in reversed(both)])[1:]}z"
    return element("path", d=path, class_="f-band", clip_path=clip)


def _path(spots: list[tuple[float, float] | None] | list[tuple[float, float]]) -> str:
    parts, pen = [], "M"
    for place in spots:
        if place is None:
            pen = "M"
            continue
        parts.append(f"{pen}{px(place[0])} {px(place[1])}")
        pen = "L"
    return "".join(parts) or "M0 0"


def _inside(place: tuple[float, float], frame: Frame) -> bool:
    return -1 <= place[0] <= frame.width + 1 and -1 <= place[1] <= frame.height + 1
