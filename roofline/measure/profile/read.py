"""Read a trace of whichever profiler wrote it."""

from __future__ import annotations

from pathlib import Path

from roofline.measure.profile.kineto import Progress, read_kineto
from roofline.measure.profile.trace import Trace


def read_trace(path: Path, progress: Progress | None = None) -> Trace:
    """Read a trace."""
    return read_kineto(path, progress)
