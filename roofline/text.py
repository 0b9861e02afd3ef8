"""Text: of files, made safe for where it goes; tables and answers as lines of text."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

# C0 and C1 controls, and the marks that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL_BUT_NEWLINE = re.compile(r"(?!\n)[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: object, *, keep_lines: bool = False) -> str:
    r"""Return a text without control characters and without marks that change the direction of text.

    Args:
        text: anything; its `str` is taken.
        keep_lines: whether line feeds stay.

    >>> clean("a\x1b[31mb")
    'a[31mb'
    """
    text = str(text)
    if text.isprintable():  # almost all are, and none of what is taken away is
        return text
    return (_CONTROL_BUT_NEWLINE if keep_lines else _CONTROL).sub("", text)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text. `right` says for each column whether it is aligned right, as numbers are."""

    title: str
    note: str
    columns: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


Labelled = tuple[tuple[str, str], ...]
"""Lines that begin with a label: pairs of label and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a command as text: one screen of it, and the tables behind it.

    Attributes:
        title: such as model on N x accelerator; or the answer itself, where there is no `verdict`.
        settings: formats, engine and workload in one line.
        verdict: the answer in a sentence or two.
        passed: whether it is yes; None where it is neither yes nor no.
        parts: tables, lines with labels, and text whose lines stay as they are, from top to bottom.
        brief: more of these for one screen; `details` replace them where more is wanted.
        details: the tables in full.
        notes: lines with labels: what the estimate is based on, and what was assumed.
        assumptions: all of them, with their origins and reasons; None without any.
        hint: how to see the rest.
    """

    title: str
    settings: str = ""
    verdict: str = ""
    passed: bool | None = None
    parts: tuple[Table | Labelled | str, ...] = ()
    brief: tuple[Table | Labelled | str, ...] = ()
    details: tuple[Table | Labelled | str, ...] = ()
    notes: Labelled = ()
    assumptions: Table | None = None
    hint: str = ""


def answer_text(answer: Answer) -> str:
    """Return the title, the settings, the verdict, the parts (without any: what one screen has) and the notes as lines."""
    head = [answer.title, answer.settings, *(["", *wrapped(answer.verdict, WIDTH)] if answer.verdict else [])]
    lines = [line for line in head if line or answer.verdict]
    for part in (*(answer.parts or answer.brief), answer.notes):
        if part:
            lines += ["", *_part_lines(part)]
    return clean("\n".join(lines), keep_lines=True)


def _part_lines(part: Table | Labelled | str) -> list[str]:
    if isinstance(part, str):
        return part.split("\n")
    if isinstance(part, Table):
        return plain(part, WIDTH).split("\n")
    width = max(len(label) for label, _ in part)
    return [line for label, text in part for line in wrapped(f"{label:<{width}}  {text}", WIDTH, 2, width + 4)]


WIDTH = 100
"""Columns of text at most: a line that is longer is hard to read."""
NO_BREAK = "\u00a0"
"""A space at which a line is not wrapped. It is written as a space."""
_WRAPPED = (
    "why",
    "how",
    "details",
    "objective",
    "replicas",
    "likely because",
    "over",
    "note",
    "source",
    "rate",
    "title",
    "mixer",
    "feed-forward",
)
"""Columns of sentences, which may be wrapped."""
_SENTENCE = 14
"""The smallest width of one."""
_DISPENSABLE = ("share", "FLOP", "bytes", "x", "link", "headroom", "devices", "spread", "slowest", "at the bound", "floor")
"""Columns that a screen too narrow for a table does without, first to last: half a number would be a wrong one."""


def wrapped(text: str, width: int, indent: int = 0, hanging: int | None = None) -> list[str]:
    """Return a text as lines of at most `width` columns, where its words allow it."""
    before = " " * indent
    after = before if hanging is None else " " * hanging
    lines = textwrap.wrap(
        clean(text), width, initial_indent=before, subsequent_indent=after, break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip
    return [line.replace(NO_BREAK, " ") for line in lines]


def shell_lines(line: str, width: int, indent: int = 0) -> str:
    """Return a shell's line broken with backslashes at a width, options beside their values; whole where it has odd quotes."""
    words = shlex.split(line, posix=False)
    if " ".join(words) != line:
        return " " * indent + line
    pieces: list[str] = []
    for word in words:
        value = pieces and not word.startswith("-") and pieces[-1].startswith("-") and " " not in pieces[-1]
        if value or word == "&&" or (pieces and pieces[-1].endswith(" >")) or word == ">":
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    lines = [" " * indent + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + len(piece) + 3 <= width and not lines[-1].endswith("&&"):
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * (indent + 4) + piece)
    return "\n".join([*(f"{text} \\" for text in lines[:-1]), lines[-1]])


def plain(table: Table, width: int | None = None) -> str:
    """Return a table as text in aligned columns.

    Args:
        table: with title and note, if it has them, as its first lines.
        width: columns that it may take: columns of sentences are wrapped, then others left out; None: as wide as it is.
    """
    narrow = table if width is None else fitted(table, width - 2)
    title = [table.title] if table.title else []
    note = [] if not table.note else [f"  {table.note}"] if width is None else wrapped(table.note, width, 2)
    if not table.rows:
        return "\n".join([*title, *note])
    widths = _widths(narrow)
    sentences = {} if width is None else _sentence_widths(narrow, widths, width - 2)
    widths = [sentences.get(at, size) for at, size in enumerate(widths)]
    lines = []
    for row in (narrow.columns, *narrow.rows):
        cells = [
            textwrap.wrap(cell, sentences[at], break_on_hyphens=False) if at in sentences else [cell]
            for at, cell in enumerate(row)
        ]
        for part in range(max(map(len, cells))):
            padded = (
                text.rjust(size) if right else text.ljust(size)
                for text, size, right in zip(
                    (cell[part] if part < len(cell) else "" for cell in cells), widths, narrow.right, strict=True
                )
            )
            lines.append(("  " + "  ".join(padded)).rstrip())
    return "\n".join([*title, *note, *lines])


def _sentence_widths(table: Table, widths: Sequence[int], width: int) -> dict[int, int]:
    """The widths of columns of sentences, by position: as much narrower, in proportion, as the table is too wide."""
    wide = {at: widths[at] for at, name in enumerate(table.columns) if name in _WRAPPED and widths[at] > _SENTENCE}
    over = max(_full(widths) - width, 0)
    return {at: max(size - -(-over * size // sum(wide.values())), _SENTENCE) for at, size in wide.items()}


def _widths(table: Table) -> list[int]:
    return [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]


def _full(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def fitted(table: Table, width: int, dispensable: Sequence[str] = _DISPENSABLE) -> Table:
    """Return a table without as many dispensable columns, from the first on, as it needs to be no wider than `width`."""
    for name in dispensable:
        widths = (
            min(size, _SENTENCE) if column in _WRAPPED else size
            for column, size in zip(table.columns, _widths(table), strict=True)
        )
        if _full([*widths]) <= width or name not in table.columns:
            continue
        at = table.columns.index(name)
        table = replace(
            table,
            columns=(*table.columns[:at], *table.columns[at + 1 :]),
            right=(*table.right[:at], *table.right[at + 1 :]),
            rows=tuple((*row[:at], *row[at + 1 :]) for row in table.rows),
        )
    return table


def csv_cell(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula: texts that begin like one get an apostrophe in front.

    >>> csv_cell("=1+1"), csv_cell(-3)
    ("'=1+1", -3)
    """
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def markdown_cell(value: object) -> str:
    """Return a value as text for a cell of a Markdown table, its markup escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", clean(value))


def escaped(document: str) -> str:
    r"""Return a JSON document with control characters in strings as \u escapes: JSON itself requires only the first 32.

    >>> print(escaped('{"name": "\u202egnp"}'))
    {"name": "\u202egnp"}
    """
    return _CONTROL_BUT_NEWLINE.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_"


def quoted(text: str) -> str:
    """Return a text as one word of a POSIX shell.

    NB: `shlex.quote` does the same; this is also translated to JavaScript.

    >>> print(quoted("llama-3.1-8b"), quoted("it's $HOME"), quoted(""))
    llama-3.1-8b 'it'"'"'s $HOME' ''
    """
    if text and all(letter in _PLAIN for letter in text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"
