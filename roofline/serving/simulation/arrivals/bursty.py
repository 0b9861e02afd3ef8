"""Arrivals in bursts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.errors import InputError
from roofline.serving.simulation.arrivals.base import CHUNK, Arrivals, Kind, seconds
from roofline.serving.traffic.scalars import parse_peak_factor, parse_rate

if TYPE_CHECKING:
    import numpy as np

    from roofline.serving.simulation.arrivals.base import Array

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Bursty(Arrivals):
    """Bursts of exponential length, in which requests come by chance at `factor` times the mean rate; between them none come.
    An interrupted Poisson process.

    Source: Kuczura 1973, The interrupted Poisson process as an overflow process, Bell System Technical Journal 52(3).
    """

    per_second: float
    factor: float
    seconds: float = _SECONDS
    """Mean length of a burst."""

    @property
    def rate(self) -> float:
        """Requests a second, on average."""
        return self.per_second

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Without end."""
        import numpy as np

        begun = 0.0  # seconds of bursts, and of all, at the end of the last chunk
        whole = 0.0
        while True:
            # time within bursts, stretched by the pauses between them
            within = begun + np.cumsum(rng.exponential(1 / (self.per_second * self.factor), CHUNK))
            lengths, ends = [0.0], begun
            pauses = []
            while ends < within[-1]:
                length = float(rng.exponential(self.seconds))
                ends += length
                lengths.append(length)
                pauses.append(float(rng.exponential(self.seconds * (self.factor - 1))))
            edges = begun + np.cumsum(lengths)[:-1]
            paused = np.concatenate([[0.0], np.cumsum(pauses)])
            burst = np.searchsorted(edges, within, side="right") - 1
            found = whole + (within - begun) + paused[burst]
            yield found
            begun, whole = float(within[-1]), float(found[-1])

    def at_rate(self, rate: float) -> Bursty:
        """At another rate."""
        return replace(self, per_second=rate)


def _read(given: Sequence[str]) -> Bursty:
    rate, factor, *rest = given
    (length,) = rest or [str(_SECONDS)]
    peak = parse_peak_factor(factor)
    if peak <= 1:
        raise InputError("the rate of a burst must be more than the mean one: a factor above 1, such as 4")
    return Bursty(parse_rate(rate), peak, seconds(length))


KIND = Kind("bursty", "bursty:RATE:FACTOR[:SECONDS]", "bursts of FACTOR times the rate, of SECONDS each (10)", _read)
