"""Percentiles of more numbers than anybody keeps: a histogram with bins of equal ratio, which can be merged with others.

A bin holds what lies from g^i to g^(i+1), g = 1.002, and stands for the number that is as far from its lower end as from its
upper one by ratio, so that a percentile is off by at most 0.1 % of itself. Mean, least and most are exact.

Source: Masson, Rim, Lee 2019 (DDSketch), arXiv:1908.10693, section 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

RATIO = 1.002
LEAST = 1e-7
"""Seconds: what is less counts as so much."""
_BINS = math.ceil(math.log(1e10 / LEAST) / math.log(RATIO))


class Histogram:
    """Counts of times in seconds, from 100 ns to 300 years."""

    __slots__ = ("_counts", "least", "most", "total", "weight")

    def __init__(self) -> None:
        import numpy as np

        self._counts: Array = np.zeros(_BINS)
        self.total = self.weight = 0.0
        self.least, self.most = math.inf, -math.inf

    def add(self, values: Array, weights: Array | None = None) -> None:
        """Numbers, each so often."""
        import numpy as np

        if not len(values):
            return
        bins = np.log(np.maximum(values, LEAST) * (1 / LEAST)) * (1 / math.log(RATIO))
        places = np.minimum(bins, _BINS - 1).astype(np.int64)
        top = int(places.max()) + 1
        self._counts[:top] += np.bincount(places, weights, top)
        self.total += float(values.sum() if weights is None else values @ weights)
        self.weight += float(len(values) if weights is None else weights.sum())
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))

    def merge(self, other: Histogram) -> None:
        """All that another holds."""
        self._counts += other._counts
        self.total += other.total
        self.weight += other.weight
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    @property
    def mean(self) -> float | None:
        """None of nothing."""
        return self.total / self.weight if self.weight else None

    def quantile(self, share: float) -> float | None:
        """The least number that so many are at most, to 0.1 %; None of nothing."""
        import numpy as np

        if not 0 < share <= 1:
            raise InputError(f"a share must be more than 0 and at most 1, not {share}")
        if not self.weight:
            return None
        cumulated = np.cumsum(self._counts)
        # a little less than the share, for sums that are rounded
        place = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12)))
        middle = LEAST * RATIO**place * 2 * RATIO / (1 + RATIO)
        return min(max(middle, self.least), self.most)

    def within(self, most: float) -> float:
        """Share that is at most so much, to the bin."""
        import numpy as np

        if not self.weight:
            return 0.0
        place = int(math.log(max(most, LEAST) / LEAST) / math.log(RATIO))
        return float(np.sum(self._counts[:place]) / self.weight)
