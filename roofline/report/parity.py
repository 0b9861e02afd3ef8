"""Measured against predicted as a page: parity, residuals, errors by group, what was furthest off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.formatting import percent
from roofline.report.html import document, escape, table
from roofline.report.summary import Table

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 3000
"""Drawn at random: a plot of more says no more."""
_CONFIG = {"displaylogo": False, "responsive": True, "showSendToCloud": False}


def page(frame: pd.DataFrame, found: dict[str, Any]) -> str:
    """A whole document. `frame` has a row a record, `found` is what `roofline validate --json` gives."""
    from plotly.offline import get_plotlyjs

    count = len(frame)
    some = frame.sample(MOST_POINTS, random_state=0) if count > MOST_POINTS else frame
    drawn = f"{count:,} records" if count == len(some) else f"{len(some):,} of {count:,} records, drawn at random"
    title = f"Predicted and measured: {', '.join(sorted(set(map(str, frame['hardware']))))}"
    parts = [
        f'<h1>{escape(title)}</h1>\n<p class="note">{escape(drawn)}</p>\n',
        f"<p>{escape(_overall(found['overall']))}</p>\n",
        _plot(_parity(some), "parity"),
        _plot(_residuals(some), "residuals"),
        table(_groups(found["groups"])),
        table(_worst(found["worst"])),
    ]
    return document(title, "".join(parts), script=get_plotlyjs())


def _overall(overall: dict[str, Any]) -> str:
    estimate, bound = overall["estimate"], overall["bound"]
    text = f"The bound is off by {percent(bound['median_ape'], 1)} in the median."
    if estimate["median_ape"] is not None:
        off, mean, bias = (
            percent(estimate["median_ape"], 1),
            percent(estimate["mape"], 1),
            percent(estimate["bias"], 1, sign=True),
        )
        inside = percent(overall["coverage"], 1)
        text = (
            f"The estimate is off by {off} in the median ({mean} in the mean, bias {bias}); {inside} of the measurements "
            f"lie in its 80 % interval. {text}"
        )
    return text


def _plot(figure: Any, name: str) -> str:
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=_CONFIG))


def _figure(title: str, x: str, y: str) -> Any:
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.update_layout(title=title, template="plotly_white", height=560, legend={"title": "op"}, margin={"l": 70, "r": 20})
    figure.update_xaxes(title=x, type="log", exponentformat="SI")
    figure.update_yaxes(title=y, type="log", exponentformat="SI")
    return figure


def _predicted(frame: pd.DataFrame) -> pd.Series[float]:
    return frame["estimate_s"].where(frame["estimate_s"].notna(), frame["bound_s"])


def _traces(figure: Any, frame: pd.DataFrame, x: pd.Series[float], y: pd.Series[float]) -> None:
    from plotly.graph_objects import Scatter

    for op in sorted(set(map(str, frame["op"]))):
        rows = frame["op"] == op
        text = [f"{b} {k}" for b, k in zip(frame[rows]["backend"], frame[rows]["kernel"], strict=True)]
        figure.add_trace(Scatter(x=x[rows], y=y[rows], mode="markers", name=op, text=text, marker={"size": 4, "opacity": 0.55}))


def _parity(frame: pd.DataFrame) -> Any:
    from plotly.graph_objects import Scatter

    figure = _figure("Parity: on the line prediction and measurement agree", "measured, s", "predicted, s")
    predicted = _predicted(frame)
    _traces(figure, frame, frame["measured_s"], predicted)
    ends = [float(frame["measured_s"].min()), float(frame["measured_s"].max())]
    figure.add_trace(Scatter(x=ends, y=ends, mode="lines", name="equal", line={"color": "#444", "width": 1}))
    return figure


def _residuals(frame: pd.DataFrame) -> Any:
    figure = _figure("Residuals: 1 is exact, 2 predicts twice the time", "measured, s", "predicted / measured")
    _traces(figure, frame, frame["measured_s"], _predicted(frame) / frame["measured_s"])
    figure.add_hline(y=1, line={"color": "#444", "width": 1})
    return figure


def _groups(groups: list[dict[str, Any]]) -> Table:
    cells = tuple(
        (
            group["hardware"], group["op"], group["dtype"], group["backend"], group["regime"], f"{group['n']:,}",
            *(percent(group["bound"][name], 1) for name in ("median_ape", "mape")),
            *(percent(group["estimate"][name], 1) for name in ("median_ape", "mape")),
            percent(group["estimate"]["bias"], 1, sign=True), percent(group["coverage"], 1),
        )
        for group in groups
    )  # fmt: skip
    columns = (
        "hardware", "op", "dtype", "backend", "regime", "n", "bound: median error", "mean",
        "estimate: median error", "mean", "bias", "in band",
    )  # fmt: skip
    return Table("Errors by group", "error: |predicted/measured - 1|", columns, (*([False] * 5), *([True] * 7)), cells)


def _worst(rows: list[dict[str, Any]]) -> Table:
    cells = tuple(
        (
            row["hardware"], row["op"], row["backend"], " ".join(f"{name}={value}" for name, value in row["dims"].items()),
            formatting.seconds(row["measured_s"]), formatting.seconds(row["estimate_s"] or row["bound_s"]),
            f"{(row['estimate_s'] or row['bound_s']) / row['measured_s']:.2f}",
        )
        for row in rows
    )  # fmt: skip
    columns = ("hardware", "op", "backend", "dimensions", "measured", "predicted", "ratio")
    return Table("Furthest off", "", columns, (*([False] * 4), *([True] * 3)), cells)
