"""The answer of `roofline plan`, in sentences and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline import formatting
from roofline.audit.config_check import Check, Finding, check
from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_assumptions, print_table
from roofline.cli.text import clean, markdown_cell
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.predict.engine_command import shell_line
from roofline.report.plan import tables
from roofline.report.plan.load import planned
from roofline.report.plan.scaling import first_values
from roofline.report.summary import Table
from roofline.serving.planning.plan import plan
from roofline.serving.planning.result import Plan, Pool


def answer(model: str | None, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the plan in the form that was asked for; the exit code."""
    if "check" in given:
        return _checked(model, given, json=json, output=output, quiet=quiet)
    if model is None:
        raise InputError("plan needs a MODEL, such as llama-3.1-8b")
    if "replicas" in given:
        raise InputError("--replicas goes with --check FILE: a plan finds how many are needed")
    result = plan(model, **given)
    formats = {".md": lambda: _markdown(result), ".html": lambda: _page(result)}
    emit(Answer(result.to_dict(), result.flat, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    if result.candidates:
        return 0
    if not quiet and (json or output is not None):
        sys.stderr.write(clean(f"{sentences(result)[0]}\n"))
    return 1


def _checked(model: str | None, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """The verdict on a deployment; the exit code."""
    result = check(given.pop("check"), model=model, **given)
    formats = {".md": lambda: _checked_markdown(result)}
    emit(Answer(result.to_dict(), result.flat, lambda: _show_check(result), formats), json=json, output=output, quiet=quiet)
    if not result.passed and not quiet and (json or output is not None):
        sys.stderr.write(clean(f"{verdict(result)}\n"))
    return 0 if result.passed else 1


def verdict(result: Check) -> str:
    """Whether it passes, in a sentence."""
    many = plural(result.replicas, "replica")
    needed = result.replicas_needed
    if result.passed:
        at_risk = any(one.verdict == "at risk" for one in result.findings)
        return f"{many} meet what is asked for{', some of it at risk' if at_risk else ''}."
    if needed is None:
        return f"{many} do not meet what is asked for, and more of them would not."
    return f"{many} do not meet what is asked for; {needed:,} would."


_OBJECTIVES = {
    "memory": "memory for the longest request", "start": "sequences, of the tokens of a step", "gpus": "GPUs of a replica",
    "length": "requests that are too long", "utilisation": "of the rate that saturates", "ttft": "TTFT", "tpot": "TPOT",
}  # fmt: skip


def findings_table(result: Check) -> Table:
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
    write_stdout(clean("\n".join([verdict(result), *reasons, ""]), keep_lines=True))
    print_table(findings_table(result))
    write_stdout("\n")
    print_assumptions(_assumptions(result.plan))


def _checked_markdown(result: Check) -> str:
    table = findings_table(result)
    parts = [f"# {markdown_cell(verdict(result))}", "\n".join(f"* {markdown_cell(reason)}" for reason in result.reasons)]
    parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def sentences(result: Plan) -> list[str]:
    """The best answer in words, or why there is none and what would have to give: as the page of the plan says it."""
    found = planned(result.to_dict())
    return tables.sentences(found, first_values(found)) if result.candidates else tables.infeasible(found)


def layout(pool: Pool) -> str:
    """`tp=2 pp=2`, or `one device`."""
    names = (("tensor", "tp"), ("pipeline", "pp"), ("data", "dp"), ("expert", "ep"), ("context", "cp"))
    sizes = [f"{short}={size}" for long, short in names if (size := pool.deployment[f"{long}_parallel"]) > 1]
    return " ".join(sizes) or "one device"


def _seconds(value: float | None) -> str:
    return "-" if value is None else formatting.seconds(value)


def candidates_table(result: Plan) -> Table:
    """The candidates, best first."""
    percentile = result.candidates[0].performance.ttft.percentile * 100
    columns = (
        "", "hardware", "devices", "replicas", "precision", "TTFT", f"p{percentile:g}", "TPOT", f"p{percentile:g} ", "util",
        "cost/h", "per M tokens", "headroom", "binds",
    )  # fmt: skip
    rows = []
    for index, one in enumerate(result.candidates):
        parts = [f"{pool.replicas} x {layout(pool)}" + ("" if pool.role == "both" else f" {pool.role}") for pool in one.pools]
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


def commands(result: Plan) -> list[tuple[str, str]]:
    """What starts a replica of the best candidate: engine and pool, and the line."""
    if result.best is None:
        return []
    return [
        (label if pool.role == "both" else f"{label}, {pool.role}", shell_line(tuple(line)))
        for pool in result.best.pools for label, line in pool.engine_flags.items()
    ]  # fmt: skip


def _show(result: Plan) -> None:
    notes = [] if result.best is None else [f"NB: {note}." for note in result.best.notes]
    write_stdout(clean("\n".join([*sentences(result), *notes, ""]), keep_lines=True))
    if not result.candidates:
        return
    print_table(candidates_table(result))
    lines = [f"{label}:\n  {line}" for label, line in commands(result)]
    write_stdout(clean("\n".join(["", "A replica of the first", *lines, ""]), keep_lines=True))
    print_assumptions(_assumptions(result))


def _page(result: Plan) -> str:
    from roofline.report.plan.page import plan_page

    return plan_page(result)


def _markdown(result: Plan) -> str:
    title = markdown_cell(f"Plan for {result.model['name']}")
    parts = [f"# {title}", *map(markdown_cell, sentences(result))]
    if result.candidates:
        for table in (candidates_table(result), _assumptions(result)):
            parts += [f"## {table.title}", *([markdown_cell(table.note)] if table.note else [])]
            parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
        for label, line in commands(result):
            parts += [f"## {markdown_cell(label)}", f"```\n{clean(line)}\n```"]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
