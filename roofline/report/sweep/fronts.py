"""Two objectives against each other: of all points, and of the longest sequences where lengths compete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.report.figure import Figure, Section
from roofline.report.sweep.columns import LENGTHS, basis, called, fitting, rates, unit
from roofline.report.sweep.front_figure import RATE, Goal, Goals, figure
from roofline.report.sweep.swept import LENGTH, Swept

if TYPE_CHECKING:
    import pandas as pd


_SEVERAL = 6
"""Points that make a figure worth its room."""


def sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """The fronts of a phase; none where no two objectives can be told."""
    kept, goals, by = _asked(swept, phase, rows[fitting(rows)])
    if goals is None or kept.empty or _fixed(swept, kept):
        return []
    more, length = f": {phase}" if phases > 1 else "", LENGTH[phase]
    lengths = sorted(int(value) for value in kept[length].dropna().unique()) if length in kept.columns else []
    notes = [_about(swept, goals), by]
    if len(lengths) > 1:
        notes.append(f"All lengths compete, from {lengths[0]:,} to {lengths[-1]:,} {LENGTHS[phase]}: short ones win.")
    made = [_section(f"front-{phase}", f"Pareto front{more}", figure(swept, phase, kept, goals, f"front-{phase}", notes))]
    counts: Any = kept[length].value_counts() if length in kept.columns else {}
    most = next((one for one in reversed(lengths[1:]) if counts[one] >= _SEVERAL), None)
    if most is not None and swept.rule != "pareto":
        note = f"Points of {most:,} {LENGTHS[phase]} alone: the longest of which {_SEVERAL} points or more fit."
        second = figure(swept, phase, kept[kept[length] == most], goals, f"front-long-{phase}", [note])
        made.append(_section(f"front-long-{phase}", f"Pareto front at {most:,} {LENGTHS[phase]}", second))
    return [section for section in made if section is not None]


def _section(key: str, title: str, drawn: Figure | None) -> Section | None:
    return None if drawn is None else Section(key=key, title=title, note="", figure=drawn, tables=())


def _fixed(swept: Swept, rows: pd.DataFrame) -> bool:
    """Whether one objective follows from the other: rates of one batch on as many devices are its times turned over."""
    same = len(rows["batch"].unique()) == 1 and ("devices" not in rows.columns or len(rows["devices"].unique()) == 1)
    return swept.rule != "pareto" and same


def _asked(swept: Swept, phase: str, rows: pd.DataFrame) -> tuple[pd.DataFrame, Goals | None, str]:
    """Rows, what stands across and up, and what that goes by: the objectives of a reduction, or time and tokens/s a device."""
    listed = [goal for goal in swept.objectives if goal.column in rows.columns]
    if swept.rule == "pareto" and len(listed) >= 2:
        one, other = (
            Goal(column=goal.column, title=called(goal.column, phase), unit=unit(goal.column), largest=goal.largest)
            for goal in listed[:2]
        )
        if other.unit == "s" and one.unit != "s":
            one, other = other, one
        more = " The figure has two of them: a point that looks beaten is better in another." if len(listed) > 2 else ""
        return rows, (one, other), f"Kept by {', '.join(map(str, swept.objectives))}.{more}"
    found = basis(swept, phase, rows)
    rate = None if found is None else rates(rows, phase, found)
    if found is None or rate is None:
        return rows, None, ""
    what = "tokens" if phase == "decode" else "prompt tokens"
    goals = (
        Goal(column=found.time, title=found.title, unit="s", largest=False),
        Goal(column=RATE, title=f"{what}/s a device", unit="tokens/s", largest=True),
    )
    why = "By estimates." if found.name == "estimate" else "At the bounds, since not every point has an estimate."
    return rows.assign(**{RATE: rate}), goals, why


def _about(swept: Swept, goals: Goals) -> str:
    ways = [f"{'more' if goal.largest else 'less'} {goal.title}" for goal in goals]
    said = f"Wanted: {ways[0]} and {ways[1]}. No point of the same kind beats one on its line in both"
    return (
        f"{said}. Numbers are batches."
        if len(swept.objectives) > 2
        else f"{said}; hollow ones are beaten. Numbers are batches."
    )
