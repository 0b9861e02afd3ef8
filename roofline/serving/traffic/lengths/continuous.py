"""Continuous distributions of lengths by mean and standard deviation: lognormal and gamma, cut at 1 token and at a maximum."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnitError
from roofline.serving.traffic.lengths.base import DistributionFamily, Lengths
from roofline.units import MAX_COUNT, parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Truncated(Lengths):
    """A continuous distribution, truncated. Its mean and standard deviation are those before truncation.

    Draws above `longest` are repeated, which lowers the mean: `mean` and `variance` are those after truncation. Draws below 1
    become 1. With F the distribution function and M_k(y) = E[Y^k; Y <= y], truncated at c,

        below(u) = M_1(F^-1(u F(c))) / F(c)

    where the part below 1 has the length 1.

    Args:
        center: mean before truncation, in tokens.
        deviation: standard deviation before truncation, in tokens.
        longest: maximum in tokens; None: unbounded.
    """

    center: float
    deviation: float
    longest: int | None = None

    @abstractmethod
    def moment(self, k: int, y: float) -> float:
        """The partial moment E[Y^k; Y <= y] before truncation, in tokens^k, for k = 0, 1, 2 and y in tokens, maybe infinite."""

    @abstractmethod
    def inverse(self, probability: float) -> float:
        """The length y in tokens with F(y) = probability, before truncation; 0 < probability < 1."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draw `size` lengths in tokens before truncation and rounding: float64, shape (size,)."""

    @property
    def _end(self) -> float:
        return math.inf if self.longest is None else float(self.longest)

    @cached_property
    def _mass(self) -> float:
        """F(c)."""
        return self.moment(0, self._end)

    @cached_property
    def _ones(self) -> float:
        """Share of the truncated distribution that becomes 1."""
        return self.moment(0, 1.0) / self._mass

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """E[X] and E[X^2] after truncation."""
        first, second = (self._ones + (self.moment(k, self._end) - self.moment(k, 1.0)) / self._mass for k in (1, 2))
        return first, second

    @property
    def mean(self) -> float:
        """Mean after truncation, in tokens."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """Variance after truncation, in tokens squared."""
        first, second = self._moments
        return max(second - first**2, 0.0)

    @property
    def minimum(self) -> int:
        """One token."""
        return 1

    @property
    def maximum(self) -> int | None:
        """Maximum in tokens; None: unbounded."""
        return self.longest

    def below(self, fraction: float) -> float:
        """The integral of the quantile function from 0 to `fraction`, in tokens."""
        if fraction <= self._ones:
            return fraction
        top = self.moment(1, self.inverse(fraction * self._mass)) if fraction < 1 else self.moment(1, self._end)
        return self._ones + (top - self.moment(1, 1.0)) / self._mass

    def quantile(self, fraction: float) -> int:
        """The length that the fraction does not exceed, rounded to whole tokens."""
        length = 1 if fraction <= self._ones else max(round(self.inverse(fraction * self._mass)), 1)
        return length if self.longest is None else min(length, self.longest)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draw `size` lengths in tokens, each rounded up with the probability of its fraction: int64, shape (size,)."""
        import numpy as np

        values = self.draw(rng, size)
        if self.longest is not None:  # at least half of the draws are within MAX at once
            while (again := values > self.longest).any():
                values[again] = self.draw(rng, int(again.sum()))
        values = np.maximum(values, 1.0)
        down = np.floor(values)
        return np.asarray(down + (rng.random(len(values)) < values - down)).astype(np.int64)


@dataclass(frozen=True)
class Lognormal(Truncated):
    """Lognormal lengths, by mean m and standard deviation d of the lengths themselves, not of their logarithm.

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
        """The partial moment E[Y^k; Y <= y], in tokens^k."""
        z = math.inf if y == math.inf else (math.log(y) - self._mu) / self._sigma - k * self._sigma
        # NB: erfc, as 1 + erf loses all digits far to the left
        share = 1.0 if z == math.inf else math.erfc(-z / math.sqrt(2)) / 2
        return self.center**k * math.exp((k * k - k) * self._sigma**2 / 2) * share

    def inverse(self, probability: float) -> float:
        """The quantile of a probability, in tokens."""
        return math.exp(self._mu + self._sigma * NormalDist().inv_cdf(probability))

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws before truncation."""
        return rng.lognormal(self._mu, self._sigma, size)


@dataclass(frozen=True)
class Gamma(Truncated):
    """Gamma lengths of mean m and standard deviation d: shape a = (m/d)^2, scale s = d^2/m; exponential where d = m.

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
        """The partial moment E[Y^k; Y <= y], in tokens^k."""
        from scipy.special import gammainc

        rising = math.prod(self._shape + i for i in range(k)) * self._scale**k
        return rising * (1.0 if y == math.inf else float(gammainc(self._shape + k, y / self._scale)))

    def inverse(self, probability: float) -> float:
        """The quantile of a probability, in tokens."""
        from scipy.special import gammaincinv

        return float(gammaincinv(self._shape, probability)) * self._scale

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws before truncation."""
        return rng.gamma(self._shape, self._scale, size)


def _read_lognormal(arguments: str, folder: Path | None) -> Lognormal:
    del folder
    return Lognormal(*_text_and_numbers(LOGNORMAL, arguments))


def _read_gamma(arguments: str, folder: Path | None) -> Gamma:
    del folder
    return Gamma(*_text_and_numbers(GAMMA, arguments))


def _text_and_numbers(kind: DistributionFamily, arguments: str) -> tuple[str, float, float, int | None]:
    """MEAN:SD[:MAX], checked, and the text with counts in full."""
    parts = kind.split(arguments, 2, "a mean and a standard deviation", 3)
    center, deviation = (_positive(part, name, kind.example) for part, name in zip(parts, ("MEAN", "SD"), strict=False))
    longest = parse_count(parts[2], "MAX", minimum=1) if len(parts) > 2 else None
    if center < 1:
        raise InputError(f"MEAN must be at least 1 token, not {center:g}; write {kind.example}")
    if longest is not None and longest < center:
        raise InputError(f"MAX is {longest:,}, which is less than MEAN = {center:,.15g}; draws above MAX are drawn again")
    if not 1e-6 < deviation / center < 1e3:
        raise InputError(f"SD must be between a millionth and a thousand times MEAN, not {deviation:g} of {center:g}")
    numbers = [f"{value:.15g}" for value in (center, deviation)] + ([str(longest)] if longest else [])
    return ":".join([kind.name, *numbers]), center, deviation, longest


def _positive(text: str, name: str, example: str) -> float:
    """A number of tokens above 0, which need not be whole; `8k` is 8192.

    >>> _positive("8k", "the mean", ""), _positive("211.4", "the mean", "")
    (8192.0, 211.4)
    """
    try:
        value = float(text)
    except ValueError:
        try:
            value = float(parse_count(text, name))
        except UnitError:
            raise InputError(f"{name} must be a number of tokens, not {text[:60]!r}; write {example}") from None
    if not 0 < value < math.inf:
        raise InputError(f"{name} must be more than 0 and finite, not {text[:60]}; write {example}")
    if value > MAX_COUNT:
        raise InputError(f"{name} must be at most 2^53 tokens, not {text[:60]}")
    return value


LOGNORMAL = DistributionFamily(
    "lognormal",
    "lognormal:MEAN:SD[:MAX]",
    "lognormal:1155:900",
    "mean and standard deviation of the lengths (not of their logarithm); above MAX drawn again",
    _read_lognormal,
)
GAMMA = DistributionFamily(
    "gamma",
    "gamma:MEAN:SD[:MAX]",
    "gamma:800:800",
    "a lighter tail; SD = MEAN is the exponential distribution; above MAX drawn again",
    _read_gamma,
)
