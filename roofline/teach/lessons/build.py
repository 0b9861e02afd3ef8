"""The course, built: every lesson executed once, a page and a notebook of each, its figures for slides, and an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from roofline.errors import InputError
from roofline.teach.lessons.execute import Executed, execute
from roofline.teach.lessons.notebook import notebook
from roofline.teach.lessons.page import index, page
from roofline.teach.lessons.slides import write_png, write_svg


@dataclass(frozen=True, slots=True)
class Built:
    """What was written, and what was not, in words."""

    lessons: tuple[Executed, ...]
    files: tuple[Path, ...]
    left_out: str


def sources(folder: Path) -> list[Path]:
    """The lessons of a folder (`NN_name.py`), in order."""
    return sorted(folder.glob("[0-9][0-9]_*.py"))


def build(folder: Path, to: Path, told: Callable[[str], object] = str, *, png: bool = True) -> Built:
    """Build the lessons of a folder. `told` is called with the name of each when its turn comes.

    Raises:
        InputError: there is no lesson there; and what goes wrong in one.
    """
    found = sources(folder)
    if not found:
        raise InputError(f"{folder} has no lesson: sources are named 01_name.py and so on")
    lessons = []
    for path in found:
        told(path.stem)
        lessons.append(execute(path))
    written: list[Path] = []
    pictures: list[Path] = []
    for at, lesson in enumerate(lessons):
        around = [(lessons[other], word) for other, word in ((at - 1, "Before"), (at + 1, "Next")) if 0 <= other < len(lessons)]
        links = [(f"{one.name}.html", f"{word}: {one.title}") for one, word in around]
        written.append(_write(to / f"{lesson.name}.html", page(lesson, links)))
        written.append(_write(to / "notebooks" / f"{lesson.name}.ipynb", notebook(lesson)))
        pictures += write_svg(lesson, to / "figures")
    written.append(_write(to / "index.html", index(lessons)))
    drawn, why = write_png(pictures) if png else ([], "PNG was not asked for")
    return Built(tuple(lessons), (*written, *pictures, *drawn), f"no PNG of the figures: {why}" if why else "")


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
