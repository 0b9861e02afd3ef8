"""Durations: the bound on a time and, where kernels were measured, its estimate with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ENDS = ("bound", "estimate", "low", "high")


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds. `bound` assumes perfect overlap, `sum` none; `estimate`, with the interval from `low` to `high`, is null
    where no fitted efficiencies apply. All are None where the deployment does not fit."""

    bound: float | None
    sum: float | None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def best(self) -> float | None:
        """The estimate where there is one, else the bound."""
        return self.bound if self.estimate is None else self.estimate

    def to_dict(self) -> dict[str, float | None]:
        """Plain data: `bound`, `estimate`, `low` and `high`."""
        return {name: getattr(self, name) for name in ENDS}


NO_TIMES = Duration(None, None)
"""Of what does not fit."""
ZERO_TIME = Duration(0.0, None, 0.0, 0.0, 0.0)


def weighted_sum(parts: Iterable[tuple[float, Duration]]) -> Duration:
    """The sum of times, each by its weight. Estimates of one deployment err in the same direction: their ends add up."""
    totals: dict[str, float | None] = dict.fromkeys(ENDS, 0.0)
    for weight, part in parts:
        for name in ENDS:
            value, total = getattr(part, name), totals[name]
            totals[name] = None if value is None or total is None else total + weight * value
    return Duration(totals["bound"], None, totals["estimate"], totals["low"], totals["high"])


def total(*parts: Duration) -> Duration:
    """Times one after another."""
    return weighted_sum((1, part) for part in parts)


def scaled(span: Duration, factor: float) -> Duration:
    """A time multiplied by a factor."""
    return weighted_sum([(factor, span)])
