"""Heat maps of a time over batches and lengths, one per configuration; lines; histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline import formatting
from roofline.predict.sweeps.reduce import BINS_PER_DECADE
from roofline.report.axes import evenly_spaced
from roofline.report.cells import NOTHING, seconds, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Section, Series, Table
from roofline.report.sweep.data import LENGTH, LENGTHS, LETTERS, Basis, SweepData, basis, called, fitting, thinned, unit

if TYPE_CHECKING:
    import pandas as pd

MAX_MAPS, FINE = 12, 24
"""Maps of a page; values of an axis of one of them."""
_COARSE, _FEW_MAPS = 16, 4
"""Values of an axis where there are more maps than that many."""
_WITH_LETTERS = 12
"""Columns up to which what binds fits in a cell."""
_RESOURCES = {letter: f"{name}-bound" for name, letter in LETTERS.items()}
_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A cell: a time, what binds, whether it fits. No time: there is none of what does not fit."""

    time: float | None
    letter: str
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What the maps of a phase share, so that they can be compared: the unit, the shades, and what binds in most cells.

    Args:
        seconds: of the unit.
        unit: its name.
        shades: seconds and texts of the legend, from the least time to the greatest; none without times.
        usual: letter of the resource that binds in most cells, which have none; "" where it is not known.
    """

    seconds: float
    unit: str
    shades: tuple[tuple[float, str], ...]
    usual: str


def shared_scale(sweep: SweepData, phase: str, groups: list[pd.DataFrame]) -> Scale:
    """The scale of the maps of some configurations."""
    points: list[_Point] = []
    for rows in groups:
        timing = basis(sweep, phase, rows)
        points += [] if timing is None else [one for one in _points(rows, LENGTH[phase], timing).values() if one.fits]
    times = sorted(point.time for point in points if point.time is not None)
    middle = times[len(times) // 2] if times else 1e-3
    size, unit = next((step for step in _STEPS if middle >= step[0]), _STEPS[-1])
    ends = (times[0], times[-1]) if times else ()
    between = math.sqrt(times[0] * times[-1]) if times and times[-1] >= 8 * times[0] else sum(ends) / 2
    values = sorted({*ends, between}) if times else []
    letters = [point.letter for point in points if point.letter]
    return Scale(
        seconds=size,
        unit=unit,
        shades=tuple((value, formatting.in_cell(value / size)) for value in values),
        usual=max(LETTERS.values(), key=letters.count) if letters else "",
    )


def is_grid(rows: pd.DataFrame, phase: str) -> bool:
    """Whether the rows of a configuration are every batch with every length."""
    length = LENGTH[phase]
    return length in rows.columns and rows["batch"].nunique() * rows[length].nunique() == len(rows)


def is_map(rows: pd.DataFrame, phase: str) -> bool:
    """Whether the rows are such a grid with several batches and several lengths."""
    return is_grid(rows, phase) and len(rows["batch"].unique()) > 1 and len(rows[LENGTH[phase]].unique()) > 1


def heatmap(sweep: SweepData, phase: str, called: str, rows: pd.DataFrame, key: str, maps: int, scale: Scale) -> Figure | None:
    """Heat map of the time of a configuration by batch and length; None without times.

    Args:
        sweep: of which the rows are.
        phase: "prefill" or "decode".
        called: the configuration's name.
        rows: those of the configuration.
        key: of the figure.
        maps: how many the page has.
        scale: that of all maps of the phase.
    """
    timing = basis(sweep, phase, rows)
    if timing is None:
        return None
    length, most = LENGTH[phase], FINE if maps <= _FEW_MAPS else _COARSE
    batches, lengths = (sorted(int(value) for value in rows[name].dropna().unique()) for name in ("batch", length))
    across, down = evenly_spaced(batches, most), evenly_spaced(lengths, most)
    points = _points(rows, length, timing)
    grid = [[points.get((batch, tokens)) for batch in across] for tokens in down]
    lettered = len(across) <= _WITH_LETTERS and "bound_by" in rows.columns
    series = Series(
        name=f"{timing.title} in {scale.unit}:",
        kind="heat",
        role="estimate",
        x=tuple(f"{batch:,}" for batch in across),
        y=tuple(f"{tokens:,}" for tokens in down),
        z=tuple(tuple(point.time if point else None for point in line) for line in grid),
        texts=tuple(tuple(_text(point, scale, lettered=lettered) for point in line) for line in grid),
        hatched=tuple(tuple(point is not None and not point.fits for point in line) for line in grid),
        hatched_name="does not fit in memory",
        shades=scale.shades,
        labels=tuple(
            _label(point, batch, tokens, phase, timing)
            for tokens, line in zip(down, grid, strict=True)
            for batch, point in zip(across, line, strict=True)
        ),
    )
    return Figure(
        key=key,
        title=f"{timing.title} of {called}, in {scale.unit}",
        note=" ".join(
            _notes(timing, scale.usual if lettered else "", grid, (len(across), len(batches)), (len(down), len(lengths)), phase)
        ),
        x=Axis(title="sequences", scale="category"),
        y=Axis(title=LENGTHS[phase], scale="category"),
        series=(series,),
        table=_table(
            key,
            f"{timing.title} of {called}",
            scale.unit,
            phase,
            across,
            down,
            [[_cell(point, scale) for point in line] for line in grid],
        ),
    )


def _points(rows: pd.DataFrame, length: str, timing: Basis) -> dict[tuple[int, int], _Point]:
    binds = rows["bound_by"].astype(object) if "bound_by" in rows.columns else [""] * len(rows)
    together = zip(rows["batch"], rows[length], rows[timing.time], binds, fitting(rows), strict=True)
    return {
        (int(batch), int(tokens)): _Point(
            time=None if math.isnan(time) else float(time), letter=LETTERS.get(str(resource), ""), fits=bool(fits)
        )
        for batch, tokens, time, resource, fits in together
    }


def _text(point: _Point | None, scale: Scale, *, lettered: bool) -> str:
    """Text of a cell: its time, and what binds where that is another resource than in most cells."""
    if point is None or point.time is None:
        return ""
    text = formatting.in_cell(point.time / scale.seconds)
    return f"{text}\n{point.letter}" if lettered and point.letter not in ("", scale.usual) else text


def _label(point: _Point | None, batch: int, tokens: int, phase: str, timing: Basis) -> str:
    where = f"batch {batch:,}, {tokens:,} {LENGTHS[phase]}"
    if point is None:
        return f"{where}: not in the sweep"
    parts = [] if point.time is None else [f"{timing.title} {formatting.seconds(point.time)}"]
    parts += [next(name for name, letter in LETTERS.items() if letter == point.letter) + "-bound"] if point.letter else []
    parts += [] if point.fits else ["does not fit"]
    return f"{where}: {', '.join(parts) or 'no time'}"


def _notes(
    timing: Basis,
    usual: str,
    grid: list[list[_Point | None]],
    across: tuple[int, int],
    down: tuple[int, int],
    phase: str,
) -> list[str]:
    every = [point for line in grid for point in line]
    notes = ["Estimates." if timing.name == "estimate" else "At the bound: no estimate."]
    if usual:
        others = [letter for letter in LETTERS.values() if letter != usual and any(p and p.letter == letter for p in every)]
        but = f" but {', '.join(f'{letter}: {_RESOURCES[letter]}' for letter in others)}" if others else ""
        notes.append(f"{_RESOURCES[usual].capitalize()}{but}.")
    if any(point is None for point in every):
        notes.append("Blank: not in the sweep.")
    thinned = [
        f"{drawn} of {of:,} {what}"
        for (drawn, of), what in ((across, "batches"), (down, f"lengths of the {'context' if phase == 'decode' else 'prompt'}"))
        if drawn < of
    ]
    if thinned:
        notes.append(f"Shown are {' and '.join(thinned)}, evenly, with the first and the last.")
    return notes


def _table(key: str, title: str, unit: str, phase: str, across: list[int], down: list[int], cells: list[list[Cell]]) -> Table:
    rows = [(whole(tokens), *line) for tokens, line in zip(down, cells, strict=True)]
    note = f"In {unit}: {LENGTHS[phase]} down, batches across. –: does not fit, or is not in the sweep."
    note += " (x): does not fit." if any(cell.text.endswith("(x)") for line in cells for cell in line) else ""
    return table(f"{key}-rows", title, note, (LENGTHS[phase], *(f"{batch:,}" for batch in across)), rows)


def _cell(point: _Point | None, scale: Scale) -> Cell:
    if point is None or point.time is None:
        return NOTHING
    text = f"{formatting.in_cell(point.time / scale.seconds)} {point.letter}".strip()
    return Cell(text=text if point.fits else f"{text} (x)", value=point.time)


# Lines, where batch or length has one value

MAX_CURVES = 5
"""Lines of a figure: as many as there are hues."""
_POINTS = 40


def curves(sweep: SweepData, phase: str, rows: pd.DataFrame, chosen: list[tuple[str, pd.DataFrame]]) -> Figure | None:
    """Line plot of the time of some configurations against batch or length; None if neither varies, or without times."""
    length = LENGTH[phase]
    along = next((name for name in ("batch", length) if name in rows.columns and len(rows[name].unique()) > 1), None)
    timing = basis(sweep, phase, rows)
    if along is None or timing is None:
        return None
    series, cells, less = [], [], False
    for number, (name, group) in enumerate(chosen):
        points = group[fitting(group) & group[timing.time].notna()].sort_values(along)
        less = less or len(points) > _POINTS
        points = thinned(points, _POINTS)
        xs, ys = [int(value) for value in points[along]], [float(value) for value in points[timing.time]]
        series.append(
            Series(
                name=name,
                kind="line",
                role="estimate",
                x=tuple(xs),
                y=tuple(ys),
                labels=tuple(f"{name}, {x:,}: {formatting.seconds(y)}" for x, y in zip(xs, ys, strict=True)),
                variant=number,
            )
        )
        cells += [(text_cell(name), whole(x), seconds(y)) for x, y in zip(xs, ys, strict=True)]
    across = "batch" if along == "batch" else LENGTHS[phase]
    of = "Estimates" if timing.name == "estimate" else "Bounds"
    fixed = length if along == "batch" else "batch"
    at = f"{rows[fixed].iloc[0]:,}" if fixed in rows.columns else ""
    where = f" at {at} {LENGTHS[phase]}" if along == "batch" else f" of {at} sequences"
    return Figure(
        key=f"curves-{phase}",
        title=f"{timing.title} by {across}",
        note=f"{of}{where if at else ''}, as far as it fits in memory."
        + (f" Shown are {_POINTS} points of each line, evenly." if less else ""),
        x=Axis(title=across, scale="log", unit="sequences" if along == "batch" else "tokens"),
        y=Axis(title=timing.title, scale="log", unit="s"),
        series=tuple(series),
        table=table(f"curves-{phase}-rows", f"{timing.title} by {across}", "", ("configuration", across, timing.title), cells),
    )


# Histograms

_BINS, _LINES = 30, 5
_NONE = -(10**6)
"""The bin of 0 and less, before all others."""


def histogram_sections(sweep: SweepData, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """Sections with a histogram per column: bars, or a line for each of several groups."""
    more = f": {phase}" if phases > 1 else ""
    listed = []
    for number, (column, group) in enumerate(rows.groupby("column", sort=False, observed=True)):
        figure = _figure(sweep, phase, str(column), group, f"histogram-{phase}-{number}", more)
        listed.append(Section(key=f"histogram-{phase}-{number}", title=figure.title, note="", figure=figure, tables=()))
    return listed


def _figure(sweep: SweepData, phase: str, column: str, rows: pd.DataFrame, key: str, more: str) -> Figure:
    axes = list(sweep.by)
    groups = sweep.grouped(rows, axes) if axes else [(called(column, phase), rows)]
    places = sorted({_bin(float(low)) for low in rows["low"]} - {_NONE})
    width = next((width for width in (1, 2, 5, 10, 20, 50, 100) if not places or _count(places, width) <= _BINS), 500)
    every = list(range(places[0] // width, places[-1] // width + 1)) if places else []
    if any(_bin(float(low)) == _NONE for low in rows["low"]):
        every.insert(0, _NONE)
    names = [_name(place, width, column) for place in every]
    counts = [(name, _counted(group, width)) for name, group in groups]
    drawn = sorted(range(len(counts)), key=lambda index: -sum(counts[index][1].values()))[:_LINES]
    lines = len(counts) > 1
    series = tuple(
        Series(
            name=counts[index][0] if lines else "",
            kind="line" if lines else "bars",
            role="estimate" if lines else phase,
            x=tuple(names),
            y=tuple(float(counts[index][1].get(place, 0)) for place in every),
            labels=tuple(f"{_span(place, width, column)}: {counts[index][1].get(place, 0):,} points" for place in every),
            variant=number if lines else None,
        )
        for number, index in enumerate(sorted(drawn))
    )
    total = sum(sum(one.values()) for _, one in counts)
    note = f"{total:,} points that fit, and meet the limits. Each bin counts values from its own to the next."
    if len(drawn) < len(counts):
        note += f" Lines: {len(drawn)} of {len(counts):,}, those with most points; the table has all."
    cells = [(text_cell(_span(place, width, column)), *(whole(one.get(place, 0)) for _, one in counts)) for place in every]
    title = called(column, phase)
    heads = (title, *((name for name, _ in counts) if lines else ("points",)))
    return Figure(
        key=key,
        title=f"Points by {title}{more}",
        note=note,
        x=Axis(title=title, scale="category"),
        y=Axis(title="points", scale="linear", low=0.0),
        series=series,
        table=table(f"{key}-rows", f"Points by {title}", "", heads, cells),
    )


def _bin(low: float) -> int:
    """Which tenth of a decade a bin is, counted from 1."""
    return _NONE if low <= 0 else round(math.log10(low) * BINS_PER_DECADE)


def _count(places: list[int], width: int) -> int:
    return places[-1] // width - places[0] // width + 1


def _counted(group: pd.DataFrame, width: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for low, count in zip(group["low"], group["count"], strict=True):
        place = _bin(float(low))
        place = place if place == _NONE else place // width
        counts[place] = counts.get(place, 0) + int(count)
    return counts


def _name(place: int, width: int, column: str) -> str:
    return "0 or less" if place == _NONE else _edge(place * width, column)


def _span(place: int, width: int, column: str) -> str:
    if place == _NONE:
        return "0 or less"
    return f"{_edge(place * width, column)} to {_edge((place + 1) * width, column)}"


def _edge(place: int, column: str) -> str:
    value, its = 10 ** (place / BINS_PER_DECADE), unit(column)
    return formatting.quantity(value, "" if its in ("tokens/s", "FLOP/byte") else its, 3).strip()
