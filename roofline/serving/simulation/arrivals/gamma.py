"""Arrivals that are more, or less, regular than by chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.serving.simulation.arrivals.base import Arrivals, Kind, gaps
from roofline.serving.simulation.arrivals.constant import Constant
from roofline.serving.traffic.scalars import parse_burstiness, parse_rate

if TYPE_CHECKING:
    import numpy as np

    from roofline.serving.simulation.arrivals.base import Array


@dataclass(frozen=True, slots=True)
class Gamma(Arrivals):
    """Times between arrivals are gamma distributed, with standard deviation `cv` of their mean."""

    per_second: float
    cv: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.per_second

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Without end."""
        shape = self.cv**-2
        return gaps(lambda many: rng.gamma(shape, 1 / (shape * self.per_second), many))

    def at_rate(self, rate: float) -> Gamma:
        """At another rate."""
        return replace(self, per_second=rate)


def _read(given: Sequence[str]) -> Arrivals:
    rate, cv = given
    spread = parse_burstiness(cv)
    return Gamma(parse_rate(rate), spread) if spread else Constant(parse_rate(rate))


KIND = Kind("gamma", "gamma:RATE:CV", "standard deviation of the times between arrivals over their mean: CV", _read)
