"""Zones and marks of a picture, and the texts that have a place in it."""

from __future__ import annotations

from roofline.report.figure import Figure, Mark, Zone
from roofline.report.frame import Box, Frame, across, down, zone_box
from roofline.report.labels import Label
from roofline.report.roles import look
from roofline.report.spans import position
from roofline.report.svg.elements import ANCHORS, element, px, text
from roofline.report.svg.symbols import stroke


def zones(figure: Figure, frame: Frame) -> str:
    """Shaded parts, under everything."""
    return "".join(_zone(zone, zone_box(figure, index, frame)) for index, zone in enumerate(figure.zones))


def _zone(zone: Zone, box: Box) -> str:
    rect = element("rect", x=box.left, y=box.top, width=box.right - box.left, height=box.bottom - box.top, class_="f-zone")
    return element("g", rect, class_=f"f-{look(zone.role).hue}")


def marks(figure: Figure, frame: Frame, over: list[Label]) -> str:
    """Lines across the picture, as far up as the texts over it."""
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


def texts(labels: list[Label], frame: Frame) -> str:
    """Placed texts, each held at the side that is next to what it names."""
    parts = []
    for label in labels:
        anchor = ANCHORS[label.where.split(" ")[1]]
        box = label.box
        x = box.left if anchor == "start" else box.right if anchor == "end" else (box.left + box.right) / 2
        style = "f-text" if label.kind == "zone" else "f-text f-halo"
        size = frame.font - 1 if label.kind == "short" else frame.font
        parts.append(text(label.text, x, (box.top + box.bottom) / 2, anchor=anchor, size=size, class_=style))
    return "".join(parts)
