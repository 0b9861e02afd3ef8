"""Runs of steps, each of which takes as much longer than the one before."""

from __future__ import annotations

from math import ceil, sqrt


def seconds(steps: int, rate: float, slope: float) -> float:
    """So many steps, of which the first takes `rate` and each `slope` more than the one before.

    >>> seconds(3, 2.0, 0.5)  # 2 + 2.5 + 3
    7.5
    """
    return steps * rate + slope * (steps * (steps - 1) * 0.5)


def reaching(at: float, start: float, rate: float, slope: float, most: int) -> int:
    """Steps from `start` up to the first that ends at a time or after it, of at most so many.

    >>> reaching(4.5, 0.0, 2.0, 0.5, 10), reaching(4.6, 0.0, 2.0, 0.5, 10)  # they end at 2, 4.5, 7.5, ...
    (2, 3)
    """
    left = at - start
    if left <= rate:
        steps = 1
    elif slope:
        half = rate - slope / 2
        steps = ceil((sqrt(max(half * half + 2 * slope * left, 0.0)) - half) / slope)
    else:
        steps = ceil(left / rate)
    # the root is rounded
    while steps > 1 and start + seconds(steps - 1, rate, slope) >= at:
        steps -= 1
    while steps < most and start + seconds(steps, rate, slope) < at:
        steps += 1
    return steps
