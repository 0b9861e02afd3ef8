"""Prefill and decode in pools of replicas of their own: the way of a request through both, and of its KV cache between them.

A request goes to a prefill replica as one with a single output token. When its prompt is computed it goes to a decode replica,
where it waits, in the order of arrival, until there are blocks for its cache; then the cache is sent, and the request decodes.
Until the cache has arrived its blocks stay taken on both sides. A replica sends one cache at a time, and receives one at a time
(each data-parallel rank for itself); a transfer begins as soon as both ends are free. A request that is preempted on the decode
replica is computed again there. Blocks that the decode replica has in its prefix cache are not sent.

Who gives the first token (`FirstToken`):

* `prefill`: the prefill replica, when the prompt is computed (DistServe, arXiv:2401.09670, section 4);
* `transfer`: it is computed there too, and the decode replica passes it on when the cache has arrived (SGLang 0.5,
  disaggregation/decode.py, DecodeTransferQueue; TensorRT-LLM, `first_gen_tokens` of its context phase);
* `decode`: the decode replica computes the last prompt token again in its first step (vLLM 0.19, v1/core/sched/scheduler.py,
  `_update_waiting_for_remote_kv`; its proxies drop the output of the prefill server).

With the first two a request of one output token ends with its prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Literal, Protocol, get_args

from roofline.serving.simulation.histogram import Histogram
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import AnyReplica, Refuse, Route, Source, arrivals_until
from roofline.serving.simulation.scheduler import Scheduler
from roofline.serving.simulation.step_log import StepLog

FirstToken = Literal["prefill", "transfer", "decode"]
FIRST_TOKENS: tuple[FirstToken, ...] = get_args(FirstToken)
TRANSFER = ("handed", "reserved", "begins", "ends", "bytes", "link")
"""Columns of a transfer: when its prompt was computed, when there were blocks for it, when the link was free, when it arrived;
its bytes; seconds on the link."""


class TransferCost(Protocol):
    """What it takes to send a cache."""

    @property
    def latency(self) -> float:
        """Seconds from the last byte on the link to the arrival: of the notification, and of the servers between."""

    def cost(self, num_tokens: int, num_cached_tokens: int) -> tuple[float, float]:
        """Return the bytes to send, and for how many seconds they take the link.

        Args:
            num_tokens: of the cache.
            num_cached_tokens: of these, the first, which the receiver has.
        """


class Transfer:
    """The way of a request from one pool to the other. Times in seconds; -1: not yet.

    Args:
        request: as it arrived.
        prefill: the request as the prefill replica has it.
        num_tokens: tokens whose cache is sent.
    """

    __slots__ = (
        "begins",
        "decode",
        "end",
        "handed",
        "num_bytes",
        "num_tokens",
        "prefill",
        "receiver",
        "request",
        "sender",
        "sent",
    )

    def __init__(self, request: Request, prefill: Request, num_tokens: int) -> None:
        self.request, self.prefill, self.num_tokens = request, prefill, num_tokens
        self.decode: Request | None = None
        """The request as the decode replica has it."""
        self.sender = self.receiver = -1
        """Numbers of the replicas (data-parallel ranks); -1: there are no blocks for the cache yet."""
        self.handed = self.begins = self.sent = self.end = -1.0
        """When its prompt was computed, when the link was free, when it was free again, when the cache arrived."""
        self.num_bytes = 0.0

    @property
    def is_reserved(self) -> bool:
        """Whether the receiver has blocks for the cache."""
        return self.receiver >= 0


class PoolLog(StepLog):
    """The log of a pool: a request that ends there is the one that arrived."""

    __slots__ = ()

    def end(self, request: Request, time: float, replica: int) -> None:
        """Log a request that ends at `time`, in seconds, on the replica with a number."""
        transfer = request.transfer
        if transfer is None:
            super().end(request, time, replica)
            return
        arrived, prefill = transfer.request, transfer.prefill
        arrived.first_token_time, arrived.last_token_time = request.first_token_time, request.last_token_time
        arrived.num_preemptions = prefill.num_preemptions + (0 if request is prefill else request.num_preemptions)
        arrived.num_hit_tokens, arrived.num_passed = prefill.num_hit_tokens, prefill.num_passed
        super().end(arrived, time, replica)


class Transfers:
    """The caches that wait for a link, or are on their way.

    Args:
        prefill: replicas that compute prompts, each of whose ranks sends one cache at a time.
        decode: replicas that decode; their ranks receive one at a time.
        cost: bytes and seconds of a cache.
        first_token: who gives the first token.
        watch: called with every transfer when its times are known.
    """

    def __init__(
        self, prefill: Sequence[AnyReplica], decode: Sequence[AnyReplica], cost: TransferCost, first_token: FirstToken,
        watch: Callable[[Transfer], None] | None = None,
    ) -> None:  # fmt: skip
        self._cost, self._watch = cost, watch
        self._gives_first, self._passes_first = first_token != FIRST_TOKENS[2], first_token == FIRST_TOKENS[1]
        """Whether the prefill replica computes the first token, and whether that comes with the cache."""
        self._senders = {rank.index: (rank, replica) for replica in prefill for rank in _ranks(replica)}
        self._receivers = {rank.index: (rank, replica) for replica in decode for rank in _ranks(replica)}
        for rank, _ in self._senders.values():
            rank.scheduler.handoff = self._hand_over(rank.index)
        for rank, _ in self._receivers.values():
            rank.scheduler.receive = self._receive
        self._free_at: dict[int, float] = {}
        """When the link of a rank is free, by its number."""
        self._pending: list[tuple[float, int, Transfer]] = []
        self._num_sent = 0
        self.handed: list[Transfer] = []
        """Requests whose prompt was computed in the last step, and that no decode replica has yet."""
        self.rows: list[float] = []
        """Of each transfer the columns `TRANSFER`."""

    # The way of a request

    def to_prefill(self, request: Request) -> Request:
        """Return a request as a prefill replica gets it."""
        leg = Request(
            request.index, request.arrival_time, request.num_prompt_tokens, 1, request.class_index, request.client,
            request.num_prefix_tokens, request.content, request.session,
        )  # fmt: skip
        # NB: where the last prompt token is computed again, its cache need not arrive
        leg.transfer = Transfer(request, leg, request.num_prompt_tokens - (not self._gives_first))
        return leg

    def to_decode(self, transfer: Transfer) -> Request:
        """Return the request of a transfer as a decode replica gets it, which has no prefix of it but what its cache has."""
        request = transfer.request
        leg = transfer.decode = Request(
            request.index, transfer.handed, request.num_prompt_tokens, request.max_tokens, request.class_index, request.client,
            0, request.content, request.session,
        )  # fmt: skip
        leg.transfer = transfer
        if self._gives_first:
            leg.num_output_tokens = 1
            leg.first_token_time = leg.last_token_time = transfer.handed
        return leg

    def _hand_over(self, sender: int) -> Callable[[Request, float], bool]:
        def hand_over(leg: Request, time: float) -> bool:
            transfer = leg.transfer
            assert transfer is not None  # noqa: S101 - every request of the pool has one
            if transfer.request.max_tokens == 1 and self._gives_first:
                return False
            transfer.handed, transfer.sender = time, sender
            self.handed.append(transfer)
            return True

        return hand_over

    def hand_on(self, route: Route) -> None:
        """Give the requests whose prompt was computed in the last step to decode replicas."""
        for transfer in self.handed:
            leg = self.to_decode(transfer)
            route(leg, transfer.handed).accept(leg, transfer.handed)
        self.handed.clear()

    # Caches on their way

    def _receive(self, leg: Request, scheduler: Scheduler) -> None:
        """Send a cache for which there are blocks since `scheduler.now`."""
        transfer, now = leg.transfer, scheduler.now
        assert transfer is not None  # noqa: S101 - every request of the pool has one
        transfer.receiver = scheduler.index
        transfer.num_bytes, seconds = self._cost.cost(transfer.num_tokens, leg.num_computed_tokens)
        ends = (transfer.sender, scheduler.index)
        transfer.begins = max(now, *(self._free_at.get(end, 0.0) for end in ends))
        transfer.sent = transfer.begins + seconds
        self._free_at.update(dict.fromkeys(ends, transfer.sent))
        transfer.end = transfer.sent + self._cost.latency
        self._num_sent += 1
        heappush(self._pending, (transfer.end, self._num_sent, transfer))
        self.rows.extend((transfer.handed, now, transfer.begins, transfer.end, transfer.num_bytes, seconds))
        if self._watch is not None:
            self._watch(transfer)

    def next_time(self) -> float:
        """Return when the next cache arrives, in seconds; infinity: none is on its way."""
        return self._pending[0][0] if self._pending else math.inf

    def deliver(self) -> None:
        """Deliver the next cache: its blocks on the prefill replica are free, and the request may decode."""
        time, _, transfer = heappop(self._pending)
        leg = transfer.decode
        assert leg is not None  # noqa: S101 - the decode replica has it
        rank, replica = self._senders[transfer.sender]
        rank.scheduler.release(transfer.prefill)
        if replica.ends == math.inf and rank.scheduler.waiting:
            replica.notice(time)
        if self._passes_first:
            leg.first_token_time = leg.last_token_time = time
        rank, replica = self._receivers[transfer.receiver]
        replica.notice(time)
        rank.scheduler.deliver(leg)


class TransferSums:
    """Sums over the caches that were sent.

    Args:
        rows: of each transfer the columns `TRANSFER`; `read` empties it.
    """

    def __init__(self, rows: list[float]) -> None:
        self._rows = rows
        self.num_bytes = 0.0
        self.times = {name: Histogram() for name in ("wait_for_blocks", "wait_for_link", "link", "transfer")}
        """From the end of the prompt until there are blocks, from then until the link is free, on the link, and from the end of
        the prompt to the arrival, in seconds."""

    def read(self) -> None:
        """Add the rows to the sums, and empty them."""
        import numpy as np

        handed, reserved, begins, ends, num_bytes, link = np.array(self._rows).reshape(-1, len(TRANSFER)).T
        self._rows.clear()
        self.num_bytes += float(num_bytes.sum())
        for name, seconds in zip(self.times, (reserved - handed, begins - reserved, link, ends - handed), strict=True):
            self.times[name].add(seconds)

    def merge(self, other: TransferSums) -> None:
        """Add the sums of another run."""
        self.num_bytes += other.num_bytes
        for name, times in self.times.items():
            times.merge(other.times[name])


def _ranks(replica: AnyReplica) -> Sequence[Replica]:
    return replica.ranks if isinstance(replica, RankGroup) else (replica,)


def disaggregated_loop(
    source: Source, prefill: Sequence[AnyReplica], decode: Sequence[AnyReplica], routes: tuple[Route, Route],
    transfers: Transfers, refuse: Refuse, logs: Sequence[StepLog],
) -> None:  # fmt: skip
    """Serve requests in two pools, until all have ended.

    Args:
        source: requests.
        prefill: replicas that compute prompts.
        decode: replicas that decode.
        routes: which replica of each pool a request goes to.
        transfers: of these replicas.
        refuse: whether a request is refused.
        logs: report the ends of requests.

    Raises:
        NoProgressError: requests wait, and none of them can ever run.
    """
    to_prefill, to_decode = routes
    replicas = (*prefill, *decode)
    for log in logs:
        log.on_end = source.ended

    def accept(request: Request, time: float) -> None:
        leg = transfers.to_prefill(request)
        to_prefill(leg, time).accept(leg, time)

    send = arrivals_until(source, accept, refuse)
    while True:
        replica = min(replicas, key=_ends)
        arrival, arrived = source.next_time(), transfers.next_time()
        if arrived <= replica.ends and arrived <= arrival and arrived < math.inf:
            transfers.deliver()
        elif arrival <= replica.ends and arrival < math.inf:
            send(arrival)
        elif replica.ends == math.inf:
            return
        else:
            replica.complete()
            if transfers.handed:
                transfers.hand_on(to_decode)
            send(replica.now)
            replica.begin()


def _ends(replica: AnyReplica) -> float:
    return replica.ends
