"""The cells of a heat in a picture: shade, hatch, text."""

from __future__ import annotations

from roofline.report.figure import Series
from roofline.report.frame import Frame, spot
from roofline.report.heat import Ramp, cell_text, is_hatched, ramp
from roofline.report.letters import shorten, text_width
from roofline.report.svg.elements import element, text, titled
from roofline.report.svg.series import hover
from roofline.report.svg.symbols import hatch_fill

_GAP = 2.0


def heat(series: Series, frame: Frame, key: str) -> str:
    """All cells of a heat, row by row."""
    parts, scale = [], ramp(series)
    for row, y in enumerate(series.y):
        for column, x in enumerate(series.x):
            place = spot(frame, x, y)
            if place is not None:
                parts.append(_cell(series, row, column, scale, place, frame, key))
    return "".join(parts)


def _cell(series: Series, row: int, column: int, scale: Ramp, place: tuple[float, float], frame: Frame, key: str) -> str:
    wide = frame.width / len(frame.x.categories) - _GAP
    tall = frame.height / len(frame.y.categories) - _GAP
    box = {"x": place[0] - wide / 2, "y": place[1] - tall / 2, "width": wide, "height": tall}
    words = cell_text(series, row, column)
    label = hover(series, row * len(series.x) + column) or words.replace("\n", ", ")
    shade = scale.shade(series.z[row][column])
    if is_hatched(series, row, column):
        shape = element("rect", **box, class_="f-empty") + element("rect", **box, fill=hatch_fill(key, "/", "grey"))
        return titled(shape + _lines(words, place, wide, tall, "f-text f-halo"), label)
    style = "f-empty" if shade is None else f"f-heat-{shade}"
    return titled(element("rect", **box, class_=style) + _lines(words, place, wide, tall, f"{style}-text"), label)


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
