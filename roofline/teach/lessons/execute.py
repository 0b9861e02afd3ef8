"""A lesson, executed once: its cells in order, in one namespace, and what each of them shows."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.teach.lessons.head import Lesson
from roofline.teach.lessons.item import Item, Several
from roofline.teach.lessons.live.block import Play
from roofline.teach.lessons.published import Published, citations
from roofline.teach.lessons.source import Cell, cells


@dataclass(frozen=True, slots=True)
class Done:
    """A cell, what it printed, and the value of its last expression (None: there is none)."""

    cell: Cell
    printed: str
    value: Any


@dataclass(frozen=True, slots=True)
class Executed:
    """A lesson after its last cell."""

    path: Path
    title: str
    """The heading of its first cell."""
    head: Lesson
    cells: tuple[Done, ...]
    cited: tuple[Published, ...]

    @property
    def name(self) -> str:
        """The file's name without its ending; the page has it too."""
        return self.path.stem

    def items(self) -> list[Item]:
        """Everything that is shown, in order; what is shown as one is taken apart."""
        found: list[Item] = []
        for done in self.cells:
            found += apart(done.value) if isinstance(done.value, Item) else []
        return found

    @property
    def play(self) -> Play | None:
        """What a reader can move, if there is something."""
        return next((item for item in self.items() if isinstance(item, Play)), None)


def apart(item: Item) -> list[Item]:
    """An item, or the items that it is made of."""
    return [part for one in item.parts for part in apart(one)] if isinstance(item, Several) else [item]


def execute(path: Path) -> Executed:
    """Run a lesson. What goes wrong in a cell is raised as it is, with a note that says in which line the cell begins.

    Raises:
        InputError: the lesson has no title or no head, or shows two things to move.
    """
    listed = cells(path)
    if not listed or listed[0].kind != "markdown" or not listed[0].text.startswith("# "):
        raise InputError(f"{path}: the first cell is the title, `# ...` in Markdown")
    title = listed[0].text.splitlines()[0].removeprefix("# ").strip()
    names: dict[str, Any] = {"__name__": "__lesson__"}
    with citations() as cited:
        done = [_run(cell, names, path) if cell.kind == "code" else Done(cell, "", None) for cell in listed]
    heads = [entry.value for entry in done if isinstance(entry.value, Lesson)]
    if len(heads) != 1:
        raise InputError(f"{path}: one cell shows lesson(...); here are {len(heads)}")
    found = Executed(path=path, title=title, head=heads[0], cells=tuple(done), cited=tuple(cited))
    if sum(isinstance(item, Play) for item in found.items()) > 1:
        raise InputError(f"{path}: there is one play(...) in a lesson")
    return found


def _run(cell: Cell, names: dict[str, Any], path: Path) -> Done:
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
    return Done(cell, printed.getvalue(), value)
