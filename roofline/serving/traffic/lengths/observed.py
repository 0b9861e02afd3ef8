"""Lengths that were observed: of a file, or of the requests of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.serving.traffic.lengths.base import Lengths
from roofline.specs.library import Input

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Observed(Lengths):
    """Each observed length equally likely. Variance is that of the observations themselves (divided by their number)."""

    source: Input
    ordered: NDArray[np.int64] = field(compare=False, repr=False)
    """The lengths, shortest first."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The file."""
        return (self.source,)

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.ordered.mean())

    @property
    def variance(self) -> float:
        """Their variance."""
        return float(self.ordered.var())

    @property
    def minimum(self) -> int:
        """The shortest one."""
        return int(self.ordered[0])

    @property
    def maximum(self) -> int:
        """The longest one."""
        return int(self.ordered[-1])

    def below(self, fraction: float) -> float:
        """Sums of the shortest ones, and a part of the next."""
        count = len(self.ordered)
        whole = min(int(fraction * count), count - 1)
        return float(self.ordered[:whole].sum() + (fraction * count - whole) * self.ordered[whole]) / count

    def quantile(self, fraction: float) -> int:
        """The one that so many do not exceed."""
        return int(self.ordered[min(int(fraction * len(self.ordered)), len(self.ordered) - 1)])

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Drawn with replacement."""
        return self.ordered[rng.integers(0, len(self.ordered), size)]
