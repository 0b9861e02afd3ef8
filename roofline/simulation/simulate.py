"""`simulate`: a deployment, a workload, and what becomes of its requests."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.simulation.asking import ask
from roofline.simulation.figures import summarise
from roofline.simulation.result import Simulation
from roofline.simulation.rows import Rows
from roofline.simulation.run import run
from roofline.simulation.server import serve
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.traffic.scalars import parse_share
from roofline.units import parse_count

WARM_UP = 0.1
"""Share of the requests that are cut where runs are repeated."""
_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""What `analyze` is asked about: here the workload says it."""


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
        does not
            fit.
    """
    notes: list[Assumption] = []
    asked = ask(
        trace=trace, workload=workload, rate=rate, requests=requests, until=until, skip_bad_rows=skip_bad_rows, notes=notes,
        input_len=input_len, output_len=output_len, ttft=ttft, tpot=tpot,
    )  # fmt: skip
    server = serve(
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
    return summarise(server, asked, runs, notes, first_seed, share)


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
