"""Arrivals at a steady beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.serving.simulation.arrivals.base import CHUNK, Arrivals, Kind
from roofline.serving.traffic.scalars import parse_rate

if TYPE_CHECKING:
    import numpy as np

    from roofline.serving.simulation.arrivals.base import Array


@dataclass(frozen=True, slots=True)
class Constant(Arrivals):
    """Times between arrivals are equal; the first comes at once."""

    per_second: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.per_second

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Without end."""
        import numpy as np

        first = 0
        while True:
            yield np.arange(first, first + CHUNK) / self.per_second
            first += CHUNK

    def at_rate(self, rate: float) -> Constant:
        """At another rate."""
        return replace(self, per_second=rate)


KIND = Kind("constant", "constant:RATE", "times between arrivals are equal", lambda given: Constant(parse_rate(*given)))
