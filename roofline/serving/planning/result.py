"""The result of `roofline plan`: candidates, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from roofline.documents import dump_json, envelope
from roofline.registry import Displayed
from roofline.serving.planning.performance import LatencyStats, Performance
from roofline.serving.planning.sizing import Binds
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one deployment.

    Args:
        role: both phases, prefill alone, or decode alone.
        replicas: number of replicas, spares included.
        spare: replicas for those that fail.
        devices: devices per replica.
        deployment: its settings, as keys of the JSON output.
        engine_flags: command lines by engine and version, the engine of the plan first.
        engine_files: contents of the files that they name, by engine and version, then by name.
        max_rate: requests/s of a replica within the objectives.
        binds: what stops it there.
        running: mean number of decoding sequences on a replica.
    """

    role: str
    replicas: int
    spare: int
    devices: int
    deployment: dict[str, Any]
    engine_flags: dict[str, list[str]]
    engine_files: dict[str, dict[str, str]]
    max_rate: float
    binds: Binds
    running: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a candidate; None without a price.

    Args:
        per_hour: of all devices.
        low: of all devices at the low end of the price.
        high: at the high end.
        input: per million input tokens at the mean load, by the time that prompts take a replica.
        output: per million output tokens.
        total: per million tokens of both.
        currency: ISO 4217 code.
        price: per device and hour, as text with its source.
        scaled_per_hour: with as many replicas as each part of the day needs; None without a profile.
    """

    per_hour: float | None = None
    low: float | None = None
    high: float | None = None
    input: float | None = None
    output: float | None = None
    total: float | None = None
    currency: str | None = None
    price: str | None = None
    scaled_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """Upper bounds of power, from the TDP of all devices."""

    watts: float | None
    joules_per_output_token: float | None
    pue: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to serve the load. `devices` and `replicas` are totals, spares included.

    Args:
        hardware: its name.
        title: its title.
        mode: colocated or disaggregated.
        precision: name of the precision.
        pools: one pool, or the prefill and the decode pool.
        performance: what requests experience.
        requests_per_s: planned rate.
        output_tokens_per_s: output tokens at that rate.
        input_tokens_per_s: prompt tokens at that rate.
        cost: money.
        power: upper bounds.
        headroom: what more of the planned rate could be served within the objectives, as a fraction of it.
        breaks_at: requests/s at which an objective is missed, or the replicas saturate.
        basis: "estimate" or "bound".
        notes: what a reader should know.
        estimate_basis: what estimates rest on: "measured", "transferred", "published", "prior" or "given"; None of bounds.
    """

    hardware: str
    title: str
    mode: str
    precision: str
    pools: tuple[Pool, ...]
    performance: Performance
    requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    cost: Cost
    power: Power
    headroom: float | None
    breaks_at: float | None
    basis: str
    notes: tuple[str, ...] = ()
    estimate_basis: str | None = None

    @property
    def devices(self) -> int:
        """Number of accelerators of all replicas, spares included."""
        return sum(pool.devices * pool.replicas for pool in self.pools)

    @property
    def replicas(self) -> int:
        """Number of replicas of all pools, spares included."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def tightest(self) -> Pool:
        """The pool with the lowest requests/s within the objectives, spares not counted."""
        return min(self.pools, key=lambda pool: pool.max_rate * (pool.replicas - pool.spare))

    @property
    def binds(self) -> Binds:
        """What stops its tightest pool from serving more."""
        return self.tightest.binds

    @property
    def ttft_s(self) -> LatencyStats:
        """TTFT in seconds."""
        return self.performance.ttft

    @property
    def tpot_s(self) -> LatencyStats:
        """TPOT in seconds."""
        return self.performance.tpot

    @property
    def cost_per_hour(self) -> float | None:
        """Cost per hour, in `cost.currency`; None without a price."""
        return self.cost.per_hour

    @property
    def cost_per_million_tokens(self) -> Cost:
        """Costs of a million tokens: `input`, `output`, `total`."""
        return self.cost

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the list `candidates` of `roofline plan --json`, in base units."""
        main = self.pools[-1]
        return {
            "hardware": self.hardware,
            "title": self.title,
            "devices": self.devices,
            "replicas": self.replicas,
            "spare": sum(pool.spare for pool in self.pools),
            "mode": self.mode,
            "precision": self.precision,
            "deployment": main.deployment,
            "engine_flags": main.engine_flags,
            "engine_files": main.engine_files,
            "pools": [asdict(pool) for pool in self.pools],
            "ttft_s": self.performance.ttft.to_dict(),
            "tpot_s": self.performance.tpot.to_dict(),
            "classes": {
                name: {"ttft_s": ttft.to_dict(), "tpot_s": tpot.to_dict()}
                for name, (ttft, tpot) in self.performance.classes.items()
            },
            "throughput": {
                "requests_per_s": self.requests_per_s,
                "output_tokens_per_s": self.output_tokens_per_s,
                "input_tokens_per_s": self.input_tokens_per_s,
            },
            "utilisation": self.performance.utilisation,
            "running": self.performance.running,
            "cost_per_hour": self.cost.per_hour,
            "cost_per_hour_range": None if self.cost.low is None else [self.cost.low, self.cost.high],
            "cost_per_hour_scaled": self.cost.scaled_per_hour,
            "cost_per_million_tokens": {"input": self.cost.input, "output": self.cost.output, "total": self.cost.total},
            "currency": self.cost.currency,
            "price": self.cost.price,
            "power": {
                "watts_at_most": self.power.watts,
                "joules_per_output_token_at_most": self.power.joules_per_output_token,
                "pue": self.power.pue,
            },
            "binds": self.binds,
            "breaks_first": {"what": self.binds, "rate": self.breaks_at},
            "headroom": self.headroom,
            "basis": self.basis,
            "estimate_basis": self.estimate_basis,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed):
    """Candidates, best first.

    Args:
        inputs: files that were read.
        model: name and sources.
        traffic: what arrives.
        limits: on devices and money.
        rank: order of the candidates.
        candidates: deployments, best first.
        pareto: indices of the Pareto front of cost, TTFT and TPOT.
        infeasible: why there is no candidate; None if there is one.
        considered: number of deployments searched, that fit, that meet the objectives, that are within the limits.
        refused: deployments that hold no request, with the reason.
        assumptions: what was assumed.
    """

    inputs: dict[str, Any]
    model: dict[str, Any]
    traffic: dict[str, Any]
    limits: dict[str, Any]
    rank: str
    candidates: tuple[Candidate, ...]
    pareto: tuple[int, ...]
    infeasible: dict[str, Any] | None
    considered: dict[str, int]
    refused: tuple[dict[str, Any], ...]
    assumptions: tuple[Assumption, ...]

    @property
    def best(self) -> Candidate | None:
        """The first candidate in the order of `rank`; None if there is none."""
        return self.candidates[0] if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the layout of `roofline plan --json`, in base units."""
        return {
            **envelope(self.inputs),
            "model": self.model,
            "traffic": self.traffic,
            "limits": self.limits,
            "rank": self.rank,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "pareto": list(self.pareto),
            "infeasible": self.infeasible,
            "considered": self.considered,
            "refused": list(self.refused),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text of `to_dict`; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row per candidate, with units in the names."""
        return [_flat(index, one, index in self.pareto) for index, one in enumerate(self.candidates)]

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame of `flat`, one row per candidate."""
        import pandas as pd

        return pd.DataFrame(self.flat())


def _flat(index: int, one: Candidate, on_front: bool) -> dict[str, Any]:
    main = one.pools[-1].deployment
    times = {
        f"{name}_{key}_s": getattr(stats, key if key != "pP" else "at")
        for name, stats in (("ttft", one.performance.ttft), ("tpot", one.performance.tpot))
        for key in ("mean", "p50", "pP", "low", "high")
    }
    sizes = (
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "expert_parallel",
        "max_num_seqs",
        "max_num_batched_tokens",
    )
    return {
        "rank": index + 1, "hardware": one.hardware, "devices": one.devices, "replicas": one.replicas, "mode": one.mode,
        "precision": one.precision, **{name: main[name] for name in sizes}, **times,
        "requests_per_s": one.requests_per_s, "output_tokens_per_s": one.output_tokens_per_s,
        "utilisation": one.performance.utilisation, "cost_per_hour": one.cost.per_hour,
        "cost_per_million_tokens": one.cost.total, "cost_per_million_input_tokens": one.cost.input,
        "cost_per_million_output_tokens": one.cost.output, "currency": one.cost.currency, "binds": one.binds,
        "breaks_at_requests_per_s": one.breaks_at, "headroom": one.headroom, "pareto": on_front, "basis": one.basis,
    }  # fmt: skip
