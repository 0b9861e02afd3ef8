"""Median time of a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def seconds(function: Callable[[], object], runs: int) -> float:
    """Median time of a call, after one that is not counted."""
    function()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
