"""The result of `roofline plan`: candidates, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from roofline.documents import dump_json, envelope
from roofline.registry import Displayed
from roofline.serving.planning.performance import LatencyStats, Performance
from roofline.serving.planning.prefix_cache import KVCacheUse
from roofline.serving.planning.sizing import Binds
from roofline.specs.prices import Price
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    import pandas as pd

    from roofline.serving.simulation.result import Simulation


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
        offers: of which `price` is the mean, in the order in which they are used; empty for a single price.
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
    offers: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """When offline batch work is done, in seconds from its start, and what it costs; None without a price.

    Args:
        mean: as expected, until the last request has ended.
        low: with every step at the low end of its interval; None of bounds.
        high: at the high end.
        bound: with every step at its bound.
        cost: of all devices until then, spares included.
        cost_low: at the low end of the price.
        cost_high: at the high end.
        per_million_output: all of it over the output tokens, per million; prompts are paid with them.
    """

    mean: float
    low: float | None
    high: float | None
    bound: float
    cost: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None
    per_million_output: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The keys of a candidate."""
        return {
            "finish_s": {"mean": self.mean, "low": self.low, "high": self.high, "bound": self.bound},
            "cost_total": self.cost,
            "cost_total_range": None if self.cost_low is None else [self.cost_low, self.cost_high],
            "cost_per_million_output_tokens": self.per_million_output,
        }


NO_FINISH: dict[str, Any] = dict.fromkeys(
    ("finish_s", "cost_total", "cost_total_range", "cost_per_million_output_tokens")
)  # fmt: skip
"""The keys of `Finish` of requests that come at a rate, or from clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """One simulation of a candidate.

    Args:
        replicas: number of replicas, spares not counted.
        simulated_replicas: as many were simulated, with their part of the traffic.
        requests: that arrived.
        holds: whether the objectives, or the deadline, hold.
        safe: whether they do with the whole confidence interval.
        saturated: whether more requests arrived than were served.
        within: smallest share of the requests of a class within each objective.
        finish_s: when offline work is done, s.
    """

    replicas: int
    simulated_replicas: int
    requests: int
    holds: bool
    safe: bool
    saturated: bool
    within: dict[str, float]
    finish_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "replicas": self.replicas, "simulated_replicas": self.simulated_replicas, "requests": self.requests,
            "holds": self.holds, "saturated": self.saturated,
            **{f"within_{name}": self.within.get(name) for name in ("ttft", "tpot")}, "finish_s": self.finish_s,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation of a candidate shows, beside what was predicted of the same number of replicas.

    Args:
        planned_replicas: by the closed form.
        holds: whether the objectives, or the deadline, hold; None: it was not simulated, and `why`.
        replicas: number of replicas with which they hold, spares not counted; the highest number tried if they do not.
        requests_per_s: of all replicas.
        finish_s: when offline work is done, s.
        requests: of the run that is shown.
        runs: all simulations, by replicas.
        simulation: with these replicas and the spares.
        why: why it was not simulated.
    """

    planned_replicas: int
    holds: bool | None = None
    replicas: int | None = None
    requests_per_s: float | None = None
    finish_s: float | None = None
    requests: int = 0
    runs: tuple[SimulatedRun, ...] = ()
    simulation: Simulation | None = None
    why: str = ""

    def latency(self, name: str, percentile: float) -> tuple[float | None, float | None, float | None]:
        """TTFT or TPOT at a percentile, and its confidence interval, in seconds; None where the simulation has none.

        Offline work of which only a part was simulated has no TTFT.
        """
        if self.simulation is None or (name == "ttft" and self.finish_s not in (None, self.simulation.duration_s)):
            return None, None, None
        times = self.simulation.ttft_s if name == "ttft" else self.simulation.tpot_s
        at = f"p{percentile * 100:g}"
        low, high = times.interval(at) or (None, None)
        return getattr(times, at, None), low, high

    def to_dict(self, percentile: float) -> dict[str, Any]:
        """Plain data; values at the percentile are under `pP`, with `low` and `high` of its confidence interval."""
        result = self.simulation
        times = {}
        for name in ("ttft", "tpot"):
            at, low, high = self.latency(name, percentile)
            mean = None if result is None or (name == "ttft" and at is None) else getattr(result, f"{name}_s").mean
            times[f"{name}_s"] = {"mean": mean, "pP": at, "low": low, "high": high}
        share = {} if result is None else result.confidence
        return {
            "holds": self.holds, "why": self.why or None, "replicas": self.replicas, "planned_replicas": self.planned_replicas,
            **times, "percentile": percentile, "confidence": share.get("level"),
            "within_slo": None if result is None else result.within_slo, "within_slo_interval": share.get("within_slo"),
            "requests_per_s": self.requests_per_s, "finish_s": self.finish_s,
            "preemptions": None if result is None else result.requests.preemptions, "requests": self.requests,
            "runs": [run.to_dict() for run in self.runs],
        }  # fmt: skip


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
        finish_s: of offline batch work, with its cost.
        simulated: what its simulation shows; None where it was not simulated.
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
    finish_s: Finish | None = None
    simulated: Simulated | None = None

    @property
    def devices(self) -> int:
        """Number of accelerators of all replicas, spares included."""
        return sum(pool.devices * pool.replicas for pool in self.pools)

    @property
    def replicas(self) -> int:
        """Number of replicas of all pools, spares included."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def kv_cache(self) -> KVCacheUse | None:
        """What the KV cache of a replica holds; None where prompts have nothing in common, or come from clients."""
        return None if self.performance.cache is None else self.performance.cache.use()

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
    def cost_total(self) -> float | None:
        """Cost of offline work until it is done, in `cost.currency`; None without a price, and of other work."""
        return None if self.finish_s is None else self.finish_s.cost

    @property
    def cost_total_range(self) -> list[float] | None:
        """The same at both ends of the price."""
        finish = self.finish_s
        return (
            None
            if finish is None or finish.cost_low is None or finish.cost_high is None
            else [finish.cost_low, finish.cost_high]
        )

    @property
    def cost_per_million_output_tokens(self) -> float | None:
        """All of it over the output tokens, per million."""
        return None if self.finish_s is None else self.finish_s.per_million_output

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
            "kv_cache": None if self.kv_cache is None else asdict(self.kv_cache),
            "cost_per_hour": self.cost.per_hour,
            "cost_per_hour_range": None if self.cost.low is None else [self.cost.low, self.cost.high],
            "cost_per_hour_scaled": self.cost.scaled_per_hour,
            "cost_per_million_tokens": {"input": self.cost.input, "output": self.cost.output, "total": self.cost.total},
            **(NO_FINISH if self.finish_s is None else self.finish_s.to_dict()),
            "currency": self.cost.currency,
            "price": self.cost.price,
            "offers": [
                {"count": one.count, "price": one.value, "range": [one.low, one.high], "kind": one.kind, "note": one.note}
                for one in self.cost.offers
            ],
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
            "simulated": None if self.simulated is None else self.simulated.to_dict(self.performance.ttft.percentile),
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
        passed_over: prefill and decode pools that are not cheaper than the best colocated deployment by the margin.
        simulation: how candidates were simulated; None without.
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
    passed_over: tuple[dict[str, Any], ...] = ()
    simulation: dict[str, Any] | None = None

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
            "passed_over": list(self.passed_over),
            "simulation": self.simulation,
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
        "finish_s": one.finish_s and one.finish_s.mean, "cost_total": one.cost_total,
        "utilisation": one.performance.utilisation, "cost_per_hour": one.cost.per_hour,
        "cost_per_million_tokens": one.cost.total, "cost_per_million_input_tokens": one.cost.input,
        "cost_per_million_output_tokens": one.cost.output, "currency": one.cost.currency, "binds": one.binds,
        "breaks_at_requests_per_s": one.breaks_at, "headroom": one.headroom, "pareto": on_front, "basis": one.basis,
    }  # fmt: skip
