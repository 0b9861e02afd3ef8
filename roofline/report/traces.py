"""The series of a figure as plotly's traces: scatter, bar and heatmap, which its cartesian bundle has."""

from __future__ import annotations

from typing import Any

from roofline.report.figure import Figure, Series
from roofline.report.frame import Frame, diameter, drawn_first
from roofline.report.heat_traces import heat_traces
from roofline.report.labels import Label
from roofline.report.letters import shorten
from roofline.report.plotted_text import halo, hover, plain
from roofline.report.roles import DARK, FAINT, LIGHT, Look, in_legend, looks
from roofline.report.spans import Slot, Span, ends, lying, position, slots

_SLIVER = 0.004
"""Bars shorter than this share of the axis have no border: it would be all there is of them."""
_NOTHING = "rgba(0,0,0,0)"


def traces(figure: Figure, frame: Frame, texts: list[Label], dark: bool) -> list[dict[str, Any]]:
    """The traces of every series, in order; a band and a heat take more than one."""
    table, places = DARK if dark else LIGHT, slots(figure)
    found: list[dict[str, Any]] = []
    for index, (series, style, listed) in enumerate(zip(figure.series, looks(figure), in_legend(figure), strict=True)):
        if series.kind == "heat":
            found += heat_traces(series, frame, dark)
            continue
        own = [label for label in texts if label.kind == "short" and label.index == index]
        if series.kind == "band":
            trace = _band(series, frame, style, table)
        elif series.kind == "bars":
            trace = _bars(series, frame, style, places[index], lying(figure), table)
        else:
            trace = (
                _line(series, frame, style, own, table) if series.kind == "line" else _points(series, frame, style, own, table)
            )
        trace["name"] = plain(shorten(series.name, 60))
        trace["showlegend"] = listed
        if sum([1 for other in figure.series if other.name == series.name]) > 1:
            trace["legendgroup"] = trace["name"]
        found.append(trace)
    return found


def _spots(series: Series, frame: Frame) -> tuple[list[float | None], list[float | None]]:
    """The places of a series' points on both axes, None where there is none."""
    return [position(frame.x, value) for value in series.x], [position(frame.y, value) for value in series.y]


def _about(series: Series, order: list[int]) -> dict[str, Any]:
    """What the pointer shows of each point, and its key."""
    found: dict[str, Any] = {"hoverinfo": "text" if len(series.labels) > 0 else "skip"}
    if len(series.labels) > 0:
        found["hovertext"] = [hover(series.labels[index]) for index in order]
    if len(series.keys) > 0:
        found["customdata"] = [series.keys[index] for index in order]
    return found


def _texts(own: list[Label], order: list[int], table: dict[str, str], found: dict[str, Any]) -> None:
    """The short texts that have a place, beside their points."""
    text, where = ["" for _ in order], ["top center" for _ in order]
    for label in own:
        text[order.index(label.point)], where[order.index(label.point)] = plain(label.text), label.where
    found["text"], found["textposition"] = text, where
    found["textfont"] = {"size": 11, "color": table["ink"]}


def _line(series: Series, frame: Frame, style: Look, own: list[Label], table: dict[str, str]) -> dict[str, Any]:
    x, y = _spots(series, frame)
    order = list(range(len(x)))
    found = _about(series, order)
    found["type"], found["x"], found["y"] = "scatter", x, y
    found["mode"] = "lines" if style.symbol == "" else "lines+markers"
    found["line"] = {"color": table[style.hue], "width": 2, "dash": style.dash}
    found["marker"] = _marker(style, table)
    if len(own) > 0:
        found["mode"] = "lines+markers+text"  # texts keep away from markers, seen or not
        if style.symbol == "":
            found["marker"] = {"size": 8, "color": _NOTHING, "line": {"width": 0}}
        _texts(own, order, table, found)
    return found


def _marker(style: Look, table: dict[str, str]) -> dict[str, Any]:
    symbol = f"{style.symbol}-open" if style.hollow else "circle" if style.symbol == "" else style.symbol
    upright = style.symbol == "line-ns"
    line = {"color": table[style.hue if style.hollow or upright else "ground"], "width": 3 if upright else 1}
    return {"symbol": symbol, "size": 32 if upright else 8, "color": table[style.hue], "line": line}


def _points(series: Series, frame: Frame, style: Look, own: list[Label], table: dict[str, str]) -> dict[str, Any]:
    x, y = _spots(series, frame)
    order = drawn_first(series)
    found = _about(series, order)
    found["type"], found["mode"] = "scatter", "markers"
    found["x"], found["y"] = [x[index] for index in order], [y[index] for index in order]
    marker = _marker(style, table)
    if len(series.size) > 0:
        marker["size"] = [diameter(series, index, frame) for index in order]
        marker["opacity"] = 0.75
    found["marker"], found["cliponaxis"] = marker, False
    if len(own) > 0:
        found["mode"] = "markers+text"
        _texts(own, order, table, found)
    return found


def _band(series: Series, frame: Frame, style: Look, table: dict[str, str]) -> dict[str, Any]:
    """One outline: there along the upper edge, back along the lower one."""
    x = [position(frame.x, value) for value in series.x]
    low, high = [position(frame.y, value) for value in series.low], [position(frame.y, value) for value in series.high]
    kept = [i for i, place in enumerate(x) if place is not None and low[i] is not None and high[i] is not None]
    back = [kept[len(kept) - 1 - i] for i, _ in enumerate(kept)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x[i] for i in [*kept, *back]],
        "y": [*[high[i] for i in kept], *[low[i] for i in back]],
        "fill": "toself",
        "fillcolor": FAINT[table[style.hue]],
        "line": {"color": table[style.hue], "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _bars(series: Series, frame: Frame, style: Look, slot: Slot, lies: bool, table: dict[str, str]) -> dict[str, Any]:
    along, on = (frame.y, frame.x) if lies else (frame.x, frame.y)
    order = list(range(len(series.x)))
    spans = [ends(series, index, lies) for index in order]
    starts = [_start(on, start) for start, _ in spans]
    lengths = [end - start for start, (_, end) in zip(starts, spans, strict=True)]
    places = [position(along, value) for value in (series.y if lies else series.x)]
    found = _about(series, order)
    found["type"], found["orientation"] = "bar", "h" if lies else "v"
    found["x"], found["y"] = (lengths, places) if lies else (places, lengths)
    found["base"], found["offset"], found["width"] = starts, slot.offset, slot.width
    hue, span = table[style.hue], on.high - on.low
    wide = [on.scale == "log" or abs(length) > _SLIVER * span for length in lengths]
    found["marker"] = {
        "color": table["ground"] if style.hollow else hue,
        "line": {"color": hue if style.hollow else table["ground"], "width": [1 if long else 0 for long in wide]},
        "pattern": {"shape": style.hatch, "fillmode": "overlay", "fgcolor": table["ground"], "size": 7, "solidity": 0.2},
    }
    if len(series.short) > 0:
        inside = len(series.base) > 0
        found["text"] = [plain(shorten(text, 32)) for text in series.short]
        found["textposition"] = "inside" if inside else "outside"
        found["textangle"], found["insidetextanchor"], found["cliponaxis"] = 0, "middle", False
        found["insidetextfont"] = {"size": 11, "color": table["ink"] if style.hollow else table["ground"]}
        if style.hatch != "":
            found["insidetextfont"]["shadow"] = halo(hue)
    return found


def _start(on: Span, start: float) -> float:
    """Where a bar starts; on a logarithmic axis at its low end at the least."""
    return max(start, on.low) if on.scale == "log" else start
