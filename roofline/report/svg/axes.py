"""Axes: ticks, their texts, the grid, titles."""

from __future__ import annotations

from itertools import pairwise

from roofline.report.figure import Figure
from roofline.report.frame import Frame, across, down
from roofline.report.letters import shorten, text_width
from roofline.report.spans import Span
from roofline.report.svg.elements import element, px, safe, text
from roofline.report.ticks import axis_title

LONGEST = 30
"""Characters of a tick's text."""
_SLANT = 32
"""Degrees by which texts lean that would not stand beside one another."""


def left_width(y: Span, figure: Figure) -> float:
    """Pixels that the vertical axis takes."""
    texts = [text_width(shorten(tick.text, LONGEST), 12) for tick in y.ticks]
    return max(texts, default=0.0) + 13 + (22 if axis_title(figure.y) else 0)


def bottom_height(frame: Frame, figure: Figure) -> float:
    """Pixels that the horizontal axis takes."""
    return (0.55 * _widest(frame) + 14 if _leans(frame) else 20) + (20 if axis_title(figure.x) else 0)


def axes(frame: Frame, figure: Figure) -> str:
    """Both axes, in pixels of the frame."""
    grid, ticks = [], []
    for tick in frame.x.ticks:
        x = across(frame, tick.value)
        if frame.x.scale != "category":
            grid.append(f"M{px(x)} 0V{px(frame.height)}")
        ticks.append(_under(frame, x, shorten(tick.text, LONGEST)))
    for tick in frame.y.ticks:
        y = down(frame, tick.value)
        if frame.y.scale != "category":
            grid.append(f"M0 {px(y)}H{px(frame.width)}")
        ticks.append(text(shorten(tick.text, LONGEST), -7, y, anchor="end"))
    border = "" if any(series.kind == "heat" for series in figure.series) else f"M0 0V{px(frame.height)}H{px(frame.width)}"
    lines = element("path", d="".join(grid), class_="f-grid") if grid else ""
    return f"{lines}{element('path', d=border, class_='f-axis') if border else ''}{''.join(ticks)}{_titles(frame, figure)}"


def zero(frame: Frame) -> str:
    """The line at zero, where there are numbers on both sides of it; over the bars."""
    if frame.x.scale == "linear" and frame.x.low < 0 < frame.x.high:
        return element("path", d=f"M{px(across(frame, 0))} 0V{px(frame.height)}", class_="f-axis")
    if frame.y.scale == "linear" and frame.y.low < 0 < frame.y.high:
        return element("path", d=f"M0 {px(down(frame, 0))}H{px(frame.width)}", class_="f-axis")
    return ""


def _titles(frame: Frame, figure: Figure) -> str:
    across_title, up_title = shorten(axis_title(figure.x), 90), shorten(axis_title(figure.y), 60)
    found = ""
    if across_title:
        found += text(across_title, frame.width / 2, frame.height + bottom_height(frame, figure) - 6, anchor="middle", size=13)
    if up_title:
        x, y = -left_width(frame.y, figure) + 9, frame.height / 2
        turn = f"rotate(-90 {px(x)} {px(y)})"
        found += element(
            "text", safe(up_title), x=x, y=y + 4, text_anchor="middle", font_size=13, class_="f-text", transform=turn
        )
    return found


def _under(frame: Frame, x: float, words: str) -> str:
    y = frame.height + 13
    if not _leans(frame):
        return text(words, x, y, anchor="middle")
    turn = f"rotate(-{_SLANT} {px(x)} {px(y)})"
    return element("text", safe(words), x=x + 4, y=y, text_anchor="end", font_size=12, class_="f-text", transform=turn)


def _widest(frame: Frame) -> float:
    return max((text_width(shorten(tick.text, LONGEST), 12) for tick in frame.x.ticks), default=0.0)


def _leans(frame: Frame) -> bool:
    """Whether the texts under the plot are too wide to stand upright."""
    places = [across(frame, tick.value) for tick in frame.x.ticks]
    closest = min((after - before for before, after in pairwise(places)), default=frame.width)
    return _widest(frame) + 6 > closest
