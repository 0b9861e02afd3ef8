"""Series of a figure as traces of plotly: scatter, bar and heatmap, which its cartesian bundle has."""

from __future__ import annotations

from typing import Any

from roofline.report.axes import Slot, Span, bar_ends, has_horizontal_bars, position, shorten, slots, text_width
from roofline.report.figure import Figure, Series
from roofline.report.layout import Frame, Label, diameter, drawn_first, upright
from roofline.report.styles import (
    DARK,
    FAINT,
    HEAT_DARK,
    HEAT_DARK_TEXT,
    HEAT_LIGHT,
    HEAT_LIGHT_TEXT,
    LIGHT,
    STEPS,
    Look,
    cell_text,
    in_legend,
    is_hatched,
    looks,
    ramp,
    steps,
)

_HIDDEN = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that turn the direction of text."""


def plain(text: str) -> str:
    """The text escaped so that plotly's markup finds nothing in it, without control characters.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    visible = "".join(
        [letter for letter in text if letter >= " " and not ("\x7f" <= letter <= "\x9f") and letter not in _HIDDEN]
    )
    return visible.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _hover(text: str) -> str:
    """A hover text: at most 14 lines of at most 110 characters."""
    return "<br>".join([plain(shorten(line, 110)) for line in text.split("\n")[:14]])


def halo(colour: str) -> str:
    """A CSS text shadow all around a text, which keeps hatches away from its letters."""
    return f"0 0 2px {colour}, 0 0 3px {colour}, 0 0 4px {colour}, 0 0 5px {colour}"


# Heat maps


def _heat_traces(series: Series, frame: Frame, dark: bool) -> list[dict[str, Any]]:
    """Traces of a heat map: colours, hatches over them, texts over those, and swatches for the legend."""
    x, y = [position(frame.x, value) for value in series.x], [position(frame.y, value) for value in series.y]
    scale = ramp(series)
    colours = HEAT_DARK if dark else HEAT_LIGHT
    cells = [(row, column) for row, _ in enumerate(series.y) for column, _ in enumerate(series.x)]
    columns = len(series.x)
    texts = [series.labels[r * columns + c] if len(series.labels) > 0 else cell_text(series, r, c) for r, c in cells]
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": [list(row) for row in series.z],
        "zmin": scale.low,
        "zmax": scale.high,
        "colorscale": _colorscale(series, colours),
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "text",
        "hovertext": [[_hover(texts[r * columns + c]) for c in range(columns)] for r, _ in enumerate(series.y)],
        "name": plain(shorten(series.name, 60)),
    }
    if len(series.keys) > 0:
        heat["customdata"] = [[series.keys[r * columns + c] for c in range(columns)] for r, _ in enumerate(series.y)]
    return [
        heat,
        _hatches(series, x, y, cells, dark),
        _cell_texts(series, x, y, cells, frame, dark),
        *_swatches(series, colours, dark),
    ]


def _colorscale(series: Series, colours: tuple[str, ...]) -> list[list[float | str]]:
    """Steps, not a slope: each shade from its edge to the next, so that a text's contrast is known."""
    scale = ramp(series)
    scale_stops: list[list[float | str]] = []
    for shade in range(STEPS):
        end = 1.0 if shade == STEPS - 1 else scale.edge(shade + 1)
        scale_stops += [[scale.edge(shade), colours[shade]], [end, colours[shade]]]
    return scale_stops


def _hatches(
    series: Series, x: list[float | None], y: list[float | None], cells: list[tuple[int, int]], dark: bool
) -> dict[str, Any]:
    table = DARK if dark else LIGHT
    hatched = [(row, column) for row, column in cells if is_hatched(series, row, column)]
    middles = [(x[column], y[row]) for row, column in hatched]
    return {
        "type": "bar",
        "x": [middle for middle, _ in middles],
        "y": [0.96 for _ in middles],
        "base": [(0.0 if middle is None else middle) - 0.48 for _, middle in middles],
        "width": 0.96,
        "marker": {
            "color": table["ground"],
            "line": {"color": table["grey"], "width": 1},
            "pattern": {
                "shape": "/",
                "fillmode": "replace",
                "fgcolor": table["grey"],
                "bgcolor": table["ground"],
                "size": 8,
                "solidity": 0.16,
            },
        },
        "hoverinfo": "skip",
        "name": plain(shorten(series.hatched_name, 60)),
        "showlegend": series.hatched_name != "" and len(hatched) > 0,
    }


def _cell_texts(
    series: Series, x: list[float | None], y: list[float | None], cells: list[tuple[int, int]], frame: Frame, dark: bool
) -> dict[str, Any]:
    """The cells' texts, all of one size; none where cells are too narrow for letters that can be read."""
    table, scale = DARK if dark else LIGHT, ramp(series)
    on_colours = HEAT_DARK_TEXT if dark else HEAT_LIGHT_TEXT
    hues: list[str] = []
    halos: list[str] = []
    for row, column in cells:
        shade = None if is_hatched(series, row, column) else scale.shade(series.z[row][column])
        hues.append(table["ink"] if shade is None else on_colours[shade])
        halos.append(halo(table["ground"]) if is_hatched(series, row, column) else "none")
    texts = [cell_text(series, row, column) for row, column in cells]
    widest = max([text_width(line, 11.0) for text in texts for line in text.split("\n")], default=1.0)
    size = min(11.0, 11.0 * frame.width / max(len(series.x), 1) / max(widest, 1.0))
    return {
        "type": "scatter",
        "mode": "text",
        "x": [x[column] for _, column in cells],
        "y": [y[row] for row, _ in cells],
        "text": [_hover(text) if size >= 8.5 else "" for text in texts],
        "textfont": {"size": size, "color": hues, "shadow": halos},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _swatches(series: Series, colours: tuple[str, ...], dark: bool) -> list[dict[str, Any]]:
    """Entries of the legend that draw nothing: some shades and what has them."""
    table = DARK if dark else LIGHT
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [None],
            "y": [None],
            "marker": {"symbol": "square", "size": 14, "color": colours[shade], "line": {"color": table["grey"], "width": 1}},
            "name": plain(shorten(f"{series.name} {text}", 60)),
            "hoverinfo": "skip",
            "showlegend": True,
        }
        for shade, text in steps(series)
    ]


# Other series

_SLIVER = 0.004
"""Bars shorter than this share of the axis have no border: it would be all there is of them."""
_NOTHING = "rgba(0,0,0,0)"


def traces(figure: Figure, frame: Frame, texts: list[Label], dark: bool) -> list[dict[str, Any]]:
    """Plotly traces of every series, in order; a heat map takes more than one. `texts` are labels as of `layout.labels`."""
    table, places = DARK if dark else LIGHT, slots(figure)
    made: list[dict[str, Any]] = []
    for index, (series, style, listed) in enumerate(zip(figure.series, looks(figure), in_legend(figure), strict=True)):
        if series.kind == "heat":
            made += _heat_traces(series, frame, dark)
            continue
        own = [label for label in texts if label.kind == "short" and label.index == index and label.leader is None]
        if series.kind == "band":
            trace = _band(series, frame, style, table)
        elif series.kind == "bars":
            trace = _bars(series, frame, style, places[index], has_horizontal_bars(figure), table)
        else:
            trace = (
                _line(series, frame, style, own, table) if series.kind == "line" else _points(series, frame, style, own, table)
            )
        trace["name"] = plain(shorten(series.name, 60))
        trace["showlegend"] = listed
        if sum([1 for other in figure.series if other.name == series.name]) > 1:
            trace["legendgroup"] = trace["name"]
        made.append(trace)
    return made


def _spots(series: Series, frame: Frame) -> tuple[list[float | None], list[float | None]]:
    """The places of a series' points on both axes, None where there is none."""
    return [position(frame.x, value) for value in series.x], [position(frame.y, value) for value in series.y]


def _about(series: Series, order: list[int]) -> dict[str, Any]:
    """What the pointer shows of each point, and its key."""
    trace: dict[str, Any] = {"hoverinfo": "text" if len(series.labels) > 0 else "skip"}
    if len(series.labels) > 0:
        trace["hovertext"] = [_hover(series.labels[index]) for index in order]
    if len(series.keys) > 0:
        trace["customdata"] = [series.keys[index] for index in order]
    return trace


def _texts(own: list[Label], order: list[int], table: dict[str, str], trace: dict[str, Any], colour: str) -> None:
    """The short texts that have a place, beside their points."""
    text, where = ["" for _ in order], ["top center" for _ in order]
    for label in own:
        text[order.index(label.point)], where[order.index(label.point)] = _hover(label.text), label.where
    trace["text"], trace["textposition"] = text, where
    trace["textfont"] = {"size": 11, "color": colour, "shadow": halo(table["ground"])}


def _line(series: Series, frame: Frame, style: Look, own: list[Label], table: dict[str, str]) -> dict[str, Any]:
    x, y = _spots(series, frame)
    order = list(range(len(x)))
    trace = _about(series, order)
    trace["type"], trace["x"], trace["y"] = "scatter", x, y
    trace["mode"] = "lines" if style.symbol == "" else "lines+markers"
    trace["line"] = {"color": table[style.hue], "width": 2, "dash": style.dash}
    trace["marker"] = _marker(style, table)
    if len(own) > 0:
        trace["mode"] = "lines+markers+text"  # texts keep away from markers, seen or not
        if style.symbol == "":
            trace["marker"] = {"size": 8, "color": _NOTHING, "line": {"width": 0}}
        _texts(own, order, table, trace, table["ink"])
    return trace


def _marker(style: Look, table: dict[str, str]) -> dict[str, Any]:
    symbol = f"{style.symbol}-open" if style.hollow else "circle" if style.symbol == "" else style.symbol
    upright = style.symbol == "line-ns"
    line = {"color": table[style.hue if style.hollow or upright else "ground"], "width": 3 if upright else 1}
    return {"symbol": symbol, "size": 32 if upright else 8, "color": table[style.hue], "line": line}


def _points(series: Series, frame: Frame, style: Look, own: list[Label], table: dict[str, str]) -> dict[str, Any]:
    x, y = _spots(series, frame)
    order = drawn_first(series)
    trace = _about(series, order)
    trace["type"], trace["mode"] = "scatter", "markers"
    trace["x"], trace["y"] = [x[index] for index in order], [y[index] for index in order]
    marker = _marker(style, table)
    if len(series.size) > 0:
        marker["size"] = [diameter(series, index, frame) for index in order]
        marker["opacity"] = 0.75
    if style.symbol == "line-ns":
        marker["size"] = upright(frame) / 1.4
    trace["marker"], trace["cliponaxis"] = marker, False
    if len(own) > 0:
        trace["mode"] = "markers+text"
        _texts(own, order, table, trace, table[style.hue])
    return trace


def _band(series: Series, frame: Frame, style: Look, table: dict[str, str]) -> dict[str, Any]:
    """One outline: there along the upper edge, back along the lower one."""
    x = [position(frame.x, value) for value in series.x]
    upper = [position(frame.x, value) for value in series.x_high] if len(series.x_high) > 0 else x
    low, high = [position(frame.y, value) for value in series.low], [position(frame.y, value) for value in series.high]
    drawn = [i for i, place in enumerate(x) if place is not None and low[i] is not None and high[i] is not None]
    back = [drawn[len(drawn) - 1 - i] for i, _ in enumerate(drawn)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*[upper[i] for i in drawn], *[x[i] for i in back]],
        "y": [*[high[i] for i in drawn], *[low[i] for i in back]],
        "fill": "toself",
        "fillcolor": FAINT[table[style.hue]],
        "line": {"color": table[style.hue], "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _bars(series: Series, frame: Frame, style: Look, slot: Slot, lies: bool, table: dict[str, str]) -> dict[str, Any]:
    along, on = (frame.y, frame.x) if lies else (frame.x, frame.y)
    order = list(range(len(series.x)))
    spans = [bar_ends(series, index, lies) for index in order]
    starts = [_start(on, start) for start, _ in spans]
    lengths = [end - start for start, (_, end) in zip(starts, spans, strict=True)]
    places = [position(along, value) for value in (series.y if lies else series.x)]
    trace = _about(series, order)
    trace["type"], trace["orientation"] = "bar", "h" if lies else "v"
    trace["x"], trace["y"] = (lengths, places) if lies else (places, lengths)
    trace["base"], trace["offset"], trace["width"] = starts, slot.offset, slot.width
    hue, span = table[style.hue], on.high - on.low
    wide = [on.scale == "log" or abs(length) > _SLIVER * span for length in lengths]
    trace["marker"] = {
        "color": table["ground"] if style.hollow else hue,
        "line": {"color": hue if style.hollow else table["ground"], "width": [1 if long else 0 for long in wide]},
        "pattern": {"shape": style.hatch, "fillmode": "overlay", "fgcolor": table["ground"], "size": 7, "solidity": 0.2},
    }
    if len(series.short) > 0:
        inside = len(series.base) > 0
        trace["text"] = [plain(shorten(text, 32)) for text in series.short]
        trace["textposition"] = "inside" if inside else "outside"
        trace["textangle"], trace["insidetextanchor"], trace["cliponaxis"] = 0, "middle", False
        trace["insidetextfont"] = {"size": 11, "color": table["ink"] if style.hollow else table["ground"]}
        if style.hatch != "":
            trace["insidetextfont"]["shadow"] = halo(hue)
    return trace


def _start(on: Span, start: float) -> float:
    """Where a bar starts; on a logarithmic axis at its low end at the least."""
    return max(start, on.low) if on.scale == "log" else start
