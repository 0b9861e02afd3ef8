"""`simulate`: a deployment, a workload, and what becomes of its requests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from roofline.errors import InputError, UnknownNameError
from roofline.predict.analyze import facts
from roofline.predict.request import Request, prepare
from roofline.simulation.asking import ask
from roofline.simulation.balancers import BALANCERS, balancer
from roofline.simulation.book import Book
from roofline.simulation.busy import Busy
from roofline.simulation.costs import preempting
from roofline.simulation.eviction import Preempting
from roofline.simulation.job import Job
from roofline.simulation.loop import closed_loop, open_loop
from roofline.simulation.parts import Basis
from roofline.simulation.replica import Replica, Room
from roofline.simulation.replicate import intervals
from roofline.simulation.result import QUANTILES, Latency, Requests, Simulation
from roofline.simulation.room import longest, room
from roofline.simulation.rows import Rows
from roofline.simulation.schedulers import Scheduler, scheduler
from roofline.simulation.tables import StepTables
from roofline.simulation.tally import TIMES, Tally
from roofline.simulation.workload import Workload
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.traffic.scalars import parse_share
from roofline.units import parse_count

WARM_UP = 0.1
"""Share of the requests that are cut where runs are repeated."""
_TOLD = 5  # refusals
_DEFAULT = "vllm-v1"
_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""What `analyze` is asked about: here the workload says it."""


@dataclass(frozen=True)
class Server:
    """Replicas of a deployment, all that a run needs of them."""

    request: Request
    scheduler: Scheduler
    room: Room
    longest: int
    tables: StepTables
    preempting: Preempting
    replicas: int
    balancer: str
    stepwise: bool = False


@dataclass
class Run:
    """One run: what was counted, and who was refused."""

    tally: Tally
    arrived: int = 0
    refused: int = 0
    cut: int = 0
    preemptions: int = 0
    first: float = math.inf
    """When the first request came, and the last."""
    latest: float = 0.0
    refusals: tuple[dict[str, Any], ...] = ()


def simulate(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    trace: Any = None,
    workload: Any = None,
    rate: float | str | None = None,
    input_len: Any = None,
    output_len: Any = None,
    requests: int | str | None = None,
    until: float | str | None = None,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    replicas: int | str | None = None,
    balancer: str | None = None,
    scheduler: str | None = None,
    preemption: str | None = None,
    basis: str | None = None,
    seed: int | str | None = None,
    replications: int | str | None = None,
    warm_up: float | str | None = None,
    skip_bad_rows: bool = False,
    rows: str | PathLike[str] | None = None,
    stepwise: bool = False,
    **deployment: Any,
) -> Simulation:
    """Serve requests one event after another.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: likewise.
        trace: a CSV or Parquet file of requests with their arrivals; or without, beside a rate or a workload.
        workload: `poisson:8`, `gamma:8:2`, `constant:8`, `bursty:8:4`, `closed:32`, `at-once:1000`, or a YAML file of traffic.
        rate: requests/s; of a trace its arrivals are stretched.
        input_len: tokens of prompts, a distribution such as `lognormal:1155:900`; the trace has its own.
        output_len: the same of answers.
        requests: how many come, at most.
        until: seconds (or a text with a unit) after which none comes; those that have come are answered.
        ttft: seconds to the first token that count as good.
        tpot: the same of each later token, on average over a request.
        replicas: copies of the deployment behind the balancer.
        balancer: `round-robin` or `least-loaded`.
        scheduler: `vllm-v1` (default), `vllm-v0`, `sarathi`, `orca`, `static`, `sjf`, `priority`.
        preemption: `recompute` (default), `swap`, or `cheaper`: of the two, by the closed form.
        basis: `estimate` of step times (default where kernels were measured) or `bound`.
        seed: of all that is drawn at random.
        replications: runs with other seeds, for confidence intervals.
        warm_up: share of the requests that are not counted; default: none, 10 % of each of several runs.
        skip_bad_rows: leave broken rows of a trace out.
        rows: a `.csv` or `.parquet` file for a row a request, written as they end.
        stepwise: do every step on its own: slower, for checking.
        **deployment: the options of `roofline analyze` that describe the deployment.

    Returns:
        The result; `.to_dict()` has the layout of `roofline simulate --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be, a deployment that
        does
            not fit.
    """
    notes: list[Assumption] = []
    asked = ask(
        trace=trace, workload=workload, rate=rate, requests=requests, until=until, skip_bad_rows=skip_bad_rows, notes=notes,
        input_len=input_len, output_len=output_len, ttft=ttft, tpot=tpot,
    )  # fmt: skip
    server = _server(
        model, hardware, deployment, scheduler=scheduler, preemption=preemption, basis=basis, replicas=replicas,
        balancer=balancer, stepwise=stepwise, notes=notes,
    )  # fmt: skip
    many = 1 if replications is None else parse_count(replications, "--replications", minimum=1)
    if many > 1 and not asked.random:
        raise InputError("--replications: a trace is the same in each of them; give arrivals by --workload, such as poisson:8")
    first_seed = 0 if seed is None else parse_count(seed, "--seed")
    share = _share(warm_up, many, notes)
    names = tuple(one.name for one in asked.classes)
    if rows is None:
        runs = [run(server, asked, (first_seed, index), share, None) for index in range(many)]
    else:
        with Rows(Path(rows), names) as file:
            runs = [run(server, asked, (first_seed, index), share, file) for index in range(many)]
    notes += [note for note in server.request.assumptions if note.name not in _OF_A_STEP]
    return _result(server, asked, runs, notes, first_seed, share)


def _server(
    model: Any, hardware: Any, deployment: dict[str, Any], *, scheduler: str | None, preemption: str | None, basis: str | None,
    replicas: Any, balancer: str | None, stepwise: bool, notes: list[Assumption],
) -> Server:  # fmt: skip
    request = prepare(model, hardware, **deployment, batch=1, input_len=1, context=1)
    if request.deployment.data_parallel_size > 1:
        raise InputError("--data-parallel-size: replicas here are independent of each other; give --replicas")
    if request.deployment.conventions.shared_prefix:
        raise InputError("--shared-prefix is not simulated: leave it out")
    policy = _scheduler(scheduler, notes)
    held = room(request, policy, notes)
    chosen = _basis(basis, request, notes)
    copies = 1 if replicas is None else parse_count(replicas, "--replicas", minimum=1)
    way = balancer or "round-robin"
    if way not in BALANCERS:
        raise UnknownNameError("balancer", way, BALANCERS, list_all=True)
    if copies > 1 and balancer is None:
        notes.append(Assumption("balancer", way, "default", "requests are dealt to the replicas in turn"))
    most = longest(request)
    notes.append(
        Assumption("prefix_caching", False, "default", "no prompt finds its tokens cached, nor does one that is computed again")
    )
    return Server(
        request=request,
        scheduler=policy,
        room=held,
        longest=most,
        tables=StepTables(request, chosen, most, held.seats),
        preempting=preempting(request, preemption, notes),
        replicas=copies,
        balancer=way,
        stepwise=stepwise,
    )


def _scheduler(name: str | None, notes: list[Assumption]) -> Scheduler:
    found = scheduler(name or _DEFAULT)
    notes.append(Assumption("scheduler", found.name, "given" if name else "default", found.about))
    return found


def _basis(name: str | None, request: Request, notes: list[Assumption]) -> Basis:
    if name not in (None, "estimate", "bound"):
        raise UnknownNameError("basis", name, ("estimate", "bound"), list_all=True)
    applies = request.estimator.applies
    if name == "estimate" and not applies:
        raise InputError(f"--basis estimate: no kernels of {request.hardware.name} were measured; the bound is known")
    if name == "bound" or not applies:
        why = "no kernel is faster than the hardware, and the engine adds nothing: no server is as quick"
        notes.append(Assumption("basis", "bound", "given" if name else "assumed", why))
        return "bound"
    notes.append(
        Assumption("basis", "estimate", "given" if name else "default", "step times as measured kernels and the engine take")
    )
    return "estimate"


def _share(warm_up: Any, many: int, notes: list[Assumption]) -> float:
    if warm_up is None:
        if many > 1:
            notes.append(
                Assumption("warm_up", WARM_UP, "default", "of the requests of each run, its first ones, are not counted")
            )
        return WARM_UP if many > 1 else 0.0
    try:
        return parse_share(warm_up)
    except InputError as error:
        raise InputError(f"--warm-up: {error}") from None


def run(server: Server, asked: Workload, seed: Iterable[int], share: float, rows: Rows | None) -> Run:
    """One run."""
    objectives = {
        kind: (one.ttft or math.inf, one.tpot or math.inf) for kind, one in enumerate(asked.classes) if one.ttft or one.tpot
    }
    expected = asked.expected
    cut = int(share * expected) if expected is not None else 0
    if share and expected is None:
        raise InputError("--warm-up: nobody knows how many requests will come; give --requests")
    tally = Tally(
        cut=cut,
        after=math.inf if cut else 0.0,
        objectives=objectives,
        busy=Busy(server.tables),
        rows=rows.write if rows else None,
    )
    found = Run(tally, cut=cut)
    book = Book(tally.read)
    replicas = [
        Replica(
            server.scheduler, server.tables, server.room, book=book, preempting=server.preempting, index=index,
            stepwise=server.stepwise,
        )
        for index in range(server.replicas)
    ]  # fmt: skip
    refusals: list[dict[str, Any]] = []

    # so many tokens, prompt and answer, are never refused: the last is not cached
    most = min(server.longest, (server.room.blocks - server.room.own) * server.room.block_size + 1)

    def refuse(job: Job) -> bool:
        found.arrived += 1
        at = found.latest = job.arrived
        if job.index == 0:
            found.first = at
        if cut and job.index == cut:
            tally.after = at
        total = job.prompt + job.answer
        if total <= most:
            return False
        why = f"{total:,} tokens are more than the {server.longest:,} of a sequence" if total > server.longest else None
        why = why or replicas[0].refusal(job)
        found.refused += 1
        if len(refusals) < _TOLD:
            refusals.append({"request": job.index, "prompt": job.prompt, "answer": job.answer, "why": why})
        return True

    pick = balancer(server.balancer, replicas)
    numbers = tuple(seed)
    if asked.closed:
        starts = [one.ramp * index / one.clients for one in asked.clients for index in range(one.clients)]
        closed_loop(
            asked.lengths(numbers), starts, replicas, pick, refuse, book, think=asked.clients[0].think, until=asked.until
        )
    else:
        open_loop(asked.jobs(numbers), replicas, pick, refuse)
    tally.read(book)
    found.preemptions, found.refusals = book.preemptions, tuple(refusals)
    return found


def _result(
    server: Server, asked: Workload, runs: list[Run], notes: list[Assumption], seed: int, share: float
) -> Simulation:  # fmt: skip
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
    files: dict[str, Any] = {}
    for entry in (*server.request.inputs, *(file for one in asked.classes for file in one.inputs)):
        files.setdefault(entry.role, {"name": entry.name, "path": entry.path, "sha256": entry.sha256})
    return Simulation(
        inputs=files,
        **facts(server.request),
        workload=_workload(asked, seed, share),
        server=_described(server),
        requests=Requests(
            arrived=sum(one.arrived for one in runs),
            completed=sum(one.arrived - one.refused for one in runs),
            refused=sum(one.refused for one in runs),
            preemptions=sum(one.preemptions for one in runs),
            preempted=sum(one.tally.preempted for one in runs),
            cut=sum(one.cut for one in runs),
        ),
        refusals=runs[0].refusals,
        duration_s=means["duration_s"] or 0.0,
        offered_rate=offered,
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
        assumptions=tuple(notes),
        replications=intervals(figures) if len(runs) > 1 else None,
    )


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
        "warm_up": share,
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
