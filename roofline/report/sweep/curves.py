"""A time along the one axis of the workload that has several values, a line a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline import formatting
from roofline.report.figure import Axis, Figure, Series
from roofline.report.sweep.columns import LENGTHS, basis, fitting
from roofline.report.sweep.swept import LENGTH, Swept, thinned
from roofline.report.view.cells import seconds, table, whole, words

if TYPE_CHECKING:
    import pandas as pd

MOST = 5
"""Lines of a figure: as many as there are hues."""
_POINTS = 40


def curves(swept: Swept, phase: str, rows: pd.DataFrame, chosen: list[tuple[str, pd.DataFrame]]) -> Figure | None:
    """The lines of some configurations; None where batch and length have one value each, or there are no times."""
    length = LENGTH[phase]
    along = next((name for name in ("batch", length) if name in rows.columns and len(rows[name].unique()) > 1), None)
    found = basis(swept, phase, rows)
    if along is None or found is None:
        return None
    series, cells, less = [], [], False
    for number, (called, group) in enumerate(chosen):
        kept = group[fitting(group) & group[found.time].notna()].sort_values(along)
        less = less or len(kept) > _POINTS
        kept = thinned(kept, _POINTS)
        xs, ys = [int(value) for value in kept[along]], [float(value) for value in kept[found.time]]
        series.append(
            Series(
                name=called,
                kind="line",
                role="estimate",
                x=tuple(xs),
                y=tuple(ys),
                labels=tuple(f"{called}, {x:,}: {formatting.seconds(y)}" for x, y in zip(xs, ys, strict=True)),
                variant=number,
            )
        )
        cells += [(words(called), whole(x), seconds(y)) for x, y in zip(xs, ys, strict=True)]
    across = "batch" if along == "batch" else LENGTHS[phase]
    of = "Estimates" if found.name == "estimate" else "Bounds"
    fixed = length if along == "batch" else "batch"
    at = f"{rows[fixed].iloc[0]:,}" if fixed in rows.columns else ""
    where = f" at {at} {LENGTHS[phase]}" if along == "batch" else f" of {at} sequences"
    return Figure(
        key=f"curves-{phase}",
        title=f"{found.title} by {across}",
        note=f"{of}{where if at else ''}, as far as it fits in memory."
        + (f" Shown are {_POINTS} points of each line, evenly." if less else ""),
        x=Axis(title=across, scale="log", unit="sequences" if along == "batch" else "tokens"),
        y=Axis(title=found.title, scale="log", unit="s"),
        series=tuple(series),
        table=table(f"curves-{phase}-rows", f"{found.title} by {across}", "", ("configuration", across, found.title), cells),
    )
