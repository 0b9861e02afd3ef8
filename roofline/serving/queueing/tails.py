"""Percentiles of times with known mean and variance: gamma waits, beta times within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_HALVINGS = 30
"""Bisection steps: times are exact to a 10^9th of the longest."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean (s) and variance (s^2) of a non-negative time; arrays of one shape."""

    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True)
class Bounded:
    """Beta distributions of times between `low` and `high`, by mean and variance; arrays of shape (rates, K), s and s^2."""

    mean: Array
    variance: Array
    low: Array
    high: Array

    def cdf(self, seconds: float | Array) -> Array:
        """Share of all K times that are at most `seconds` (one number, or one per rate): shape (rates,)."""
        import numpy as np
        from scipy.special import betainc

        span = self.high - self.low
        middle = np.clip((self.mean - self.low) / span, 1e-6, 1 - 1e-6)
        # a beta distribution of shape 1 has variance u^2 (1 - u)/(1 + u); beyond four times that only its two ends are left
        widest = np.minimum(4 * middle**2 * (1 - middle) / (1 + middle), 0.9 * middle * (1 - middle))
        variance = np.clip(self.variance / span**2, 1e-12, widest)
        count = middle * (1 - middle) / variance - 1
        at = np.clip((_column(seconds) - self.low) / span, 0, 1)
        return np.asarray(betainc(middle * count, (1 - middle) * count, at).mean(axis=1))


def share_within(own: Array, waits: Iterable[tuple[Array, Moments]], seconds: float | Array) -> Array:
    """Share of requests whose wait and own time together are at most `seconds`: shape (rates,).

    Args:
        own: times after the wait of K equally likely requests, s, (rates, K).
        waits: alternatives of the wait, gamma-distributed, each with its probability, (rates,).
        seconds: one number, or one per rate, (rates,).
    """
    import numpy as np
    from scipy.special import gammainc

    left = np.maximum(_column(seconds) - own, 0)
    total = np.zeros(own.shape[0])
    for probability, wait in waits:
        mean, variance = np.maximum(wait.mean, 1e-12), np.maximum(wait.variance, 1e-18)
        shape, scale = mean**2 / variance, variance / mean
        total = total + probability * gammainc(shape[:, None], left / scale[:, None]).mean(axis=1)
    return total


def quantile(cdf: Callable[[Array], Array], share: float, most: Array) -> Array:
    """The time that a share does not exceed, by bisection: s, (rates,).

    Args:
        cdf: share that is at most some seconds, (rates,) to (rates,).
        share: between 0 and 1.
        most: upper bounds of the times, s, (rates,).
    """
    import numpy as np

    low, high = np.zeros(most.shape), most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = cdf(middle) < share
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def _column(seconds: float | Array) -> Any:
    """One number for all rates, or a column with one per rate."""
    import numpy as np

    return seconds if np.ndim(seconds) == 0 else np.asarray(seconds)[:, None]
