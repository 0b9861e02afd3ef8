"""Percentiles of times of which the mean and the variance are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_HALVINGS = 30
"""Times are found to a 10^9th of the longest."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and variance of a time that is not negative, seconds and seconds squared; arrays of one shape."""

    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True)
class Within:
    """Times between `low` and `high`, of which mean and variance are known: beta distributions. Shape (rates, K)."""

    mean: Array
    variance: Array
    low: Array
    high: Array

    def below(self, seconds: float | Array) -> Array:
        """Share that is at most so many seconds, over all K."""
        import numpy as np
        from scipy.special import betainc

        span = self.high - self.low
        middle = np.clip((self.mean - self.low) / span, 1e-6, 1 - 1e-6)
        # a beta distribution of shape 1 has variance u^2 (1 - u)/(1 + u); beyond four times that it is nothing but its two ends
        widest = np.minimum(4 * middle**2 * (1 - middle) / (1 + middle), 0.9 * middle * (1 - middle))
        spread = np.clip(self.variance / span**2, 1e-12, widest)
        count = middle * (1 - middle) / spread - 1
        at = np.clip((_column(seconds) - self.low) / span, 0, 1)
        return np.asarray(betainc(middle * count, (1 - middle) * count, at).mean(axis=1))


def waited(own: Array, waits: Iterable[tuple[Array, Moments]], seconds: float | Array) -> Array:
    """Share of requests that are through within so many seconds: own times (rates, K), and after a wait that is one of
    several, each with its chance; waits are gamma distributions."""
    import numpy as np
    from scipy.special import gammainc

    left = np.maximum(_column(seconds) - own, 0)
    total = np.zeros(own.shape[0])
    for chance, wait in waits:
        mean, variance = np.maximum(wait.mean, 1e-12), np.maximum(wait.variance, 1e-18)
        shape, scale = mean**2 / variance, variance / mean
        total = total + chance * gammainc(shape[:, None], left / scale[:, None]).mean(axis=1)
    return total


def quantile(share_within: Callable[[Array], Array], share: float, most: Array) -> Array:
    """The time within which a share is, by halving between 0 and `most`. One a rate."""
    import numpy as np

    low, high = np.zeros(most.shape), np.array(most, dtype=np.float64)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = share_within(middle) < share
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def _column(seconds: float | Array) -> Any:
    """One number for all rates, or one a rate."""
    import numpy as np

    return seconds if np.ndim(seconds) == 0 else np.asarray(seconds)[:, None]
