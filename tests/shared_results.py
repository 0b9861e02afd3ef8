"""Results that take seconds to compute, each computed once in a test run: its workers share them."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def shared(name: str, compute: Callable[[], T]) -> T:
    """Return the result of `compute`, or of the worker of this run that computed it first.

    Args:
        name: of the result, as part of a file name.
        compute: gives the same result in every worker.
    """
    if "ROOFLINE_SHARED_FOLDER" not in os.environ:  # set by conftest.py in a worker of pytest-xdist
        return compute()
    folder = Path(os.environ["ROOFLINE_SHARED_FOLDER"])
    path = folder / f"{name}.pickle"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            path.write_bytes(pickle.dumps(compute()))
        result: T = pickle.loads(path.read_bytes())  # noqa: S301 - written by a worker of this run
    return result
