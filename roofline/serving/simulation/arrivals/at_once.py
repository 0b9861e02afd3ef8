"""All at once: what offline benchmarks do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.serving.simulation.arrivals.base import CHUNK, Arrivals, Kind
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np

    from roofline.serving.simulation.arrivals.base import Array


@dataclass(frozen=True, slots=True)
class AtOnce(Arrivals):
    """So many at time 0; None: as many as there are."""

    many: int | None = None

    @property
    def rate(self) -> None:
        """None."""
        return

    @property
    def count(self) -> int | None:
        """How many."""
        return self.many

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Zeros."""
        import numpy as np

        while True:
            yield np.zeros(CHUNK)


def _read(given: Sequence[str]) -> AtOnce:
    if not given:
        return AtOnce()
    (many,) = given
    return AtOnce(parse_count(many, "N", minimum=1))


KIND = Kind("at-once", "at-once[:N]", "all at time 0", _read)
