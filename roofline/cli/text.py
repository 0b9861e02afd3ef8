"""Text that comes from files, made safe for where it goes."""

from __future__ import annotations

import re

from roofline.text import clean

__all__ = ["clean", "csv_cell", "markdown_cell"]


def csv_cell(value: object) -> object:
    """A value that a spreadsheet does not take for a formula.

    >>> csv_cell("=1+1"), csv_cell(-3)
    ("'=1+1", -3)
    """
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def markdown_cell(value: object) -> str:
    """A value inside a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", clean(value))
