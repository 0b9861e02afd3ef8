"""The page of a capacity plan: one file with the answer, the candidates, and controls for the rate and the prices.

What the controls change is counted in the page by the functions of `roofline.report.plan.scaled`, translated: replicas, devices
and money. Where there is no candidate, there is nothing to set, and the page has no script.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.formulas.javascript import translated
from roofline.predict.engine_command import shell_line
from roofline.report.live import page_script, program
from roofline.report.page import page as live
from roofline.report.page import still
from roofline.report.plan.controls import controls
from roofline.report.plan.load import planned
from roofline.report.plan.planned import PLAN_DATA
from roofline.report.plan.scaled import first_values
from roofline.report.plan.view import view
from roofline.report.plots import plot
from roofline.report.view.csv_text import csv_text

if TYPE_CHECKING:
    from roofline.formulas.javascript import Program
    from roofline.serving.planning.result import Plan

_PARTS = ("plain.js", "plan.js")


def plan_page(plan: Plan, line: str = "") -> str:
    """The page of a plan. `line`: the command that makes it again."""
    return page(plan.to_dict(), line=line)


def page(found: Mapping[str, Any], path: Path | None = None, line: str = "") -> str:
    """The page of a plan's JSON, of the file at `path` if it is from one.

    Raises:
        SpecError: it is no plan.
    """
    read = planned(found, path)
    said = line or shell_line(
        ("roofline", "report", "--from", "plan.json" if path is None else path.name, "--output", "plan.html")
    )
    first = view(read, first_values(read))
    shown = controls(read) if read.feasible else ()
    if not shown:
        return still(first, said)
    script, data = translated(_program, lambda into: {"planned": into.encode(read)})
    return live(first, shown, page_script(script, _PARTS), data, said, asks="What if", stands_last=True, styles=("plan",))


def _program() -> Program:
    """What counts in the page."""
    made = program()
    for cls in PLAN_DATA:
        made.refer(cls)
    made.export("view", view)
    made.export("plot", plot)
    made.export("csv", csv_text)
    return made
