"""Where the texts of an SVG figure are, by the widths that the layout counts with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from roofline.report.axes import text_width

_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = r"-?\d+(?:\.\d+)?"


def text_boxes(element: ET.Element, x: float = 0.0, y: float = 0.0) -> Iterator[tuple[str, float, float, float, float]]:
    """Text, left, top, right and bottom of every text that stands upright."""
    transform = element.get("transform") or ""
    if match := re.fullmatch(rf"translate\(({_NUMBER}) ({_NUMBER})\)", transform):
        x, y = x + float(match[1]), y + float(match[2])
    if element.tag == f"{_SVG}text" and "rotate" not in transform:
        size, words = float(element.get("font-size", "")), element.text or ""
        wide = text_width(words, size)
        left = x + float(element.get("x", "")) - {"start": 0, "middle": wide / 2, "end": wide}[element.get("text-anchor", "")]
        base = y + float(element.get("y", ""))
        yield words, left, base - 0.75 * size, left + wide, base + 0.1 * size
    for child in element:
        yield from text_boxes(child, x, y)


def text_faults(picture: str) -> list[str]:
    """Upright texts of a figure that leave it, and pairs of them that meet."""
    tree = ET.fromstring(picture)  # noqa: S314 - our own
    width, height = (float(part) for part in (tree.get("viewBox") or "").split()[2:])
    boxes = list(text_boxes(tree))
    faults = [
        f"{words!r} leaves the picture"
        for words, left, top, right, bottom in boxes
        if left < 0 or top < 0 or right > width or bottom > height
    ]
    for one, other in itertools.combinations(boxes, 2):
        beside = one[3] <= other[1] or other[3] <= one[1]
        if not beside and not (one[4] <= other[2] or other[4] <= one[2]):
            faults.append(f"{one[0]!r} meets {other[0]!r}")
    return faults
