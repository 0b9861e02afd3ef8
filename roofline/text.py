"""Text that comes from files, made safe for where it goes."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
