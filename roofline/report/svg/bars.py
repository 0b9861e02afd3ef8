"""Bars of a picture: lying or standing, from where they start, hatched, with a text inside or beside."""

from __future__ import annotations

from roofline.report.figure import Series
from roofline.report.frame import Box, Frame, across, down
from roofline.report.letters import shorten, text_width
from roofline.report.roles import Look
from roofline.report.spans import Slot, ends, position, share
from roofline.report.svg.elements import ANCHORS, element, text, titled
from roofline.report.svg.series import hover
from roofline.report.svg.symbols import hatch_fill

_LEAST = 0.8
"""Pixels of the shortest bar: it is there."""


def bars(series: Series, look: Look, slot: Slot, frame: Frame, key: str) -> str:
    """All bars of a series."""
    lies = frame.y.scale == "category"
    parts = ""
    for index, _ in enumerate(series.x):
        box = _box(series, index, slot, frame, lies)
        if box is None:
            continue
        parts += titled(bar(box, look, key), hover(series, index))
        if len(series.short) > index and series.short[index]:
            parts += _beside(series, index, box, look, frame, lies)
    return parts


def bar(box: Box, look: Look, key: str) -> str:
    """One bar; short ones have no border, which would be all there is of them."""
    place = {"x": box.left, "y": box.top, "width": box.right - box.left, "height": box.bottom - box.top}
    if look.hollow:
        return element("rect", **place, class_="f-hollow")
    short = min(place["width"], place["height"]) < 3
    solid = element("rect", **place, class_="f-sliver" if short else "f-bar")
    return solid + (element("rect", **place, fill=hatch_fill(key, look.hatch)) if look.hatch and not short else "")


def _box(series: Series, index: int, slot: Slot, frame: Frame, lies: bool) -> Box | None:
    along, on = (frame.y, frame.x) if lies else (frame.x, frame.y)
    place = position(along, series.y[index] if lies else series.x[index])
    value = series.x[index] if lies else series.y[index]
    if place is None or value is None:
        return None
    start, end = ends(series, index, lies)
    low, high = (min(max(share(on, edge), 0.0), 1.0) for edge in (min(start, end), max(start, end)))
    if start == end or high <= 0 or low >= 1:
        return None
    if lies:
        top, bottom = down(frame, place + slot.offset), down(frame, place + slot.offset + slot.width)
        left, right = low * frame.width, high * frame.width
        return Box(left=left, top=top, right=max(right, left + _LEAST), bottom=bottom)
    left, right = across(frame, place + slot.offset), across(frame, place + slot.offset + slot.width)
    top, bottom = (1 - high) * frame.height, (1 - low) * frame.height
    return Box(left=left, top=min(top, bottom - _LEAST), right=right, bottom=bottom)


def _beside(series: Series, index: int, box: Box, look: Look, frame: Frame, lies: bool) -> str:
    """A bar's short text: within a bar that is one of a row of them, beyond the end of one that stands alone."""
    words = shorten(series.short[index], 32)
    wide, middle = text_width(words, 11), (box.top + box.bottom) / 2
    if len(series.base) > 0:
        if wide + 6 > box.right - box.left or box.bottom - box.top < 13:
            return ""
        style = "f-text" if look.hollow else "f-on"
        return text(words, (box.left + box.right) / 2, middle, anchor="middle", size=11, class_=style)
    start, end = ends(series, index, lies)
    if not lies:
        y = box.top - 8 if end >= start else box.bottom + 8
        return text(words, (box.left + box.right) / 2, y, anchor="middle", size=11)
    away, edge = (1, box.right) if end >= start else (-1, box.left)
    if 0 <= edge + away * (5 + wide) <= frame.width + 10:
        return text(words, edge + away * 5, middle, anchor=ANCHORS["right" if away > 0 else "left"], size=11)
    return text(words, edge - away * 5, middle, anchor=ANCHORS["left" if away > 0 else "right"], size=11, class_="f-on")
