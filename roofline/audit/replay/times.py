"""Latencies of the requests of a run, as an engine saw them or as they are simulated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = ("ttft", "tpot", "e2e")
FIGURES = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True)
class Times:
    """Seconds by request, in the order of arrival; `tpot` is NaN for answers of one token."""

    ttft: Array = field(repr=False)
    tpot: Array = field(repr=False)
    e2e: Array = field(repr=False)

    @classmethod
    def of(cls, arrived: Array, first: Array, last: Array, answers: Array) -> Self:
        """From when each arrived, and had its first and its last token. TPOT: (last - first)/(tokens of the answer - 1)."""
        import numpy as np

        later = np.where(answers > 1, answers - 1, np.nan)
        return cls(first - arrived, (last - first) / later, last - arrived)

    def part(self, start: int, end: int) -> Times:
        """Of requests from one place to another."""
        return Times(self.ttft[start:end], self.tpot[start:end], self.e2e[start:end])

    def figures(self) -> dict[str, dict[str, float | None]]:
        """Mean and percentiles of each latency; None where no request has it."""
        return {f"{name}_s": _figures(getattr(self, name)) for name in NAMES}


def _figures(values: Array) -> dict[str, float | None]:
    import numpy as np

    known = values[~np.isnan(values)]
    if not len(known):
        return dict.fromkeys(FIGURES)
    shares = np.quantile(known, (0.5, 0.9, 0.99)).tolist()
    return dict(zip(FIGURES, (float(known.mean()), *shares), strict=True))
