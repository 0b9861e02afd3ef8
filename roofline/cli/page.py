"""A result on a terminal (a page to enjoy), in a pipe (plain tables), and as Markdown."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from roofline.cli.output import as_markdown, write_stdout
from roofline.cli.plot import roofline_plot
from roofline.cli.text import clean
from roofline.predict.assumptions import MODEL
from roofline.predict.result import Analysis
from roofline.report import summary
from roofline.report.summary import Table

_WORDS = ("why", "likely because", "over", "note", "source")  # columns of sentences, which may be wrapped
_SENTENCE = 14  # the least width for one
_PLAIN_WIDTH = 10_000  # a pipe has no width: nothing is wrapped or cut


def show(result: Analysis, formulas: list[dict[str, Any]]) -> None:
    """Print a result to stdout."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _terminal(result, formulas)
    else:
        write_stdout(_plain(result, formulas))


def _tables(result: Analysis) -> list[Table]:
    phases = [summary.phase_table(result, phase) for phase in result.phases]
    return [*phases, *_rounds(result), summary.limits_table(result)]


def _rounds(result: Analysis) -> list[Table]:
    """Speculative decoding, where it was asked for."""
    return [] if result.speculative is None else [summary.speculative_table(result.speculative)]


def _sentences(result: Analysis) -> list[str]:
    rounds = [] if result.speculative is None else [summary.speculative_sentence(result.speculative)]
    return [*summary.sentences(result), *rounds]


def _plain(result: Analysis, formulas: list[dict[str, Any]]) -> str:
    parts = [summary.headline(result), summary.subtitle(result), "", *_sentences(result), ""]
    parts += [f"Memory: {summary.memory_note(result)}"]
    parts += [
        f"  {name:<12}{summary.gib(size):>10} GiB  {remark}".rstrip() for name, size, remark in summary.memory_rows(result)
    ]
    for table in [*_tables(result), summary.assumptions_table(result)]:
        parts += ["", plain(table)]
    parts += _formula_lines(formulas)
    return "\n".join(clean(part, keep_lines=True) for part in parts)


def _formula_lines(formulas: list[dict[str, Any]]) -> list[str]:
    if not formulas:
        return []
    lines = ["", "Formulas"]
    for entry in formulas:
        lines += [
            f"  {entry['path']}",
            *(f"    {part['name']} = {part['formula']} = {part['substituted']}" for part in entry["parts"]),
        ]
    return lines


def plain(table: Table) -> str:
    """A table in columns, without lines around them."""
    cells = [table.columns, *table.rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(table.columns))]
    lines = [table.title, *([f"  {table.note}"] if table.note else [])]
    if not table.rows:
        return "\n".join(lines)
    for row in cells:
        parts = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, table.right, strict=True)
        )
        lines.append(("  " + "  ".join(parts)).rstrip())
    return "\n".join(line for line in lines if line)


def markdown(result: Analysis) -> str:
    """A result as a Markdown document."""
    from roofline.cli.text import markdown_cell

    parts = [
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, _sentences(result)),
    ]
    memory = [{"part": n, "GiB": f"{summary.gib(size)}", "": remark} for n, size, remark in summary.memory_rows(result)]
    parts += ["## Memory", summary.memory_note(result), as_markdown(memory)]
    for table in [*_tables(result), summary.assumptions_table(result)]:
        parts += [f"## {table.title}", *([table.note] if table.note else [])]
        parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def print_table(table: Table) -> None:
    """A table on stdout: with rules on a terminal, plain in a pipe."""
    if not (sys.stdout.isatty() and os.environ.get("TERM") != "dumb"):
        write_stdout(clean(plain(table), keep_lines=True))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if table.title:
        console.print(clean(table.title), style="bold", markup=False)
    if table.note:
        console.print(clean(table.note), style="dim", markup=False)
    if _needed(table) > console.width:
        # Lines that the terminal wraps: a drawn table would cut cells off, and half a number is a wrong one.
        write_stdout(clean(plain(replace(table, title="", note="")), keep_lines=True))
    else:
        console.print(_rich(table))


def _needed(table: Table) -> int:
    """Columns of a terminal that a drawn table takes at least."""
    cells = [table.columns, *table.rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(table.columns))]
    least = (min(width, _SENTENCE) if name in _WORDS else width for name, width in zip(table.columns, widths, strict=True))
    return sum(least) + 2 * len(widths)


def _rich(table: Table, marks: dict[str, str] | None = None) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, right in zip(table.columns, table.right, strict=True):
        drawn.add_column(name, justify="right" if right else "left", no_wrap=name not in _WORDS, overflow="fold")
    colours = {"compute": "red", "memory": "cyan", "link": "magenta", "assumed": "yellow", "given": "green"}
    for row in table.rows:
        cells = [Text(clean(cell), style=colours.get(cell, "")) for cell in row]
        if marks and row[0] in marks:
            cells[0] = Text.assemble((f"{marks[row[0]]} ", "bold"), clean(row[0]))
        elif marks:
            cells[0] = Text(f"  {clean(row[0])}")
        drawn.add_row(*cells)
    return drawn


def print_assumptions(listed: Table) -> None:
    """Print assumptions to stdout; on a terminal the defaults among them are left to files and pipes."""
    terminal = sys.stdout.isatty()
    kept = tuple(row for row in listed.rows if not terminal or row[2] != "default")
    if kept:
        print_table(replace(listed, rows=kept))
    if terminal:
        write_stdout(f"{len(listed.rows) - len(kept)} defaults are listed with --json, with -o FILE.md and in a pipe.")


def _terminal(result: Analysis, formulas: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)

    def line(text: str, style: str = "", indent: int = 0) -> None:
        console.print(Padding(Text(clean(text), style=style), (0, 0, 0, indent)))

    line(summary.headline(result), "bold")
    line(summary.subtitle(result), "dim")
    console.print()
    for position, sentence in enumerate(_sentences(result)):
        line(sentence, ("green" if result.memory.fits else "red") if position == 0 else "")
    console.print()
    line(f"Memory  {summary.memory_note(result)}", "bold")
    for name, size, remark in summary.memory_rows(result):
        width = max(round(abs(size) / max(result.memory.budget_bytes, 1) * 40), 1 if size else 0)
        style = {"weights": "bright_blue", "KV cache": "cyan", "free": "dim", "missing": "red"}.get(name, "magenta")
        bar = ("░" if name == "free" else "█") * min(width, 60) + ("…" if width > 60 else "")
        console.print(
            Text.assemble(f"  {name:<12}{summary.gib(size):>9} GiB  ", (bar, style), f"  {clean(remark)}"), soft_wrap=True
        )
    plot, marks = roofline_plot(result, min(console.width, 100))
    if plot:
        console.print()
        line("Roofline  the operators that take longest, marked in the tables: A prefill, a decode", "bold")
        for row in plot:
            console.print(Text(row), soft_wrap=True)
    for phase, table in zip(result.phases, _tables(result), strict=False):
        console.print()
        line(table.title, "bold")
        line(table.note, "dim")
        console.print(_rich(_narrowed(table, console.width - _MARKS), marks.get(phase.name)))
    for table in [*_rounds(result), summary.limits_table(result)]:
        line(table.title, "bold")
        line(table.note, "dim")
        console.print(_rich(_transposed(table, console.width)) if table.rows else "")
    shown = [a for a in summary.assumptions_table(result).rows if a[2] != "default" or a[0].startswith(MODEL)]
    rest = len(result.assumptions) - len(shown)
    table = summary.assumptions_table(result)
    if shown:
        print_table(replace(table, rows=tuple(shown)))
    line(f"{rest} defaults are listed with --json, with -o FILE.md and in a pipe.", "dim")
    for text in _formula_lines(formulas):
        line(text)


_MARKS = 2  # columns of the marks before the first cell
_LEFT_OUT = ("share", "FLOP", "bytes", "x", "link")  # what a narrow terminal does without, first to last


def _narrowed(table: Table, width: int) -> Table:
    """A table with as many columns as a terminal has room for: half a number would be a wrong one."""
    for name in _LEFT_OUT:
        if _needed(table) <= width or name not in table.columns:
            continue
        at = table.columns.index(name)
        table = replace(
            table,
            columns=(*table.columns[:at], *table.columns[at + 1 :]),
            right=(*table.right[:at], *table.right[at + 1 :]),
            rows=tuple((*row[:at], *row[at + 1 :]) for row in table.rows),
        )
    return table


def _transposed(table: Table, width: int) -> Table:
    """A two-column table lying down, as far as it is not wider than the terminal; any other as it is."""
    if len(table.columns) != 2:
        return table
    rows = tuple(zip(*table.rows, strict=True))
    needed = sum(max(len(cell) for cell in column) + 3 for column in table.rows) + max(map(len, table.columns))
    if needed > width:
        return table
    columns = (table.columns[0], *rows[0])
    return Table("", "", columns, (False, *([True] * len(rows[0]))), ((table.columns[1], *rows[1]),))
