"""The answer of `roofline plan`, in sentences and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline.capacity.candidate import Pool
from roofline.capacity.plan import plan
from roofline.capacity.result import Plan
from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_table
from roofline.cli.text import clean, markdown_cell
from roofline.errors import InputError
from roofline.predict.engine_command import shell_line
from roofline.report.plan import words
from roofline.report.plan.load import planned
from roofline.report.plan.scaled import first_values
from roofline.report.summary import Table
from roofline.units import format_si


def answer(model: str | None, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the plan in the form that was asked for; the exit code."""
    if model is None:
        raise InputError("plan needs a MODEL, such as llama-3.1-8b")
    result = plan(model, **given)
    formats = {".md": lambda: _markdown(result), ".html": lambda: _page(result)}
    emit(Answer(result.to_dict(), result.flat, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    if result.candidates:
        return 0
    if not quiet and (json or output is not None):
        sys.stderr.write(clean(f"{sentences(result)[0]}\n"))
    return 1


def sentences(result: Plan) -> list[str]:
    """The best answer in words, or why there is none and what would have to give: as the page of the plan says it."""
    found = planned(result.to_dict())
    return words.sentences(found, first_values(found)) if result.candidates else words.infeasible(found)


def layout(pool: Pool) -> str:
    """`tp=2 pp=2`, or `one device`."""
    names = (("tensor", "tp"), ("pipeline", "pp"), ("data", "dp"), ("expert", "ep"), ("context", "cp"))
    sizes = [f"{short}={size}" for long, short in names if (size := pool.deployment[f"{long}_parallel"]) > 1]
    return " ".join(sizes) or "one device"


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_si(value, "s", 3)


def candidates_table(result: Plan) -> Table:
    """The candidates, best first."""
    percentile = result.candidates[0].expected.ttft.percentile * 100
    columns = (
        "", "hardware", "devices", "replicas", "precision", "TTFT", f"p{percentile:g}", "TPOT", f"p{percentile:g} ", "busy",
        "cost/h", "per M tokens", "more", "binds",
    )  # fmt: skip
    rows = []
    for index, one in enumerate(result.candidates):
        parts = [f"{pool.replicas} x {layout(pool)}" + ("" if pool.role == "both" else f" {pool.role}") for pool in one.pools]
        cost = one.cost
        rows.append((
            "*" if index in result.pareto else "", one.hardware, f"{one.devices:,}", " + ".join(parts), one.precision,
            _seconds(one.expected.ttft.mean), _seconds(one.expected.ttft.at), _seconds(one.expected.tpot.mean),
            _seconds(one.expected.tpot.at), f"{one.expected.utilisation:.0%}",
            "-" if cost.per_hour is None else f"{cost.per_hour:,.2f}", "-" if cost.total is None else f"{cost.total:.3g}",
            "-" if one.headroom is None else f"{one.headroom:.0%}", one.binds,
        ))  # fmt: skip
    right = (False, False, True, False, False, True, True, True, True, True, True, True, True, False)
    note = (
        "* nothing listed beats it in cost, TTFT and TPOT together; busy: of the rate that saturates; more: of the planned rate"
    )
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
    write_stdout(clean("\n".join([*sentences(result), ""]), keep_lines=True))
    if not result.candidates:
        return
    print_table(candidates_table(result))
    lines = [f"{label}:\n  {line}" for label, line in commands(result)]
    write_stdout(clean("\n".join(["", "A replica of the first", *lines, ""]), keep_lines=True))
    print_table(_assumptions(result))


def _page(result: Plan) -> str:
    from roofline.report.plan_page import plan_page

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
