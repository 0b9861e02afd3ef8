"""Gamma: a lighter tail than lognormal; exponential where the standard deviation is the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.serving.traffic.lengths.base import Kind
from roofline.serving.traffic.lengths.spread import Spread, text_and_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Gamma(Spread):
    """Of mean m and standard deviation d: shape a = (m/d)^2, scale s = d^2/m.

    With P the regularised incomplete gamma function,

        E[Y^k; Y <= y] = s^k a(a+1)...(a+k-1) P(a + k, y/s)

    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions, volume 1, chapter 17.
    """

    @property
    def _shape(self) -> float:
        return (self.center / self.deviation) ** 2

    @property
    def _scale(self) -> float:
        return self.deviation**2 / self.center

    def moment(self, k: int, y: float) -> float:
        """E[Y^k; Y <= y]."""
        from scipy.special import gammainc

        rising = math.prod(self._shape + i for i in range(k)) * self._scale**k
        return rising * (1.0 if y == math.inf else float(gammainc(self._shape + k, y / self._scale)))

    def inverse(self, probability: float) -> float:
        """The length that this share does not exceed."""
        from scipy.special import gammaincinv

        return float(gammaincinv(self._shape, probability)) * self._scale

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws, not cut."""
        return rng.gamma(self._shape, self._scale, size)


def _read(arguments: str, beside: Path | None) -> Gamma:
    """The distribution from MEAN:SD[:MAX]."""
    del beside
    return Gamma(*text_and_numbers(KIND, arguments))


KIND = Kind(
    "gamma",
    "gamma:MEAN:SD[:MAX]",
    "gamma:800:800",
    "a lighter tail; SD = MEAN is the exponential distribution; above MAX drawn again",
    _read,
)
