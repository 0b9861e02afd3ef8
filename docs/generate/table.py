"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table; columns of numbers stand to the right.

    >>> print(table(["a", "b"], [["x", "1"]], right=[1]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    marked = set(right)
    ruler = "|" + "|".join("--:" if index in marked else "---" for index in range(len(head))) + "|"
    return "\n".join([_row(head), ruler, *(_row(row) for row in rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("\n", " ") for cell in cells) + " |"


def toctree(names: Iterable[str], *, caption: str = "") -> str:
    """A hidden list of the pages beneath this one."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join([":::{toctree}", *options, "", *names, ":::"])
