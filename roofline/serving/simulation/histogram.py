"""Percentiles of very many numbers: a histogram with bins of equal ratio, which can be merged with others.

A bin holds the numbers from g^i to g^(i+1), g = 1.002, and stands for the number that is as far from its lower end as from its
upper one by ratio, so that a percentile is off by at most 0.1 % of itself. Mean, min and max are exact.

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
MIN_S = 1e-7
"""Seconds: smaller times count as this."""
_MAX_POINTS = 200  # of a curve
_BINS = math.ceil(math.log(1e10 / MIN_S) / math.log(RATIO))


def _place(seconds: float) -> int:
    """The bin of a time, as `Histogram.add` has it."""
    return min(int(math.log(max(seconds, MIN_S) * (1 / MIN_S)) * (1 / math.log(RATIO))), _BINS - 1)


class Histogram:
    """Weighted counts of times in seconds, from 100 ns to 300 years."""

    __slots__ = ("_weights", "max", "min", "total", "weight")

    def __init__(self) -> None:
        self._weights: Array | None = None
        self.total = self.weight = 0.0
        self.min, self.max = math.inf, -math.inf

    @property
    def _counts(self) -> Array:
        """Weights by bin. NB: most histograms of a run stay empty, and take no memory."""
        import numpy as np

        if self._weights is None:
            self._weights = np.zeros(_BINS)
        return self._weights

    @_counts.setter
    def _counts(self, counts: Array) -> None:
        self._weights = counts

    def add(self, values: Array, weights: Array | None = None) -> None:
        """Add times in seconds, shape (n,), each with a weight, shape (n,); default 1."""
        import numpy as np

        if not len(values):
            return
        bins = np.log(np.maximum(values, MIN_S) * (1 / MIN_S)) * (1 / math.log(RATIO))
        places = np.minimum(bins, _BINS - 1).astype(np.int64)
        top = int(places.max()) + 1
        self._counts[:top] += np.bincount(places, weights, top)
        self.total += float(values.sum() if weights is None else values @ weights)
        self.weight += float(len(values) if weights is None else weights.sum())
        self.min, self.max = min(self.min, float(values.min())), max(self.max, float(values.max()))

    def merge(self, other: Histogram) -> None:
        """Add all times of another histogram."""
        if not other.weight:
            return
        used = slice(_place(other.min), _place(other.max) + 1)
        self._counts[used] += other._counts[used]
        self.total += other.total
        self.weight += other.weight
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)

    @property
    def mean(self) -> float | None:
        """Weighted mean in seconds, exact; None if there are no times."""
        return self.total / self.weight if self.weight else None

    def quantile(self, share: float) -> float | None:
        """Return the seconds that a share of the times does not exceed, to 0.1 %; None if there are no times.

        Raises:
            InputError: the share is not above 0 and at most 1.
        """
        import numpy as np

        if not 0 < share <= 1:
            raise InputError(f"a share must be more than 0 and at most 1, not {share}")
        if not self.weight:
            return None
        cumulated = np.cumsum(self._counts)
        # a little less than the share, for sums that are rounded
        place = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12)))
        middle = MIN_S * RATIO**place * 2 * RATIO / (1 + RATIO)
        return min(max(middle, self.min), self.max)

    def up_to(self, seconds: float) -> float:
        """Return the weight of the times in the bin of a time, and below it."""
        return float(self._counts[: _place(seconds) + 1].sum())

    def curve(self) -> dict[str, list[float]]:
        """Return the distribution in at most 200 points: `seconds`, ascending, and the `share` of the times up to each.

        There is a point in every hundredth of the share, every 60th of the range (by ratio), and every fifth of a decade of the
        share above, where there are numbers; where that were more than 200 points, in wider intervals. A bin with a large share
        has a point at its foot and at its top.
        """
        import numpy as np

        places = np.flatnonzero(self._counts)
        if not len(places):
            return {"seconds": [], "share": []}
        shares = np.cumsum(self._counts[places]) / self._counts.sum()
        feet, tops = (np.clip(MIN_S * RATIO ** (places + edge), self.min, self.max) for edge in (0.0, 1.0))
        longer = -np.log10(np.maximum(1 - shares, 1e-6))
        extent = max(int(places[-1] - places[0]), 1)
        times = 1.0
        while True:
            cells = np.floor(np.stack([shares * 100, (places - places[0]) / extent * 60, longer * 5]) / times)
            last = np.append((np.diff(cells) != 0).any(axis=0), [True])  # of its cell
            steps = np.diff(shares, prepend=0.0) > 0.01 * times
            if last.sum() + steps.sum() < _MAX_POINTS:
                break
            times *= 1.25
        foot = np.append([True], steps[1:])
        seconds, share = np.stack([feet, tops], axis=1), np.stack([shares - np.diff(shares, prepend=0.0), shares], axis=1)
        points = np.stack([foot, last | steps], axis=1)
        return {
            "seconds": [float(f"{value:.6g}") for value in seconds[points].tolist()],
            "share": [round(value, 7) for value in share[points].tolist()],
        }
