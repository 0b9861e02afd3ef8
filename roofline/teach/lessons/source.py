"""The source of a lesson: cells of Markdown and of Python, as jupytext reads them (py:percent)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, and the line of the file that its text begins in. Code that is to be read is `open` on the page."""

    kind: Literal["markdown", "code"]
    text: str
    line: int
    open: bool = False


_MARK = re.compile(r'# %%(?P<markdown> \[markdown\])?(?P<open> tags=\["open"\])?\s*')


def cells(path: Path) -> list[Cell]:
    """The cells of a file.

    NB: jupytext writes the notebooks; this reads the part of its format that lessons use, with the lines that errors need.

    Raises:
        InputError: something stands before the first cell, or Markdown is not commented.
    """
    found: list[Cell] = []
    kind: Literal["markdown", "code"] | None = None
    lines: list[str] = []
    start, is_open = 0, False
    in_header = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if number == 1 and line == "# ---":
            in_header = True
            continue
        if in_header:
            in_header = line != "# ---"
            continue
        if match := _MARK.fullmatch(line):
            if kind is not None:
                found.append(replace(_cell(kind, lines, start, path), open=is_open))
            kind, lines = "markdown" if match["markdown"] else "code", []
            start, is_open = number + 1, match["open"] is not None
        elif kind is None:
            if line.strip():
                raise InputError(f"{path}:{number}: a cell begins with `# %%` or `# %% [markdown]`")
        else:
            lines.append(line)
    if kind is not None:
        found.append(replace(_cell(kind, lines, start, path), open=is_open))
    return found


def _cell(kind: Literal["markdown", "code"], lines: list[str], start: int, path: Path) -> Cell:
    if kind == "code":
        return Cell(kind, "\n".join(lines).strip("\n"), start)
    for offset, line in enumerate(lines):
        if line.strip() and not line.startswith("#"):
            raise InputError(f"{path}:{start + offset}: a line of Markdown begins with `#`")
    return Cell(kind, "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip("\n"), start)
