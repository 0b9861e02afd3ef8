"""Maps of a time over batches and lengths, one a configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline import formatting
from roofline.report.figure import Axis, Cell, Figure, Series, Table
from roofline.report.sweep.columns import LENGTHS, LETTERS, Basis, basis, fitting
from roofline.report.sweep.swept import LENGTH, Swept
from roofline.report.view.cells import NOTHING, table, whole
from roofline.report.view.points import spread

if TYPE_CHECKING:
    import pandas as pd

MOST, FINE = 12, 24
"""Maps of a page; values of an axis of one of them."""
_COARSE, _MANY = 16, 4
"""Values of an axis where there are more maps than so many."""
_WITH_LETTERS = 12
"""Columns up to which a cell has room for what binds."""
_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A cell: a time, what binds, whether it fits. No time: there is none of what does not fit."""

    time: float | None
    letter: str
    fits: bool


def is_grid(rows: pd.DataFrame, phase: str) -> bool:
    """Whether the rows of a configuration are every batch with every length."""
    length = LENGTH[phase]
    return length in rows.columns and rows["batch"].nunique() * rows[length].nunique() == len(rows)


def is_map(rows: pd.DataFrame, phase: str) -> bool:
    """Whether it has several of both, too."""
    return is_grid(rows, phase) and len(rows["batch"].unique()) > 1 and len(rows[LENGTH[phase]].unique()) > 1


def heatmap(swept: Swept, phase: str, called: str, rows: pd.DataFrame, key: str, maps: int) -> Figure | None:
    """One map; None where there are no times. `maps` is how many there are on the page."""
    found = basis(swept, phase, rows)
    if found is None:
        return None
    length, most = LENGTH[phase], FINE if maps <= _MANY else _COARSE
    batches, lengths = (sorted(int(value) for value in rows[name].dropna().unique()) for name in ("batch", length))
    across, down = spread(batches, most), spread(lengths, most)
    points = _points(rows, length, found)
    scale, unit = _scale([point.time for point in points.values() if point.time is not None and point.fits])
    grid = [[points.get((batch, tokens)) for batch in across] for tokens in down]
    lettered = len(across) <= _WITH_LETTERS and "bound_by" in rows.columns
    series = Series(
        name=f"{found.title} in {unit}:",
        kind="heat",
        role="estimate",
        x=tuple(f"{batch:,}" for batch in across),
        y=tuple(f"{tokens:,}" for tokens in down),
        z=tuple(tuple(point.time if point else None for point in line) for line in grid),
        texts=tuple(tuple(_text(point, scale, lettered=lettered) for point in line) for line in grid),
        hatched=tuple(tuple(point is not None and not point.fits for point in line) for line in grid),
        hatched_name="does not fit in memory",
        labels=tuple(
            _label(point, batch, tokens, phase, found)
            for tokens, line in zip(down, grid, strict=True)
            for batch, point in zip(across, line, strict=True)
        ),
    )
    return Figure(
        key=key,
        title=f"{found.title} of {called}, in {unit}",
        note=" ".join(_notes(found, lettered, grid, (len(across), len(batches)), (len(down), len(lengths)), phase)),
        x=Axis(title="sequences", scale="category"),
        y=Axis(title=LENGTHS[phase], scale="category"),
        series=(series,),
        table=_table(
            key,
            f"{found.title} of {called}",
            unit,
            phase,
            across,
            down,
            [[_cell(point, scale, lettered=lettered) for point in line] for line in grid],
        ),
    )


def _points(rows: pd.DataFrame, length: str, found: Basis) -> dict[tuple[int, int], _Point]:
    binds = rows["bound_by"].astype(object) if "bound_by" in rows.columns else [""] * len(rows)
    together = zip(rows["batch"], rows[length], rows[found.time], binds, fitting(rows), strict=True)
    return {
        (int(batch), int(tokens)): _Point(
            time=None if math.isnan(time) else float(time), letter=LETTERS.get(str(resource), ""), fits=bool(fits)
        )
        for batch, tokens, time, resource, fits in together
    }


def _scale(times: list[float]) -> tuple[float, str]:
    """The unit in which most numbers of a map are short."""
    middle = sorted(times)[len(times) // 2] if times else 1e-3
    return next((step for step in _STEPS if middle >= step[0]), _STEPS[-1])


def _text(point: _Point | None, scale: float, *, lettered: bool) -> str:
    if point is None or point.time is None:
        return ""
    value = point.time / scale
    shown = f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
    return f"{shown}\n{point.letter}" if lettered and point.letter else shown


def _label(point: _Point | None, batch: int, tokens: int, phase: str, found: Basis) -> str:
    where = f"batch {batch:,}, {tokens:,} {LENGTHS[phase]}"
    if point is None:
        return f"{where}: not in the sweep"
    said = [] if point.time is None else [f"{found.title} {formatting.seconds(point.time)}"]
    said += [next(name for name, letter in LETTERS.items() if letter == point.letter) + " binds"] if point.letter else []
    said += [] if point.fits else ["does not fit"]
    return f"{where}: {', '.join(said) or 'no time'}"


def _notes(
    found: Basis,
    lettered: bool,
    grid: list[list[_Point | None]],
    across: tuple[int, int],
    down: tuple[int, int],
    phase: str,
) -> list[str]:
    every = [point for line in grid for point in line]
    said = ["Estimates." if found.name == "estimate" else "At the bound: there is no estimate for it, or none was asked for."]
    if lettered:
        said.append("Compute (C), memory (M) or the link (L) binds.")
    if any(point is None for point in every):
        said.append("Blank: not in the sweep.")
    thinned = [
        f"{shown} of {of:,} {what}"
        for (shown, of), what in ((across, "batches"), (down, f"lengths of the {'context' if phase == 'decode' else 'prompt'}"))
        if shown < of
    ]
    if thinned:
        said.append(f"Shown are {' and '.join(thinned)}, evenly, with the first and the last.")
    return said


def _table(key: str, title: str, unit: str, phase: str, across: list[int], down: list[int], cells: list[list[Cell]]) -> Table:
    rows = [(whole(tokens), *line) for tokens, line in zip(down, cells, strict=True)]
    note = f"In {unit}: {LENGTHS[phase]} down, batches across. –: does not fit, or is not in the sweep."
    note += " (x): does not fit." if any(cell.text.endswith("(x)") for line in cells for cell in line) else ""
    return table(f"{key}-rows", title, note, (LENGTHS[phase], *(f"{batch:,}" for batch in across)), rows)


def _cell(point: _Point | None, scale: float, *, lettered: bool) -> Cell:
    text = _text(point, scale, lettered=lettered).replace("\n", " ")
    if point is None or point.time is None:
        return NOTHING
    return Cell(text=text if point.fits else f"{text} (x)", value=point.time)
