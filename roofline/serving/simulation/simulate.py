"""`simulate`: a deployment, a workload, and what becomes of its requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.predict.request import Request
from roofline.serving.preemption.copies import parse_host_copy
from roofline.serving.simulation.asking import ask
from roofline.serving.simulation.figures import nothing, summarise
from roofline.serving.simulation.interrupts import Interrupts
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.room import NoRoomError
from roofline.serving.simulation.rows import Rows
from roofline.serving.simulation.run import Run, Watchers, run
from roofline.serving.simulation.server import Server, deployed, serve
from roofline.serving.simulation.workload import Workload
from roofline.serving.traffic.scalars import parse_share
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.units import parse_count
from roofline.version import __version__

if TYPE_CHECKING:
    from roofline.serving.simulation.perfetto import Trace

WARM_UP = 0.1
"""Share of the requests that are cut where runs are repeated."""
MOST_REPLICATIONS = 1000
"""Runs whose counts are held together; intervals of 100 are a third as wide as those of 10."""
_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""What `analyze` is asked about: here the workload says it."""


@files.run()  # its inputs are not written over from Python either
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
    num_gpu_blocks_override: int | str | None = None,
    host_link: float | str | None = None,
    pinned: bool = True,
    coalesced: bool = False,
    gpus_per_link: int | str | None = None,
    host_memory: float | str | None = None,
    basis: str | None = None,
    seed: int | str | None = None,
    replications: int | str | None = None,
    warm_up: float | str | None = None,
    skip_bad_rows: bool = False,
    rows: str | PathLike[str] | None = None,
    perfetto: str | PathLike[str] | None = None,
    stepwise: bool = False,
    interrupts: Interrupts | None = None,
    told: Callable[[int, int | None], None] | None = None,
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
        scheduler: `vllm-v1` (default), `vllm-v1-async`, `vllm-v0`, `sarathi`, `orca`, `static`, `sjf`, `priority`.
        preemption: `recompute` (default), `swap`, or `cheaper`: of the two, by the closed form.
        num_gpu_blocks_override: blocks of a replica, in place of those that there is room for.
        host_link: of copies to the host and back, as are the next four: bytes/s that large ones reach in one direction.
        pinned: whether the host's memory is page-locked.
        coalesced: blocks are gathered and cross in one call each way, not in one a block, layer and tensor.
        gpus_per_link: devices behind one link to the host; those of a replica copy at the same time.
        host_memory: bytes for the evicted sequences of a replica; default: its share of the node's.
        basis: `estimate` of step times (default where kernels were measured) or `bound`.
        seed: of all that is drawn at random.
        replications: runs with other seeds, for confidence intervals.
        warm_up: share of the requests that are not counted; default: none, 10 % of each of several runs.
        skip_bad_rows: leave broken rows of a trace out.
        rows: a `.csv` or `.parquet` file for a row a request, written as they end.
        perfetto: a `.json` or `.json.gz` file for a trace of one run, which ui.perfetto.dev shows.
        stepwise: do every step on its own: slower, for checking.
        interrupts: what Ctrl-C does: with it the run ends, and the result is of what was served so far (`interrupted`).
        told: hears now and then how many requests have ended, of how many (None: nobody knows).
        **deployment: the options of `roofline analyze` that describe the deployment.

    Returns:
        The result, without figures where the deployment does not fit (`fits`). `.to_dict()` has the layout of
        `roofline simulate --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    notes: list[Assumption] = []
    asked = ask(
        trace=trace, workload=workload, rate=rate, requests=requests, until=until, skip_bad_rows=skip_bad_rows, notes=notes,
        input_len=input_len, output_len=output_len, ttft=ttft, tpot=tpot,
    )  # fmt: skip
    copies = parse_host_copy(
        host_link=host_link, pinned=pinned, coalesced=coalesced, gpus_per_link=gpus_per_link, host_memory=host_memory
    )
    request = deployed(model, hardware, deployment)
    try:
        server = serve(
            request, scheduler=scheduler, preemption=preemption, basis=basis, replicas=replicas, balancer=balancer,
            stepwise=stepwise, notes=notes, num_gpu_blocks_override=num_gpu_blocks_override, copies_to=copies,
            keeps=bool(deployment.get("enable_prefix_caching")),
        )  # fmt: skip
    except NoRoomError as error:
        return nothing(request, asked, [*notes, *_about(request)], str(error))
    many = 1 if replications is None else parse_count(replications, "--replications", minimum=1)
    if many > MOST_REPLICATIONS:
        raise InputError(f"--replications must be at most {MOST_REPLICATIONS:,}, not {many:,}")
    if many > 1 and not asked.random:
        raise InputError("--replications: a trace is the same in each of them; give arrivals by --workload, such as poisson:8")
    first_seed = 0 if seed is None else parse_count(seed, "--seed")
    share = _share(warm_up, many, asked.warm_up, notes)
    names = tuple(one.name for one in asked.classes)
    if many > 1 and perfetto is not None:
        raise InputError("--perfetto shows one run: leave out --replications")
    with ExitStack() as results:
        listed = None if rows is None else results.enter_context(Rows(Path(rows), names))
        traced = None if perfetto is None else results.enter_context(_trace(Path(perfetto), server, asked.source, interrupts))
        runs = _runs(server, asked, first_seed, many, share, Watchers(listed, traced, interrupts, told))
    notes += _about(request)
    return summarise(server, asked, runs, notes, first_seed, share)


def _about(request: Request) -> list[Assumption]:
    """What is taken to be so of the deployment."""
    return [note for note in request.assumptions if note.name not in _OF_A_STEP]


def _runs(server: Server, asked: Workload, seed: int, many: int, share: float, watchers: Watchers) -> list[Run]:
    """So many runs; or those that were whole when somebody put an end to it, or what there is of the first."""
    found: list[Run] = []
    for index in range(many):
        one = run(server, asked, (seed, index), share, watchers)
        if not one.stopped or not found:
            found.append(one)
        if one.stopped:
            for each in found:
                each.stopped = True
            break
    return found


def _trace(path: Path, server: Server, source: str, interrupts: Interrupts | None) -> Trace:
    from roofline.serving.simulation.perfetto import Trace

    request = server.request
    about = {
        "tool": f"roofline {__version__}", "model": request.model.name, "hardware": request.hardware.name,
        "scheduler": server.scheduler.name, "preemption": server.preempting.mode, "basis": server.tables.basis,
        "workload": source,
    }  # fmt: skip
    return Trace(path, about) if interrupts is None else Trace(path, about, interrupts.whole)


def _share(warm_up: Any, many: int, cut: int, notes: list[Assumption]) -> float:
    if cut:  # the workload says which requests are not counted
        if warm_up is not None:
            raise InputError("--warm-up: the workload has a warm-up of its own; leave one of them out")
        return 0.0
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
