"""The page of a simulation: one file with the answer, the latencies, and how the server went over time.

Two lines on the distributions can be moved; the shares within them are counted in the page, by the functions of
`roofline.report.simulation.distributions`, translated. Where no request was answered there is nothing to move, and the page
has no script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.formulas.javascript import translated
from roofline.report import summary
from roofline.report.figure import PARTS_OF_A_VIEW, Column, Command, Section, Table, View
from roofline.report.live import page_script, program
from roofline.report.page import page as live
from roofline.report.page import still
from roofline.report.plots import plot
from roofline.report.simulation import figures, tables
from roofline.report.simulation.controls import controls
from roofline.report.simulation.distributions import view
from roofline.report.simulation.objectives import curves, objectives
from roofline.report.simulation.tiles import tiles
from roofline.report.simulation.told import Curve, Told
from roofline.report.simulation.words import sentences
from roofline.report.view.cells import words
from roofline.report.view.csv_text import csv_text

if TYPE_CHECKING:
    from roofline.formulas.javascript import Program
    from roofline.serving.simulation.result import Simulation

_FOR_A_TAIL = 100
"""Requests from which on there is a slowest percent."""
_PARTS = ("plain.js", "simulation.js")
_NOT_MODELLED = (
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Routers that look at caches or at lengths; replicas that fail, start or drain.",
    "Speculative decoding, and data parallelism inside a replica.",
    "Step times that vary: two steps of the same sequences take equally long.",
)


def page(result: Simulation, line: str) -> str:
    """The whole file; `line` is the command that simulates the same."""
    read = told(result, line)
    again = f"{line} --output page.html"
    shown = controls(read)
    if not read.curves:
        return still(read.base, again)
    first = view(read, {control.key: control.value for control in shown})
    script, data = translated(_program, lambda into: {"told": into.encode(read)})
    return live(
        first, shown, page_script(script, _PARTS), data, again, asks="Objectives", stands_last=True, styles=("simulation",)
    )  # fmt: skip


def told(result: Simulation, line: str) -> Told:
    """All that the page shows, apart from what can be moved."""
    listed = (_cells("latencies", tables.latency_table(result), tables.latencies(result)),)
    return Told(
        base=_base(result, line),
        latencies=listed,
        curves=curves(result),
        objectives=objectives(result),
        tail=result.requests.completed >= _FOR_A_TAIL,
    )


def _program() -> Program:
    made = program()
    for cls in (Told, Curve, *PARTS_OF_A_VIEW):
        made.refer(cls)
    made.export("view", view)
    made.export("plot", plot)
    made.export("csv", csv_text)
    return made


def _base(result: Simulation, line: str) -> View:
    load = _load(result)
    return View(
        title=f"Simulation: {summary.headline(result)}",
        subtitle=summary.subtitle(result),
        answer=tuple(sentences(result)),
        fits=result.requests.completed > 0 and not result.saturated,
        error="",
        tiles=tiles(result),
        commands=(Command(label="The same in a terminal", text=line),),
        sections=(
            *([_section("load", "Load and memory", *load)] if load else []),
            *figures.sections(result),
            _section("asked", "What was simulated", *[_cells(key, shown) for key, shown in tables.asked(result)]),
        ),
        assumptions=_cells("assumptions", summary.assumptions_table(result)),
        not_modelled=_NOT_MODELLED,
    )


def _load(result: Simulation) -> list[Table]:
    if not result.fits:
        return []
    costs, refused = tables.preemption_table(result), tables.refusals_table(result)
    found = {"load": tables.load_table(result), "between": tables.interval_table(result), "costs": costs, "refused": refused}
    return [_cells(key, shown) for key, shown in found.items() if shown is not None]


def _section(key: str, title: str, *listed: Table) -> Section:
    return Section(key=key, title=title, note="", figure=None, tables=listed)


def _cells(key: str, shown: summary.Table, values: Any = None) -> Table:
    """A table of texts as one of cells, with the numbers behind them where they are known."""
    columns = tuple(Column(name=name, number=right) for name, right in zip(shown.columns, shown.right, strict=True))
    rows = [tuple(words(text) for text in row) for row in shown.rows]
    if values is not None:
        rows = [
            tuple(
                cell if value is None else type(cell)(text=cell.text, value=value)
                for cell, value in zip(row, known, strict=True)
            )
            for row, known in zip(rows, values, strict=True)
        ]
    return Table(key=key, title=shown.title, note=shown.note, columns=columns, rows=tuple(rows))
