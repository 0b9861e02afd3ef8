"""The lessons of the repository, each executed once in a test run: workers of one run share the results."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from shared_results import shared

from roofline.teach.lessons.build import sources
from roofline.teach.lessons.execute import ExecutedLesson, execute

FOLDER = Path(__file__).resolve().parents[1] / "lessons"
SOURCES = sources(FOLDER)
NAMES = [path.stem for path in SOURCES]


@cache
def done(name: str) -> ExecutedLesson:
    """A lesson after its last cell."""
    return shared(name, lambda: execute(FOLDER / f"{name}.py"))
