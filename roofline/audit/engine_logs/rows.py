"""One compared quantity: what was measured, what is predicted, and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["byte", "token", "x", "s", "1/s"]
NEAR = 0.05
"""Where a prediction has no band: a gap up to this needs no reason."""
CLOSE = 0.01
"""A gap up to this needs no reason, however narrow the band."""


@dataclass(frozen=True, slots=True)
class Row:
    """A quantity measured and predicted, in base units.

    Attributes:
        quantity: its name.
        unit: of all figures.
        measured: by the engine or the benchmark.
        predicted: None where it cannot be predicted.
        low: the lower end of the prediction's band, where it has one.
        high: the upper end.
        bound: what no kernel can beat: the shortest time, the highest rate.
        basis: what the prediction is computed from: the model and the hardware, or also lines of the log.
        why: likely reasons for a gap.
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
