"""The page of a simulation: one file with the answer, the latencies, and the server's state over time.

Two lines on the distributions can be moved; the fractions within them are computed in the page by the functions of
`roofline.report.simulation.figures`, translated. If no request was answered there is nothing to move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.formatting import percent, plural
from roofline.formulas.javascript import translated
from roofline.report import summary
from roofline.report.answer import settings_line
from roofline.report.cells import about_count, about_time, number_cell, share, text_cell, whole
from roofline.report.controls import FIRST_STATE, Control, PageState, values_of, with_state
from roofline.report.figure import PARTS_OF_A_VIEW, Cell, Column, Command, Mark, Section, Table, Tile, View
from roofline.report.page import live_page, static_page
from roofline.report.page_program import OF_A_RESULT, page_script, view_program
from roofline.report.simulation.figures import (
    Curve,
    PageData,
    at_share,
    confidence_section,
    history_sections,
    rates_section,
    view,
)
from roofline.report.simulation.summary import (
    input_tables,
    interval_table,
    latencies,
    latency_table,
    load_table,
    offload_table,
    pools_table,
    preemption_table,
    refusals_table,
    remarks,
    transfer_table,
    verdict,
    workload,
)
from roofline.serving.simulation.result import Latency, Simulation
from roofline.text import Table as TextTable

if TYPE_CHECKING:
    from roofline.formulas.javascript import Program
    from roofline.serving.simulation.result import Simulation

_FOR_A_TAIL = 100
"""Requests from which on there is a slowest percent."""
_NOT_MODELLED = (
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Nodes that have to be found before a replica starts, failures of several replicas at once, delays until one is noticed.",
    "Speculative decoding, and data parallelism inside a replica.",
    "Step times that vary: two steps of the same sequences take equally long.",
)


def simulation_page(result: Simulation, line: str) -> str:
    """The page of a simulation as a complete HTML document; `line` is the command that simulates the same."""
    page = page_data(result, line)
    return page_of(page, f"{line} --output page.html")


def page_of(page: PageData, line: str, opened: PageState = FIRST_STATE) -> str:
    """The page as a complete HTML document.

    Args:
        page: what it shows.
        line: the command that writes it again.
        opened: what its controls are set to, where they have another state than at first.

    Raises:
        ValueError: a control cannot be set so.
    """
    if not page.curves:
        return static_page(page.base, line)
    settings = with_state(controls(page), opened.state)
    first = view(page, values_of(settings))
    program, data = translated(_program, lambda into: {"page": into.encode(page)})
    return live_page(
        first, settings, page_script(program, OF_A_RESULT), data, line,
        settings_title="Objectives", saved={"kind": "simulation"}, pinned=opened.pinned,
    )  # fmt: skip


def first_view(result: Simulation, line: str = "") -> View:
    """What the page shows before a control is moved."""
    page = page_data(result, line)
    return _first_view(page) if page.curves else page.base


def _first_view(page: PageData) -> View:
    return view(page, values_of(controls(page)))


def page_data(result: Simulation, line: str) -> PageData:
    """Data of the page, before what its controls change."""
    return PageData(
        base=_base(result, line),
        latencies=(_cells("latencies", latency_table(result), latencies(result)),),
        curves=_curves(result),
        objectives=_objectives(result),
        tail=result.requests.completed >= _FOR_A_TAIL,
    )


def _program() -> Program:
    return view_program(view, (PageData, Curve, *PARTS_OF_A_VIEW))


def _base(result: Simulation, line: str) -> View:
    load, history = _load_tables(result), history_sections(result)
    certainty = confidence_section(result)
    return View(
        title=f"Simulation: {summary.headline(result)}",
        subtitle=settings_line(result, *workload(result)),
        answer=(*(text for _, text in remarks(result)), f"{summary.subtitle(result)}."),
        fits=result.requests.completed > 0 and not result.saturated,
        error="",
        tiles=_tiles(result),
        commands=(Command(label="Reproduce in a terminal", text=line),),
        sections=(
            *history[:1],
            *([Section(key="load", title="Load", note="", figure=None, tables=tuple(load), half=True)] if load else []),
            *history[1:],
            *(one for one in (rates_section(result), certainty) if one is not None),
            Section(key="inputs", title="Workload, server and inputs", note="", figure=None, folded=True,
                    tables=tuple(_cells(key, listed) for key, listed in input_tables(result))),
        ),
        assumptions=_cells("assumptions", summary.assumptions_table(result)),
        not_modelled=_NOT_MODELLED,
        verdict=" ".join(verdict(result)),
    )  # fmt: skip


def _load_tables(result: Simulation) -> list[Table]:
    if not result.fits:
        return []
    tables = {
        "load": load_table(result),
        "tiers": offload_table(result),
        "between": interval_table(result),
        "pools": pools_table(result),
        "transfers": transfer_table(result),
        "costs": preemption_table(result),
        "refused": refusals_table(result),
    }
    return [_cells(key, listed) for key, listed in tables.items() if listed is not None]


def _cells(key: str, listed: TextTable, values: Any = None) -> Table:
    """A table of texts as one of cells, with the numbers behind them where they are known."""
    columns = tuple(Column(name=name, number=right) for name, right in zip(listed.columns, listed.right, strict=True))
    rows = [tuple(text_cell(text) for text in row) for row in listed.rows]
    if values is not None:
        rows = [
            tuple(
                cell if value is None else type(cell)(text=cell.text, value=value)
                for cell, value in zip(row, known, strict=True)
            )
            for row, known in zip(rows, values, strict=True)
        ]
    return Table(key=key, title=listed.title, note=listed.note, columns=columns, rows=tuple(rows))


_ORDER = (("ttft", "TTFT", "requests"), ("e2e", "E2E", "requests"), ("tpot", "TPOT", "requests"), ("itl", "ITL", "tokens"))


def _curves(result: Simulation) -> tuple[Curve, ...]:
    """Distributions of the latencies that the run has, without those that start at 0."""
    curves_of = []
    for key, name, of in _ORDER:
        one = result.distributions.get(f"{key}_s")
        if one and one["seconds"] and one["seconds"][0] > 0:
            curves_of.append(Curve(key=key, name=name, of=of, seconds=tuple(one["seconds"]), share=tuple(one["share"])))
    return tuple(curves_of)


def _objectives(result: Simulation) -> tuple[Mark, ...]:
    """Marks of the objectives of the classes: each time once, with the names of its classes."""
    listed: dict[tuple[str, float], list[str]] = {}
    classes = result.workload["classes"]
    for one in classes:
        for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
            if one[key] is not None:
                listed.setdefault((name, one[key]), []).append(one["name"])
    return tuple(
        Mark(
            text=f"{name} {formatting.seconds(at)}" + (f" ({', '.join(of)})" if len(of) < len(classes) else ""),
            x=at,
            role=name,
        )
        for (name, at), of in listed.items()
    )


_MOVED = {"ttft": "TTFT at most", "tpot": "TPOT at most"}
_SHARE = 0.95


def controls(page: PageData) -> tuple[Control, ...]:
    """Controls of the TTFT and TPOT lines in milliseconds: at first at the objective if there is one, else at the p95."""
    return tuple(_line(page, curve) for curve in page.curves if curve.key in _MOVED)


def _line(page: PageData, curve: Curve) -> Control:
    given = {mark.x for mark in page.objectives if mark.text.startswith(f"{curve.name} ")}
    at = given.pop() if len(given) == 1 else None
    value = at_share(curve, _SHARE) if at is None else at
    # three digits are what the control shows; an objective stays what it is
    milliseconds = float(f"{value * 1000:.3g}") if at is None else value * 1000
    low, high = 1000 * curve.seconds[0] / 2, 1000 * curve.seconds[-1] * 2
    return Control(
        key=curve.key, label=_MOVED[curve.key], kind="number", value=milliseconds, low=_rounded(min(low, milliseconds / 2)),
        high=_rounded(max(high, milliseconds * 2)), log=True, unit="ms", group="Share within",
        help="at first: the objective" if at is not None else f"at first: where {percent(_SHARE, 0)} of the requests are",
    )  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.1g}")


def _tiles(result: Simulation) -> tuple[Tile, ...]:
    """Headline numbers: latencies, rates, KV blocks in use, share of the requests within the SLO."""
    counts, rates, server = result.requests, result.throughput, result.server
    if not result.fits:
        return ()
    if not counts.completed:
        return (Tile(label="Refused", cell=whole(counts.refused), note=f"of {plural(counts.arrived, 'request')}"),)
    ttft, tpot = result.ttft_s, result.tpot_s
    come = "" if result.offered_rate is None else f"of {number_cell(result.offered_rate).text} offered"
    listed = [
        _latency_tile("TTFT", ttft),
        *([] if tpot.mean is None else [_latency_tile("TPOT", tpot)]),
        Tile(label="Requests/s", cell=number_cell(rates["requests_per_s"]), note=come),
        Tile(
            label="Output tokens/s",
            cell=about_count(rates["output_tokens_per_s"]),
            note=_of(server["replicas"] if result.fleet is None else 1),
        ),
        Tile(label="KV cache in use", cell=share(result.utilisation["kv"]), note="mean over time"),
    ]
    if result.within_slo is not None:
        note = f"goodput: {number_cell(result.goodput).text} requests/s"
        listed.append(
            Tile(
                label="Within the SLO",
                cell=Cell(text=percent(result.within_slo, digits=4), value=result.within_slo),
                note=note,
            )
        )
    if counts.preemptions:
        listed.append(
            Tile(label="Preemptions", cell=whole(counts.preemptions), note=f"of {plural(counts.preempted, 'request')}")
        )
    return tuple(listed)


def _latency_tile(name: str, latency: Latency) -> Tile:
    p99 = "" if latency.p99 is None else f"p99 {formatting.about(latency.p99)}"
    return Tile(label=f"{name}, mean", cell=about_time(latency.mean), note=p99)


def _of(replicas: int) -> str:
    return "" if replicas == 1 else f"of all {replicas:,} replicas"
