"""A canvas for drawings: boxes, texts, lines and arrows as SVG in the hues of the pages, which follow light and dark themes.

A drawing says what it shows in words too, for those who do not see it. What is drawn is kept as boxes, so that tests can tell
texts that leave the picture or lie on one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import atan2, cos, sin
from typing import Literal

from roofline.report.axes import text_width
from roofline.report.layout import Box
from roofline.report.svg import WIDTH
from roofline.report.svg_shapes import Anchor, element, escaped, hatched, id_part, px, text

Hue = Literal["ink", "grey", "blue", "orange", "green", "purple", "pink", "red", "gold"]
"""Colours by meaning: blue is prefill, orange decode, green compute, pink memory and what it holds, purple links and what goes
over them, red a limit or a loss, gold what is chosen, grey what is idle or empty, ink all else."""
DEVICE_HUES: tuple[Hue, ...] = ("blue", "orange", "green", "pink")
"""Of four devices, where what is drawn is whose something is; purple is left for what goes over links."""
_HEAD = 7.0
"""Pixels of an arrow's head."""
_PADDING = 3.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as SVG, and what it shows.

    Attributes:
        key: its name in files and on a page: lower-case letters, digits and "-".
        title: the caption.
        words: what can be seen, in sentences, for readers who do not see it.
        svg: the picture.
        note: a remark below the caption, Markdown; "" for none.
        faults: what is wrong with its texts, for tests.
    """

    key: str
    title: str
    words: str
    svg: str
    note: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A text and the rectangle that it takes, in pixels; `within` is the width of the box that it stands in, if any."""

    words: str
    left: float
    top: float
    right: float
    bottom: float
    within: float | None = None


@dataclass(slots=True)
class Canvas:
    """Collects shapes. Places are in pixels from the left and the top; `width` is that of a page's column.

    Texts are 13 pixels, 11 at the least: a picture is shown at its size, on slides 1.6 times as large.
    """

    height: float
    width: float = WIDTH
    shapes: list[str] = field(default_factory=list)
    texts: list[Placed] = field(default_factory=list)
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        words: str = "",
        *,
        hue: Hue = "grey",
        strong: bool = False,
        filled: bool = False,
        dashed: bool = False,
        empty: bool = False,
        idle: bool = False,
        size: float = 13,
        round_: float = 3,
    ) -> None:
        """A rectangle with text in its middle, a line for each line feed.

        Args:
            x: its left side.
            y: its upper side.
            width: of the rectangle.
            height: of the rectangle.
            words: the text; "" for none.
            hue: of the border and the faint ground.
            strong: a thick border, for what a reader should look at.
            filled: the full colour, with the text in the colour of the page's ground.
            dashed: a dashed border, for what may be there.
            empty: the page's ground and a grey border.
            idle: hatched, for what is paid for and does nothing.
            size: of the letters.
            round_: radius of the corners.
        """
        kind = "f-bar" if filled else "f-block-strong" if strong else "f-empty" if empty else "f-block"
        attributes: dict[str, str | float] = {"stroke_dasharray": "4 3"} if dashed else {}
        self.boxes.append((x, y, x + width, y + height))
        rect = element("rect", x=x, y=y, width=width, height=height, rx=round_, class_=kind, **attributes)
        self.shapes.append(element("g", rect, class_=f"f-{hue}"))
        if idle:
            self.shapes.append(hatched(Box(left=x, top=y, right=x + width, bottom=y + height), "/", hue))
        if words:
            lines = words.split("\n")
            first = y + height / 2 - (len(lines) - 1) * size * 0.6
            for number, line in enumerate(lines):
                self._text(line, x + width / 2, first + number * size * 1.2, "middle", size, hue if filled else None,
                           on=filled, within=width, halo=idle)  # fmt: skip

    def label(
        self, words: str, x: float, y: float, *, anchor: Anchor = "start", size: float = 13, hue: Hue | None = None,
        halo: bool = False, strong: bool = False,
    ) -> None:  # fmt: skip
        """Text whose first line has its middle at `y`; a line for each line feed. Without a hue it has the colour of text.

        With a `halo`, what was drawn before stops short of the letters.
        """
        for number, line in enumerate(words.split("\n")):
            self._text(line, x, y + number * size * 1.25, anchor, size, hue, halo=halo, strong=strong)

    def _text(
        self, words: str, x: float, y: float, anchor: Anchor, size: float, hue: Hue | None, *, on: bool = False,
        within: float | None = None, halo: bool = False, strong: bool = False,
    ) -> None:  # fmt: skip
        wide = text_width(words, size)
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        self.texts.append(Placed(words, left, y - 0.55 * size, left + wide, y + 0.55 * size, within))
        kind = ("f-on" if on else "f-named" if hue else "f-text") + (" f-halo" if halo else "")
        drawn = text(words, x, y, anchor=anchor, size=size, class_=kind)
        if strong:
            drawn = element("g", drawn, font_weight="600")
        self.shapes.append(element("g", drawn, class_=f"f-{hue}") if hue else drawn)

    def line(self, *points: tuple[float, float], hue: Hue = "grey", wide: float = 1.4, dashed: bool = False) -> None:
        """A line through points."""
        path = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points)
        attributes: dict[str, str | float] = {"stroke_dasharray": "4 3"} if dashed else {}
        drawn = element("path", d=path, fill="none", stroke="currentColor", stroke_width=wide, **attributes)
        self.shapes.append(element("g", drawn, class_=f"f-{hue}"))

    def area(self, *points: tuple[float, float], hue: Hue = "grey", strong: bool = False) -> None:
        """What a line through points encloses, faint with a thin border; with `strong` in the full colour."""
        path = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points) + "z"
        drawn = element("path", d=path, class_="f-bar" if strong else "f-block")
        self.shapes.append(element("g", drawn, class_=f"f-{hue}"))

    def arrow(
        self, *points: tuple[float, float], hue: Hue = "grey", wide: float = 1.4, dashed: bool = False, both: bool = False
    ) -> None:
        """A line through points with a head at its end; with `both` at its beginning as well."""
        ends = [(points[-2], points[-1])] + ([(points[1], points[0])] if both else [])
        stops = {end: _before(start, end, _HEAD * 0.8) for start, end in ends}
        self.line(*(stops.get(point, point) for point in points), hue=hue, wide=wide, dashed=dashed)
        for start, end in ends:
            turn = atan2(end[1] - start[1], end[0] - start[0])
            corners = [end, *(_around(end, turn + side * 2.7, _HEAD) for side in (1, -1))]
            path = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in corners) + "z"
            self.shapes.append(element("g", element("path", d=path, class_="f-sliver"), class_=f"f-{hue}"))

    def curve(self, start: tuple[float, float], end: tuple[float, float], *, bend: float, hue: Hue = "grey",
              wide: float = 1.4, dashed: bool = False) -> None:  # fmt: skip
        """An arc with an arrow's head; `bend` is how far its middle is from the straight line, to the left of the way."""
        length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5 or 1.0
        across = ((end[1] - start[1]) / length, -(end[0] - start[0]) / length)
        middle = tuple((a + b) / 2 + 2 * bend * c for a, b, c in zip(start, end, across, strict=True))
        turn = atan2(end[1] - middle[1], end[0] - middle[0])
        stop = _around(end, turn, -_HEAD * 0.8)
        attributes: dict[str, str | float] = {"stroke_dasharray": "4 3"} if dashed else {}
        path = f"M{px(start[0])} {px(start[1])}Q{px(middle[0])} {px(middle[1])} {px(stop[0])} {px(stop[1])}"
        corners = [end, *(_around(end, turn + side * 2.7, _HEAD) for side in (1, -1))]
        head = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in corners) + "z"
        drawn = element("path", d=path, fill="none", stroke="currentColor", stroke_width=wide, **attributes)
        self.shapes.append(element("g", drawn, element("path", d=head, class_="f-sliver"), class_=f"f-{hue}"))

    def circle(self, x: float, y: float, radius: float, words: str = "", *, hue: Hue = "grey", strong: bool = False,
               filled: bool = False, size: float = 13) -> None:  # fmt: skip
        """A circle around a point with text in its middle."""
        kind = "f-bar" if filled else "f-block-strong" if strong else "f-block"
        self.shapes.append(element("g", element("circle", cx=x, cy=y, r=radius, class_=kind), class_=f"f-{hue}"))
        if words:
            self._text(words, x, y, "middle", size, hue if filled else None, on=filled, within=2 * radius)

    def cells(self, x: float, y: float, hues: Sequence[Sequence[Hue | None]], side: float, *, gap: float = 2,
              words: Sequence[Sequence[str]] = (), size: float = 11) -> None:  # fmt: skip
        """Small squares in rows, filled with their hue; those without one are outlines."""
        for row, listed in enumerate(hues):
            for column, hue in enumerate(listed):
                left, top = x + column * (side + gap), y + row * (side + gap)
                inside = words[row][column] if words else ""
                self.box(left, top, side, side, inside, hue=hue or "grey", filled=hue is not None, empty=hue is None, round_=2,
                         size=size)  # fmt: skip

    def brace(self, start: tuple[float, float], end: tuple[float, float], words: str, *, size: float = 12,
              hue: Hue = "grey", away: float = 6) -> None:  # fmt: skip
        """A measure between two points of one height, or below each other: a line with ends, and its text outside it.

        `away` is how far it is from the points: below them or to their right, negative above them or to their left.
        """
        (x0, y0), (x1, y1) = start, end
        sign = 1 if away > 0 else -1
        if y0 == y1:
            y = y0 + away
            self.line((x0, y - sign * 4), (x0, y), (x1, y), (x1, y - sign * 4), hue=hue)
            lines = words.count("\n")
            first = y + sign * (size * 0.85) - (lines * size * 1.25 if sign < 0 else 0.0)
            self.label(words, (x0 + x1) / 2, first, anchor="middle", size=size)
        else:
            x = x0 + away
            self.line((x - sign * 4, y0), (x, y0), (x, y1), (x - sign * 4, y1), hue=hue)
            first = (y0 + y1) / 2 - words.count("\n") * size * 0.625
            self.label(words, x + sign * 6, first, anchor="start" if sign > 0 else "end", size=size)

    def drawing(self, key: str, title: str, words: str, note: str = "") -> Drawing:
        """The finished picture."""
        name = id_part(key)
        svg = element(
            "svg",
            element("title", escaped(title), id=f"{name}-title"),
            element("desc", escaped(words), id=f"{name}-desc"),
            *self.shapes,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {px(self.width)} {px(self.height)}",
            width="100%",
            class_="figure-svg",
            role="img",
            aria_labelledby=f"{name}-title {name}-desc",
        )
        return Drawing(key, title, words, svg, note, tuple(self._faults()))

    def _faults(self) -> Iterable[str]:
        """What is wrong with the texts: outside the picture, wider than their box, too small, on one another, or on an edge."""
        for placed in self.texts:
            if placed.left < 0 or placed.top < 0 or placed.right > self.width or placed.bottom > self.height:
                yield f"{placed.words!r} leaves the picture"
            if placed.within is not None and placed.right - placed.left > placed.within - 2 * _PADDING:
                yield f"{placed.words!r} is wider than its box"
            if placed.bottom - placed.top < 11 * 1.1 - 0.01:
                yield f"{placed.words!r} is smaller than 11 pixels"
            for left, top, right, bottom in self.boxes if placed.within is None else ():
                across = min(placed.right, right) - max(placed.left, left)
                down = min(placed.bottom, bottom) - max(placed.top, top)
                inside = placed.left >= left and placed.right <= right and placed.top >= top and placed.bottom <= bottom
                if across > 1 and down > 1 and not inside:
                    yield f"{placed.words!r} lies on the edge of a box"
        for number, one in enumerate(self.texts):
            for other in self.texts[number + 1 :]:
                across = min(one.right, other.right) - max(one.left, other.left)
                down = min(one.bottom, other.bottom) - max(one.top, other.top)
                if across > 1 and down > 1:
                    yield f"{one.words!r} lies on {other.words!r}"


def _around(middle: tuple[float, float], turn: float, radius: float) -> tuple[float, float]:
    return middle[0] + radius * cos(turn), middle[1] + radius * sin(turn)


def _before(start: tuple[float, float], end: tuple[float, float], by: float) -> tuple[float, float]:
    """A point on the way from start to end, so far before the end."""
    return _around(end, atan2(end[1] - start[1], end[0] - start[0]), -by)
