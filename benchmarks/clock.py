"""Median CPU time of calls: user and system time of this process, which other processes on the machine do not add to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(function: Callable[[], object], runs: int) -> float:
    """Median time of a call, after one that is not counted."""
    return in_turns({"": function}, runs)[""]


def in_turns(functions: Mapping[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Median time of a call of each, after one that is not counted.

    They take turns, so that what slows the machine for a while slows all of them alike.
    """
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(runs):
        for name, function in functions.items():
            start = time.process_time()
            function()
            taken[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def calls_a_second(function: Callable[[], object], at_least: float = 0.2) -> float:
    """Rate of a short call, from `at_least` so many seconds of it."""
    calls, taken, start = 0, 0.0, time.process_time()
    while taken < at_least:
        function()
        calls += 1
        taken = time.process_time() - start
    return calls / taken
