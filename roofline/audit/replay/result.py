"""The answer to `roofline replay`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.audit.replay.times import FIGURES, NAMES, Times
from roofline.predict.result import dump_json
from roofline.specs.source import Assumption
from roofline.version import envelope


@dataclass(frozen=True, slots=True)
class Beside:
    """Latencies of some of the requests, measured and simulated, in seconds by `ttft_s`, `tpot_s`, `e2e_s` and figure."""

    what: str
    requests: int
    measured: dict[str, dict[str, float | None]]
    simulated: dict[str, dict[str, float | None]]

    @classmethod
    def of(cls, what: str, measured: Times, simulated: Times) -> Beside:
        """Of the same requests."""
        return cls(what, len(measured.ttft), measured.figures(), simulated.figures())

    def error(self, latency: str, figure: str) -> float | None:
        """Simulated over measured, less 1; None where nothing was measured, or 0.

        >>> Beside("", 1, {"ttft_s": {"mean": 2.0}}, {"ttft_s": {"mean": 1.5}}).error("ttft_s", "mean")
        -0.25
        """
        measured, simulated = self.measured[latency][figure], self.simulated[latency][figure]
        return None if not measured or simulated is None else simulated / measured - 1

    def rows(self) -> list[dict[str, Any]]:
        """A row a figure."""
        return [
            {
                "step_times": self.what, "requests": self.requests, "latency": f"{name}_s", "figure": figure,
                "measured_s": self.measured[f"{name}_s"][figure], "simulated_s": self.simulated[f"{name}_s"][figure],
                "error": self.error(f"{name}_s", figure),
            }
            for name in NAMES for figure in FIGURES
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        errors = {f"{name}_s": {figure: self.error(f"{name}_s", figure) for figure in FIGURES} for name in NAMES}
        return {
            "step_times": self.what, "requests": self.requests, "measured": self.measured, "simulated": self.simulated,
            "error": errors,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replay:
    """A measured run and its simulation. `unfitted` is of all requests; with `fitted` of those that the fit has not seen, where
    `unseen` is of the same without it."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    run: dict[str, Any]
    """What is known of the run and its engine."""
    server: dict[str, Any]
    """As it is simulated."""
    unfitted: Beside
    assumptions: tuple[Assumption, ...]
    card: dict[str, Any] | None = None
    """What was fitted: `peak_flops` and `bandwidth`, what they replace, on how many requests, how far off those are."""
    unseen: Beside | None = None
    fitted: Beside | None = None

    @property
    def comparisons(self) -> list[Beside]:
        """All that there are."""
        return [one for one in (self.unfitted, self.unseen, self.fitted) if one is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
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
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def rows(self) -> list[dict[str, Any]]:
        """A row a figure of each comparison."""
        return [row for one in self.comparisons for row in one.rows()]
