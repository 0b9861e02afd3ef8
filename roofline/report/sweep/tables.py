"""Tables of a sweep: rows that were kept, with their bars, and what each configuration reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.predict.grid import COLUMNS
from roofline.report.axes import evenly_spaced
from roofline.report.cells import NOTHING, number_cell, seconds, share, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Section, Series, Table
from roofline.report.sweep import maps
from roofline.report.sweep.data import (
    LENGTH,
    LENGTHS,
    TIME,
    SweepData,
    absent,
    basis,
    called,
    cell,
    fitting,
    phrase,
    rates,
    thinned,
    unit,
    written,
)

if TYPE_CHECKING:
    import pandas as pd

# Rows that were kept

_BARS, _ROWS = 24, 200
_RATE = "tokens_per_s_per_device"


def best_sections(sweep: SweepData, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """The section of the rows of a phase that were kept: bars of the best, and a table."""
    figure = _bars(sweep, phase, rows) if sweep.rule == "best" else None
    more = f": {phase}" if phases > 1 else ""
    title = f"The best{more}" if sweep.rule == "best" else f"What was kept{more}"
    return [Section(key=f"best-{phase}", title=title, note="", figure=figure, tables=(_listed(sweep, phase, rows),))]


def _listed(sweep: SweepData, phase: str, rows: pd.DataFrame) -> Table:
    """Table of the rows as they are, without columns that have no values or one value."""
    drawn = thinned(rows, _ROWS)
    other = "input_len" if phase == "decode" else "context"
    names = [str(name) for name in rows.columns if name not in ("phase", other) and not rows[name].isna().all()]
    same = [name for name in names if len(rows) > 1 and name not in COLUMNS and len(rows[name].unique()) == 1]
    names = [name for name in names if name not in same]
    cells = [
        tuple(text_cell("default") if name in sweep.outer and absent(row[name]) else cell(name, row[name]) for name in names)
        for row in drawn.to_dict("records")
    ]
    first = rows.iloc[0]
    common = ", ".join(f"{called(name, phase)} {cell(name, first[name]).text}" for name in same)
    note = f"All have {common}." if same else ""
    note += f" {_ROWS} of {len(rows):,} rows, evenly." if len(drawn) < len(rows) else ""
    heads = tuple(called(name, phase, staged=sweep.staged, head=True) for name in names)
    return table(f"rows-{phase}", "Rows", note, heads, cells)


def _bars(sweep: SweepData, phase: str, rows: pd.DataFrame) -> Figure | None:
    """Bar plot of the column that rows were kept by, or of tokens/s per device; None if neither is there."""
    goal = next((goal for goal in sweep.objectives if goal.column in rows.columns), None)
    column, largest = (goal.column, goal.largest) if goal is not None else ("", True)
    if goal is None:
        timing = basis(sweep, phase, rows)
        rate = None if timing is None else rates(rows, phase, timing)
        if rate is None:
            return None
        column = f"{_RATE}_estimate" if timing is not None and timing.name == "estimate" else _RATE
        rows = rows.assign(**{column: rate})
    rows = rows[rows[column].notna()]
    if len(rows) < 1:
        return None
    ordered = rows.sort_values(column, ascending=not largest, kind="stable")
    drawn = ordered.head(_BARS).to_dict("records")
    also = [name for name in ("batch", LENGTH[phase]) if name in rows.columns and len(rows[name].unique()) > 1]
    names = _distinct([_name(sweep, phase, row, also) for row in drawn])
    values = [float(row[column]) for row in drawn]
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
            (text_cell(name), cell(column, value)) for name, value in zip(names, values, strict=True)
        ]),
    )  # fmt: skip


def _name(sweep: SweepData, phase: str, row: Mapping[Any, Any], also: list[str]) -> str:
    if sweep.by:
        return ", ".join(phrase(axis, row[axis]) for axis in sweep.by if axis != "phase")
    parts = [sweep.called(row)]
    parts += [f"{called(name, phase)} {cell(name, row[name]).text}" for name in also if not absent(row[name])]
    return ", ".join(part for part in parts if part)


def _distinct(names: list[str]) -> list[str]:
    """Categories of one name would be one bar."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


# Configurations

_LISTED = 60


def configuration_sections(sweep: SweepData, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """Sections of a phase's configurations: a table of all, and maps of some, or lines if batch or length has one value."""
    every = sweep.configurations(rows)
    served = [(name, group) for name, group in every if fitting(group).any()]
    mapped = [(name, group) for name, group in served if maps.is_map(group, phase)]
    chosen = evenly_spaced(mapped, maps.MAX_MAPS // phases)
    listed = []
    notes = [f"{phase.capitalize()} steps.", *_left_out(every, served, mapped, chosen)]
    lines = None
    if not mapped:
        drawn = evenly_spaced(served, maps.MAX_CURVES)
        lines = maps.curves(sweep, phase, rows, drawn) if drawn else None
        if lines is not None and len(drawn) < len(served):
            notes.append(f"The figure has {len(drawn)} of {len(served):,}, spread evenly over the order of the grid.")
        lines = lines or _bars(sweep, phase, rows[fitting(rows)])
    listed.append(
        Section(
            key=f"configurations-{phase}",
            title=f"Configurations: {phase}" if phases > 1 else "Configurations",
            note=" ".join(notes),
            figure=lines,
            tables=(_table(sweep, phase, every),),
        )
    )
    scale = maps.shared_scale(sweep, phase, [group for _, group in chosen])
    for number, (name, group) in enumerate(chosen):
        drawn_map = maps.heatmap(sweep, phase, name, group, f"map-{phase}-{number}", len(chosen) * phases, scale)
        if drawn_map is not None:
            listed.append(
                Section(key=f"map-{phase}-{number}", title=drawn_map.title, note="", figure=drawn_map, tables=(), half=True)
            )
    return listed


def _left_out(every: list[Any], served: list[Any], mapped: list[Any], chosen: list[Any]) -> list[str]:
    notes = []
    if len(served) < len(every):
        notes.append(f"In {len(every) - len(served):,} of {len(every):,} configurations no point fits in memory.")
    if chosen and len(chosen) < len(mapped):
        notes.append(
            f"{len(chosen)} of the {len(mapped):,} configurations that fit somewhere have a map below: spread evenly over the "
            "order of the grid, the first and the last among them. To see others, sweep fewer values."
        )
    if len(chosen) > 1:
        notes.append("The maps have the same shades.")
    return notes


def _table(sweep: SweepData, phase: str, every: list[tuple[str, pd.DataFrame]]) -> Table:
    axes = sweep.varied or sweep.outer[:2]
    rows = []
    for _, group in every[:_LISTED]:
        fits = fitting(group)
        fitted, timing = group[fits], basis(sweep, phase, group)
        cells = [text_cell(written(group[name].iloc[0])) for name in axes]
        cells += [whole(group["devices"].iloc[0])] if "devices" in group.columns else []
        cells += [whole(int(fits.sum())), share(float(fits.mean()))]
        rows.append((*cells, *_best(phase, fitted, timing)))
    names = [name.replace("_", "-") for name in axes]
    names += ["devices"] if every and "devices" in every[0][1].columns else []
    names += [
        "points that fit",
        "of all",
        "basis",
        f"min {TIME[phase]}",
        "tokens/s per device",
        "at batch",
        f"and {LENGTHS[phase]}",
    ]
    more = f" The first {_LISTED} of {len(every):,}, in the order of the grid." if len(every) > _LISTED else ""
    note = f"The min {TIME[phase]} of any point that fits, and the max tokens/s per device, with where that is.{more}"
    return table(f"configurations-{phase}", "What each comes to", note, tuple(names), rows)


def _best(phase: str, fitted: pd.DataFrame, timing: Any) -> tuple[Cell, ...]:
    """Basis, least time, most tokens/s per device, where."""
    if timing is None or fitted[timing.time].isna().all():
        return (NOTHING,) * 5
    per_device = rates(fitted, phase, timing)
    least = seconds(float(fitted[timing.time].min()))
    if per_device is None or per_device.isna().all():
        return (text_cell(timing.name), least, NOTHING, NOTHING, NOTHING)
    most = int(per_device.argmax())
    length = fitted[LENGTH[phase]].iloc[most] if LENGTH[phase] in fitted.columns else None
    return (
        text_cell(timing.name),
        least,
        number_cell(float(per_device.iloc[most])),
        whole(fitted["batch"].iloc[most]),
        whole(length),
    )
