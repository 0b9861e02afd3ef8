"""A plot's inside in pixels: where values stand, how large points are, how much room a text takes."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.report.figure import Figure, Series
from roofline.report.spans import Span, position, share, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plot's inside: its axes and its size in pixels."""

    x: Span
    y: Span
    width: float
    height: float
    font: float = 12.0
    largest: float = 32.0
    """Diameter of the largest point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def inner_height(figure: Figure) -> float:
    """Pixels from the top to the bottom of a figure's frame: so much a category, or a fixed number."""
    if figure.y.scale != "category":
        return 330.0
    names = len(span(figure, "y", 1).categories)
    heat = any(series.kind == "heat" for series in figure.series)
    return max(names, 1) * 36.0 if heat else max(names, 2) * 40.0 if names > 3 else max(names, 1) * 58.0


def across(frame: Frame, place: float) -> float:
    """Pixels from the left."""
    return share(frame.x, place) * frame.width


def down(frame: Frame, place: float) -> float:
    """Pixels from the top: categories go down, numbers go up."""
    part = share(frame.y, place)
    return (part if frame.y.scale == "category" else 1 - part) * frame.height


def spot(frame: Frame, x: float | str | None, y: float | str | None) -> tuple[float, float] | None:
    """The pixels of a value, None where it cannot be drawn."""
    along, up = position(frame.x, x), position(frame.y, y)
    return None if along is None or up is None else (across(frame, along), down(frame, up))


def diameter(series: Series, index: int, frame: Frame) -> float:
    """Pixels of a point, whose area is its share of the largest; small ones stay visible."""
    return max(7.0, frame.largest * max(series.size[index], 0.0) ** 0.5) if len(series.size) > index else 8.0


def drawn_first(series: Series) -> list[int]:
    """Points in the order in which they are drawn: large ones first, so that small ones lie on top."""
    order = list(range(len(series.x)))
    return sorted(order, key=lambda index: -series.size[index]) if len(series.size) == len(order) else order


def zone_box(figure: Figure, index: int, frame: Frame) -> Box:
    """The pixels of a zone, cut to the frame."""
    zone = figure.zones[index]
    left = 0.0 if zone.x0 is None else across(frame, zone.x0)
    right = frame.width if zone.x1 is None else across(frame, zone.x1)
    bottom = frame.height if zone.y0 is None else down(frame, zone.y0)
    top = 0.0 if zone.y1 is None else down(frame, zone.y1)
    left, right = max(min(left, right), 0.0), min(max(left, right), frame.width)
    return Box(left=left, top=max(min(top, bottom), 0.0), right=right, bottom=min(max(top, bottom), frame.height))
