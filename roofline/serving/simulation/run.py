"""One run of a workload on a server, which Ctrl-C and SIGTERM end early: what was counted so far is whole.

The log of a run is written row by row; only while its rows are added up must nothing interrupt.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Self

from roofline.errors import InputError, TerminatedError
from roofline.serving.simulation.disaggregation import (
    FIRST_TOKENS,
    PoolLog,
    Transfers,
    TransferSums,
    disaggregated_loop,
)
from roofline.serving.simulation.fleet import Fleet, FleetRecord
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.kv_tiers import KVTiers, Tier
from roofline.serving.simulation.lora import AdapterSlots, LoraRecord
from roofline.serving.simulation.metrics import Metrics, PoolSums, Utilization
from roofline.serving.simulation.perfetto import Trace
from roofline.serving.simulation.queues import for_run
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.request_writer import RequestWriter
from roofline.serving.simulation.router import (
    ROUTERS,
    AnyReplica,
    OpenSource,
    Refuse,
    Source,
    dependent_loop,
    open_loop,
    ordered_loop,
)
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
    num_shed: int = 0
    num_ended: int = 0
    num_failed: int = 0
    num_preemptions: int = 0
    num_rounds: int = 0
    """Rounds of speculative decoding, of sequences that no longer decode."""
    num_accepted_tokens: int = 0
    """Drafted tokens that were accepted in them."""
    first_arrival: float = math.inf
    last_arrival: float = 0.0
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """The first refused requests, with the reason."""
    stopped: bool = False
    """Whether the user ended it."""
    lora: LoraRecord | None = None
    """What adapters took; None where requests have none."""
    fleet: FleetRecord | None = None
    """What happened to a fleet that changes; None of one that does not."""
    tiers: tuple[KVTiers, ...] = ()
    """KV cache tiers of each replica."""
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

    def count(self, logs: Sequence[StepLog]) -> None:
        """Take what the logs of all pools have counted."""
        self.num_ended, self.num_failed = sum(log.num_ended for log in logs), sum(log.num_failed for log in logs)
        self.num_preemptions, self.num_shed = sum(log.num_preemptions for log in logs), sum(log.num_shed for log in logs)
        self.num_rounds = sum(log.num_rounds for log in logs)
        self.num_accepted_tokens = sum(log.num_accepted_tokens for log in logs)


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
            observers.progress(sum(log.num_ended + log.num_shed for log in logs), expected)

    make_log, num_pools = PoolLog if server.transfer else StepLog, max(len(server.pools), 1)
    logs = [make_log(read) for _ in range(num_pools)]
    rng_seed = tuple(seed)
    result.tiers = tuple(_tiers(server))
    result.lora = None if server.lora is None else LoraRecord()
    makers = _makers(server, workload, rng_seed, logs, trace, result)
    refuse = _gate(server, result, logs, trace, rng_seed)
    fleet, pools = None, []
    if server.fleet is not None:
        fleet = Fleet(server.fleet, makers[0], ROUTERS[server.router].route, logs[0], rng_seed)
    else:
        pools = [[make(index) for index in range(part.replicas)] for part, make in zip(server.parts, makers, strict=True)]
    try:
        with running():
            if fleet is not None:
                fleet.serve(_source(workload, rng_seed), refuse, dependent=workload.dependent)
            else:
                _serve(server, workload, rng_seed, pools, refuse, logs, result, trace)
            read(logs[0])
    except StoppedError:
        result.stopped = True
        result.read(logs)
    result.count(logs)
    for log in logs:
        log.read = None  # a cycle: tables of many megabytes would wait for the garbage collector
    if fleet is not None:
        result.fleet = fleet.finish(max(metrics.last, result.last_arrival))
        metrics.add_fleet(result.fleet)
    return result


def _serve(
    server: ServerConfig, workload: Workload, seed: tuple[int, ...], pools: Sequence[Sequence[AnyReplica]], refuse: Refuse,
    logs: Sequence[StepLog], result: Run, trace: Trace | None,
) -> None:  # fmt: skip
    """Serve all requests on replicas that stay."""
    if server.transfer is not None:
        prefill, decode = pools
        routes = [ROUTERS[part.server.router].route(pool) for part, pool in zip(server.pools, pools, strict=True)]
        watch = None if trace is None else trace.transferred
        transfers = Transfers(prefill, decode, server.transfer, server.transfer.first_token, watch)
        result.transfers = TransferSums(transfers.rows)
        disaggregated_loop(_source(workload, seed), prefill, decode, (routes[0], routes[1]), transfers, refuse, logs)
        return
    replicas = [replica for pool in pools for replica in pool]
    route = ROUTERS[server.router].route(replicas)
    if workload.dependent:
        dependent_loop(workload.dependent_requests(seed), replicas, route, refuse, logs)
    elif server.offload is not None and server.offload.shares:
        ordered_loop(workload.open_requests(seed), replicas, route, refuse, logs)
    else:
        open_loop(workload.open_requests(seed), replicas, route, refuse)


def _source(workload: Workload, seed: tuple[int, ...]) -> Source:
    return workload.dependent_requests(seed) if workload.dependent else OpenSource(workload.open_requests(seed))


def _makers(
    server: ServerConfig, workload: Workload, seed: tuple[int, ...], logs: Sequence[StepLog], trace: Trace | None,
    result: Run,
) -> list[Callable[[int], AnyReplica]]:  # fmt: skip
    """What makes the replicas of each pool, all ranks of which are counted through."""
    makers = []
    names = [pool.name for pool in server.pools] or ["replica"]
    num_ranks = 0
    for part, name, log in zip(server.parts, names, logs, strict=True):
        makers.append(_maker(part, workload, seed, log, trace, result, first=num_ranks, label=name))
        num_ranks += part.replicas * part.tables.ranks
    return makers


def _maker(
    server: ServerConfig, workload: Workload, seed: tuple[int, ...], log: StepLog, trace: Trace | None, result: Run, *,
    first: int, label: str,
) -> Callable[[int], AnyReplica]:  # fmt: skip
    """A function that makes the replica with a number; the ranks of all are counted from `first` on."""
    num_ranks, router, config = server.tables.ranks, ROUTERS[server.router], server.config
    if config.speculation is not None:
        config = replace(config, speculation=replace(config.speculation, seed=seed))
    weights = [one.weight for one in workload.classes]
    policy = replace(server.scheduler, queue=for_run(server.scheduler.queue, weights, seed))
    control, objectives = server.admission.control, [one.ttft or math.inf for one in workload.classes]

    def make_rank(index: int) -> Replica:
        rank = Replica(
            policy, server.tables, config, log=log, preemption=server.preemption, index=index,
            stepwise=server.stepwise, tiers=result.tiers[index] if result.tiers else None,
            admission=None if control is None else control(objectives),
            adapters=None if server.lora is None else AdapterSlots(server.lora, result.lora),
        )  # fmt: skip
        if trace is not None:
            rank.scheduler.watch = trace.watch(rank, label)
        return rank

    def make(index: int) -> AnyReplica:
        group = [make_rank(first + index * num_ranks + rank) for rank in range(num_ranks)]
        if num_ranks == 1:
            return group[0]
        return RankGroup(group, server.tables, router.route(group), balanced=server.attention_dp_balance)

    return make


def _tiers(server: ServerConfig) -> list[KVTiers]:
    """The KV cache tiers of each replica, none where there are none; shared ones are the same for all."""
    offload = server.offload
    if offload is None:
        return []
    size = offload.block_size
    shared = {tier.name: Tier(tier, size) for tier in offload.tiers if tier.shared}
    return [
        KVTiers(
            [shared.get(tier.name) or Tier(tier, size) for tier in offload.tiers],
            server.tables, server.config.max_num_batched_tokens, size, always=offload.always,
        )
        for _ in range(server.replicas)
    ]  # fmt: skip


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
    server: ServerConfig, result: Run, logs: Sequence[StepLog], trace: Trace | None, seed: tuple[int, ...]
) -> Refuse:
    """Counts the requests that arrive, gives them their adapters, and refuses those that could never be served (by some pool,
    where there are several), or that the gate does not admit.

    Raises:
        InputError: by the function that is returned: more unfinished requests at a time than a run holds.
    """
    # sequences of this many tokens are never refused: the last token is not cached
    batches = result.metrics.batches
    gate = None if server.admission.gate is None else server.admission.gate()
    parts = server.parts
    labels = [f"the {pool.name} pool: " for pool in server.pools] or [""]
    of_prompts = [server.transfer is not None and pool.role == "prefill" for pool in server.pools] or [False]
    probes = [Replica(part.scheduler, part.tables, part.config) for part in parts]
    always = min(min(part.max_model_len, _held(part.config, probe)) for part, probe in zip(parts, probes, strict=True))

    def reason(request: Request) -> str | None:
        """Why some pool could never serve it."""
        for part, label, of_prompt, probe in zip(parts, labels, of_prompts, probes, strict=True):
            one = request
            if of_prompt:  # it has the prompt alone
                one = Request(request.index, request.arrival_time, request.num_prompt_tokens, 1)
            num_tokens = one.num_prompt_tokens + one.max_tokens
            if num_tokens > part.max_model_len:
                return f"{label}{num_tokens:,} tokens are more than the {part.max_model_len:,} of a sequence"
            if (why := probe.refusal(one)) is not None:
                return f"{label}{why}"
        return None

    draw = None if server.lora is None else server.lora.draws(seed)

    def refuse(request: Request) -> bool:
        result.num_arrived += 1
        if draw is not None:
            draw(request)
        time = result.last_arrival = request.arrival_time
        if request.index == 0:
            result.first_arrival = time
        if request.index >= batches.next_index:
            batches.begin(time)
        num_tokens = request.num_prompt_tokens + request.max_tokens
        if num_tokens <= always or (why := reason(request)) is None:
            if gate is not None and not gate.admits(request):
                logs[0].note_shed(request, time)
                _trace_refused(trace, request, "shed")
                return True
            unfinished = result.num_arrived - result.num_refused
            if unfinished > MAX_UNFINISHED and unfinished - sum(map(_num_gone, logs)) > MAX_UNFINISHED:
                raise InputError(
                    f"{MAX_UNFINISHED:,} requests run or wait {time:,.4g} s after the start, and a run holds no more: "
                    "give fewer --requests, a lower rate, or more --replicas"
                )
            return False
        result.num_refused += 1
        _trace_refused(trace, request, "refused")
        if len(result.refusals) < _MAX_REFUSALS:
            result.refusals.append(
                {"request": request.index, "prompt": request.num_prompt_tokens, "answer": request.max_tokens, "why": why}
            )
        return True

    return refuse


def _trace_refused(trace: Trace | None, request: Request, what: str) -> None:
    if trace is not None:
        trace.refused(request, what)


def _held(config: EngineConfig, probe: Replica) -> int:
    """Tokens of a sequence, prompt and output, whose blocks always fit."""
    return (config.num_gpu_blocks - config.num_fixed_blocks) * config.block_size + 2 - probe.kv_cache.num_slots


def _num_gone(log: StepLog) -> int:
    """Requests that have ended, failed or were shed."""
    return log.num_ended + log.num_failed + log.num_shed


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
