"""The answer of `roofline preempt`, in sentences and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_table
from roofline.cli.text import clean, markdown_cell
from roofline.predict.engine_command import shell_line
from roofline.report import summary
from roofline.report.preemption_summary import sentences, tables
from roofline.report.summary import Table
from roofline.serving.preemption.preempt import preempt
from roofline.serving.preemption.result import Preempted


def answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give both costs in the form that was asked for; the exit code."""
    result = preempt(model, hardware, **given)
    formats = {".md": lambda: _markdown(result), ".html": lambda: _page(result, command(model, hardware, given))}
    emit(Answer(result.to_dict(), result.flat, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    if result.answer is not None:
        return 0
    if not quiet and (json or output is not None):
        sys.stderr.write(clean(f"{sentences(result)[0]}\n"))
    return 1


def command(model: str, hardware: str, given: dict[str, Any]) -> str:
    """The line that asks the same."""
    line = ["roofline", "preempt", model, "--hardware", hardware]
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "pinned":
            line += [] if value else ["--pageable"]
        elif value is True:
            line.append(flag)
        else:
            line += [flag, str(value)]
    return shell_line(tuple(line))


def _show(result: Preempted) -> None:
    """Print to stdout; on a terminal the defaults among the assumptions are left to files and pipes."""
    terminal = sys.stdout.isatty()
    head = [summary.headline(result), summary.subtitle(result), "", *sentences(result), ""]
    write_stdout(clean("\n".join(head), keep_lines=True))
    for table in tables(result):
        print_table(table)
        if not terminal:
            write_stdout("\n")
    listed = summary.assumptions_table(result)
    kept = tuple(row for row in listed.rows if not terminal or row[2] != "default")
    if kept:
        print_table(Table(listed.title, listed.note, listed.columns, listed.right, kept))
    if terminal:
        write_stdout(f"{len(listed.rows) - len(kept)} defaults are listed with --json, with -o FILE.md and in a pipe.")


def _markdown(result: Preempted) -> str:
    parts = [
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, sentences(result)),
    ]
    for table in [*tables(result), summary.assumptions_table(result)]:
        parts += [f"## {table.title}", *([markdown_cell(table.note)] if table.note else [])]
        parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _page(result: Preempted, line: str) -> str:
    from roofline.report.preemption_page import preemption_page

    return preemption_page(result, line)
