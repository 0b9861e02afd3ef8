"""What each configuration comes to, and which of them are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.report.figure import Cell, Section, Table
from roofline.report.sweep import bests, curves, heatmaps
from roofline.report.sweep.columns import LENGTHS, TIME, basis, fitting, rates
from roofline.report.sweep.swept import LENGTH, Swept, some, written
from roofline.report.view.cells import NOTHING, figure, seconds, share, table, whole, words

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 60


def sections(swept: Swept, phase: str, rows: pd.DataFrame, phases: int) -> list[Section]:
    """A table of all configurations, and maps of some, or lines where batch or length has one value."""
    every = swept.configurations(rows)
    served = [(called, group) for called, group in every if fitting(group).any()]
    maps = [(called, group) for called, group in served if heatmaps.is_map(group, phase)]
    chosen = some(maps, heatmaps.MOST // phases)
    found = []
    notes = [f"{phase.capitalize()} steps.", *_left_out(every, served, maps, chosen)]
    lines = None
    if not maps:
        drawn = some(served, curves.MOST)
        lines = curves.curves(swept, phase, rows, drawn) if drawn else None
        if lines is not None and len(drawn) < len(served):
            notes.append(f"The figure has {len(drawn)} of {len(served):,}, spread evenly over the order of the grid.")
        lines = lines or bests.bars(swept, phase, rows[fitting(rows)])
    found.append(
        Section(
            key=f"configurations-{phase}",
            title=f"Configurations: {phase}" if phases > 1 else "Configurations",
            note=" ".join(notes),
            figure=lines,
            tables=(_table(swept, phase, every),),
        )
    )
    for number, (called, group) in enumerate(chosen):
        drawn_map = heatmaps.heatmap(swept, phase, called, group, f"map-{phase}-{number}", len(chosen) * phases)
        if drawn_map is not None:
            found.append(Section(key=f"map-{phase}-{number}", title=drawn_map.title, note="", figure=drawn_map, tables=()))
    return found


def _left_out(every: list[Any], served: list[Any], maps: list[Any], chosen: list[Any]) -> list[str]:
    said = []
    if len(served) < len(every):
        said.append(f"In {len(every) - len(served):,} of {len(every):,} configurations no point fits in memory.")
    if chosen and len(chosen) < len(maps):
        said.append(
            f"{len(chosen)} of the {len(maps):,} configurations that fit somewhere have a map below: spread evenly over the "
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
