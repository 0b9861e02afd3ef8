"""Continuous distributions of two parameters, cut off at 1 below and, where that is asked for, at a longest length."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.lengths.arguments import positive, split
from roofline.serving.traffic.lengths.base import Kind, Lengths
from roofline.serving.traffic.lengths.rounding import at_random
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Spread(Lengths):
    """Mean and standard deviation are those of the distribution before it is cut.

    Draws above the longest length are drawn again, so that the mean falls: `mean` and `variance` are those of what is left.
    Draws below 1 count as 1. With F the distribution function and M_k(y) = E[Y^k; Y <= y], cut at c,

        below(u) = M_1(F^-1(u F(c))) / F(c)

    where the part below 1 has the length 1.
    """

    center: float
    deviation: float
    longest: int | None = None

    @abstractmethod
    def moment(self, k: int, y: float) -> float:
        """E[Y^k; Y <= y] of the distribution that is not cut, for k = 0, 1, 2; y may be infinite."""

    @abstractmethod
    def inverse(self, probability: float) -> float:
        """The y with F(y) = probability, of the distribution that is not cut."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws from the distribution that is not cut."""

    @property
    def _end(self) -> float:
        return math.inf if self.longest is None else float(self.longest)

    @cached_property
    def _kept(self) -> float:
        """F(c)."""
        return self.moment(0, self._end)

    @cached_property
    def _ones(self) -> float:
        """Share of what is left that counts as 1."""
        return self.moment(0, 1.0) / self._kept

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """E[X] and E[X^2] of what is left."""
        first, second = (self._ones + (self.moment(k, self._end) - self.moment(k, 1.0)) / self._kept for k in (1, 2))
        return first, second

    @property
    def mean(self) -> float:
        """Tokens, on average, of what is left."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """Of what is left."""
        first, second = self._moments
        return max(second - first**2, 0.0)

    @property
    def minimum(self) -> int:
        """One token."""
        return 1

    @property
    def maximum(self) -> int | None:
        """MAX."""
        return self.longest

    def below(self, fraction: float) -> float:
        """The integral of the quantile function."""
        if fraction <= self._ones:
            return fraction
        top = self.moment(1, self.inverse(fraction * self._kept)) if fraction < 1 else self.moment(1, self._end)
        return self._ones + (top - self.moment(1, 1.0)) / self._kept

    def quantile(self, fraction: float) -> int:
        """The length, rounded."""
        found = 1 if fraction <= self._ones else max(round(self.inverse(fraction * self._kept)), 1)
        return found if self.longest is None else min(found, self.longest)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Independent draws; those above MAX are drawn again. At least half are kept, as the median is below the mean."""
        values = self.draw(rng, size)
        if self.longest is not None:
            while (again := values > self.longest).any():
                values[again] = self.draw(rng, int(again.sum()))
        return at_random(values, rng)


def text_and_numbers(kind: Kind, arguments: str) -> tuple[str, float, float, int | None]:
    """MEAN:SD[:MAX], checked, and the text with counts in full."""
    parts = split(kind, arguments, 2, "a mean and a standard deviation", 3)
    center, deviation = (positive(part, what, kind.example) for part, what in zip(parts, ("MEAN", "SD"), strict=False))
    longest = parse_count(parts[2], "MAX", minimum=1) if len(parts) > 2 else None
    if center < 1:
        raise InputError(f"MEAN must be at least 1 token, not {center:g}; write {kind.example}")
    if longest is not None and longest < center:
        raise InputError(f"MAX is {longest:,}, which is less than MEAN = {center:,.15g}; draws above MAX are drawn again")
    if not 1e-6 < deviation / center < 1e3:
        raise InputError(f"SD must be between a millionth and a thousand times MEAN, not {deviation:g} of {center:g}")
    numbers = [f"{value:.15g}" for value in (center, deviation)] + ([str(longest)] if longest else [])
    return ":".join([kind.word, *numbers]), center, deviation, longest
