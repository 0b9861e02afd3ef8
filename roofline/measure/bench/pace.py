"""How fast a device has been so far, to leave out points that would take too long for what they tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.measure.bench.kernels.base import NotRunnableError
from roofline.measure.bench.point import Point

_CALLS = 10  # warm-up and samples at least
_LAUNCH = 1e-4  # seconds


@dataclass(slots=True)
class Pace:
    """Rates of each (op, dtype, backend): the best so far. What has not been seen is taken to be fast."""

    longest: float
    """Seconds that a point may take."""
    flops: dict[tuple[str, str, str], float] = field(default_factory=dict)
    bandwidth: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def seconds(self, point: Point) -> float:
        """What a call will take, by what was seen of its kind; 0 where nothing was."""
        kind, cost = _kind(point), point.cost
        by_flops = cost.matrix_flops / self.flops[kind] if self.flops.get(kind) else 0.0
        by_bytes = cost.bytes / self.bandwidth[kind] if kind in self.bandwidth else 0.0
        # NB: each rate was reached where the other resource may have been the slower one: the larger is an upper estimate.
        return float(min(filter(None, (by_flops, by_bytes)), default=0.0))

    def learn(self, point: Point, seconds: float) -> None:
        """A call took so long. What is short is launches, and says nothing of rates."""
        if seconds < _LAUNCH:
            return
        kind, cost = _kind(point), point.cost
        self.flops[kind] = max(self.flops.get(kind, 0.0), cost.matrix_flops / seconds)
        self.bandwidth[kind] = max(self.bandwidth.get(kind, 0.0), cost.bytes / seconds)

    def check(self, point: Point) -> None:
        """Refuse a point that would take too long."""
        expected = self.seconds(point) * _CALLS
        if expected > self.longest:
            raise NotRunnableError(f"would take about {expected:.0f} s on this device: left out")

    def check_first(self, seconds: float) -> None:
        """Refuse a point whose first call alone took as long as it may take in all."""
        if seconds > self.longest:
            raise NotRunnableError(f"its first call took {seconds:.0f} s on this device: left out")


def _kind(point: Point) -> tuple[str, str, str]:
    return point.op, point.dtype, point.backend
