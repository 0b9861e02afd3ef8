"""The result of `roofline replay`: measured and simulated latencies of the same requests, as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from roofline.predict.result import dump_json
from roofline.specs.source import Assumption
from roofline.version import envelope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = ("ttft", "tpot", "e2e")
FIGURES = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True)
class Latencies:
    """Latencies in seconds by request, in the order of arrival; shape (requests,). `tpot` is NaN for outputs of one token."""

    ttft: Array = field(repr=False)
    tpot: Array = field(repr=False)
    e2e: Array = field(repr=False)

    @classmethod
    def of(cls, arrived: Array, first: Array, last: Array, outputs: Array) -> Self:
        """Latencies from times: TPOT = (last - first)/(outputs - 1).

        Args:
            arrived: when each request arrived, in seconds.
            first: when it had its first token.
            last: when it had its last token.
            outputs: its output tokens.
        """
        import numpy as np

        return cls(first - arrived, (last - first) / np.where(outputs > 1, outputs - 1, np.nan), last - arrived)

    def part(self, start: int, end: int) -> Latencies:
        """Return the latencies of requests from one index to another."""
        return Latencies(self.ttft[start:end], self.tpot[start:end], self.e2e[start:end])

    def figures(self) -> dict[str, dict[str, float | None]]:
        """Return mean and percentiles of each latency; None where no request has it."""
        return {f"{name}_s": _figures(getattr(self, name)) for name in NAMES}


def _figures(values: Array) -> dict[str, float | None]:
    import numpy as np

    known = values[~np.isnan(values)]
    if not len(known):
        return dict.fromkeys(FIGURES)
    shares = np.quantile(known, (0.5, 0.9, 0.99)).tolist()
    return dict(zip(FIGURES, (float(known.mean()), *shares), strict=True))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Measured and simulated latencies of some of the requests.

    Args:
        step_times: `unfitted` or `fitted`.
        requests: how many.
        measured: seconds by `ttft_s`, `tpot_s`, `e2e_s` and figure.
        simulated: likewise.
    """

    step_times: str
    requests: int
    measured: dict[str, dict[str, float | None]]
    simulated: dict[str, dict[str, float | None]]

    @classmethod
    def of(cls, step_times: str, measured: Latencies, simulated: Latencies) -> Comparison:
        """Compare latencies of the same requests."""
        return cls(step_times, len(measured.ttft), measured.figures(), simulated.figures())

    def error(self, latency: str, figure: str) -> float | None:
        """Return simulated over measured, less 1; None where nothing was measured, or 0.

        >>> Comparison("", 1, {"ttft_s": {"mean": 2.0}}, {"ttft_s": {"mean": 1.5}}).error("ttft_s", "mean")
        -0.25
        """
        measured, simulated = self.measured[latency][figure], self.simulated[latency][figure]
        return None if not measured or simulated is None else simulated / measured - 1

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per figure."""
        return [
            {
                "step_times": self.step_times, "requests": self.requests, "latency": f"{name}_s", "figure": figure,
                "measured_s": self.measured[f"{name}_s"][figure], "simulated_s": self.simulated[f"{name}_s"][figure],
                "error": self.error(f"{name}_s", figure),
            }
            for name in NAMES for figure in FIGURES
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        errors = {f"{name}_s": {figure: self.error(f"{name}_s", figure) for figure in FIGURES} for name in NAMES}
        return {
            "step_times": self.step_times, "requests": self.requests, "measured": self.measured, "simulated": self.simulated,
            "error": errors,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replay:
    """A measured run and its simulation.

    Args:
        inputs: files that were read.
        model: the model.
        hardware: the accelerator.
        deployment: the deployment that was simulated.
        run: the run and its engine.
        server: the simulated server.
        unfitted: all requests, with step times of the hardware file.
        assumptions: what was assumed.
        card: what was fitted: `peak_flops` and `bandwidth`, what they replace, on how many requests, and their error.
        unseen: the requests that the fit has not seen, with step times of the hardware file.
        fitted: the same requests, with fitted step times.
    """

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    run: dict[str, Any]
    server: dict[str, Any]
    unfitted: Comparison
    assumptions: tuple[Assumption, ...]
    card: dict[str, Any] | None = None
    unseen: Comparison | None = None
    fitted: Comparison | None = None

    @property
    def comparisons(self) -> list[Comparison]:
        """All comparisons."""
        return [one for one in (self.unfitted, self.unseen, self.fitted) if one is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in the documented layout."""
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "run": self.run,
            "server": self.server,
            "card": self.card,
            "unfitted": self.unfitted.to_dict(),
            "unseen": self.unseen and self.unseen.to_dict(),
            "fitted": self.fitted and self.fitted.to_dict(),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per figure of each comparison."""
        return [row for one in self.comparisons for row in one.rows()]
