"""Elements and shapes as SVG text. Whatever comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

import re
from html import escape
from typing import Literal

from roofline.report.axes import Slot, bar_ends, position, share, shorten, text_width
from roofline.report.figure import Series
from roofline.report.layout import Box, Frame, across, diameter, down, drawn_first, spot, upright
from roofline.report.styles import Look, Ramp, cell_text, is_hatched, ramp
from roofline.text import clean

_FORBIDDEN = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML does not allow, beside the control characters that are gone by then."""

Anchor = Literal["start", "middle", "end"]
ANCHORS: dict[str, Anchor] = {"left": "end", "right": "start", "center": "middle"}
"""Which end of a text is at its place, by the side on which it is."""


def escaped(text: str) -> str:
    """The text escaped for content and attributes, without characters that XML does not allow.

    >>> escaped('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return escape(_FORBIDDEN.sub("", clean(text)))


def id_part(text: str) -> str:
    """The text with everything but letters, digits, "-" and "_" replaced by "-", for an id.

    >>> id_part("memory budget")
    'memory-budget'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def px(value: float) -> str:
    """Pixels as text, rounded to a tenth.

    >>> px(12.04), px(-0.01)
    ('12', '0')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """An SVG element around content that is SVG already. Attributes are named as in Python: `stroke_width`, `class_`.

    >>> element("rect", x=1, y=2.26, class_="f-blue")
    '<rect x="1" y="2.3" class="f-blue"/>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else px(value)}"'
        for key, value in attributes.items()
    )
    return f"<{tag}{written}>{''.join(content)}</{tag}>" if content else f"<{tag}{written}/>"


def text(words: str, x: float, y: float, *, anchor: Anchor = "start", size: float = 12, class_: str = "f-text") -> str:
    """A `text` element: one line whose middle is `y` pixels down, `size` pixels large; the words are escaped."""
    return element("text", escaped(words), x=x, y=y + 0.35 * size, text_anchor=anchor, font_size=size, class_=class_)


def _titled(shape: str, words: str) -> str:
    """A shape with a text that is shown under the pointer."""
    return element("g", element("title", escaped(words)), shape) if words else shape


# Symbols, dashes and hatches, drawn as plotly draws those of the same names

_DASHES = {"solid": "none", "dot": "2 3", "dash": "7 5", "longdash": "12 6", "dashdot": "8 4 2 4"}
_HATCHES = {"/": ("up",), "\\": ("down",), "x": ("up", "down"), "-": ("level",), "+": ("level", "upright"), ".": ("level",)}
"""The strokes of a hatch; those of "." are dashed."""
_HATCH_STEP = 7
"""Pixels between the strokes of a hatch, across and down."""


def stroke(look: Look, width: float) -> dict[str, str | float]:
    """The attributes of a line `width` pixels wide; its colour is that of its group."""
    return {
        "fill": "none",
        "stroke": "currentColor",
        "stroke_width": f"{width:g}",
        "stroke_dasharray": _DASHES[look.dash],
        "stroke_linejoin": "round",
    }


def symbol(look: Look, x: float, y: float, diameter: float, *, clear: bool = False) -> str:
    """A point as SVG, centred at `x` and `y`, in pixels: filled with a border in the background's colour, or an outline.

    A `clear` one lets what is below shine through.
    """
    if look.symbol == "line-ns":
        return element("path", d=f"M{px(x)} {px(y - diameter / 2)}v{px(diameter)}", stroke="currentColor", stroke_width=3)
    outline = _outline(look.symbol, x, y, diameter / 2)
    if look.hollow:
        return element("path", d=outline, class_="f-hollow", stroke_width="1.4")
    return element("path", d=outline, class_="f-dot f-clear" if clear else "f-dot")


def _outline(kind: str, x: float, y: float, r: float) -> str:
    """A path; areas of different symbols of one size are about the same."""
    if kind == "square":
        s = 0.886 * r
        return f"M{px(x - s)} {px(y - s)}h{px(2 * s)}v{px(2 * s)}h{px(-2 * s)}z"
    if kind == "diamond":
        s = 1.25 * r
        return f"M{px(x)} {px(y - s)}L{px(x + s)} {px(y)}L{px(x)} {px(y + s)}L{px(x - s)} {px(y)}z"
    if kind in ("triangle-up", "triangle-down"):
        way = 1 if kind == "triangle-up" else -1
        s = 1.2 * r
        return f"M{px(x)} {px(y - way * s)}L{px(x + s)} {px(y + way * 0.7 * s)}H{px(x - s)}z"
    if kind == "x":
        a, b = 0.36 * r, 1.05 * r
        quarter = ((-b, a - b), (a - b, -b), (0.0, -a))
        corners = [*quarter, *((-j, i) for i, j in quarter), *((-i, -j) for i, j in quarter), *((j, -i) for i, j in quarter)]
        return f"M{'L'.join(f'{px(x + i)} {px(y + j)}' for i, j in corners)}z"
    return f"M{px(x - r)} {px(y)}a{px(r)} {px(r)} 0 1 0 {px(2 * r)} 0a{px(r)} {px(r)} 0 1 0 {px(-2 * r)} 0z"


def hatched(box: Box, hatch: str, hue: str = "ground") -> str:
    """A hatch over a box as SVG: strokes that end at its edges, in one of the hues.

    NB: no `pattern`: browsers print those as images, of some hundred kB each.
    """
    path = "".join([_strokes(box, way) for way in _HATCHES[hatch]])
    dashes = {"stroke_dasharray": "2 5"} if hatch == "." else {}
    return element("path", d=path, class_=f"f-hatch f-{hue}", **dashes) if path else ""


def _strokes(box: Box, way: str) -> str:
    """Parallel lines through a box as SVG path data. Those of boxes side by side are in line."""
    left, top, right, bottom = box.left, box.top, box.right, box.bottom
    if way == "level":
        return "".join([f"M{px(left)} {px(y)}H{px(right)}" for y in _between(top, bottom)])
    if way == "upright":
        return "".join([f"M{px(x)} {px(top)}V{px(bottom)}" for x in _between(left, right)])
    path = ""
    if way == "up":  # x + y is the same along a line
        for level in _between(left + top, right + bottom):
            start, end = max(left, level - bottom), min(right, level - top)
            path += f"M{px(start)} {px(level - start)}L{px(end)} {px(level - end)}"
    else:  # x - y is
        for level in _between(left - bottom, right - top):
            start, end = max(left, level + top), min(right, level + bottom)
            path += f"M{px(start)} {px(start - level)}L{px(end)} {px(end - level)}"
    return path


def _between(low: float, high: float) -> list[float]:
    """The places of strokes between two numbers."""
    places = [float(_HATCH_STEP * index) for index in range(int(low / _HATCH_STEP) - 1, int(high / _HATCH_STEP) + 2)]
    return [place for place in places if low < place < high]


# Lines, points and bands

_LONGEST_HOVER = 400
"""Characters of a text under the pointer."""


def _hover(series: Series, index: int) -> str:
    """What the pointer shows of a point."""
    return shorten(series.labels[index].replace("\n", ", "), _LONGEST_HOVER) if len(series.labels) > index else ""


def line(series: Series, look: Look, frame: Frame, clip: str) -> str:
    """A line series as SVG: strokes with gaps at missing values, cut to the clip path `clip`, and symbols."""
    spots = [spot(frame, x, y) for x, y in zip(series.x, series.y, strict=True)]
    parts = element("path", d=_path(spots), clip_path=clip, **stroke(look, 2))
    if look.symbol:
        for index, place in enumerate(spots):
            if place is not None and _inside(place, frame):
                parts += _titled(symbol(look, place[0], place[1], 8), _hover(series, index))
    return parts


def points(series: Series, look: Look, frame: Frame) -> str:
    """A point series as SVG, large symbols first."""
    parts = ""
    for index in drawn_first(series):
        place = spot(frame, series.x[index], series.y[index])
        if place is not None and _inside(place, frame):
            wide = upright(frame) if look.symbol == "line-ns" else diameter(series, index, frame)
            shape = symbol(look, place[0], place[1], wide, clear=bool(series.size))
            parts += _titled(shape, _hover(series, index))
    return parts


def band(series: Series, frame: Frame, clip: str) -> str:
    """The area between the two edges of a band as SVG; "" if nothing can be drawn."""
    upper = [spot(frame, x, y) for x, y in zip(series.x_high or series.x, series.high, strict=True)]
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


# Bars: horizontal or vertical, hatched, with a text inside or next to them

_LEAST = 0.8
"""Pixels of the shortest bar: it is there."""


def bars(series: Series, look: Look, slot: Slot, frame: Frame) -> str:
    """All bars of a series as SVG, with their short texts."""
    lies = frame.y.scale == "category"
    parts = ""
    for index, _ in enumerate(series.x):
        box = _box(series, index, slot, frame, lies)
        if box is None:
            continue
        parts += _titled(bar(box, look), _hover(series, index))
        if len(series.short) > index and series.short[index]:
            parts += _text_at(series, index, box, look, frame, lies)
    return parts


def bar(box: Box, look: Look) -> str:
    """One bar as SVG; very short ones have no border, which would cover them."""
    place = {"x": box.left, "y": box.top, "width": box.right - box.left, "height": box.bottom - box.top}
    if look.hollow:
        return element("rect", **place, class_="f-hollow")
    short = min(place["width"], place["height"]) < 3
    solid = element("rect", **place, class_="f-sliver" if short else "f-bar")
    return solid + (hatched(box, look.hatch) if look.hatch and not short else "")


def _box(series: Series, index: int, slot: Slot, frame: Frame, lies: bool) -> Box | None:
    along, on = (frame.y, frame.x) if lies else (frame.x, frame.y)
    place = position(along, series.y[index] if lies else series.x[index])
    value = series.x[index] if lies else series.y[index]
    if place is None or value is None:
        return None
    start, end = bar_ends(series, index, lies)
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


def _text_at(series: Series, index: int, box: Box, look: Look, frame: Frame, lies: bool) -> str:
    """A bar's short text: within a bar that is one of a row of them, beyond the end of one that stands alone."""
    words = shorten(series.short[index], 32)
    wide, middle = text_width(words, 11), (box.top + box.bottom) / 2
    if len(series.base) > 0:
        if wide + 6 > box.right - box.left or box.bottom - box.top < 13:
            return ""
        style = "f-text" if look.hollow else "f-on"
        return text(words, (box.left + box.right) / 2, middle, anchor="middle", size=11, class_=style)
    start, end = bar_ends(series, index, lies)
    if lies and box.bottom - box.top < 7:
        return ""  # it would lie on that of the next bar
    if not lies:
        y = box.top - 8 if end >= start else box.bottom + 8
        return text(words, (box.left + box.right) / 2, y, anchor="middle", size=11)
    away, edge = (1, box.right) if end >= start else (-1, box.left)
    if 0 <= edge + away * (5 + wide) <= frame.width + 10:
        return text(words, edge + away * 5, middle, anchor=ANCHORS["right" if away > 0 else "left"], size=11)
    return text(words, edge - away * 5, middle, anchor=ANCHORS["left" if away > 0 else "right"], size=11, class_="f-on")


# Cells of a heat map

_GAP = 2.0


def heat(series: Series, frame: Frame) -> str:
    """All cells of a heat map as SVG, row by row."""
    parts, scale = [], ramp(series)
    for row, y in enumerate(series.y):
        for column, x in enumerate(series.x):
            place = spot(frame, x, y)
            if place is not None:
                parts.append(_cell(series, row, column, scale, place, frame))
    return "".join(parts)


def _cell(series: Series, row: int, column: int, scale: Ramp, place: tuple[float, float], frame: Frame) -> str:
    wide = frame.width / len(frame.x.categories) - _GAP
    tall = frame.height / len(frame.y.categories) - _GAP
    box = {"x": place[0] - wide / 2, "y": place[1] - tall / 2, "width": wide, "height": tall}
    words = cell_text(series, row, column)
    label = _hover(series, row * len(series.x) + column) or words.replace("\n", ", ")
    shade = scale.shade(series.z[row][column])
    if is_hatched(series, row, column):
        right, bottom = place[0] + wide / 2, place[1] + tall / 2
        edges = Box(left=place[0] - wide / 2, top=place[1] - tall / 2, right=right, bottom=bottom)
        shape = element("rect", **box, class_="f-empty") + hatched(edges, "/", "grey")
        return _titled(shape + _lines(words, place, wide, tall, "f-text f-halo"), label)
    style = "f-empty" if shade is None else f"f-heat-{shade}"
    return _titled(element("rect", **box, class_=style) + _lines(words, place, wide, tall, f"{style}-text"), label)


def _lines(words: str, place: tuple[float, float], wide: float, tall: float, style: str) -> str:
    """The lines of a cell's text, as small as it takes, down to where it can still be read."""
    lines = [shorten(line, 40) for line in words.split("\n")[: max(1, int(tall // 11))]]
    size = max(8.0, min(11.0, *(11 * (wide - 3) / max(text_width(line, 11), 1) for line in lines)))
    first = place[1] - (len(lines) - 1) * size * 0.6
    return "".join(
        text(_cut(line, size, wide), place[0], first + index * size * 1.2, anchor="middle", size=size, class_=style)
        for index, line in enumerate(lines)
    )


def _cut(line: str, size: float, wide: float) -> str:
    """As much of a line as fits."""
    most = len(line)
    while most > 1 and text_width(shorten(line, most), size) > wide:
        most -= 1
    return shorten(line, most)
