"""One length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.serving.traffic.lengths.base import Kind, Lengths
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Fixed(Lengths):
    """The same length each time."""

    length: int

    @property
    def mean(self) -> float:
        """The length."""
        return float(self.length)

    @property
    def variance(self) -> float:
        """None of it."""
        return 0.0

    @property
    def minimum(self) -> int:
        """The length."""
        return self.length

    @property
    def maximum(self) -> int:
        """The length."""
        return self.length

    def below(self, fraction: float) -> float:
        """Of each the same."""
        return self.length * fraction

    def quantile(self, fraction: float) -> int:
        """The length."""
        del fraction
        return self.length

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """That length so many times."""
        import numpy as np

        del rng
        return np.full(size, self.length, dtype=np.int64)


def _read(arguments: str, beside: Path | None) -> Fixed:
    """The distribution from its number."""
    del beside
    length = parse_count(arguments, "a length", minimum=1)
    return Fixed(str(length), length)


KIND = Kind("", "1024", "1024", "the same length each time", _read)
