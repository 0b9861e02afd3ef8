"""The result of `roofline replay`: measured and simulated latencies of the same requests, as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from roofline.documents import dump_json, envelope
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = ("ttft", "tpot", "e2e")
FIGURES = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True)
class Latencies:
    """Latencies in seconds, arrays of shape (requests,) in the order of arrival; `tpot` is NaN for outputs of one token."""

    ttft: Array = field(repr=False)
    tpot: Array = field(repr=False)
    e2e: Array = field(repr=False)

    @classmethod
    def of(cls, arrived: Array, first: Array, last: Array, outputs: Array) -> Self:
        """Latencies from points in time: TTFT = first - arrived, TPOT = (last - first)/(outputs - 1), E2E = last - arrived.

        Args:
            arrived: arrival of each request in seconds, shape (requests,), as all of these.
            first: time of its first token.
            last: time of its last token.
            outputs: number of its output tokens.
        """
        import numpy as np

        return cls(first - arrived, (last - first) / np.where(outputs > 1, outputs - 1, np.nan), last - arrived)

    def slice(self, start: int, end: int) -> Latencies:
        """Return the latencies of the requests from index `start` to `end`, which is excluded."""
        return Latencies(self.ttft[start:end], self.tpot[start:end], self.e2e[start:end])

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Return mean, p50, p90 and p99 in seconds of `ttft_s`, `tpot_s` and `e2e_s`; None where no request has the latency."""
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

    Attributes:
        step_times: `unfitted` or `fitted`.
        requests: number of requests compared.
        measured: seconds by latency (`ttft_s`, `tpot_s`, `e2e_s`) and figure (`mean`, `p50`, `p90`, `p99`).
        simulated: likewise.
    """

    step_times: str
    requests: int
    measured: dict[str, dict[str, float | None]]
    simulated: dict[str, dict[str, float | None]]

    @classmethod
    def of(cls, step_times: str, measured: Latencies, simulated: Latencies) -> Comparison:
        """Compare measured and simulated latencies of the same requests; `step_times` is `unfitted` or `fitted`."""
        return cls(step_times, len(measured.ttft), measured.summary(), simulated.summary())

    def error(self, latency: str, figure: str) -> float | None:
        """Return the relative error, simulated/measured - 1; None where nothing was measured, or 0.

        Args:
            latency: `ttft_s`, `tpot_s` or `e2e_s`.
            figure: `mean`, `p50`, `p90` or `p99`.

        >>> Comparison("", 1, {"ttft_s": {"mean": 2.0}}, {"ttft_s": {"mean": 1.5}}).error("ttft_s", "mean")
        -0.25
        """
        measured, simulated = self.measured[latency][figure], self.simulated[latency][figure]
        return None if not measured or simulated is None else simulated / measured - 1

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row per latency and figure; times in seconds."""
        return [
            {
                "step_times": self.step_times, "requests": self.requests, "latency": f"{name}_s", "figure": figure,
                "measured_s": self.measured[f"{name}_s"][figure], "simulated_s": self.simulated[f"{name}_s"][figure],
                "error": self.error(f"{name}_s", figure),
            }
            for name in NAMES for figure in FIGURES
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as under `unfitted` in `roofline replay --json`; times in seconds."""
        errors = {f"{name}_s": {figure: self.error(f"{name}_s", figure) for figure in FIGURES} for name in NAMES}
        return {
            "step_times": self.step_times, "requests": self.requests, "measured": self.measured, "simulated": self.simulated,
            "error": errors,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replay:
    """A measured run and its simulation. The dictionaries are those of `roofline replay --json`.

    Attributes:
        inputs: name, path and SHA-256 of the files that were read, by role.
        model: facts of the model.
        hardware: facts of the accelerator.
        deployment: the deployment that was simulated.
        run: the measured run and its engine.
        server: the simulated server.
        unfitted: all requests, with step times of the hardware file.
        assumptions: what was assumed.
        estimate_basis: what step times rest on: "measured", "transferred", "published", "prior" or "given"; None of bounds.
        card: the fit: `peak_flops` (FLOP/s), `bandwidth` and, where the run determines it, `allreduce_bandwidth` (byte/s), what
            they replace, the run, model and tensor-parallel size that they belong to (`holds_for`), the `link` of
            tensor-parallel devices, on how many requests, and the error; None without a fit.
        unseen: the requests that the fit has not seen, with step times of the hardware file; None without a fit.
        fitted: the same requests, with fitted step times; None without a fit.
    """

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    run: dict[str, Any]
    server: dict[str, Any]
    unfitted: Comparison
    assumptions: tuple[Assumption, ...]
    estimate_basis: str | None = None
    card: dict[str, Any] | None = None
    unseen: Comparison | None = None
    fitted: Comparison | None = None

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons that were made: one, or three with a fit."""
        return [one for one in (self.unfitted, self.unseen, self.fitted) if one is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in the layout of `roofline replay --json`."""
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
        """Return the rows of all comparisons; see `Comparison.rows`."""
        return [row for one in self.comparisons for row in one.rows()]
