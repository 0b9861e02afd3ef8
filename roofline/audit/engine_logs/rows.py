"""One compared quantity: what was measured, what is predicted, and how they stand to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["byte", "token", "x", "s", "1/s"]
# Where a prediction has no band, so far from the measurement is near enough not to ask why.
NEAR = 0.05
# So near it is well predicted, however narrow the band.
CLOSE = 0.01


@dataclass(frozen=True, slots=True)
class Row:
    """A quantity measured and predicted, in base units.

    `basis` says what the prediction stands on: the model and the hardware, or also lines of the log. `low` and `high` are
    the band of the prediction, where it has one. `bound` is what no kernel can beat: the least of times, the most of rates.
    """

    quantity: str
    unit: Unit
    measured: float
    predicted: float | None
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    basis: str = "model and hardware"
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Predicted over measured, as everywhere in this project; None without a prediction or at a measured 0."""
        return self.predicted / self.measured if self.predicted is not None and self.measured else None

    @property
    def within(self) -> bool | None:
        """Whether the measurement lies in the band, or within 1 % of the prediction; without a band, within 5 %. None without
        a prediction."""
        if self.predicted is None:
            return None
        if self.ratio is not None and abs(self.ratio - 1) <= CLOSE:
            return True
        if self.low is not None and self.high is not None:
            return self.low <= self.measured <= self.high
        return self.ratio is not None and abs(self.ratio - 1) <= NEAR

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "measured": self.measured,
            "predicted": self.predicted,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "bound": self.bound,
            "within": self.within,
            "basis": self.basis,
            "why": self.why,
        }
