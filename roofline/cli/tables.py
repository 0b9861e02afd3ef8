"""Text on a screen: sentences, lines with labels, and tables, the same in a terminal and in a pipe; tables in Markdown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from roofline.cli.output import as_markdown, write_stdout
from roofline.text import WIDTH, Answer, Labelled, Table, clean, markdown_cell, plain, wrapped

if TYPE_CHECKING:
    from roofline.report.summary import Described

_NARROWEST = 40
_STYLES = {"bold": "1", "dim": "2", "good": "32", "bad": "31"}


def is_terminal() -> bool:
    """Return whether stdout is a terminal that supports formatting."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def screen_width() -> int:
    """Return the number of columns of text: those of the terminal, at most 100; 100 in a pipe."""
    if not is_terminal():
        return WIDTH
    return max(min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH), _NARROWEST)


def write(text: str, style: str = "", *, indent: int = 0, hanging: int | None = None) -> None:
    """Write a paragraph to stdout, wrapped at the screen's width. An empty text is an empty line.

    Args:
        text: without control characters afterwards.
        style: "bold", "dim", "good" or "bad" on a terminal, unless NO_COLOR is set; "" for none.
        indent: spaces before its first line.
        hanging: spaces before its other lines; None: as the first.
    """
    lines = wrapped(text, screen_width(), indent, hanging) or [""]
    if style and is_terminal() and not os.environ.get("NO_COLOR"):
        lines = [f"\x1b[{_STYLES[style]}m{line}\x1b[0m" for line in lines]
    write_stdout("\n".join(lines))


def write_labelled(rows: Iterable[tuple[str, str]]) -> None:
    """Write lines that begin with a label, whose texts begin in one column and are wrapped there."""
    listed = list(rows)
    width = max((len(label) for label, _ in listed), default=0)
    for label, text in listed:
        write(f"{label:<{width}}  {text}", indent=2, hanging=width + 4)


def print_table(table: Table) -> None:
    """Print a table to stdout: at most as wide as the screen where its columns allow it."""
    text = clean(plain(table, screen_width()), keep_lines=True)
    if table.title and is_terminal():
        title, _, rest = text.partition("\n")
        write(title, "bold")
        text = rest
    if text:
        write_stdout(text)


def print_assumptions(listed: Table, verbosity: int) -> None:
    """Print assumptions to stdout, after an empty line.

    Args:
        listed: name, value, origin and reason of each.
        verbosity: 1: all but the defaults; 2: all.
    """
    write("")
    rows = [row for row in listed.rows if verbosity > 1 or row[2] != "default"]
    counted = f": {len(rows) or 'none'} besides the defaults; all {len(listed.rows)}: -vv"
    write(f"Assumptions{'' if verbosity > 1 else counted}", "bold")
    write_labelled((name, " · ".join(filter(None, (value, origin, why)))) for name, value, origin, why in rows)


def print_answer(answer: Answer, verbosity: int = 0) -> None:
    """Print the answer of a command to stdout: at verbosity 0 on one screen, above with its tables and assumptions."""
    style = "" if answer.passed is None else "good" if answer.passed else "bad"
    write(answer.title, "bold" if answer.verdict or not style else style)
    if answer.settings:
        write(answer.settings, "dim")
    if answer.verdict:
        write("")
        write(answer.verdict, style)
    for part in (*answer.parts, *(answer.details if verbosity else answer.brief), answer.notes):
        if part:
            write("")
            _print_part(part)
    if verbosity and answer.assumptions is not None:
        print_assumptions(answer.assumptions, verbosity)
    elif not verbosity and answer.hint:
        write("")
        write(answer.hint, "dim", indent=2)


def _print_part(part: Table | Labelled | str) -> None:
    if isinstance(part, Table):
        print_table(part)
    elif isinstance(part, str):
        write_stdout(clean(part, keep_lines=True))
    else:
        write_labelled(part)


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
