"""Sums of arrays of many shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.numeric import Expr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(slots=True)
class Sum:
    """A sum of arrays that adds like shapes first, so that the small ones stay small."""

    parts: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def add(self, value: Expr) -> None:
        """Another term."""
        import numpy as np

        array = np.asarray(value, dtype=np.float64)
        if array.shape in self.parts:
            self.parts[array.shape] = self.parts[array.shape] + array
        else:
            self.parts[array.shape] = array

    def total(self) -> Array:
        """All terms, broadcast."""
        import numpy as np

        return sum(self.parts.values(), start=np.zeros(()))
