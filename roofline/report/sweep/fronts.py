"""Pareto fronts of two objectives: of all points, and of the longest sequences where lengths compete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.numeric import pareto_front_of_rows
from roofline.report.cells import table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Section, Series
from roofline.report.sweep.data import LENGTH, LENGTHS, SweepData, absent, basis, called, cell, fitting, rates, thinned, unit

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_SEVERAL = 6
"""Points that a figure should have at least."""


def sections(sweep: SweepData, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """Sections with the fronts of a phase; none without two objectives that differ. `phases` is how many the sweep has."""
    rows_drawn, goals, by = _goals_of(sweep, phase, rows[fitting(rows)])
    if goals is None or rows_drawn.empty or _fixed(sweep, rows_drawn):
        return []
    more, length = f": {phase}" if phases > 1 else "", LENGTH[phase]
    lengths = sorted(int(value) for value in rows_drawn[length].dropna().unique()) if length in rows_drawn.columns else []
    notes = [_about(sweep, goals), by]
    if len(lengths) > 1:
        notes.append(f"All lengths compete, from {lengths[0]:,} to {lengths[-1]:,} {LENGTHS[phase]}: short ones win.")
    made = [
        _section(f"front-{phase}", f"Pareto front{more}", _figure(sweep, phase, rows_drawn, goals, f"front-{phase}", notes))
    ]
    counts: Any = rows_drawn[length].value_counts() if length in rows_drawn.columns else {}
    most = next((one for one in reversed(lengths[1:]) if counts[one] >= _SEVERAL), None)
    if most is not None and sweep.rule != "pareto":
        note = f"Points of {most:,} {LENGTHS[phase]} alone: the longest of which {_SEVERAL} points or more fit."
        second = _figure(sweep, phase, rows_drawn[rows_drawn[length] == most], goals, f"front-long-{phase}", [note])
        made.append(_section(f"front-long-{phase}", f"Pareto front at {most:,} {LENGTHS[phase]}", second))
    return [section for section in made if section is not None]


def _section(key: str, title: str, drawn: Figure | None) -> Section | None:
    return None if drawn is None else Section(key=key, title=title, note="", figure=drawn, tables=(), half=True)


def _fixed(sweep: SweepData, rows: pd.DataFrame) -> bool:
    """Whether one objective follows from the other: rates of one batch on as many devices are its times turned over."""
    same = len(rows["batch"].unique()) == 1 and ("devices" not in rows.columns or len(rows["devices"].unique()) == 1)
    return sweep.rule != "pareto" and same


def _goals_of(sweep: SweepData, phase: str, rows: pd.DataFrame) -> tuple[pd.DataFrame, _Goals | None, str]:
    """Rows, what is across and up, and on what basis: the objectives of a reduction, or time and tokens/s per device."""
    listed = [goal for goal in sweep.objectives if goal.column in rows.columns]
    if sweep.rule == "pareto" and len(listed) >= 2:
        one, other = (
            _Goal(column=goal.column, title=called(goal.column, phase), unit=unit(goal.column), largest=goal.largest)
            for goal in listed[:2]
        )
        if other.unit == "s" and one.unit != "s":
            one, other = other, one
        more = " The figure has two of them: a point that looks beaten is better in another." if len(listed) > 2 else ""
        return rows, (one, other), f"Kept by {', '.join(map(str, sweep.objectives))}.{more}"
    timing = basis(sweep, phase, rows)
    rate = None if timing is None else rates(rows, phase, timing)
    if timing is None or rate is None:
        return rows, None, ""
    what = "tokens" if phase == "decode" else "prompt tokens"
    goals = (
        _Goal(column=timing.time, title=timing.title, unit="s", largest=False),
        _Goal(column=_RATE, title=f"{what}/s per device", unit="tokens/s", largest=True),
    )
    why = "By estimates." if timing.name == "estimate" else "At the bounds, since not every point has an estimate."
    return rows.assign(**{_RATE: rate}), goals, why


def _about(sweep: SweepData, goals: _Goals) -> str:
    ways = [f"{'more' if goal.largest else 'less'} {goal.title}" for goal in goals]
    text = f"Wanted: {ways[0]} and {ways[1]}. No point of the same kind beats one on its line in both"
    return f"{text}." if len(sweep.objectives) > 2 else f"{text}; hollow ones are beaten."


# The figure: a line per kind, over a thinned sample of the points that are beaten

_RATE = "_rate"
"""Column of the tokens/s per device by which a figure goes."""
_PLACE = "_place"
_VARIANTS, _MAX_BEATEN, _FRONT = 5, 200, 40
"""Most lines, of as many hues; points beneath them; points of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """A column on an axis, and which end of it is better."""

    column: str
    title: str
    unit: str
    largest: bool


_Goals = tuple[_Goal, _Goal]
"""What stands across and what up."""


def _figure(sweep: SweepData, phase: str, rows: pd.DataFrame, goals: _Goals, key: str, notes: Sequence[str]) -> Figure | None:
    """Plot of the front of each kind, and of all together; None without points."""
    across, up = goals
    rows = rows[rows[across.column].notna() & rows[up.column].notna()]
    if rows.empty:
        return None
    rows = rows.assign(**{_PLACE: range(len(rows))})
    best_of_all = _front(rows, goals)
    of_all = {int(place) for place in best_of_all[_PLACE]}
    groups = [(name, group, _front(group, goals)) for name, group in sweep.grouped(rows, _axes(sweep))]
    chosen = _most_on(groups, goals, of_all)
    named = _differing(sweep, phase, [its for _, _, its in chosen])
    texts = [*notes, *_left_out(chosen, groups)]
    texts += [f"Labels: {', '.join(called(name, phase) for name in named)}."] if named else []
    lines, dots, cells = [], [], []
    for number, (name, _, its) in enumerate(chosen):
        best = thinned(its, _FRONT)
        lines.append(_series("line", name, number, best, goals, short=_short(best, phase, named)))
        dots.append(_series("points", name, number, best, goals, labels=_labels(sweep, phase, best, goals)))
        cells += _rows(sweep, phase, name, best, goals, of_all)
    if len(chosen) > 1:
        alone = next((name for name, _, its in chosen if of_all <= {int(place) for place in its[_PLACE]}), "")
        if alone:  # a second line on that of the kind would not be seen
            texts.append(f"The front of all is that of {alone}.")
        else:
            lines.insert(0, _bare(best_of_all, goals))  # below the lines of the kinds, which have their hues
            texts.append("The front of all is that of every kind together.")
        if "model" in sweep.varied:
            texts.append("Models compete too: small ones win.")
    on_lines = of_all.union(*({int(place) for place in its[_PLACE]} for _, _, its in chosen))
    beaten = rows[~rows[_PLACE].isin(on_lines)]
    dots_beaten = thinned(beaten, _MAX_BEATEN)
    if len(dots_beaten):
        dots.insert(
            0, _beaten(sweep, phase, dots_beaten, goals, "beaten" if len(sweep.objectives) <= 2 else "better in another")
        )
    if len(dots_beaten) < len(beaten):
        texts.append(f"Of {len(beaten):,} beaten points {len(dots_beaten)} are drawn, evenly in the order of the grid.")
    heads = (goal.title if goal.column == _RATE else called(goal.column, phase, head=True) for goal in (up, across))
    names = ("kind", *_heads(sweep, phase, rows), *heads, "on the front of all")
    title = f"{up.title} against {across.title}"
    return Figure(
        key=key,
        title=title,
        note=" ".join(texts),
        x=Axis(title=across.title, scale="log", unit=across.unit),
        y=Axis(title=up.title, scale="log", unit=up.unit),
        series=(*lines, *dots),
        table=table(f"{key}-rows", "Points on the lines", "", names, cells),
    )


_Kind = tuple[str, "pd.DataFrame", "pd.DataFrame"]
"""Name, rows, and the front of them."""


def _axes(sweep: SweepData) -> list[str]:
    """By what kinds differ: the groups of a reduction, else model and hardware, or what varies first."""
    varied = sweep.varied
    return list(sweep.by) or [name for name in ("model", "hardware") if name in varied] or varied[:1]


def _front(rows: pd.DataFrame, goals: _Goals) -> pd.DataFrame:
    """Rows that no other beats, from left to right."""
    return rows.iloc[pareto_front_of_rows(_values(rows, goals))].sort_values(goals[0].column, kind="stable")


def _values(rows: pd.DataFrame, goals: _Goals) -> NDArray[np.float64]:
    import numpy as np

    return np.column_stack([rows[goal.column].to_numpy(dtype="float64") * (-1 if goal.largest else 1) for goal in goals])


def _most_on(groups: list[_Kind], goals: _Goals, of_all: set[int]) -> list[_Kind]:
    """As many kinds as there are hues: those with most points on the front of all, then those that reach farthest."""
    up = goals[1]

    def rank(index: int) -> tuple[int, float]:
        its = groups[index][2]
        return sum(int(place) in of_all for place in its[_PLACE]), float((its[up.column] * (1 if up.largest else -1)).max())

    return [groups[index] for index in sorted(sorted(range(len(groups)), key=rank, reverse=True)[:_VARIANTS])]


def _left_out(chosen: list[_Kind], groups: list[_Kind]) -> list[str]:
    texts = []
    if len(chosen) < len(groups):
        texts.append(f"Lines: {len(chosen)} of {len(groups):,} kinds, those with most points on the front of all.")
    if any(len(its) > _FRONT for _, _, its in chosen):
        texts.append(f"Of a line {_FRONT} points are shown at most, evenly.")
    return texts


def _series(
    kind: Any,
    name: str,
    number: int,
    rows: pd.DataFrame,
    goals: _Goals,
    *,
    labels: tuple[str, ...] = (),
    short: tuple[str, ...] = (),
) -> Series:
    x, y = _places(rows, goals)
    return Series(name=name, kind=kind, role="estimate", x=x, y=y, labels=labels, short=short, variant=number)


def _bare(rows: pd.DataFrame, goals: _Goals) -> Series:
    x, y = _places(rows, goals)
    return Series(name="front of all", kind="line", role="roof", x=x, y=y)


def _beaten(sweep: SweepData, phase: str, rows: pd.DataFrame, goals: _Goals, name: str) -> Series:
    x, y = _places(rows, goals)
    labels = _labels(sweep, phase, rows, goals)
    return Series(name=name, kind="points", role="free", x=x, y=y, labels=labels, size=(0.0,) * len(x))


def _places(rows: pd.DataFrame, goals: _Goals) -> tuple[tuple[float, ...], tuple[float, ...]]:
    x, y = (tuple(float(value) for value in rows[goal.column]) for goal in goals)
    return x, y


def _differing(sweep: SweepData, phase: str, fronts: Sequence[pd.DataFrame]) -> list[str]:
    """Columns that say which point of its line a point is, the batch first: those that differ on some of the lines."""
    known = [name for name in ("batch", *_names(sweep, phase, fronts[0].columns)) if name in fronts[0].columns]
    return [name for name in dict.fromkeys(known) if any(len(rows[name].unique()) > 1 for rows in fronts)]


def _short(rows: pd.DataFrame, phase: str, named: Sequence[str]) -> tuple[str, ...]:
    """The label of each point: the batch as a number, all others with their names."""
    return tuple(
        ", ".join(
            cell(name, row[name]).text
            if name == "batch"
            else f"{called(name, phase)} {'default' if absent(row[name]) else cell(name, row[name]).text}"
            for name in named
        )
        for row in rows.to_dict("records")
    )


def _names(sweep: SweepData, phase: str, known: Any) -> list[str]:
    """Columns that say which point of its kind it is."""
    axes = _axes(sweep)
    return [name for name in (*sweep.varied, "batch", LENGTH[phase]) if name in known and name not in axes]


def _heads(sweep: SweepData, phase: str, rows: pd.DataFrame) -> list[str]:
    return [called(name, phase) for name in _names(sweep, phase, rows.columns)]


def _rows(
    sweep: SweepData, phase: str, name: str, rows: pd.DataFrame, goals: _Goals, of_all: set[int]
) -> list[tuple[Cell, ...]]:
    across, up = goals
    return [
        (
            text_cell(name),
            *(text_cell("default") if absent(row[axis]) else cell(axis, row[axis]) for axis in _names(sweep, phase, row)),
            cell("tokens_per_s" if up.column == _RATE else up.column, row[up.column]),
            cell(across.column, row[across.column]),
            text_cell("yes" if row[_PLACE] in of_all else "no"),
        )
        for row in rows.to_dict("records")
    ]


def _labels(sweep: SweepData, phase: str, rows: pd.DataFrame, goals: _Goals) -> tuple[str, ...]:
    length, labels = LENGTH[phase], []
    for row in rows.to_dict("records"):
        parts = [sweep.called(row)]
        parts += [f"batch {whole(row['batch']).text}"] if "batch" in row else []
        parts += [f"{whole(row[length]).text} {LENGTHS[phase]}"] if length in row and not absent(row[length]) else []
        parts += [f"{goal.title} {_number(row[goal.column], goal.unit)}" for goal in goals]
        labels.append(", ".join(part for part in parts if part))
    return tuple(labels)


def _number(value: float, units: str) -> str:
    return (
        formatting.quantity(value, units, 3)
        if units in ("s", "B", "FLOP")
        else f"{value:,.4g}"
        if abs(value) < 1e4
        else f"{value:,.0f}"
    )
