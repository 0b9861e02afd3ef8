"""Durations: the floor of a time, its roofline bound and, where kernels were measured, its estimate with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ENDS = ("floor", "bound", "estimate", "low", "high")


@dataclass(frozen=True, slots=True)
class Duration:
    """A time in seconds.

    Nothing is faster than `floor`, which overlaps all operators of a step and its links. `bound` has the operators in sequence,
    each as long as its busiest resource; `sum` has no overlap at all. `estimate`, with the 80 % interval from `low` to
    `high`, is
    None where no fitted efficiencies apply. floor <= bound <= estimate, and floor <= low. All are None where the deployment
    does
    not fit; `floor` and `sum` also where only a part of a step is timed.
    """

    bound: float | None
    sum: float | None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None

    @property
    def best(self) -> float | None:
        """Return the estimate where there is one, else the bound, in seconds."""
        return self.bound if self.estimate is None else self.estimate

    def to_dict(self) -> dict[str, float | None]:
        """Return plain data in seconds: `floor`, `bound`, `estimate`, `low` and `high`."""
        return {name: getattr(self, name) for name in ENDS}


NO_TIMES = Duration(None, None)
"""Of what does not fit."""
ZERO_TIME = Duration(0.0, None, 0.0, 0.0, 0.0, 0.0)


def weighted_sum(parts: Iterable[tuple[float, Duration]]) -> Duration:
    """Return the sum of durations, each multiplied by its weight. A field is None if it is None in any part; `sum` always is.

    Estimates of one deployment err in the same direction, so that the ends of their intervals add up.
    """
    totals: dict[str, float | None] = dict.fromkeys(ENDS, 0.0)
    for weight, part in parts:
        for name in ENDS:
            value, total = getattr(part, name), totals[name]
            totals[name] = None if value is None or total is None else total + weight * value
    return Duration(sum=None, **totals)


def total(*parts: Duration) -> Duration:
    """Return the time of durations one after another."""
    return weighted_sum((1, part) for part in parts)


def scaled(span: Duration, factor: float) -> Duration:
    """Return a duration multiplied by a factor."""
    return weighted_sum([(factor, span)])
