"""A figure as plotly draws it: plain dictionaries and lists, for Python and for the browser alike.

Categories stand at 0, 1, 2, ... on linear axes with texts of ours, so that bars, hatches and borders have places by number.
Texts are written so that plotly's own markup finds nothing in them.
"""

from __future__ import annotations

import math
from typing import Any

from roofline.report.axes import Span, axis_title, position, shorten, text_width
from roofline.report.figure import Axis, Block, Figure, Mark, Zone
from roofline.report.layout import Frame, Label, above, block_lines, diameter, labels, spot
from roofline.report.plotly_traces import halo, plain, traces
from roofline.report.styles import DARK, FAINT, LIGHT, in_legend, look, looks, steps
from roofline.report.svg import ROW, SLANT, WIDTH, bottom_height, framed, leans, right_width, top_height

_SWATCH = 50.0
"""Pixels of a legend's entry beside its text."""


def plot(figure: Figure, dark: bool, whole_width: float = WIDTH) -> dict[str, Any]:
    """The figure as plotly's dictionary `{"data": [...], "layout": {...}}`, without its title.

    A point's `customdata` is its key. `whole_width` is that of its box in pixels. The frame and the texts in it have the places
    that they have in the picture of the same width (`svg`), so that one can stand for the other.
    """
    table = DARK if dark else LIGHT
    frame, left = framed(figure, whole_width)
    over, inside = above(figure, frame), labels(figure, frame)
    margin = _margin(figure, frame, over, left)
    layout = _layout(figure, frame, [*over, *inside], table, margin)
    return {"data": traces(figure, frame, inside, dark), "layout": layout}


def plot_height(figure: Figure, whole_width: float) -> float:
    """The height in pixels of a figure's plot in a box of a width; its picture is no higher."""
    frame, left = framed(figure, whole_width)
    margin = _margin(figure, frame, above(figure, frame), left)
    return margin["t"] + frame.height + margin["b"]


def _margin(figure: Figure, frame: Frame, over: list[Label], left: float) -> dict[str, float]:
    """Pixels around the frame."""
    below = bottom_height(frame, figure) + ROW * _legend_rows(figure, frame.width) + 4
    return {"l": left, "r": right_width(figure), "t": top_height(over), "b": below, "pad": 0}


def _layout(
    figure: Figure, frame: Frame, texts: list[Label], table: dict[str, str], margin: dict[str, float]
) -> dict[str, Any]:
    shapes = [_block_shape(block, table) for block in figure.blocks]
    shapes += [_zone_shape(zone, frame, table) for zone in figure.zones]
    shapes += [shape for mark in figure.marks for shape in _mark_shapes(mark, table)]
    shapes += [_leader(text, figure.marks[text.index], table) for text in texts if text.kind == "above" and text.box.bottom < 0]
    height = margin["t"] + frame.height + margin["b"]
    layout: dict[str, Any] = {
        "height": height,
        "autosize": True,
        "margin": margin,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "inherit", "size": 12, "color": table["ink"]},
        "xaxis": _axis(figure, figure.x, frame.x, table, frame),
        "yaxis": _axis(figure, figure.y, frame.y, table, frame),
        "shapes": shapes,
        "annotations": [
            *[_annotation(text, figure, frame, table) for text in texts if text.kind != "short" or text.leader is not None],
            *[_block_text(block, frame) for block in figure.blocks],
        ],
        "showlegend": sum([1 for trace in in_legend(figure) if trace]) > 0,
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": (margin["b"] - bottom_height(frame, figure)) / height,
            "yanchor": "top",
            "maxheight": height,  # else half of it, and the rest is scrolled
            "xref": "container",
            "x": 0.01,
            "xanchor": "left",
            "font": {"color": table["ink"]},
            "bgcolor": "rgba(0,0,0,0)",
            "itemsizing": "constant",
            "itemwidth": 30,
            "tracegroupgap": 0,
        },
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": table["ground"],
            "bordercolor": table["grey"],
            "font": {"family": "inherit", "size": 12, "color": table["ink"]},
            "align": "left",
            "namelength": 40,
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": table["grey"], "activecolor": table["ink"]},
        "barmode": "overlay",
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "dragmode": False,
        "uirevision": figure.key,
    }
    return layout


def _axis(figure: Figure, axis: Axis, on: Span, table: dict[str, str], frame: Frame) -> dict[str, Any]:
    if len(figure.blocks) > 0:
        return {"visible": False, "range": [on.low, on.high], "fixedrange": True}
    by_name = on.scale == "category"
    heat = [series for series in figure.series if series.kind == "heat"]
    ends = [math.log10(on.low), math.log10(on.high)] if on.scale == "log" else [on.low, on.high]
    return {
        "type": "log" if on.scale == "log" else "linear",
        "range": [on.high, on.low] if by_name and axis is figure.y else ends,
        "tickmode": "array",
        "tickvals": [tick.value for tick in on.ticks],
        "ticktext": [
            _tick_text(tick.text, min(frame.longest, 26), axis is figure.y and by_name and len(heat) == 0) for tick in on.ticks
        ],
        "tickfont": {"color": table["ink"]},
        "tickangle": -SLANT if axis is figure.x and leans(frame) else 0,
        "ticks": "" if by_name else "outside",
        "tickcolor": table["grey"],
        "title": {"text": plain(shorten(axis_title(axis), 80)), "standoff": 10, "font": {"size": 13}},
        "automargin": False,
        "showgrid": not by_name,
        "gridcolor": table["grid"],
        "showline": len(heat) == 0,
        "linecolor": table["grey"],
        "zeroline": on.scale == "linear" and on.low < 0 < on.high,
        "zerolinecolor": table["grey"],
        "fixedrange": by_name,
    }


def _tick_text(text: str, most: int, folds: bool) -> str:
    """A tick's text of at most `most` characters; a name beside a row, which `folds`, takes two lines of them where it must."""
    first = text[: most + 1].rpartition(" ")[0]
    if not folds or len(text) <= most or first == "":
        return plain(shorten(text, most))
    return f"{plain(first)}<br>{plain(shorten(text[len(first) + 1 :], most))}"


def _legend_rows(figure: Figure, width: float) -> int:
    """Rows that the legend takes: one if all fits, else columns as wide as the widest entry; 0 without a legend."""
    names = [series.name for series, listed in zip(figure.series, in_legend(figure), strict=True) if listed]
    for series in figure.series:
        if series.kind == "heat":
            names += [f"{series.name} {text}" for _, text in steps(series)] + [series.hatched_name]
    widths = [text_width(shorten(name, 60), 12) + _SWATCH for name in names]
    if len(widths) == 0:
        return 0
    if sum(widths) <= width:
        return 1
    columns = max(1, math.floor(width / max(widths)))
    return math.ceil(len(widths) / columns)


def _far(on: Span, high: bool) -> float:
    """A place well beyond an end of the axis, for what reaches to the edge even where one has moved the axis."""
    if on.scale == "log":
        return on.high * 1e4 if high else on.low / 1e4
    return on.high + 5 * (on.high - on.low) if high else on.low - 5 * (on.high - on.low)


def _zone_shape(zone: Zone, frame: Frame, table: dict[str, str]) -> dict[str, Any]:
    hue = table[look(zone.role).hue]
    return {
        "type": "rect",
        "layer": "below",
        "x0": _far(frame.x, high=False) if zone.x0 is None else zone.x0,
        "x1": _far(frame.x, high=True) if zone.x1 is None else zone.x1,
        "y0": _far(frame.y, high=False) if zone.y0 is None else zone.y0,
        "y1": _far(frame.y, high=True) if zone.y1 is None else zone.y1,
        "fillcolor": hue,
        "opacity": 0.13,
        "line": {"color": hue, "width": 1, "dash": "dot"},
    }


def _block_shape(block: Block, table: dict[str, str]) -> dict[str, Any]:
    hue = table[look(block.role).hue]
    return {
        "type": "rect",
        "x0": block.x0,
        "x1": block.x1,
        "y0": block.y0,
        "y1": block.y1,
        "fillcolor": FAINT[hue] if block.strong else "rgba(0,0,0,0)",
        "line": {"color": hue, "width": 3 if block.strong else 1},
    }


def _block_text(block: Block, frame: Frame) -> dict[str, Any]:
    """The text of a block, in its middle or beside it."""
    return {
        "text": "<br>".join([plain(line) for line in block_lines(block, frame)]),
        "showarrow": False,
        "x": block.x1 if block.beside else (block.x0 + block.x1) / 2,
        "y": (block.y0 + block.y1) / 2,
        "xanchor": "left" if block.beside else "center",
        "yanchor": "middle",
        "xshift": 5 if block.beside else 0,
        "align": "left" if block.beside else "center",
        "font": {"size": 12},
    }


def _leader(label: Label, mark: Mark, table: dict[str, str]) -> dict[str, Any]:
    """From the plot's upper edge to a text in a higher row."""
    line = {"color": table[look(mark.role).hue], "width": 1}
    shape: dict[str, Any] = {"type": "line", "x0": mark.x, "x1": mark.x, "line": line}
    shape["yref"], shape["ysizemode"], shape["yanchor"] = "paper", "pixel", 1
    shape["y0"], shape["y1"] = 0, -label.box.bottom
    return shape


def _mark_shapes(mark: Mark, table: dict[str, str]) -> list[dict[str, Any]]:
    style = look(mark.role)
    line = {"color": table[style.hue], "width": 1.6, "dash": style.dash}
    shapes: list[dict[str, Any]] = []
    if mark.x is not None:
        shapes.append({"type": "line", "x0": mark.x, "x1": mark.x, "yref": "paper", "y0": 0, "y1": 1, "line": line})
    if mark.y is not None:
        shapes.append({"type": "line", "y0": mark.y, "y1": mark.y, "xref": "paper", "x0": 0, "x1": 1, "line": line})
    return shapes


def _annotation(label: Label, figure: Figure, frame: Frame, table: dict[str, str]) -> dict[str, Any]:
    """A placed text. On logarithmic axes, annotations are placed by exponent, unlike shapes."""
    vertical, horizontal = label.where.split(" ")
    annotation: dict[str, Any] = {
        "text": "<br>".join([plain(line) for line in label.text.split("\n")]),
        "showarrow": False,
        "xanchor": "right" if horizontal == "left" else "left" if horizontal == "right" else "center",
        "yanchor": "bottom" if vertical == "top" else "top",
        "font": {"size": 12},
        "align": "left",
    }
    if label.kind == "short":
        annotation.update(_led(label, figure, frame, table))
    elif label.kind == "along":
        middle = ((label.box.left + label.box.right) / 2, (label.box.top + label.box.bottom) / 2)
        annotation["x"] = _exponent(frame.x, _at(frame.x, middle[0] / frame.width))
        annotation["y"] = _exponent(frame.y, _at(frame.y, 1 - middle[1] / frame.height))
        annotation["yanchor"], annotation["textangle"] = "middle", label.angle
        annotation["font"] = {"size": 12, "color": table[looks(figure)[label.index].hue], "shadow": halo(table["ground"])}
    elif label.kind == "above":
        annotation["x"] = _exponent(frame.x, figure.marks[label.index].x)
        annotation["yref"], annotation["y"], annotation["yshift"] = "paper", 1, -label.box.bottom
    elif label.kind == "mark":
        annotation["xref"], annotation["x"] = "paper", 1 if horizontal == "left" else 0
        annotation["y"] = _exponent(frame.y, figure.marks[label.index].y)
    else:
        zone = figure.zones[label.index]
        x, y = zone.x1 if horizontal == "left" else zone.x0, zone.y0 if vertical == "top" else zone.y1
        low_y, high_y = (frame.y.high, frame.y.low) if frame.y.scale == "category" else (frame.y.low, frame.y.high)
        x = _within(frame.x, frame.x.high if horizontal == "left" else frame.x.low) if x is None else _within(frame.x, x)
        y = _within(frame.y, low_y if vertical == "top" else high_y) if y is None else _within(frame.y, y)
        annotation["x"], annotation["y"] = _exponent(frame.x, x), _exponent(frame.y, y)
        annotation["xshift"], annotation["yshift"] = (-3 if horizontal == "left" else 3), (2 if vertical == "top" else -2)
    return annotation


def _led(label: Label, figure: Figure, frame: Frame, table: dict[str, str]) -> dict[str, Any]:
    """A text away from its point, as the tail of an arrow without a head."""
    series, style = figure.series[label.index], looks(figure)[label.index]
    x, y = position(frame.x, series.x[label.point]), position(frame.y, series.y[label.point])
    place, end = spot(frame, series.x[label.point], series.y[label.point]), label.leader
    if place is None or end is None:
        return {}
    vertical = label.where.split(" ")[0]
    return {
        "x": _exponent(frame.x, x),
        "y": _exponent(frame.y, y),
        "ax": end[0] - place[0],
        "ay": end[1] - place[1],
        "yanchor": "bottom" if vertical == "top" else "top" if vertical == "bottom" else "middle",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": table["grey"],
        "standoff": diameter(series, label.point, frame) / 2,
        "font": {"size": 11, "color": table[style.hue], "shadow": halo(table["ground"])},
    }


def _at(on: Span, part: float) -> float:
    """The value at a share of an axis that has numbers."""
    return on.low * (on.high / on.low) ** part if on.scale == "log" else on.low + part * (on.high - on.low)


def _within(on: Span, value: float) -> float:
    return min(max(value, on.low), on.high)


def _exponent(on: Span, value: float | None) -> float | None:
    return None if value is None else math.log10(value) if on.scale == "log" else value
