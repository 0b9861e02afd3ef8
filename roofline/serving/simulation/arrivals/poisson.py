"""Arrivals that have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.serving.simulation.arrivals.base import Arrivals, Kind, gaps
from roofline.serving.traffic.scalars import parse_rate

if TYPE_CHECKING:
    import numpy as np

    from roofline.serving.simulation.arrivals.base import Array


@dataclass(frozen=True, slots=True)
class Poisson(Arrivals):
    """Times between arrivals are exponential."""

    per_second: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.per_second

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Without end."""
        return gaps(lambda many: rng.exponential(1 / self.per_second, many))

    def at_rate(self, rate: float) -> Poisson:
        """At another rate."""
        return replace(self, per_second=rate)


KIND = Kind("poisson", "poisson:RATE", "times between arrivals are exponential", lambda given: Poisson(parse_rate(*given)))
