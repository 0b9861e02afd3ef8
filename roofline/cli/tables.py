"""Text tables and results, on a terminal (with rules), in a pipe (plain columns) and as Markdown."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.cli.output import as_markdown, write_lines, write_stdout
from roofline.text import Table, clean, markdown_cell

if TYPE_CHECKING:
    from roofline.report.summary import Described

_WRAPPED = ("why", "likely because", "over", "note", "source")
"""Columns of sentences, which may be wrapped."""
_SENTENCE = 14
"""The smallest width of one."""


def is_terminal() -> bool:
    """Whether stdout is a terminal that supports formatting."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def plain(table: Table) -> str:
    """A table as text in aligned columns, without rules."""
    cells = [table.columns, *table.rows]
    widths = _widths(table)
    lines = [table.title, *([f"  {table.note}"] if table.note else [])]
    if not table.rows:
        return "\n".join(lines)
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, table.right, strict=True)
        )
        lines.append(("  " + "  ".join(padded)).rstrip())
    return "\n".join(line for line in lines if line)


def print_table(table: Table) -> None:
    """Print a table to stdout: with rules on a terminal, in plain columns in a pipe."""
    if not is_terminal():
        write_stdout(clean(plain(table), keep_lines=True))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if table.title:
        console.print(clean(table.title), style="bold", markup=False)
    if table.note:
        console.print(clean(table.note), style="dim", markup=False)
    if min_width(table) > console.width:
        # Lines that the terminal wraps: a drawn table would cut cells off, and half a number is a wrong one.
        write_stdout(clean(plain(replace(table, title="", note="")), keep_lines=True))
    else:
        console.print(drawn(table))


def _print_tables(tables: Iterable[Table]) -> None:
    """Print tables to stdout, in a pipe with an empty line after each."""
    for table in tables:
        print_table(table)
        if not sys.stdout.isatty():
            write_stdout("\n")


def _widths(table: Table) -> list[int]:
    return [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]


def min_width(table: Table) -> int:
    """Terminal columns that a drawn table takes at least."""
    widths = _widths(table)
    least = (min(width, _SENTENCE) if name in _WRAPPED else width for name, width in zip(table.columns, widths, strict=True))
    return sum(least) + 2 * len(widths)


def drawn(table: Table, marks: dict[str, str] | None = None) -> Any:
    """A table as an object of rich. `marks` are signs before rows, by the text of their first cell."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, right in zip(table.columns, table.right, strict=True):
        rich_table.add_column(name, justify="right" if right else "left", no_wrap=name not in _WRAPPED, overflow="fold")
    colours = {"compute": "red", "memory": "cyan", "link": "magenta", "assumed": "yellow", "given": "green"}
    for row in table.rows:
        cells = [Text(clean(cell), style=colours.get(cell, "")) for cell in row]
        if marks and row[0] in marks:
            cells[0] = Text.assemble((f"{marks[row[0]]} ", "bold"), clean(row[0]))
        elif marks:
            cells[0] = Text(f"  {clean(row[0])}")
        rich_table.add_row(*cells)
    return rich_table


def print_assumptions(listed: Table) -> None:
    """Print assumptions to stdout; on a terminal without the defaults, which are only counted."""
    terminal = sys.stdout.isatty()
    rows = tuple(row for row in listed.rows if not terminal or row[2] != "default")
    if rows:
        print_table(replace(listed, rows=rows))
    if terminal:
        write_stdout(f"{len(listed.rows) - len(rows)} defaults are listed with --json, with -o FILE.md and in a pipe.")


def print_described(result: Described, sentences: Sequence[str], tables: Iterable[Table]) -> None:
    """Print a result to stdout: title, sentences, tables, assumptions."""
    from roofline.report import summary

    write_lines([summary.headline(result), summary.subtitle(result), "", *sentences, ""])
    _print_tables(tables)
    print_assumptions(summary.assumptions_table(result))


def markdown_described(result: Described, sentences: Iterable[str], tables: Iterable[Table]) -> str:
    """A result as a Markdown document: title, sentences, tables, assumptions."""
    from roofline.report import summary

    head = [f"# {markdown_cell(summary.headline(result))}", markdown_cell(summary.subtitle(result))]
    listed = [*tables, summary.assumptions_table(result)]
    return markdown_document([*head, *map(markdown_cell, sentences), *markdown_tables(listed)])


def markdown_table(table: Table) -> str:
    """The rows of a table in Markdown."""
    return as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows])


def markdown_tables(tables: Iterable[Table], note: Callable[[str], str] = markdown_cell) -> list[str]:
    """Tables as parts of a Markdown document: title, note and rows of each. `note` escapes the note."""
    parts = []
    for table in tables:
        parts += [f"## {table.title}", *([note(table.note)] if table.note else []), markdown_table(table)]
    return parts


def markdown_document(parts: Iterable[str]) -> str:
    """A Markdown document of parts with an empty line between them."""
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
