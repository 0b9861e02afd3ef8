"""A canvas for drawings: boxes, texts, lines and arrows as SVG in the hues of the pages, which follow light and dark themes.

A drawing says what it shows in words too, for those who do not see it. What is drawn is kept as boxes, so that tests can tell
texts that leave the picture or lie on one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import atan2, cos, sin
from typing import Literal

from roofline.report.axes import text_width
from roofline.report.layout import Box
from roofline.report.svg import WIDTH
from roofline.report.svg_shapes import Anchor, element, escaped, hatched, id_part, px

Hue = Literal["ink", "grey", "blue", "orange", "green", "purple", "pink", "red", "gold"]
"""Colours by meaning: blue is prefill, orange decode, green compute, pink memory and what it holds, purple links and what goes
over them, red a limit or a loss, gold what is chosen, grey what is idle or empty, ink all else."""
DEVICE_HUES: tuple[Hue, ...] = ("blue", "orange", "green", "pink")
"""Of four devices, where what is drawn is whose something is; purple is left for what goes over links."""
_HEAD = 7.0
"""Pixels of an arrow's head."""
_PADDING = 3.0
_LEAST = 11.0
"""Pixels of the smallest letters."""
_NARROW, _GLYPHS = 0.88, 0.95
"""Width of a line in Arimo as a share of `text_width`; height of a line from the tallest letter to the lowest, in letters."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as SVG, and what it shows.

    Attributes:
        key: its name in files and on a page: lower-case letters, digits and "-".
        title: the caption.
        words: what can be seen, in sentences, for readers who do not see it.
        svg: the picture.
        note: a remark below the caption, Markdown; "" for none.
        canvas: what it was drawn on, which knows its texts.
    """

    key: str
    title: str
    words: str
    svg: str
    note: str
    canvas: Canvas = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Placed:
    """A line of text: where it is anchored and the size of its letters, in pixels.

    Attributes:
        words: the line.
        x: its beginning, middle or end.
        y: the middle of the text, or of its first or last line.
        down: letters from `y` down to the middle of the line, so that lines stay apart when letters are enlarged.
        anchor: what `x` is.
        size: of the letters.
        within: the width of the box that it stands in, if any.
    """

    words: str
    x: float
    y: float
    down: float
    anchor: Anchor
    size: float
    within: float | None = None

    def rectangle(self, size: float, wide: float, high: float) -> Box:
        """The rectangle that the line takes in letters of this size; `wide` as a share of its width, `high` in letters."""
        width, middle = wide * text_width(self.words, size), self.y + self.down * size
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Box(left=left, top=middle - high / 2 * size, right=left + width, bottom=middle + high / 2 * size)


@dataclass(slots=True)
class Canvas:
    """Collects shapes. Places are in pixels from the left and the top; `width` is that of a page's column.

    Texts are 13 pixels, 11 at the least: a picture is shown at its size, on slides 1.6 times as large.
    """

    height: float
    width: float = WIDTH
    shapes: list[str] = field(default_factory=list)
    texts: list[Placed] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

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
        self.boxes.append(Box(left=x, top=y, right=x + width, bottom=y + height))
        rect = element("rect", x=x, y=y, width=width, height=height, rx=round_, class_=kind, **attributes)
        self.shapes.append(element("g", rect, class_=f"f-{hue}"))
        if idle:
            self.shapes.append(hatched(Box(left=x, top=y, right=x + width, bottom=y + height), "/", hue))
        if words:
            lines = words.split("\n")
            for number, line in enumerate(lines):
                self._text(line, x + width / 2, y + height / 2, "middle", size, hue if filled else None, on=filled,
                           within=width, halo=idle, down=1.2 * (number - (len(lines) - 1) / 2))  # fmt: skip

    def label(
        self, words: str, x: float, y: float, *, anchor: Anchor = "start", size: float = 13, hue: Hue | None = None,
        halo: bool = False, strong: bool = False, at: Literal["first", "middle", "last"] = "first",
    ) -> None:  # fmt: skip
        """Text in lines, one for each line feed. Without a hue it has the colour of text.

        Args:
            words: the text.
            x: its beginning, middle or end, as `anchor` says.
            y: the middle of what `at` says.
            anchor: "start", "middle" or "end".
            size: of the letters.
            hue: of the letters.
            halo: what was drawn before stops short of the letters.
            strong: bold.
            at: what is at `y`: the first line, the last one, or the middle of all.
        """
        lines = words.split("\n")
        above = {"first": 0.0, "middle": (len(lines) - 1) / 2, "last": len(lines) - 1.0}[at]
        for number, line in enumerate(lines):
            self._text(line, x, y, anchor, size, hue, halo=halo, strong=strong, down=1.25 * (number - above))

    def _text(
        self, words: str, x: float, y: float, anchor: Anchor, size: float, hue: Hue | None, *, on: bool = False,
        within: float | None = None, halo: bool = False, strong: bool = False, down: float = 0.0,
    ) -> None:  # fmt: skip
        self.texts.append(Placed(words, x, y, down, anchor, size, within))
        kind = ("f-on" if on else "f-named" if hue else "f-text") + (" f-halo" if halo else "")
        drawn = element("text", escaped(words), x=x, y=y, dy=f"{0.35 + down:.3g}em", text_anchor=anchor, font_size=size,
                        class_=kind)  # fmt: skip
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
            self.label(words, (x0 + x1) / 2, y + sign * size * 0.85, anchor="middle", size=size,
                       at="first" if sign > 0 else "last")  # fmt: skip
        else:
            x = x0 + away
            self.line((x - sign * 4, y0), (x, y0), (x, y1), (x - sign * 4, y1), hue=hue)
            self.label(words, x + sign * 6, (y0 + y1) / 2, anchor="start" if sign > 0 else "end", size=size, at="middle")

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
        return Drawing(key, title, words, svg, note, self)

    def faults(self, smallest: float = 0.0) -> tuple[str, ...]:
        """What is wrong with the texts: outside the picture, wider than their box, too small, on one another, or on an edge.

        Args:
            smallest: pixels to which smaller letters are enlarged, as on slides; 0 for none. Widths and heights of enlarged
                letters are those of Arimo, without the margins that texts otherwise have, and two pixels are forgiven.
        """
        return tuple(self._faults(smallest))

    def _faults(self, smallest: float) -> Iterable[str]:
        wide, high, slack, padding = (_NARROW, _GLYPHS, 2.0, 0.0) if smallest else (1.0, 1.1, 1.0, _PADDING)
        outside = slack if smallest else 0.0
        texts = [(text, text.rectangle(max(text.size, smallest), wide, high)) for text in self.texts]
        for text, taken in texts:
            right, bottom = self.width + outside, self.height + outside
            if taken.left < -outside or taken.top < -outside or taken.right > right or taken.bottom > bottom:
                yield f"{text.words!r} leaves the picture"
            if text.within is not None and taken.right - taken.left > text.within - 2 * padding:
                yield f"{text.words!r} is wider than its box"
            if text.size < _LEAST:
                yield f"{text.words!r} is smaller than {_LEAST:g} pixels"
            for box in self.boxes if text.within is None else ():
                inside = (
                    taken.left >= box.left and taken.right <= box.right and taken.top >= box.top and taken.bottom <= box.bottom
                )
                if _overlap(taken, box, slack) and not inside:
                    yield f"{text.words!r} lies on the edge of a box"
        for (one, taken), (other, beside) in combinations(texts, 2):
            if _overlap(taken, beside, slack):
                yield f"{one.words!r} lies on {other.words!r}"


def _overlap(one: Box, other: Box, slack: float) -> bool:
    """Whether two rectangles have more than N pixels in common, across and down."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    return across > slack and down > slack


def _around(middle: tuple[float, float], turn: float, radius: float) -> tuple[float, float]:
    return middle[0] + radius * cos(turn), middle[1] + radius * sin(turn)


def _before(start: tuple[float, float], end: tuple[float, float], by: float) -> tuple[float, float]:
    """A point on the way from start to end, so far before the end."""
    return _around(end, atan2(end[1] - start[1], end[0] - start[0]), -by)
