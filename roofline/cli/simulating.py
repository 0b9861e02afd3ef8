"""The answer of `roofline simulate`, in sentences and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_assumptions, print_table
from roofline.cli.progress import counted
from roofline.cli.text import clean, markdown_cell
from roofline.errors import InputError
from roofline.predict.engine_command import shell_line
from roofline.report import summary
from roofline.report.simulation.summary import sentences, tables
from roofline.serving.simulation.interrupts import Interrupts
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.rows import SUFFIXES
from roofline.serving.simulation.simulate import simulate

_SUFFIXES = (*SUFFIXES, ".json", ".md", ".html")


def answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the result in the form that was asked for; the exit code."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:  # before the work is done
        allowed = ", ".join(_SUFFIXES)
        raise InputError(f"cannot write {output}: the suffix says the format, and must be one of {allowed}")
    traced = given.get("perfetto")
    rows = output if output is not None and output.suffix.lower() in SUFFIXES else None
    with counted("requests", quiet=quiet) as told, Interrupts() as interrupts:
        result = simulate(model, hardware, rows=rows, interrupts=interrupts, told=told, **given)
    if result.interrupted:
        sys.stderr.write("stopped: the result is of what was served so far\n")
    if rows is not None:
        if not quiet and result.fits:
            sys.stderr.write(f"wrote {clean(rows)}\n")
        output = None  # the result itself goes to stdout
    if traced is not None and result.fits and not quiet:
        sys.stderr.write(f"wrote {clean(traced)}\n")
    formats = {".md": lambda: _markdown(result), ".html": lambda: _page(result, command(model, hardware, given))}
    emit(Answer(result.to_dict(), None, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    counts = result.requests
    nobody = counts.refused > 0 and counts.refused == counts.arrived
    return 4 if result.interrupted else int(nobody or not result.fits)


def command(model: str, hardware: str, given: dict[str, Any]) -> str:
    """The line that simulates the same."""
    line = ["roofline", "simulate", model, "--hardware", hardware]
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "pinned":
            line += [] if value else ["--pageable"]
        elif value is True:
            line.append(flag)
        elif name != "perfetto":
            line += [flag, str(value)]
    return shell_line(tuple(line))


def _page(result: Simulation, line: str) -> str:
    from roofline.report.simulation.page import simulation_page

    return simulation_page(result, line)


def _show(result: Simulation) -> None:
    """Print to stdout; on a terminal the defaults among the assumptions are left to files and pipes."""
    terminal = sys.stdout.isatty()
    lines = [summary.headline(result), summary.subtitle(result), "", *sentences(result), ""]
    write_stdout(clean("\n".join(lines), keep_lines=True))
    for table in tables(result):
        print_table(table)
        if not terminal:
            write_stdout("\n")
    print_assumptions(summary.assumptions_table(result))


def _markdown(result: Simulation) -> str:
    parts = [
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, sentences(result)),
    ]
    for table in [*tables(result), summary.assumptions_table(result)]:
        parts += [f"## {table.title}", *([markdown_cell(table.note)] if table.note else [])]
        parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
