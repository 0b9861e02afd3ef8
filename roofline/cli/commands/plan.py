"""`roofline plan`: which hardware, how many, which flags, at what cost, for a traffic and its objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import Options, model_argument, takes
from roofline.cli.output import Output, Result, write_lines, write_stdout
from roofline.cli.tables import markdown_document, markdown_table, markdown_tables, print_assumptions, print_table
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.predict.options import DEPLOYMENT
from roofline.serving.options import PLAN
from roofline.text import Table, clean, markdown_cell

if TYPE_CHECKING:
    from roofline.audit.config_check import Check, Finding
    from roofline.serving.planning.result import Plan, Pool


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("shared_prefix", "logits", "ignore_capacity", "enable_prefix_caching")
    app.command(name="plan")(takes(DEPLOYMENT, first=PLAN.values(), without=without)(plan))


def plan(
    model: Annotated[str | None, model_argument()] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Plan capacity: deployments that serve a traffic within its objectives, best first.

    What is given of a deployment (--tp, --dtype, ...) is not searched. Exit code 1 when nothing serves it. Example:
    roofline plan llama-3.1-8b --rate 50 --input-len lognormal:1155:900 --output-len 211 --ttft "2 s" --tpot "50 ms"
    """
    if "check" in options:
        return _check(model, options, out)
    if model is None:
        raise InputError("plan needs a MODEL, such as llama-3.1-8b")
    if "replicas" in options:
        raise InputError("--replicas goes with --check FILE: a plan finds how many are needed")
    from roofline.serving.planning.plan import plan as compute

    result = compute(model, **options)
    lines = _sentences(result)

    def page() -> str:
        from roofline.report.plan.page import plan_page

        return plan_page(result)

    formats = {".md": lambda: _markdown(result, lines), ".html": page}
    out.emit(Result(result.to_dict(), result.flat, lambda: _show(result, lines), formats))
    if result.candidates:
        return 0
    out.verdict(lines[0])
    return 1


def _check(model: str | None, query: dict[str, Any], out: Output) -> int:
    """The verdict on a deployment; the exit code."""
    from roofline.audit.config_check import check

    result = check(query.pop("check"), model=model, **query)
    formats = {".md": lambda: _check_markdown(result)}
    out.emit(Result(result.to_dict(), result.flat, lambda: _show_check(result), formats))
    if result.passed:
        return 0
    out.verdict(_verdict(result))
    return 1


def _verdict(result: Check) -> str:
    """Whether it passes, in a sentence."""
    replicas = plural(result.replicas, "replica")
    needed = result.replicas_needed
    if result.passed:
        at_risk = any(one.verdict == "at risk" for one in result.findings)
        return f"{replicas} meet every objective{', some at risk' if at_risk else ''}."
    if needed is None:
        return f"{replicas} do not meet every objective, and more would not."
    return f"{replicas} do not meet every objective; {needed:,} would."


_OBJECTIVES = {
    "memory": "memory for the longest request", "start": "sequences, of the tokens of a step", "gpus": "GPUs of a replica",
    "length": "requests that are too long", "utilisation": "of the rate that saturates", "ttft": "TTFT", "tpot": "TPOT",
}  # fmt: skip


def _findings_table(result: Check) -> Table:
    """Every objective and limit, with its verdict."""
    rows = tuple(
        (
            _OBJECTIVES.get(one.objective, one.objective) + ("" if one.percentile is None else f" p{one.percentile * 100:g}"),
            one.of or "",
            _measure(one.objective, one.limit),
            _measure(one.objective, one.expected),
            _band(one),
            one.verdict,
        )
        for one in result.findings
    )  # fmt: skip
    columns = ("objective", "class", "at most", "expected", "8 of 10", "verdict")
    return Table("Findings", "", columns, (False, False, True, True, False, False), rows)


def _band(one: Finding) -> str:
    """From the quick end to the slow one, where they are not the same."""
    if one.low is None or one.low == one.high:
        return ""
    return f"{_measure(one.objective, one.low)} to {_measure(one.objective, one.high)}".replace("no end to no end", "no end")


def _measure(objective: str, value: float | None) -> str:
    if value is None:
        return "no end"
    if objective in ("ttft", "tpot"):
        return formatting.seconds(value)
    if objective == "memory":
        return formatting.binary(value, 3)
    return percent(value) if objective in ("length", "utilisation") else f"{value:,.10g}"


def _show_check(result: Check) -> None:
    reasons = [f"  {reason}" for reason in result.reasons]
    write_lines([_verdict(result), *reasons, ""])
    print_table(_findings_table(result))
    write_stdout("\n")
    print_assumptions(_assumptions(result.plan))


def _check_markdown(result: Check) -> str:
    reasons = "\n".join(f"* {markdown_cell(reason)}" for reason in result.reasons)
    parts = [f"# {markdown_cell(_verdict(result))}", reasons, markdown_table(_findings_table(result))]
    return markdown_document(filter(None, parts))


def _sentences(result: Plan) -> list[str]:
    """The best candidate in words, or why there is none and what would have to give: as the page of the plan has it."""
    from roofline.report.plan import tables
    from roofline.report.plan.load import planned
    from roofline.report.plan.scaling import first_values

    state = planned(result.to_dict())
    return tables.sentences(state, first_values(state)) if result.candidates else tables.infeasible(state)


def _layout(pool: Pool) -> str:
    """`tp=2 pp=2`, or `one device`."""
    names = (("tensor", "tp"), ("pipeline", "pp"), ("data", "dp"), ("expert", "ep"), ("context", "cp"))
    sizes = [f"{short}={size}" for long, short in names if (size := pool.deployment[f"{long}_parallel"]) > 1]
    return " ".join(sizes) or "one device"


def _seconds(value: float | None) -> str:
    return "-" if value is None else formatting.seconds(value)


def _candidates_table(result: Plan) -> Table:
    """The candidates, best first."""
    percentile = result.candidates[0].performance.ttft.percentile * 100
    columns = (
        "", "hardware", "devices", "replicas", "precision", "TTFT", f"p{percentile:g}", "TPOT", f"p{percentile:g} ", "util",
        "cost/h", "per M tokens", "headroom", "binds",
    )  # fmt: skip
    rows = []
    for index, one in enumerate(result.candidates):
        parts = [f"{pool.replicas} x {_layout(pool)}" + ("" if pool.role == "both" else f" {pool.role}") for pool in one.pools]
        cost = one.cost
        rows.append((
            "*" if index in result.pareto else "", one.hardware, f"{one.devices:,}", " + ".join(parts), one.precision,
            _seconds(one.performance.ttft.mean), _seconds(one.performance.ttft.at), _seconds(one.performance.tpot.mean),
            _seconds(one.performance.tpot.at), f"{percent(one.performance.utilisation, 0)}",
            "-" if cost.per_hour is None else f"{cost.per_hour:,.2f}", "-" if cost.total is None else f"{cost.total:.3g}",
            "-" if one.headroom is None else f"{percent(one.headroom, 0)}", one.binds,
        ))  # fmt: skip
    right = (False, False, True, False, False, True, True, True, True, True, True, True, True, False)
    note = "* Pareto front of cost, TTFT and TPOT; util: share of the saturation rate; headroom: over the planned rate"
    money = next((one.cost.currency for one in result.candidates if one.cost.currency), None)
    return Table("Candidates", f"{note}; cost in {money}" if money else note, columns, right, tuple(rows))


def _assumptions(result: Plan) -> Table:
    rows = tuple((note.name, clean(note.value), note.origin, note.why) for note in result.assumptions)
    return Table("Assumptions", "", ("name", "value", "origin", "why"), (False,) * 4, rows)


def _commands(result: Plan) -> list[tuple[str, str]]:
    """What starts a replica of the best candidate: engine and pool, and the line."""
    from roofline.predict.engine_command import start_line

    if result.best is None:
        return []
    return [
        (label if pool.role == "both" else f"{label}, {pool.role}", start_line(tuple(line), pool.engine_files.get(label, {})))
        for pool in result.best.pools for label, line in pool.engine_flags.items()
    ]  # fmt: skip


def _show(result: Plan, sentences: list[str]) -> None:
    notes = [] if result.best is None else [f"NB: {note}." for note in result.best.notes]
    write_lines([*sentences, *notes, ""])
    if not result.candidates:
        return
    print_table(_candidates_table(result))
    write_lines(["", "A replica of the first", *(f"{label}:\n  {line}" for label, line in _commands(result)), ""])
    print_assumptions(_assumptions(result))


def _markdown(result: Plan, sentences: list[str]) -> str:
    parts = [f"# {markdown_cell('Plan for ' + result.model['name'])}", *map(markdown_cell, sentences)]
    if result.candidates:
        parts += markdown_tables((_candidates_table(result), _assumptions(result)))
        for label, line in _commands(result):
            parts += [f"## {markdown_cell(label)}", f"```\n{clean(line)}\n```"]
    return markdown_document(parts)
