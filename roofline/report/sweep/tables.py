"""What a column is called on a page, how its values are written, and which of them a figure stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.predict.grid import COLUMNS
from roofline.report.cells import NOTHING, figure, seconds, share, table, whole, words
from roofline.report.figure import Axis, Cell, Figure, Section, Series, Table
from roofline.report.sweep import maps
from roofline.report.sweep.data import (
    LENGTH,
    LENGTHS,
    TIME,
    Swept,
    absent,
    basis,
    called,
    cell,
    fitting,
    phrase,
    rates,
    some,
    thinned,
    unit,
    written,
)

if TYPE_CHECKING:
    import pandas as pd

# bests: Rows that were kept, as a table; and what they were kept by, as bars.

_BARS, _ROWS = 24, 200
_RATE = "tokens_per_s_per_device"


def best_sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
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


# configurations: What each configuration comes to, and which of them are drawn.

_LISTED = 60


def configuration_sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """A table of all configurations, and maps of some, or lines where batch or length has one value."""
    every = swept.configurations(rows)
    served = [(name, group) for name, group in every if fitting(group).any()]
    mapped = [(name, group) for name, group in served if maps.is_map(group, phase)]
    chosen = some(mapped, maps.MAX_MAPS // phases)
    found = []
    notes = [f"{phase.capitalize()} steps.", *_left_out(every, served, mapped, chosen)]
    lines = None
    if not mapped:
        drawn = some(served, maps.MAX_CURVES)
        lines = maps.curves(swept, phase, rows, drawn) if drawn else None
        if lines is not None and len(drawn) < len(served):
            notes.append(f"The figure has {len(drawn)} of {len(served):,}, spread evenly over the order of the grid.")
        lines = lines or bars(swept, phase, rows[fitting(rows)])
    found.append(
        Section(
            key=f"configurations-{phase}",
            title=f"Configurations: {phase}" if phases > 1 else "Configurations",
            note=" ".join(notes),
            figure=lines,
            tables=(_table(swept, phase, every),),
        )
    )
    for number, (name, group) in enumerate(chosen):
        drawn_map = maps.heatmap(swept, phase, name, group, f"map-{phase}-{number}", len(chosen) * phases)
        if drawn_map is not None:
            found.append(Section(key=f"map-{phase}-{number}", title=drawn_map.title, note="", figure=drawn_map, tables=()))
    return found


def _left_out(every: list[Any], served: list[Any], mapped: list[Any], chosen: list[Any]) -> list[str]:
    said = []
    if len(served) < len(every):
        said.append(f"In {len(every) - len(served):,} of {len(every):,} configurations no point fits in memory.")
    if chosen and len(chosen) < len(mapped):
        said.append(
            f"{len(chosen)} of the {len(mapped):,} configurations that fit somewhere have a map below: spread evenly over the "
            "order of the grid, the first and the last among them. To see others, sweep fewer values."
        )
    if len(chosen) > 1:
        said.append("Each map has its own shades.")
    return said


def _table(swept: Swept, phase: str, every: list[tuple[str, pd.DataFrame]]) -> Table:
    axes = swept.varied or swept.outer[:2]
    rows = []
    for _, group in every[:_LISTED]:
        fits = fitting(group)
        kept, found = group[fits], basis(swept, phase, group)
        cells = [words(written(group[name].iloc[0])) for name in axes]
        cells += [whole(group["devices"].iloc[0])] if "devices" in group.columns else []
        cells += [whole(int(fits.sum())), share(float(fits.mean()))]
        rows.append((*cells, *_best(phase, kept, found)))
    names = [name.replace("_", "-") for name in axes]
    names += ["devices"] if every and "devices" in every[0][1].columns else []
    names += [
        "points that fit",
        "of all",
        "basis",
        f"least {TIME[phase]}",
        "tokens/s a device",
        "at batch",
        f"and {LENGTHS[phase]}",
    ]
    more = f" The first {_LISTED} of {len(every):,}, in the order of the grid." if len(every) > _LISTED else ""
    note = f"The least {TIME[phase]} of any point that fits, and the most tokens/s a device, with where that is.{more}"
    return table(f"configurations-{phase}", "What each comes to", note, tuple(names), rows)


def _best(phase: str, kept: pd.DataFrame, found: Any) -> tuple[Cell, ...]:
    """Basis, least time, most tokens/s a device, where."""
    if found is None or kept[found.time].isna().all():
        return (NOTHING,) * 5
    per_device = rates(kept, phase, found)
    least = seconds(float(kept[found.time].min()))
    if per_device is None or per_device.isna().all():
        return (words(found.name), least, NOTHING, NOTHING, NOTHING)
    most = int(per_device.argmax())
    length = kept[LENGTH[phase]].iloc[most] if LENGTH[phase] in kept.columns else None
    return (words(found.name), least, figure(float(per_device.iloc[most])), whole(kept["batch"].iloc[most]), whole(length))
