"""Layout of a plot's inside in pixels: where values and points are drawn, and where texts fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from roofline.report.axes import Span, position, share, shorten, span, text_width
from roofline.report.figure import Block, Figure, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The inside of a plot: its axes, its size in pixels, and the font size in pixels."""

    x: Span
    y: Span
    width: float
    height: float
    font: float = 12.0
    largest: float = 26.0
    """Diameter of the largest point."""
    longest: int = 30
    """Characters of a tick's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in pixels; y goes down."""

    left: float
    top: float
    right: float
    bottom: float


def inner_height(figure: Figure) -> float:
    """Height of a figure's frame in pixels: fixed, or proportional to the number of categories on y."""
    if len(figure.blocks) > 0:
        return figure.y.high or 330.0
    if figure.y.scale != "category":
        return 330.0
    names = len(span(figure, "y", 1).categories)
    heat = any(series.kind == "heat" for series in figure.series)
    if names > 3 and len([series for series in figure.series if series.kind == "bars"]) == 1:
        return names * 26.0
    return max(names, 1) * 36.0 if heat else max(names, 2) * 40.0 if names > 3 else max(names, 1) * 58.0


def across(frame: Frame, place: float) -> float:
    """Pixels from the left of the frame, of a position on x (`axes.position`)."""
    return share(frame.x, place) * frame.width


def down(frame: Frame, place: float) -> float:
    """Pixels from the top of the frame, of a position on y: categories go down, numbers go up."""
    part = share(frame.y, place)
    return (part if frame.y.scale == "category" else 1 - part) * frame.height


def spot(frame: Frame, x: float | str | None, y: float | str | None) -> tuple[float, float] | None:
    """Where a point is drawn: pixels from the left and from the top; None if it cannot be drawn."""
    along, up = position(frame.x, x), position(frame.y, y)
    return None if along is None or up is None else (across(frame, along), down(frame, up))


def upright(frame: Frame) -> float:
    """Length in pixels of the stroke that stands for a limit on a bar: more than the bar is thick, but within its row."""
    return min(44.0, 0.9 * frame.height / max(len(frame.y.categories), 1))


def diameter(series: Series, index: int, frame: Frame) -> float:
    """Diameter of point `index` in pixels: its area is its share of the largest one's, but at least 7; 8 without sizes."""
    return max(7.0, frame.largest * max(series.size[index], 0.0) ** 0.5) if len(series.size) > index else 8.0


def drawn_first(series: Series) -> list[int]:
    """Indices of a series' points in drawing order: large ones first, so that small ones lie on top."""
    order = list(range(len(series.x)))
    return sorted(order, key=lambda index: -series.size[index]) if len(series.size) == len(order) else order


def zone_box(figure: Figure, index: int, frame: Frame) -> Box:
    """The box of zone `index` of a figure, cut to the frame."""
    zone = figure.zones[index]
    left = 0.0 if zone.x0 is None else across(frame, zone.x0)
    right = frame.width if zone.x1 is None else across(frame, zone.x1)
    bottom = frame.height if zone.y0 is None else down(frame, zone.y0)
    top = 0.0 if zone.y1 is None else down(frame, zone.y1)
    left, right = max(min(left, right), 0.0), min(max(left, right), frame.width)
    return Box(left=left, top=max(min(top, bottom), 0.0), right=right, bottom=min(max(top, bottom), frame.height))


def block_box(block: Block, frame: Frame) -> Box:
    """The box of a block."""
    left, right = across(frame, block.x0), across(frame, block.x1)
    return Box(left=left, top=down(frame, block.y1), right=right, bottom=down(frame, block.y0))


def block_lines(block: Block, frame: Frame) -> list[str]:
    """The lines of a block's text, as much of each as there is space for."""
    box = block_box(block, frame)
    wide = (frame.width - box.right if block.beside else box.right - box.left) - 2 * _BLOCK_PAD
    lines: list[str] = []
    for line in block.text.split("\n"):
        most = len(line)
        while most > 1 and text_width(shorten(line, most), frame.font) > wide:
            most -= 1
        lines.append(shorten(line, most))
    return lines


_BLOCK_PAD = 5.0
"""Pixels between the edge of a block and its text."""

# Labels: marks, zones and points, placed where they cover as little as possible

_GAP = 4.0
_STEP = 7.0
"""Pixels between the places of a line that are looked at."""
_AROUND_LINE = ("top left", "top right", "bottom right", "bottom left", "top center", "bottom center")
_AROUND_POINT = (
    "middle right",
    "middle left",
    "top center",
    "bottom center",
    "top right",
    "top left",
    "bottom right",
    "bottom left",
)
_CROWDED, _LED = 4, 9
"""Costs of the text of a point, next to it and at the end of a leader, beyond which there is none."""
_CORNERS = ("bottom right", "bottom left", "top right", "top left")
"""Of a text beside the corner of a zone that it stands in: seen from the upper left corner, it is to the bottom right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A placed text and its box.

    Args:
        kind: "above" or "mark" (text of a mark), "zone", "along" (text of a stroke), or "short" (text of a point).
        index: of the mark, the zone or the series.
        point: index of the point or stroke in its series; -1 for marks and zones.
        where: its side of the place that it names, such as "top left".
        angle: degrees by which it is turned around its middle, clockwise.
        leader: where a line from its point ends at it; None where it is right beside what it names.
    """

    kind: str
    index: int
    point: int
    text: str
    where: str
    box: Box
    angle: float = 0.0
    leader: tuple[float, float] | None = None


def above(figure: Figure, frame: Frame) -> list[Label]:
    """Placed texts of the vertical marks, above the plot, in as many rows as it takes for none to cover another."""
    places = [position(frame.x, mark.x) for mark in figure.marks]
    lines = [None if place is None else across(frame, place) for place in places]
    placed: list[Label] = []
    for index, mark in enumerate(figure.marks):
        line = lines[index]
        if line is not None and mark.text != "":
            others = [other for other in lines if other is not None and other != line]
            placed.append(_over(index, _fitting(mark.text, frame), line, others, frame, placed))
    return placed


def _over(index: int, text: str, line: float, others: list[float], frame: Frame, taken: list[Label]) -> Label:
    """The text of one mark, in the lowest row with space; rather beside its line than across another."""
    wide, tall = text_width(text, frame.font), frame.font * 1.25
    sides = [("top center", line - wide / 2), ("top right", line), ("top left", line - wide)]
    inside = [side for side in sides if side[1] >= -4 and side[1] + wide <= frame.width + 4]
    if len(inside) == 0:
        inside = [sides[2] if line > frame.width / 2 else sides[1]]
    inside = sorted(inside, key=lambda side: sum([1 for other in others if side[1] - 3 < other < side[1] + wide + 3]))
    row = 0
    while True:
        for where, left in inside:
            box = Box(left=left, top=-(row + 1) * tall, right=left + wide, bottom=-row * tall)
            wanted = Box(left=left - 4, top=box.top, right=box.right + 4, bottom=box.bottom)
            if not any(_meet(wanted, label.box) for label in taken):
                return Label(kind="above", index=index, point=-1, text=text, where=where, box=box)
        row += 1


def labels(figure: Figure, frame: Frame) -> list[Label]:
    """Placed texts inside the plot: of all horizontal marks and zones, and short texts of points as far as they fit."""
    soft = _obstacles(figure, frame)
    placed: list[Label] = []
    for index, mark in enumerate(figure.marks):
        y = position(frame.y, mark.y)
        if y is not None and mark.text != "":
            text, level = _fitting(mark.text, frame), down(frame, y)
            sides = [(frame.width - 2, level, "top left"), (2.0, level, "top right")]
            sides += [(frame.width - 2, level, "bottom left"), (2.0, level, "bottom right")]
            placed.append(_best("mark", index, text, sides, frame, soft, placed))
    for index, zone in enumerate(figure.zones):
        if zone.text != "":
            box = zone_box(figure, index, frame)
            places = [(box.left, box.top), (box.right, box.top), (box.left, box.bottom), (box.right, box.bottom)]
            sides = [(x, y, where) for (x, y), where in zip(places, _CORNERS, strict=True)]
            placed.append(_best("zone", index, _fitting(zone.text, frame), sides, frame, soft, placed))
    for index, series in enumerate(figure.series):
        for stroke, text in enumerate(series.along):
            if text != "":
                placed += _along_stroke(index, stroke, series, frame, soft, placed)
    wanted = [entry for index, series in enumerate(figure.series) for entry in _wanted(index, series, frame)]
    for index, series in enumerate(figure.series):
        if series.kind in ("line", "points") and len(series.short) > 0:
            placed += _shorts(index, series, frame, soft, wanted, placed)
    return placed


def _shorts(
    index: int,
    series: Series,
    frame: Frame,
    soft: list[Box],
    wanted: list[tuple[tuple[int, int], Box]],
    before: list[Label],
) -> list[Label]:
    """The short texts of one series, of large points first; those of points may stand away from them, with a leader."""
    labels: list[Label] = []
    at_points = series.kind == "points"
    for point in drawn_first(series):
        place = spot(frame, series.x[point], series.y[point])
        if place is None or series.short[point] == "":
            continue
        x, y = place
        text = "\n".join([shorten(line, 32) for line in series.short[point].split("\n")[:_LINES]])
        away = diameter(series, point, frame) / 2 if at_points else 4.0
        taken = [*before, *labels]
        things = [*soft, *[box for owner, box in wanted if owner != (index, point)]]
        places = []
        for where in _AROUND_POINT if at_points else _AROUND_LINE:
            box = _placed_at(x, y, where, text, frame.font - 1, away)
            label = Label(kind="short", index=index, point=point, text=text, where=where, box=box)
            places.append((_cost(box, frame, things, taken), label))
        first = places[0][1]
        places = [place for place in places if place[0] <= (_CROWDED if at_points else 1)]
        least = min([cost for cost, _ in places], default=1.0)
        if at_points and least > 0:
            places += _led(first, x, y, frame, things, taken, least if len(places) > 0 else _LED)
        if len(places) > 0:
            labels.append(min(places, key=lambda place: place[0])[1])
    return labels


def _wanted(index: int, series: Series, frame: Frame) -> list[tuple[tuple[int, int], Box]]:
    """Points (series, point) with a text, and where each would have it first: other texts leave that free if they can."""
    boxes: list[tuple[tuple[int, int], Box]] = []
    for point, text in enumerate(series.short if series.kind == "points" else ()):
        place = spot(frame, series.x[point], series.y[point])
        if place is not None and text != "":
            away = diameter(series, point, frame) / 2
            boxes.append(((index, point), _placed_at(place[0], place[1], _AROUND_POINT[0], text, frame.font - 1, away)))
    return boxes


_LINES = 6
"""Lines of a text beside a point."""
_REACH = (28.0, 48.0, 72.0, 100.0, 130.0)
"""Pixels from a point to a text with a leader."""
_WAYS = tuple((math.cos(math.pi * step / 8), math.sin(math.pi * step / 8)) for step in range(16))


def _led(
    near: Label, x: float, y: float, frame: Frame, soft: list[Box], taken: list[Label], most: float
) -> list[tuple[float, Label]]:
    """The best place of a text away from its point, with its cost, which grows with the leader's length; none above `most`."""
    best: list[tuple[float, Label]] = []
    wide, tall = near.box.right - near.box.left, near.box.bottom - near.box.top
    far = max(_REACH) + 3
    within = Box(left=x - far - wide, top=y - far - tall, right=x + far + wide, bottom=y + far + tall)
    things = [thing for thing in soft if _meet(within, thing)]
    for reach in _REACH:
        for across_way, down_way in _WAYS:
            if reach / 50 + 0.6 >= most:  # NB: pages do this while a slider is dragged
                return best
            end = (x + reach * across_way, y + reach * down_way)
            steep = abs(down_way) > 0.9
            side = "center" if steep else "right" if across_way > 0 else "left"
            where = f"{('bottom' if down_way > 0 else 'top') if steep else 'middle'} {side}"
            box = _placed(end[0], end[1], where, wide, tall, 0.0)
            if _outside(box, frame) > 1 or any(_meet(box, label.box) for label in taken):
                continue
            cost = sum([1 for thing in things if _meet(box, thing)]) + 0.6 + reach / 50
            if cost > most:
                continue
            strokes = _along((x, y), end, frame)
            cost += 4 * _crossed([label.box for label in taken], strokes)
            cost += 0.7 * _crossed(things, strokes[2:])
            if cost <= most and (len(best) == 0 or cost < best[0][0]):
                label = replace(near, where=where, box=box, leader=end)
                best, most = [(cost, label)], cost
    return best


def _crossed(things: list[Box], strokes: list[Box]) -> int:
    """How many boxes a line of small boxes goes through."""
    if len(strokes) == 0:
        return 0
    first, last = strokes[0], strokes[-1]
    whole = Box(
        left=min(first.left, last.left),
        top=min(first.top, last.top),
        right=max(first.right, last.right),
        bottom=max(first.bottom, last.bottom),
    )
    return sum([1 for thing in things if _meet(whole, thing) and any(_meet(dot, thing) for dot in strokes)])


def _along_stroke(index: int, stroke: int, series: Series, frame: Frame, soft: list[Box], taken: list[Label]) -> list[Label]:
    """The text of one stroke of a line, turned as the stroke is, above it or else below; none out of sight or without space."""
    start, end = spot(frame, series.x[stroke], series.y[stroke]), spot(frame, series.x[stroke + 1], series.y[stroke + 1])
    if start is None or end is None or start[0] >= end[0]:
        return []
    text, size = _fitting(series.along[stroke], frame), frame.font
    wide, run, rise = text_width(text, size), end[0] - start[0], end[1] - start[1]
    length = math.sqrt(run * run + rise * rise)
    angle = math.atan2(rise, run) * 180 / math.pi
    places: list[tuple[float, Label]] = []
    for side in (-1, 1):
        for part in _PARTS:
            away = side * (0.5 * size + 5)
            x, y = start[0] + part * run - away * rise / length, start[1] + part * rise + away * run / length
            if rise == 0:  # beyond the stroke's ends there is space too, but not beyond the frame's
                x = min(max(x, wide / 2), frame.width - wide / 2 - 2)
            tilt = (abs(run) / length, abs(rise) / length)
            tall = wide * tilt[1] + size * tilt[0]
            box = Box(left=x - wide / 2 * tilt[0], top=y - tall / 2, right=x + wide / 2 * tilt[0], bottom=y + tall / 2)
            dots = [_around(x + at * wide * run / length, y + at * wide * rise / length, size / 2) for at in _TEXT_PARTS]
            cost = 1e6 if _outside(box, frame) > 1 else 1e3 * sum([1 for label in taken if _meet(box, label.box)])
            cost += sum([1 for thing in soft if any(_meet(dot, thing) for dot in dots)]) + (0.5 if side > 0 else 0.0)
            where = "middle center"
            label = Label(kind="along", index=index, point=stroke, text=text, where=where, box=box, angle=angle)
            places.append((cost, label))
    least, label = min(places, key=lambda place: place[0])
    return [label] if least < 1e3 else []


_PARTS = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9, 0.1)
_TEXT_PARTS = (-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Places along a stroke, and along a text, that are looked at."""


def _fitting(text: str, frame: Frame) -> str:
    """As much of a text as the frame is wide, and no more than can be read at a glance."""
    return shorten(text, min(60, max(8, int(frame.width / (0.6 * frame.font)))))


def _best(
    kind: str,
    index: int,
    text: str,
    sides: list[tuple[float, float, str]],
    frame: Frame,
    soft: list[Box],
    placed: list[Label],
) -> Label:
    boxes = [_placed_at(x, y, where, text, frame.font, 2.0) for x, y, where in sides]
    costs = [_cost(box, frame, soft, placed) for box in boxes]
    best = costs.index(min(costs))
    return Label(kind=kind, index=index, point=-1, text=text, where=sides[best][2], box=boxes[best])


def _placed_at(x: float, y: float, where: str, text: str, size: float, away: float) -> Box:
    """The box of a text on one side of a place."""
    lines = text.split("\n")
    return _placed(x, y, where, max([text_width(line, size) for line in lines]), size * 1.2 * len(lines), away)


def _placed(x: float, y: float, where: str, wide: float, tall: float, away: float) -> Box:
    """The box of a text of a width and a height."""
    gap = away + 2.0
    vertical, horizontal = where.split(" ")
    top = y - gap - tall if vertical == "top" else y + gap if vertical == "bottom" else y - tall / 2
    left = x - wide - gap if horizontal == "left" else x + gap if horizontal == "right" else x - wide / 2
    return Box(left=left, top=top, right=left + wide, bottom=top + tall)


def _cost(box: Box, frame: Frame, soft: list[Box], placed: list[Label]) -> float:
    """How bad a place is: 1 for each thing drawn under it, much for a text under it or for a part outside."""
    outside = _outside(box, frame)
    texts = sum([1 for label in placed if _meet(box, label.box)])
    return (1e6 + outside if outside > 1 else 0.0) + 1e3 * texts + sum([1 for thing in soft if _meet(box, thing)])


def _outside(box: Box, frame: Frame) -> float:
    """Pixels by which a text's box is beyond the frame; it has 2 of nothing above its letters."""
    return max(-box.left, box.right - frame.width, -box.top - 2, box.bottom - frame.height, 0.0)


def _meet(one: Box, other: Box) -> bool:
    return one.left < other.right and other.left < one.right and one.top < other.bottom and other.top < one.bottom


def _obstacles(figure: Figure, frame: Frame) -> list[Box]:
    """Boxes around what points, lines and marks cover."""
    boxes: list[Box] = []
    for mark in figure.marks:
        x, y = position(frame.x, mark.x), position(frame.y, mark.y)
        if x is not None:
            boxes.append(Box(left=across(frame, x) - 1, top=0.0, right=across(frame, x) + 1, bottom=frame.height))
        if y is not None:
            boxes.append(Box(left=0.0, top=down(frame, y) - 1, right=frame.width, bottom=down(frame, y) + 1))
    for series in figure.series:
        if series.kind not in ("line", "points"):
            continue
        spots = [spot(frame, x, y) for x, y in zip(series.x, series.y, strict=True)]
        for index, here in enumerate(spots):
            if here is None:
                continue
            radius = diameter(series, index, frame) / 2 if series.kind == "points" else 3.0
            boxes.append(_around(here[0], here[1], radius))
            after = spots[index + 1] if series.kind == "line" and index + 1 < len(spots) else None
            if after is not None:
                boxes += _along(here, after, frame)
    return boxes


def _along(one: tuple[float, float], other: tuple[float, float], frame: Frame) -> list[Box]:
    """Small boxes along a stroke, inside the frame."""
    long = max(abs(other[0] - one[0]), abs(other[1] - one[1]))
    count = min(int(long / _STEP), 400)
    boxes: list[Box] = []
    for step in range(1, count):
        part = step / count
        x, y = one[0] + part * (other[0] - one[0]), one[1] + part * (other[1] - one[1])
        if 0 <= x <= frame.width and 0 <= y <= frame.height:
            boxes.append(_around(x, y, 1.0))
    return boxes


def _around(x: float, y: float, radius: float) -> Box:
    return Box(left=x - radius, top=y - radius, right=x + radius, bottom=y + radius)
