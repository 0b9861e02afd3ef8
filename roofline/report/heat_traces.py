"""A heat as plotly's traces: colours, hatches over them, texts over those, and entries of the legend."""

from __future__ import annotations

from typing import Any

from roofline.report.figure import Series
from roofline.report.frame import Frame
from roofline.report.heat import STEPS, cell_text, is_hatched, ramp, steps
from roofline.report.letters import shorten, text_width
from roofline.report.plotted_text import halo, hover, plain
from roofline.report.roles import DARK, HEAT_DARK, HEAT_DARK_TEXT, HEAT_LIGHT, HEAT_LIGHT_TEXT, LIGHT
from roofline.report.spans import position


def heat_traces(series: Series, frame: Frame, dark: bool) -> list[dict[str, Any]]:
    """Colours, hatches over them, texts over those, and swatches for the legend."""
    x, y = [position(frame.x, value) for value in series.x], [position(frame.y, value) for value in series.y]
    scale = ramp(series)
    colours = HEAT_DARK if dark else HEAT_LIGHT
    cells = [(row, column) for row, _ in enumerate(series.y) for column, _ in enumerate(series.x)]
    columns = len(series.x)
    shown = [series.labels[r * columns + c] if len(series.labels) > 0 else cell_text(series, r, c) for r, c in cells]
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
        "hovertext": [[hover(shown[r * columns + c]) for c in range(columns)] for r, _ in enumerate(series.y)],
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
    found: list[list[float | str]] = []
    for shade in range(STEPS):
        end = 1.0 if shade == STEPS - 1 else scale.edge(shade + 1)
        found += [[scale.edge(shade), colours[shade]], [end, colours[shade]]]
    return found


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
        "text": [hover(text) if size >= 8.5 else "" for text in texts],
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
