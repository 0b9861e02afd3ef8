"""Sources of lessons (cells of Markdown and Python, jupytext's py:percent), and their execution in one namespace."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from roofline.errors import InputError, UnknownNameError
from roofline.teach.lessons.items import Item, Lesson, flattened
from roofline.teach.lessons.live.play import Play
from roofline.teach.lessons.published import Published, citations


@dataclass(frozen=True, slots=True)
class ExecutedCell:
    """A cell, its printed output, and the value of its last expression (None if there is none)."""

    cell: Cell
    printed: str
    value: Any


@dataclass(frozen=True, slots=True)
class ExecutedLesson:
    """A lesson after its last cell."""

    path: Path
    title: str
    """The heading of its first cell."""
    head: Lesson
    cells: tuple[ExecutedCell, ...]
    cited: tuple[Published, ...]

    @property
    def name(self) -> str:
        """The file's name without its ending; the page has it too."""
        return self.path.stem

    def items(self) -> list[Item]:
        """All items that cells return, in order, groups flattened."""
        return [item for cell in self.cells if isinstance(cell.value, Item) for item in flattened(cell.value)]

    @property
    def play(self) -> Play | None:
        """The controls of the lesson, if it has any."""
        return next((item for item in self.items() if isinstance(item, Play)), None)


def execute(path: Path) -> ExecutedLesson:
    """Run the cells of a lesson in one namespace.

    Raises:
        InputError: the file cannot be split into cells, or has no title, not one head, or more than one `play(...)`.
        Exception: whatever a cell raises, with a note that names the line in which the cell begins.
    """
    listed = cells(path)
    if not listed or listed[0].kind != "markdown" or not listed[0].text.startswith("# "):
        raise InputError(f"{path}: the first cell is the title, `# ...` in Markdown")
    title = listed[0].text.splitlines()[0].removeprefix("# ").strip()
    names: dict[str, Any] = {"__name__": "__lesson__"}
    with citations() as cited:
        done = [_run(cell, names, path) if cell.kind == "code" else ExecutedCell(cell, "", None) for cell in listed]
    heads = [entry.value for entry in done if isinstance(entry.value, Lesson)]
    if len(heads) != 1:
        raise InputError(f"{path}: one cell shows lesson(...); here are {len(heads)}")
    executed = ExecutedLesson(path=path, title=title, head=heads[0], cells=tuple(done), cited=tuple(cited))
    if sum(isinstance(item, Play) for item in executed.items()) > 1:
        raise InputError(f"{path}: there is one play(...) in a lesson")
    return executed


def _run(cell: Cell, names: dict[str, Any], path: Path) -> ExecutedCell:
    tree = ast.parse("\n" * (cell.line - 1) + cell.text, filename=str(path))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    try:
        with redirect_stdout(printed):
            exec(compile(tree, str(path), "exec"), names)  # noqa: S102 - a lesson is code to run
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), str(path), "eval"), names)  # noqa: S307 - as above
    except Exception as error:
        error.add_note(f"in the cell of {path.name} that begins in line {cell.line}")
        raise
    return ExecutedCell(cell, printed.getvalue(), value)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, the line of the file in which its text begins, and its tags.

    Code tagged `open` is visible on the page. On slides a cell tagged `slide` is shown whole, one tagged `notes` not at all:
    it is in the notes of the presenter.
    """

    kind: Literal["markdown", "code"]
    text: str
    line: int
    tags: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether the page shows the code."""
        return "open" in self.tags


_TAGS = ("open", "slide", "notes")
_MARK = re.compile(r'# %%(?P<markdown> \[markdown\])?(?: tags=\[(?P<tags>"[\w-]+"(?:, "[\w-]+")*)\])?\s*')


def cells(path: Path) -> list[Cell]:
    """Return the cells of a file in jupytext's py:percent format.

    NB: this reads the part of jupytext's format that lessons use, with the line numbers that errors need.

    Raises:
        InputError: text before the first cell, or Markdown that is not commented.
        UnknownNameError: a tag that no cell has.
    """
    listed: list[Cell] = []
    kind: Literal["markdown", "code"] | None = None
    lines: list[str] = []
    start = 0
    tags: tuple[str, ...] = ()
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
                listed.append(replace(_source_cell(kind, lines, start, path), tags=tags))
            kind, lines = "markdown" if match["markdown"] else "code", []
            start, tags = number + 1, _checked_tags(match["tags"] or "", f"{path}:{number}")
        elif kind is None:
            if line.strip():
                raise InputError(f"{path}:{number}: a cell begins with `# %%` or `# %% [markdown]`")
        else:
            lines.append(line)
    if kind is not None:
        listed.append(replace(_source_cell(kind, lines, start, path), tags=tags))
    return listed


def _checked_tags(listed: str, place: str) -> tuple[str, ...]:
    tags = tuple(re.findall(r"[\w-]+", listed))
    for tag in tags:
        if tag not in _TAGS:
            raise UnknownNameError(f"tag of a cell ({place})", tag, _TAGS)
    return tags


def _source_cell(kind: Literal["markdown", "code"], lines: list[str], start: int, path: Path) -> Cell:
    if kind == "code":
        return Cell(kind, "\n".join(lines).strip("\n"), start)
    for offset, line in enumerate(lines):
        if line.strip() and not line.startswith("#"):
            raise InputError(f"{path}:{start + offset}: a line of Markdown begins with `#`")
    return Cell(kind, "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip("\n"), start)
