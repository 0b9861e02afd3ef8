"""One run of a workload on a server, which Ctrl-C and SIGTERM end early: what was counted so far is whole.

The log of a run is written row by row; only while its rows are added up must nothing interrupt.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Self

from roofline.errors import InputError, TerminatedError
from roofline.serving.simulation.disaggregation import (
    FIRST_TOKENS,
    OpenSource,
    PoolLog,
    Transfers,
    TransferSums,
    disaggregated_loop,
)
from roofline.serving.simulation.metrics import Metrics, PoolSums, Utilization
from roofline.serving.simulation.perfetto import Trace
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.request_writer import RequestWriter
from roofline.serving.simulation.router import ROUTERS, AnyReplica, Refuse, Source, dependent_loop, open_loop
from roofline.serving.simulation.server import ServerConfig
from roofline.serving.simulation.step_log import StepLog
from roofline.serving.simulation.workload import MAX_UNFINISHED, Workload

_MAX_REFUSALS = 5


@dataclass
class Run:
    """One run: its metrics, and its refused requests.

    Args:
        metrics: sums over the run.
        num_warm_up: the first requests, which are not counted.
    """

    metrics: Metrics
    num_warm_up: int = 0
    num_arrived: int = 0
    num_refused: int = 0
    num_ended: int = 0
    num_preemptions: int = 0
    first_arrival: float = math.inf
    last_arrival: float = 0.0
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """The first refused requests, with the reason."""
    stopped: bool = False
    """Whether the user ended it."""
    pools: list[PoolSums] = field(default_factory=list)
    """Sums over the steps of each pool, where there are several."""
    transfers: TransferSums | None = None
    """Caches that were sent from one pool to another."""

    def read(self, logs: Sequence[StepLog]) -> None:
        """Add the rows of the logs of all pools to the sums, and empty them."""
        if not self.pools:
            self.metrics.read(logs[0])
            return
        for log, pool in zip(logs, self.pools, strict=True):
            self.metrics.read(log, pool)
        if self.transfers is not None:
            self.transfers.read()


@dataclass(frozen=True)
class Observers:
    """What follows a run.

    Args:
        rows: writes a row per request.
        trace: writes a trace for Perfetto.
        interrupts: with it Ctrl-C ends the run.
        progress: called now and then with how many requests have ended, of how many (None: unknown).
    """

    rows: RequestWriter | None = None
    trace: Trace | None = None
    interrupts: Interrupts | None = None
    progress: Callable[[int, int | None], None] | None = None


def run(
    server: ServerConfig, workload: Workload, seed: Iterable[int], warm_up_share: float, observers: Observers = Observers()
) -> Run:
    """Simulate one run of a workload.

    Args:
        server: what is simulated.
        workload: its requests.
        seed: of all that is drawn at random.
        warm_up_share: share of the requests, the first ones, that is not counted; 0 to below 1.
        observers: what follows the run.

    Raises:
        InputError: a share of an unknown number of requests; more unfinished requests at a time than a run holds.
        NoProgressError: requests wait, and none of them can ever run.
    """
    expected = workload.num_expected
    if warm_up_share and expected is None:
        raise InputError("--warm-up: it is not known how many requests will come; give --requests")
    num_warm_up = workload.warm_up or (int(warm_up_share * expected) if expected is not None else 0)
    metrics = _metrics(server, workload, num_warm_up, observers.rows)
    result = Run(metrics, num_warm_up=num_warm_up)
    recomputes = server.transfer is not None and server.transfer.first_token == FIRST_TOKENS[2]
    result.pools = [
        PoolSums(Utilization(pool.server.tables), gives_tokens=not (recomputes and pool.role == "prefill"))
        for pool in server.pools
    ]
    trace, interrupts = observers.trace, observers.interrupts
    whole, running = (nullcontext, nullcontext) if interrupts is None else (interrupts.whole, interrupts.running)

    def read(_: StepLog) -> None:
        with whole():
            result.read(logs)
        if observers.progress is not None:
            observers.progress(sum(log.num_ended for log in logs), expected)

    parts = [pool.server for pool in server.pools] or [server]
    make_log = PoolLog if server.transfer else StepLog
    logs = [make_log(read) for _ in parts]
    pools: list[Sequence[AnyReplica]] = []
    num_ranks = 0
    for index, (part, log) in enumerate(zip(parts, logs, strict=True)):
        label = server.pools[index].name if server.pools else ""
        pools.append(_replicas(part, log, num_ranks, trace, label))
        num_ranks += part.replicas * part.tables.ranks
    refuse = _gate(server, result, logs, pools, trace)
    rng_seed = tuple(seed)
    source: Source | None = workload.dependent_requests(rng_seed) if workload.dependent else None
    try:
        with running():
            if server.transfer is not None:
                prefill, decode = pools
                routes = tuple(ROUTERS[part.router].route(pool) for part, pool in zip(parts, pools, strict=True))
                transfers = Transfers(
                    prefill, decode, server.transfer, server.transfer.first_token, None if trace is None else trace.transferred
                )
                result.transfers = TransferSums(transfers.rows)
                served = source or OpenSource(workload.open_requests(rng_seed))
                disaggregated_loop(served, prefill, decode, (routes[0], routes[1]), transfers, refuse, logs)
            else:
                replicas = [replica for pool in pools for replica in pool]
                route = ROUTERS[server.router].route(replicas)
                if source is not None:
                    dependent_loop(source, replicas, route, refuse, logs)
                else:
                    open_loop(workload.open_requests(rng_seed), replicas, route, refuse)
            read(logs[0])
    except StoppedError:
        result.stopped = True
        result.read(logs)
    result.num_preemptions, result.num_ended = (
        sum(log.num_preemptions for log in logs), sum(log.num_ended for log in logs),
    )  # fmt: skip
    return result


def _replicas(part: ServerConfig, log: StepLog, first: int, trace: Trace | None, label: str) -> Sequence[AnyReplica]:
    """The replicas of a deployment, whose ranks are counted from `first` on."""
    num_ranks = part.tables.ranks
    ranks = [
        Replica(
            part.scheduler, part.tables, part.config, log=log, preemption=part.preemption, index=index, stepwise=part.stepwise
        )
        for index in range(first, first + part.replicas * num_ranks)
    ]  # fmt: skip
    if trace is not None:
        for rank in ranks:
            rank.scheduler.watch = trace.watch(rank, label or "replica")
    if num_ranks == 1:
        return ranks
    router = ROUTERS[part.router]
    groups = [ranks[at : at + num_ranks] for at in range(0, len(ranks), num_ranks)]
    return [RankGroup(group, part.tables, router.route(group), balanced=part.attention_dp_balance) for group in groups]


def _metrics(server: ServerConfig, workload: Workload, num_warm_up: int, rows: RequestWriter | None) -> Metrics:
    objectives = {
        index: (one.ttft or math.inf, one.tpot or math.inf)
        for index, one in enumerate(workload.classes)
        if one.ttft or one.tpot
    }
    return Metrics(
        num_warm_up=num_warm_up,
        objectives=objectives,
        utilization=None if server.pools else Utilization(server.tables),
        rows=rows.write if rows else None,
    )


def _gate(  # noqa: C901 - two functions that share their numbers
    server: ServerConfig, result: Run, logs: Sequence[StepLog], pools: Sequence[Sequence[AnyReplica]], trace: Trace | None
) -> Refuse:
    """Counts the requests that arrive, and refuses those that could never be served: by some pool, where there are several.

    Raises:
        InputError: by the function that is returned: more unfinished requests at a time than a run holds.
    """
    # sequences of this many tokens are never refused: the last token is not cached
    batches = result.metrics.batches
    parts = [pool.server for pool in server.pools] or [server]
    labels = [f"the {pool.name} pool: " for pool in server.pools] or [""]
    firsts = [replicas[0].ranks[0] if isinstance(replicas[0], RankGroup) else replicas[0] for replicas in pools]
    always = min(
        min(part.max_model_len, (part.config.num_gpu_blocks - part.config.num_fixed_blocks) * part.config.block_size + 1)
        for part in parts
    )

    def reason(request: Request) -> str | None:
        """Why some pool could never serve it."""
        for part, label, replica in zip(parts, labels, firsts, strict=True):
            one = request
            if replica.scheduler.handoff is not None:  # it has the prompt alone
                one = Request(request.index, request.arrival_time, request.num_prompt_tokens, 1)
            num_tokens = one.num_prompt_tokens + one.max_tokens
            if num_tokens > part.max_model_len:
                return f"{label}{num_tokens:,} tokens are more than the {part.max_model_len:,} of a sequence"
            if (why := replica.refusal(one)) is not None:
                return f"{label}{why}"
        return None

    def refuse(request: Request) -> bool:
        result.num_arrived += 1
        time = result.last_arrival = request.arrival_time
        if request.index == 0:
            result.first_arrival = time
        if request.index >= batches.next_index:
            batches.begin(time)
        num_tokens = request.num_prompt_tokens + request.max_tokens
        if num_tokens <= always or (why := reason(request)) is None:
            unfinished = result.num_arrived - result.num_refused
            if unfinished > MAX_UNFINISHED and unfinished - sum(log.num_ended for log in logs) > MAX_UNFINISHED:
                raise InputError(
                    f"{MAX_UNFINISHED:,} requests run or wait {time:,.4g} s after the start, and a run holds no more: "
                    "give fewer --requests, a lower rate, or more --replicas"
                )
            return False
        result.num_refused += 1
        if trace is not None:
            trace.refused(request)
        if len(result.refusals) < _MAX_REFUSALS:
            result.refusals.append(
                {"request": request.index, "prompt": request.num_prompt_tokens, "answer": request.max_tokens, "why": why}
            )
        return True

    return refuse


class StoppedError(BaseException):
    """The user ends the run. As with `KeyboardInterrupt`, no handler on the way may take it for an error."""


class Interrupts:
    """Turns SIGINT and SIGTERM into `StoppedError` within `running`; within `whole` the error waits for its end. Anywhere else
    a signal is only noted (`requested`). A second one is a `KeyboardInterrupt`; a second SIGTERM changes nothing, since
    `timeout` sends two.

    Where no signal can be caught (any thread but the main one) nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._running = self._deferred = False
        self._first = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._caught) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Return a context within which a signal ends the run.

        Raises:
            StoppedError: a signal came, now or before.
        """
        self._running = True
        try:
            self._raise()
            yield
        finally:
            self._running = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Return a context within which nothing interrupts.

        Raises:
            StoppedError: at its end, if a signal came within it and the run is in `running`.
        """
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self._raise()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if number == self._first == signal.SIGTERM:
                return
            raise TerminatedError if number == signal.SIGTERM else KeyboardInterrupt
        self.requested, self._first = True, number
        if not self._deferred:
            self._raise()

    def _raise(self) -> None:
        if self.requested and self._running:
            raise StoppedError
