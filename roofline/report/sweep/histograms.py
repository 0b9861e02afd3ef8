"""How many points have which value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roofline import formatting
from roofline.predict.sweeps.reduce import BINS_PER_DECADE
from roofline.report.figure import Axis, Figure, Section, Series
from roofline.report.sweep.columns import called, unit
from roofline.report.sweep.swept import Swept
from roofline.report.view.cells import table, whole, words

if TYPE_CHECKING:
    import pandas as pd

_BINS, _LINES = 30, 5
_NONE = -(10**6)
"""The bin of 0 and less, before all others."""


def sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """A histogram a column: bars, or a line for each of several groups."""
    more = f": {phase}" if phases > 1 else ""
    found = []
    for number, (column, group) in enumerate(rows.groupby("column", sort=False, observed=True)):
        figure = _figure(swept, phase, str(column), group, f"histogram-{phase}-{number}", more)
        found.append(Section(key=f"histogram-{phase}-{number}", title=figure.title, note="", figure=figure, tables=()))
    return found


def _figure(swept: Swept, phase: str, column: str, rows: pd.DataFrame, key: str, more: str) -> Figure:
    axes = list(swept.by)
    groups = swept.grouped(rows, axes) if axes else [(called(column, phase), rows)]
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
    note = f"{total:,} points that fit, and meet what was asked for. Each place counts values from its own on, up to the next."
    if len(drawn) < len(counts):
        note += f" Lines: {len(drawn)} of {len(counts):,}, those with most points; the table has all."
    cells = [(words(_span(place, width, column)), *(whole(one.get(place, 0)) for _, one in counts)) for place in every]
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
    found: dict[int, int] = {}
    for low, count in zip(group["low"], group["count"], strict=True):
        place = _bin(float(low))
        place = place if place == _NONE else place // width
        found[place] = found.get(place, 0) + int(count)
    return found


def _name(place: int, width: int, column: str) -> str:
    return "0 or less" if place == _NONE else _edge(place * width, column)


def _span(place: int, width: int, column: str) -> str:
    if place == _NONE:
        return "0 or less"
    return f"{_edge(place * width, column)} to {_edge((place + 1) * width, column)}"


def _edge(place: int, column: str) -> str:
    value, its = 10 ** (place / BINS_PER_DECADE), unit(column)
    return formatting.quantity(value, "" if its in ("tokens/s", "FLOP/byte") else its, 3).strip()
