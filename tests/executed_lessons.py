"""The lessons of the repository, each executed once in a test run: workers of one run share the results."""

from __future__ import annotations

import fcntl
import os
import pickle
from functools import cache
from pathlib import Path

from roofline.teach.lessons.build import sources
from roofline.teach.lessons.execute import ExecutedLesson, execute

FOLDER = Path(__file__).resolve().parents[1] / "lessons"
SOURCES = sources(FOLDER)
NAMES = [path.stem for path in SOURCES]


@cache
def done(name: str) -> ExecutedLesson:
    """A lesson after its last cell."""
    path = FOLDER / f"{name}.py"
    if "ROOFLINE_SHARED_FOLDER" not in os.environ:  # set by conftest.py in a worker of pytest-xdist
        return execute(path)
    shared = Path(os.environ["ROOFLINE_SHARED_FOLDER"])
    result = shared / f"{name}.pickle"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.is_file():
            result.write_bytes(pickle.dumps(execute(path)))
        lesson: ExecutedLesson = pickle.loads(result.read_bytes())  # noqa: S301 - written by a worker of this run
    return lesson
