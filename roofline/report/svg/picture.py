"""A figure as one static SVG that scales, whose colours the page's style decides (`reports/figures.css`)."""

from __future__ import annotations

from roofline.report.figure import Figure
from roofline.report.frame import Frame, inner_height
from roofline.report.labels import above, labels
from roofline.report.letters import shorten
from roofline.report.roles import looks
from roofline.report.spans import slots, span
from roofline.report.svg.axes import axes, bottom_height, left_width, zero
from roofline.report.svg.bars import bars
from roofline.report.svg.elements import element, name, px, safe
from roofline.report.svg.heat import heat
from roofline.report.svg.legend import legend
from roofline.report.svg.marks import marks, texts, zones
from roofline.report.svg.series import band, line, points
from roofline.report.svg.symbols import hatch_patterns
from roofline.report.ticks import axis_title

WIDTH = 760.0
_RIGHT = 34.0
"""Pixels beside the frame, for half of the last tick's text."""
_LONGEST = 600


def svg(figure: Figure) -> str:
    """The whole element, without the figure's title, which the page has; the title is there for readers of screens.

    It has no style of its own: without `reports/figures.css` on the page, shapes are black.
    """
    key = name(figure.key)
    y, height = span(figure, "y", 7), inner_height(figure)
    left = left_width(y, figure)
    width = WIDTH - left - _RIGHT
    frame = Frame(x=span(figure, "x", 8, width), y=y, width=width, height=height)
    over = above(figure, frame)
    top = 12 - min((label.box.top for label in over), default=0.0)
    under, legend_height = legend(figure, key, WIDTH - 8)
    below = top + height + bottom_height(frame, figure) + 12
    whole = below + legend_height + 4
    inside = (
        zones(figure, frame)
        + axes(frame, figure)
        + _series(figure, frame, key)
        + zero(frame)
        + marks(figure, frame, over)
        + texts([*over, *labels(figure, frame)], frame)
    )
    return element(
        "svg",
        element("title", safe(shorten(figure.title, _LONGEST)), id=f"{key}-title"),
        element("desc", safe(_description(figure)), id=f"{key}-desc"),
        element("defs", _clip(frame, key), hatch_patterns(key, _hatches(figure))),
        element("g", inside, transform=f"translate({px(left)} {px(top)})"),
        element("g", under, transform=f"translate(4 {px(below)})"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {px(WIDTH)} {px(whole)}",
        width="100%",
        class_="figure-svg",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )


def _series(figure: Figure, frame: Frame, key: str) -> str:
    """Every series in its hue: bands at the bottom, points on top."""
    clip, places, styles = f"url(#{key}-clip)", slots(figure), looks(figure)
    drawn: list[tuple[int, str]] = []
    for index, series in enumerate(figure.series):
        look = styles[index]
        if series.kind == "band":
            depth, part = 0, band(series, frame, clip)
        elif series.kind == "heat":
            depth, part = 0, heat(series, frame, key)
        elif series.kind == "bars":
            depth, part = 1, bars(series, look, places[index], frame, key)
        elif series.kind == "line":
            depth, part = 2, line(series, look, frame, clip)
        else:
            depth, part = 3, points(series, look, frame)
        drawn.append((depth, element("g", part, class_=f"f-{look.hue}")))
    return "".join(part for _, part in sorted(drawn, key=lambda entry: entry[0]))


def _hatches(figure: Figure) -> set[tuple[str, str]]:
    bars = {look.hatch for look, series in zip(looks(figure), figure.series, strict=True) if series.kind == "bars"} - {""}
    over_ground = {("/", "grey") for series in figure.series if series.hatched}
    return {(hatch, "ground") for hatch in bars} | over_ground


def _clip(frame: Frame, key: str) -> str:
    return element("clipPath", element("rect", x=-2, y=-2, width=frame.width + 4, height=frame.height + 4), id=f"{key}-clip")


def _description(figure: Figure) -> str:
    """What is drawn, in words."""
    names = ", ".join(dict.fromkeys(shorten(series.name, 60) for series in figure.series if series.name))
    sides = [f"{side}: {axis_title(axis)}." for side, axis in (("Across", figure.x), ("Up", figure.y)) if axis_title(axis)]
    parts = [figure.note, *sides, f"Shown: {names}." if names else "", "; ".join(mark.text for mark in figure.marks)]
    return shorten(" ".join(part for part in parts if part), _LONGEST)
