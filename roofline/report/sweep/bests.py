"""Rows that were kept, as a table; and what they were kept by, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.predict.columns import COLUMNS
from roofline.report.figure import Axis, Figure, Section, Series, Table
from roofline.report.sweep.columns import basis, called, cell, rates, unit
from roofline.report.sweep.swept import LENGTH, Swept, absent, phrase, thinned
from roofline.report.view.cells import table, words

if TYPE_CHECKING:
    import pandas as pd

_BARS, _ROWS = 24, 200
_RATE = "tokens_per_s_per_device"


def sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """Bars of the best of each group, and their rows."""
    figure = bars(swept, phase, rows) if swept.rule == "best" else None
    more = f": {phase}" if phases > 1 else ""
    title = f"The best{more}" if swept.rule == "best" else f"What was kept{more}"
    return [Section(key=f"best-{phase}", title=title, note="", figure=figure, tables=(listed(swept, phase, rows),))]


def listed(swept: Swept, phase: str, rows: pd.DataFrame) -> Table:
    """Rows as they are, without columns that say nothing."""
    kept = thinned(rows, _ROWS)
    other = "input_len" if phase == "decode" else "context"
    names = [str(name) for name in rows.columns if name not in ("phase", other) and not rows[name].isna().all()]
    same = [name for name in names if len(rows) > 1 and name not in COLUMNS and len(rows[name].unique()) == 1]
    names = [name for name in names if name not in same]
    cells = [
        tuple(words("default") if name in swept.outer and absent(row[name]) else cell(name, row[name]) for name in names)
        for row in kept.to_dict("records")
    ]
    first = rows.iloc[0]
    alike = ", ".join(f"{called(name, phase)} {cell(name, first[name]).text}" for name in same)
    note = f"All have {alike}." if same else ""
    note += f" {_ROWS} of {len(rows):,} rows, evenly." if len(kept) < len(rows) else ""
    heads = tuple(called(name, phase, staged=swept.staged, head=True) for name in names)
    return table(f"rows-{phase}", "Rows", note, heads, cells)


def bars(swept: Swept, phase: str, rows: pd.DataFrame) -> Figure | None:
    """What rows were kept by, or their tokens/s a device; None where neither is there."""
    goal = next((goal for goal in swept.objectives if goal.column in rows.columns), None)
    column, largest = (goal.column, goal.largest) if goal is not None else ("", True)
    if goal is None:
        found = basis(swept, phase, rows)
        rate = None if found is None else rates(rows, phase, found)
        if rate is None:
            return None
        column = f"{_RATE}_estimate" if found is not None and found.name == "estimate" else _RATE
        rows = rows.assign(**{column: rate})
    rows = rows[rows[column].notna()]
    if len(rows) < 1:
        return None
    ordered = rows.sort_values(column, ascending=not largest, kind="stable")
    kept = ordered.head(_BARS).to_dict("records")
    also = [name for name in ("batch", LENGTH[phase]) if name in rows.columns and len(rows[name].unique()) > 1]
    names = _distinct([_name(swept, phase, row, also) for row in kept])
    values = [float(row[column]) for row in kept]
    title = called(column, phase)
    left = f" The first {_BARS} of {len(rows):,}." if len(rows) > _BARS else ""
    way = "largest" if largest else "smallest"
    return Figure(
        key=f"bars-{phase}",
        title=title,
        note=f"{f'Kept: the {way}. ' if goal is not None else ''}The {way} first.{left}",
        x=Axis(title=title, scale="linear", low=0.0 if min(values) >= 0 else None, unit=unit(column)),
        y=Axis(title="", scale="category"),
        series=(
            Series(
                name="",
                kind="bars",
                role=phase,
                x=tuple(values),
                y=tuple(names),
                short=tuple(cell(column, value).text for value in values),
                labels=tuple(f"{name}: {cell(column, value).text}" for name, value in zip(names, values, strict=True)),
            ),
        ),
        table=table(f"bars-{phase}-rows", title, "", ("configuration", called(column, phase, head=True)), [
            (words(name), cell(column, value)) for name, value in zip(names, values, strict=True)
        ]),
    )  # fmt: skip


def _name(swept: Swept, phase: str, row: Mapping[Any, Any], also: list[str]) -> str:
    if swept.by:
        return ", ".join(phrase(axis, row[axis]) for axis in swept.by if axis != "phase")
    said = [swept.called(row)]
    said += [f"{called(name, phase)} {cell(name, row[name]).text}" for name in also if not absent(row[name])]
    return ", ".join(part for part in said if part)


def _distinct(names: list[str]) -> list[str]:
    """Categories of one name would be one bar."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
