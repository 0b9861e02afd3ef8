"""Every whole length from one to another, equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.lengths.arguments import split
from roofline.serving.traffic.lengths.base import Kind, Lengths
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Uniform(Lengths):
    """Whole lengths from `low` to `high`, both included: mean (low + high)/2, variance ((high - low + 1)^2 - 1)/12."""

    low: int
    high: int

    @property
    def _count(self) -> int:
        return self.high - self.low + 1

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        """That of a discrete uniform distribution."""
        return (self._count**2 - 1) / 12

    @property
    def minimum(self) -> int:
        """LO."""
        return self.low

    @property
    def maximum(self) -> int:
        """HI."""
        return self.high

    def below(self, fraction: float) -> float:
        """A staircase, integrated: k whole steps, and a part of the next one."""
        whole = min(int(fraction * self._count), self._count - 1)
        return (
            whole * self.low + whole * (whole - 1) / 2 + (fraction * self._count - whole) * (self.low + whole)
        ) / self._count

    def quantile(self, fraction: float) -> int:
        """The step that the fraction is on."""
        return self.low + min(int(fraction * self._count), self._count - 1)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Independent draws."""
        return rng.integers(self.low, self.high, size, endpoint=True)


def _read(arguments: str, beside: Path | None) -> Uniform:
    """The distribution from LO:HI."""
    del beside
    low, high = (
        parse_count(part, what, minimum=1)
        for part, what in zip(split(KIND, arguments, 2, "two lengths"), ("LO", "HI"), strict=True)
    )
    if low > high:
        raise InputError(f"LO is {low:,} and HI is {high:,}: the lower one comes first, such as {KIND.example}")
    return Uniform(f"uniform:{low}:{high}", low, high)


KIND = Kind(
    "uniform", "uniform:LO:HI", "uniform:128:2k", "every whole length from LO to HI, both included, equally likely", _read
)
