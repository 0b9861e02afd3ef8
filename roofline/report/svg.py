"""A figure as one static SVG that scales, whose colours the page's style decides (`reports/figures.css`)."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.report.axes import TICK_GAP, axis_title, nearest, position, shorten, slots, span, text_width
from roofline.report.figure import Block, Figure, Mark, Series, Zone
from roofline.report.layout import (
    Box,
    Frame,
    Label,
    above,
    across,
    block_box,
    block_lines,
    down,
    inner_height,
    labels,
    spot,
    zone_box,
)
from roofline.report.styles import Look, in_legend, is_hatched, look, looks, steps
from roofline.report.svg_shapes import (
    ANCHORS,
    Anchor,
    band,
    bar,
    bars,
    element,
    escaped,
    hatched,
    heat,
    id_part,
    line,
    points,
    px,
    stroke,
    symbol,
    text,
)

WIDTH = 760.0
"""Pixels of a figure, before it is scaled."""
HAND = 340.0
"""Pixels of a figure on a phone."""
_RIGHT = 34.0
"""Pixels beside the frame, for half of the last tick's text."""
_EDGE = 4.0
"""Pixels beside a schematic."""
_TOP, _GAP_BELOW = 12.0, 12.0
_NARROW, _INSIDE = 480.0, 120.0
"""Pixels of a figure below which it is for a hand: fewer ticks with shorter texts; and of the inside, at the least."""
_LONGEST = 600


def svg(figure: Figure, whole_width: float = WIDTH, frame_height: float = 0.0) -> str:
    """The figure as an `svg` element, `whole_width` pixels wide before it is scaled; its title is for screen readers alone.

    `frame_height` is the height of the frame in pixels; 0: the usual one. The element has no style of its own: without
    `reports/figures.css` on the page, shapes are black.
    """
    key = id_part(figure.key)
    frame, left = framed(figure, whole_width, frame_height)
    over = above(figure, frame)
    top = top_height(over)
    under, legend_height = _legend(figure, whole_width - 8)
    below = top + frame.height + bottom_height(frame, figure)
    whole = below + legend_height + 4
    inside = (
        _zones(figure, frame)
        + (_axes(frame, figure, left) if len(figure.blocks) == 0 else "")
        + "".join(_block(block, frame) for block in figure.blocks)
        + _series(figure, frame, key)
        + _zero(frame)
        + _marks(figure, frame, over)
        + _texts(figure, [*over, *labels(figure, frame)], frame)
    )
    return element(
        "svg",
        element("title", escaped(shorten(figure.title, _LONGEST)), id=f"{key}-title"),
        element("desc", escaped(_description(figure)), id=f"{key}-desc"),
        element("defs", _clip(frame, key)),
        element("g", inside, transform=f"translate({px(left)} {px(top)})"),
        element("g", under, transform=f"translate(4 {px(below)})"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {px(whole_width)} {px(whole)}",
        width="100%",
        class_="figure-svg",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )


def framed(figure: Figure, whole_width: float, frame_height: float = 0.0) -> tuple[Frame, float]:
    """The frame of a figure, and how far it is from the left, in pixels: the same of a picture and of a plot."""
    narrow = whole_width < _NARROW
    y, longest = span(figure, "y", 7), 16 if narrow else 30
    texts = [text_width(shorten(tick.text, longest), 12) for tick in y.ticks]
    left = max(texts, default=0.0) + 13 + (22 if axis_title(figure.y) else 0)
    if len(figure.blocks) > 0:
        left = _EDGE
    width = max(whole_width - left - right_width(figure), _INSIDE)
    frame = Frame(
        x=span(figure, "x", 4 if narrow else 8, width),
        y=y,
        width=width,
        height=frame_height or inner_height(figure),
        largest=20.0 if narrow else 26.0,
        longest=longest,
    )
    return frame, left


def top_height(over: list[Label]) -> float:
    """Pixels above a frame, of which `over` are the texts above it."""
    return _TOP - min([label.box.top for label in over], default=0.0)


def bottom_height(frame: Frame, figure: Figure) -> float:
    """Pixels between a frame and its legend."""
    return _axis_height(frame, figure) + _GAP_BELOW if len(figure.blocks) == 0 else 0.0


def right_width(figure: Figure) -> float:
    """Pixels beside a frame, on its right."""
    return _RIGHT if len(figure.blocks) == 0 else _EDGE


def _series(figure: Figure, frame: Frame, key: str) -> str:
    """Every series in its hue: bands at the bottom, points on top."""
    clip, places, styles = f"url(#{key}-clip)", slots(figure), looks(figure)
    drawn: list[tuple[int, str]] = []
    for index, series in enumerate(figure.series):
        style = styles[index]
        if series.kind == "band":
            depth, part = 0, band(series, frame, clip)
        elif series.kind == "heat":
            depth, part = 0, heat(series, frame)
        elif series.kind == "bars":
            depth, part = 1, bars(series, style, places[index], frame)
        elif series.kind == "line":
            depth, part = 2, line(series, style, frame, clip)
        else:
            depth, part = 3, points(series, style, frame)
        drawn.append((depth, element("g", part, class_=f"f-{style.hue}")))
    return "".join(part for _, part in sorted(drawn, key=lambda entry: entry[0]))


def _clip(frame: Frame, key: str) -> str:
    return element("clipPath", element("rect", x=-2, y=-2, width=frame.width + 4, height=frame.height + 4), id=f"{key}-clip")


def _description(figure: Figure) -> str:
    """What is drawn, in words."""
    names = ", ".join(dict.fromkeys(shorten(series.name, 60) for series in figure.series if series.name))
    sides = [f"{side}: {axis_title(axis)}." for side, axis in (("Across", figure.x), ("Up", figure.y)) if axis_title(axis)]
    parts = [
        figure.note,
        *sides,
        f"Shown: {names}." if names else "",
        "; ".join(mark.text for mark in figure.marks if mark.text),
    ]
    return shorten(" ".join(part for part in parts if part), _LONGEST)


def _block(block: Block, frame: Frame) -> str:
    """A rectangle of a schematic, with its text."""
    box, lines = block_box(block, frame), block_lines(block, frame)
    place = {"x": box.left, "y": box.top, "width": box.right - box.left, "height": box.bottom - box.top}
    shape = element("rect", **place, rx=3, class_="f-block-strong" if block.strong else "f-block")
    anchor: Anchor = "start" if block.beside else "middle"
    x = box.right + 5 if block.beside else (box.left + box.right) / 2
    first = (box.top + box.bottom) / 2 - (len(lines) - 1) * frame.font * 0.6
    words = "".join(
        text(line, x, first + index * frame.font * 1.2, anchor=anchor, size=frame.font) for index, line in enumerate(lines)
    )
    return element("g", shape, class_=f"f-{look(block.role).hue}") + words


# Zones, marks and placed texts


def _zones(figure: Figure, frame: Frame) -> str:
    """Shaded rectangles, below everything else."""
    return "".join(_zone(zone, zone_box(figure, index, frame)) for index, zone in enumerate(figure.zones))


def _zone(zone: Zone, box: Box) -> str:
    rect = element("rect", x=box.left, y=box.top, width=box.right - box.left, height=box.bottom - box.top, class_="f-zone")
    return element("g", rect, class_=f"f-{look(zone.role).hue}")


def _marks(figure: Figure, frame: Frame, over: list[Label]) -> str:
    """Lines across the plot, up to the texts above it."""
    tops = {label.index: label.box.bottom for label in over}
    return "".join(_mark(mark, frame, tops.get(index, 0.0)) for index, mark in enumerate(figure.marks))


def _mark(mark: Mark, frame: Frame, top: float) -> str:
    style = look(mark.role)
    x, y = position(frame.x, mark.x), position(frame.y, mark.y)
    path = ""
    along, up = (None if x is None else across(frame, x)), (None if y is None else down(frame, y))
    if along is not None and 0 <= along <= frame.width:
        path += f"M{px(along)} {px(frame.height)}V{px(top)}"
    if up is not None and 0 <= up <= frame.height:
        path += f"M0 {px(up)}H{px(frame.width)}"
    return element("g", element("path", d=path, **stroke(style, 1.6)), class_=f"f-{style.hue}") if path else ""


def _texts(figure: Figure, labels: list[Label], frame: Frame) -> str:
    """Placed texts, each anchored at the side that is next to what it names; names of points in the hue of the points."""
    parts, styles = [], looks(figure)
    for label in labels:
        anchor = ANCHORS[label.where.split(" ")[1]]
        box = label.box
        x = box.left if anchor == "start" else box.right if anchor == "end" else (box.left + box.right) / 2
        named = label.kind == "along" or (label.kind == "short" and figure.series[label.index].kind == "points")
        style = "f-text" if label.kind == "zone" else "f-named f-halo" if named else "f-text f-halo"
        size = frame.font - 1 if label.kind == "short" else frame.font
        middle = (box.top + box.bottom) / 2
        if label.angle != 0:
            words = element(
                "text",
                escaped(label.text),
                x=x,
                y=middle + 0.35 * size,
                text_anchor=anchor,
                font_size=size,
                class_=style,
                transform=f"rotate({label.angle:.1f} {px(x)} {px(middle)})",
            )
        else:
            lines = label.text.split("\n")
            first = middle - (len(lines) - 1) * size * 0.6
            words = "".join(
                text(line, x, first + index * size * 1.2, anchor=anchor, size=size, class_=style)
                for index, line in enumerate(lines)
            )
        if label.leader is not None:
            words = _leader(label, figure, frame) + words
        parts.append(element("g", words, class_=f"f-{styles[label.index].hue}") if named else words)
    return "".join(parts)


def _leader(label: Label, figure: Figure, frame: Frame) -> str:
    """The line from a point to its text."""
    series = figure.series[label.index]
    place, end = spot(frame, series.x[label.point], series.y[label.point]), label.leader
    if place is None or end is None:
        return ""
    return element("path", d=f"M{px(place[0])} {px(place[1])}L{px(end[0])} {px(end[1])}", class_="f-leader")


# Axes: ticks, their texts, the grid, titles

SLANT = 32
"""Degrees by which texts lean that would not stand beside one another."""


def _axis_height(frame: Frame, figure: Figure) -> float:
    """Height of the horizontal axis in pixels."""
    return (0.55 * _widest(frame) + 14 if leans(frame) else 20) + (20 if axis_title(figure.x) else 0)


def _axes(frame: Frame, figure: Figure, left: float) -> str:
    """Both axes, in pixels of the frame."""
    grid, ticks = [], []
    for tick in frame.x.ticks:
        x = across(frame, tick.value)
        if frame.x.scale != "category":
            grid.append(f"M{px(x)} 0V{px(frame.height)}")
        ticks.append(_under(frame, x, shorten(tick.text, frame.longest)))
    for tick in frame.y.ticks:
        y = down(frame, tick.value)
        if frame.y.scale != "category":
            grid.append(f"M0 {px(y)}H{px(frame.width)}")
        ticks.append(text(shorten(tick.text, frame.longest), -7, y, anchor="end"))
    border = "" if any(series.kind == "heat" for series in figure.series) else f"M0 0V{px(frame.height)}H{px(frame.width)}"
    lines = element("path", d="".join(grid), class_="f-grid") if grid else ""
    edge = element("path", d=border, class_="f-axis") if border else ""
    return f"{lines}{edge}{''.join(ticks)}{_titles(frame, figure, left)}"


def _zero(frame: Frame) -> str:
    """The line at zero over the bars, if there are numbers on both sides of it."""
    if frame.x.scale == "linear" and frame.x.low < 0 < frame.x.high:
        return element("path", d=f"M{px(across(frame, 0))} 0V{px(frame.height)}", class_="f-axis")
    if frame.y.scale == "linear" and frame.y.low < 0 < frame.y.high:
        return element("path", d=f"M0 {px(down(frame, 0))}H{px(frame.width)}", class_="f-axis")
    return ""


def _titles(frame: Frame, figure: Figure, left: float) -> str:
    across_title, up_title = shorten(axis_title(figure.x), 90), shorten(axis_title(figure.y), 60)
    parts = ""
    if across_title:
        parts += text(across_title, frame.width / 2, frame.height + _axis_height(frame, figure) - 6, anchor="middle", size=13)
    if up_title:
        x, y = 9 - left, frame.height / 2
        turn = f"rotate(-90 {px(x)} {px(y)})"
        parts += element(
            "text", escaped(up_title), x=x, y=y + 4, text_anchor="middle", font_size=13, class_="f-text", transform=turn
        )
    return parts


def _under(frame: Frame, x: float, words: str) -> str:
    y = frame.height + 13
    if not leans(frame):
        return text(words, x, y, anchor="middle")
    turn = f"rotate(-{SLANT} {px(x)} {px(y)})"
    return element("text", escaped(words), x=x + 4, y=y, text_anchor="end", font_size=12, class_="f-text", transform=turn)


def _widest(frame: Frame) -> float:
    return max((text_width(shorten(tick.text, frame.longest), 12) for tick in frame.x.ticks), default=0.0)


def leans(frame: Frame) -> bool:
    """Whether the texts under the plot are too wide to stand upright."""
    places = [across(frame, tick.value) for tick in frame.x.ticks]
    return nearest(places, [shorten(tick.text, frame.longest) for tick in frame.x.ticks]) < TICK_GAP


# The legend, in as many rows as it takes

_SWATCH, _GAP, ROW = 28.0, 18.0, 21.0
_LONGEST_NAME = 60


def _legend(figure: Figure, width: float) -> tuple[str, float]:
    """The entries of the legend, and its height in pixels."""
    parts, x, y = [], 0.0, ROW / 2
    for swatch, entry in _entries(figure):
        wide = _SWATCH + 6 + text_width(entry, 12)
        if x > 0 and x + wide > width:
            x, y = 0.0, y + ROW
        place = f"translate({x:.1f} {y:.1f})"
        parts.append(element("g", swatch, text(entry, _SWATCH + 6, 0), transform=place))
        x += wide + _GAP
    return "".join(parts), y + ROW / 2 if parts else 0.0


def _entries(figure: Figure) -> Iterator[tuple[str, str]]:
    """Swatch, 28 pixels wide around height 0, and name."""
    for series, style, listed in zip(figure.series, looks(figure), in_legend(figure), strict=True):
        if series.kind == "heat":
            yield from _shades(series)
        elif listed:
            yield element("g", _swatch(series, style), class_=f"f-{style.hue}"), shorten(series.name, _LONGEST_NAME)


def _swatch(series: Series, style: Look) -> str:
    box = Box(left=2, top=-6, right=_SWATCH - 2, bottom=6)
    if series.kind == "bars":
        return bar(box, style)
    if series.kind == "band":
        return element("rect", x=box.left, y=box.top, width=box.right - box.left, height=12, class_="f-band")
    mark = symbol(style, _SWATCH / 2, 0, 14 if style.symbol == "line-ns" else 9) if style.symbol else ""
    return element("path", d=f"M0 0H{_SWATCH:g}", **stroke(style, 2)) + mark if series.kind == "line" else mark


def _shades(series: Series) -> Iterator[tuple[str, str]]:
    box = {"x": 6.0, "y": -7.0, "width": 16.0, "height": 14.0}
    for shade, words in steps(series):
        yield element("rect", **box, class_=f"f-heat-{shade} f-edge"), shorten(f"{series.name} {words}".strip(), _LONGEST_NAME)
    if series.hatched_name and any(
        is_hatched(series, row, column) for row, _ in enumerate(series.y) for column, _ in enumerate(series.x)
    ):
        swatch = element("rect", **box, class_="f-empty") + hatched(
            Box(left=6.0, top=-7.0, right=22.0, bottom=7.0), "/", "grey"
        )
        yield swatch, shorten(series.hatched_name, _LONGEST_NAME)
