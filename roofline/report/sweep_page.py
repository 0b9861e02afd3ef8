"""The page of a sweep: one file without controls, with figures as still pictures and the numbers beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from roofline.predict.engine_command import shell_line
from roofline.report.figure import Command, Section, View
from roofline.report.page import still
from roofline.report.sweep import bests, configurations, fronts, histograms, overview
from roofline.report.sweep.command import command
from roofline.report.sweep.heatmaps import is_grid
from roofline.report.sweep.swept import Swept

if TYPE_CHECKING:
    import pandas as pd

_NOT_MODELLED = (
    "Queues: these are single steps in which every sequence has the same length, not requests that come and go.",
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Clocks that fall with heat or power beyond what the measured kernels saw.",
)


def page(swept: Swept) -> str:
    """The whole file."""
    return still(view(swept), shell_line(("roofline", "report", "--from", swept.name, "--output", "sweep.html")))


def view(swept: Swept) -> View:
    """Everything that it shows."""
    line = command(swept)
    refused = overview.refused_table(swept)
    first = Section(
        key="swept",
        title="What was swept",
        note="",
        figure=None,
        tables=(overview.axes_table(swept), *([refused] if refused else [])),
    )
    last = Section(key="inputs", title="What it stands on", note="", figure=None, tables=(overview.inputs_table(swept),))
    return View(
        title=overview.title(swept),
        subtitle=overview.subtitle(swept),
        answer=overview.answer(swept),
        fits=len(swept.frame) > 0 and ("fits" not in swept.frame.columns or bool(swept.frame["fits"].any())),
        error="",
        tiles=overview.tiles(swept),
        commands=(Command(label="The same rows in a terminal", text=line),) if line else (),
        sections=(first, *_sections(swept), last),
        assumptions=overview.columns_table(swept),
        not_modelled=_NOT_MODELLED,
    )


def _sections(swept: Swept) -> list[Section]:
    phases = swept.phases if len(swept.frame) else []
    return [
        section
        for phase, rows in phases
        for make in _makers(swept, phase, rows)
        for section in make(swept, phase, rows, len(phases))
    ]


def _makers(
    swept: Swept, phase: str, rows: pd.DataFrame
) -> tuple[Callable[[Swept, str, pd.DataFrame, int], list[Section]], ...]:
    """What is made of the rows of a phase."""
    if swept.rule == "histogram":
        return (histograms.sections,)
    if swept.rule == "best":
        return (bests.sections,)
    if swept.rule == "pareto" or (swept.described is None and not _whole(swept, phase, rows)):
        return (fronts.sections, bests.sections)
    return (fronts.sections, configurations.sections)


def _whole(swept: Swept, phase: str, rows: pd.DataFrame) -> bool:
    """Whether rows alone are those of a grid, and not a choice of some."""
    return all(is_grid(group, phase) for _, group in swept.configurations(rows))
