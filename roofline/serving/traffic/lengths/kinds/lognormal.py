"""The logarithm of the length is normal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from roofline.serving.traffic.lengths.base import Kind
from roofline.serving.traffic.lengths.spread import Spread, text_and_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Lognormal(Spread):
    """Of mean m and standard deviation d of the lengths themselves, not of their logarithm.

        sigma^2 = ln(1 + d^2/m^2),  mu = ln m - sigma^2/2
        E[Y^k; Y <= y] = m^k exp(k(k - 1) sigma^2/2) Phi((ln y - mu)/sigma - k sigma)

    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions, volume 1, chapter 14.
    """

    @cached_property
    def _sigma(self) -> float:
        return math.sqrt(math.log1p((self.deviation / self.center) ** 2))

    @cached_property
    def _mu(self) -> float:
        return math.log(self.center) - self._sigma**2 / 2

    def moment(self, k: int, y: float) -> float:
        """E[Y^k; Y <= y]."""
        z = math.inf if y == math.inf else (math.log(y) - self._mu) / self._sigma - k * self._sigma
        # NB: erfc, as 1 + erf loses all digits far to the left
        share = 1.0 if z == math.inf else math.erfc(-z / math.sqrt(2)) / 2
        return self.center**k * math.exp((k * k - k) * self._sigma**2 / 2) * share

    def inverse(self, probability: float) -> float:
        """The length that this share does not exceed."""
        return math.exp(self._mu + self._sigma * NormalDist().inv_cdf(probability))

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws, not cut."""
        return rng.lognormal(self._mu, self._sigma, size)


def _read(arguments: str, beside: Path | None) -> Lognormal:
    """The distribution from MEAN:SD[:MAX]."""
    del beside
    return Lognormal(*text_and_numbers(KIND, arguments))


KIND = Kind(
    "lognormal",
    "lognormal:MEAN:SD[:MAX]",
    "lognormal:1155:900",
    "mean and standard deviation of the lengths (not of their logarithm); above MAX drawn again",
    _read,
)
