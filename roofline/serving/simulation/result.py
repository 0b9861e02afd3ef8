"""The answer to `roofline simulate`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.result import dump_json
from roofline.registry import HasFigures
from roofline.specs.source import Assumption
from roofline.version import envelope

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds over requests (of `itl`: over tokens); None where there is none. Percentiles to 0.1 %."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    most: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """By name."""
        return {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p95": self.p95, "p99": self.p99, "max": self.most}


@dataclass(frozen=True, slots=True)
class Requests:
    """How many. `cut`: of those that completed, in the warm-up, so that nothing else counts them."""

    arrived: int
    completed: int
    refused: int
    preemptions: int
    preempted: int
    cut: int = 0

    @property
    def unfinished(self) -> int:
        """Those that were being served, or waited, when the run was interrupted."""
        return self.arrived - self.completed - self.refused


@dataclass(frozen=True, slots=True)
class Simulation(HasFigures):
    """What users of a server see, and what the server does. Times in seconds, rates a second, over all replicas."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    workload: dict[str, Any]
    server: dict[str, Any]
    """Scheduler, replicas, balancer, preemption, blocks, seats, tokens a step, and what step times stand on."""
    requests: Requests
    preemption: dict[str, float]
    """Of a run: tokens that were dropped and computed again, and how much longer steps took for it; tokens that moved to the
    host, and for how long steps waited for copies. The warm-up counts."""
    refusals: tuple[dict[str, Any], ...]
    """The first of those that were refused, with why."""
    duration_s: float
    offered_rate: float | None
    saturated: bool
    ttft_s: Latency
    tpot_s: Latency
    itl_s: Latency
    e2e_s: Latency
    throughput: dict[str, float]
    goodput: float | None
    within_slo: float | None
    """Share of the requests that keep to the SLO; None without one."""
    utilisation: dict[str, float | None]
    series: dict[str, Any]
    distributions: dict[str, dict[str, list[float]]]
    """Of each latency at most 200 points: `seconds`, and the `share` of the requests (tokens) that take at most so long."""
    assumptions: tuple[Assumption, ...]
    replications: dict[str, Any] | None = None
    """Of several runs: how many, and of each figure the mean with its 95 % confidence interval."""
    interrupted: bool = False
    """Whether somebody put an end to the run: it is of the requests that had ended by then."""
    unfit: str | None = None
    """Why the model does not run there: then nothing else is known."""

    @property
    def fits(self) -> bool:
        """Whether the model runs there."""
        return self.unfit is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        counts = self.requests
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "fits": self.fits,
            "workload": self.workload,
            "server": self.server,
            "requests": {
                "arrived": counts.arrived, "completed": counts.completed, "refused": counts.refused,
                "unfinished": counts.unfinished,
                "preemptions": counts.preemptions, "preempted": counts.preempted, "cut": counts.cut,
            },
            "preemption": self.preemption,
            "refusals": list(self.refusals),
            "duration_s": self.duration_s,
            "offered_rate": self.offered_rate,
            "saturated": self.saturated,
            "interrupted": self.interrupted,
            "ttft_s": self.ttft_s.to_dict(),
            "tpot_s": self.tpot_s.to_dict(),
            "itl_s": self.itl_s.to_dict(),
            "e2e_s": self.e2e_s.to_dict(),
            "throughput": self.throughput,
            "goodput": self.goodput,
            "within_slo": self.within_slo,
            "utilisation": self.utilisation,
            "series": self.series,
            "distributions": self.distributions,
            "replications": self.replications,
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def to_frame(self) -> pd.DataFrame:
        """The time series, a row an interval."""
        import pandas as pd

        found = {name: values for name, values in self.series.items() if name != "interval_s"}
        frame = pd.DataFrame(found)
        frame.insert(0, "begins_s", frame.index * self.series["interval_s"])
        return frame
