"""What runs come to: the figures of each, and the result of all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

from roofline.predict.analyze import facts
from roofline.predict.request import Request
from roofline.serving.simulation.replicate import intervals
from roofline.serving.simulation.result import QUANTILES, Latency, Requests, Simulation
from roofline.serving.simulation.run import Run
from roofline.serving.simulation.server import Server
from roofline.serving.simulation.tally import COSTS, TIMES
from roofline.serving.simulation.workload import Workload
from roofline.specs.library import Input
from roofline.specs.source import Assumption


def summarise(
    server: Server, asked: Workload, runs: list[Run], notes: list[Assumption], seed: int, share: float
) -> Simulation:  # fmt: skip
    """The result of runs that differ in their seeds."""
    whole = runs[0].tally
    figures = [_figures(server, asked, one) for one in runs]
    for other in runs[1:]:
        for name in TIMES:
            whole.times[name].merge(other.tally.times[name])
    merged = {f"{name}_s": _latency(whole.times[name]) for name in TIMES}
    means = figures[0] if len(runs) == 1 else {
        name: _mean([one[name] for one in figures]) for name in figures[0]
    }  # fmt: skip
    slo = any(one.ttft or one.tpot for one in asked.classes)
    offered = means["offered_rate"]
    about: dict[str, Any] = facts(server.request)
    return Simulation(
        inputs=_inputs(server.request.inputs, server.preempting.inputs, *(one.inputs for one in asked.classes)),
        **about,
        workload=_workload(asked, seed, share),
        server=_described(server),
        requests=Requests(
            arrived=sum(one.arrived for one in runs),
            completed=sum(one.ended for one in runs),
            refused=sum(one.refused for one in runs),
            preemptions=sum(one.preemptions for one in runs),
            preempted=sum(one.tally.preempted for one in runs),
            cut=sum(one.cut for one in runs),
        ),
        preemption={name: means[f"preemption.{name}"] or 0.0 for name in COSTS},
        refusals=tuple(runs[0].refusals),
        duration_s=means["duration_s"] or 0.0,
        offered_rate=offered,
        interrupted=any(one.stopped for one in runs),
        saturated=any(_saturated(asked, one) for one in runs),
        ttft_s=merged["ttft_s"],
        tpot_s=merged["tpot_s"],
        itl_s=merged["itl_s"],
        e2e_s=merged["e2e_s"],
        throughput={
            name: means[f"throughput.{name}"] or 0.0
            for name in ("requests_per_s", "output_tokens_per_s", "prompt_tokens_per_s")
        },
        goodput=means["goodput"] if slo else None,
        within_slo=means["within_slo"] if slo else None,
        utilisation={name: means[f"utilisation.{name}"] for name in ("compute", "memory", "kv")},
        series=whole.series.to_dict(whole.last),
        distributions={f"{name}_s": whole.times[name].curve() for name in TIMES},
        assumptions=tuple(notes),
        replications=intervals(figures) if len(runs) > 1 else None,
    )


def nothing(request: Request, asked: Workload, notes: list[Assumption], why: str) -> Simulation:
    """The result where the deployment does not fit: no figures."""
    about: dict[str, Any] = facts(request)
    none = Latency(mean=None, **dict.fromkeys(QUANTILES))
    return Simulation(
        inputs=_inputs(request.inputs, *(one.inputs for one in asked.classes)),
        **about,
        workload=_workload(asked, 0, 0.0),
        server={},
        requests=Requests(arrived=0, completed=0, refused=0, preemptions=0, preempted=0),
        preemption=dict.fromkeys(COSTS, 0.0),
        refusals=(),
        duration_s=0.0,
        offered_rate=None,
        saturated=False,
        ttft_s=none,
        tpot_s=none,
        itl_s=none,
        e2e_s=none,
        throughput={"requests_per_s": 0.0, "output_tokens_per_s": 0.0, "prompt_tokens_per_s": 0.0},
        goodput=None,
        within_slo=None,
        utilisation={"compute": None, "memory": None, "kv": None},
        series={},
        distributions={},
        assumptions=tuple(notes),
        unfit=why,
    )


def _inputs(*parts: Iterable[Input]) -> dict[str, Any]:
    """Files that were read, by what they are."""
    found: dict[str, Any] = {}
    for entry in chain(*parts):
        found.setdefault(entry.role, {"name": entry.name, "path": entry.path, "sha256": entry.sha256})
    return found


def _saturated(asked: Workload, one: Run) -> bool:
    return not asked.closed and one.latest > one.first and one.tally.saturated(one.first, one.latest)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _figures(server: Server, asked: Workload, one: Run) -> dict[str, float | None]:
    """The figures of one run, flat."""
    tally = one.tally
    begin = min(one.first if not one.cut else tally.after, tally.last)
    duration = max(tally.last - one.first, 0.0) if tally.last else 0.0
    counted = max(tally.last - begin, 1e-300)
    span = one.latest - one.first
    device_seconds = duration * server.replicas
    busy = {name: tally.work[name] / device_seconds if device_seconds else None for name in tally.work}
    found: dict[str, float | None] = {
        "duration_s": duration,
        "offered_rate": (one.arrived - 1) / span if span > 0 and not asked.closed else None,
        "throughput.requests_per_s": tally.completed / counted,
        "throughput.output_tokens_per_s": tally.output_tokens / counted,
        "throughput.prompt_tokens_per_s": tally.prompt_tokens / counted,
        "goodput": tally.good / counted,
        "within_slo": tally.good / tally.completed if tally.completed else None,
        "utilisation.compute": busy["matrix"],
        "utilisation.memory": busy["memory"],
        "utilisation.kv": tally.block_seconds / (device_seconds * server.room.blocks) if device_seconds else None,
    }
    found |= {f"preemption.{name}": getattr(tally, name) for name in COSTS}
    for name in TIMES:
        times = _latency(tally.times[name])
        found |= {f"{name}_s.{key}": getattr(times, key) for key in ("mean", *QUANTILES)}
    return found


def _latency(times: Any) -> Latency:
    quantiles = {name: times.quantile(share) for name, share in QUANTILES.items()}
    return Latency(mean=times.mean, **quantiles, most=times.most if times.weight else None)


def _workload(asked: Workload, seed: int, share: float) -> dict[str, Any]:
    return {
        "source": asked.source,
        "rate": asked.rate,
        "clients": sum(one.clients for one in asked.clients) or None,
        "requests": asked.requests,
        "until_s": None if asked.until == math.inf else asked.until,
        "seed": seed,
        "warm_up": asked.warm_up / asked.requests if asked.warm_up and asked.requests else share,
        "classes": [
            {
                "name": one.name, "input_len": str(one.input_len), "output_len": str(one.output_len),
                "mean_input": one.input_len.mean, "mean_output": one.output_len.mean, "ttft_s": one.ttft, "tpot_s": one.tpot,
            }
            for one in asked.classes
        ],
    }  # fmt: skip


def _described(server: Server) -> dict[str, Any]:
    return {
        "scheduler": server.scheduler.name,
        "replicas": server.replicas,
        "balancer": server.balancer,
        "preemption": server.preempting.mode,
        "basis": server.tables.basis,
        "blocks": server.room.blocks,
        "block_size": server.room.block_size,
        "max_num_seqs": server.room.seats,
        "max_num_batched_tokens": server.room.budget,
        "stepwise": server.stepwise,
    }
