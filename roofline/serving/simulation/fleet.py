"""A fleet: replicas that start, drain, fail and come back while requests are served.

A replica takes requests from when it serves until it drains or fails. Between two events of the fleet (a start that ends, a
failure, an evaluation of the autoscaler) replicas are brought forward as in `router.py`. Requests that find no replica wait at
the router, in the order in which they came, and are dealt out when one serves.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from roofline.serving.simulation.autoscaling import AutoscaleConfig, Autoscaler, Observation
from roofline.serving.simulation.failures import FailureConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import AnyReplica, Refuse, Route, Source
from roofline.serving.simulation.step_log import StepLog

INF = math.inf
State = Literal["starting", "serving", "repairing", "draining", "stopped"]
_SERVE, _FAIL, _EVALUATE = 0, 1, 2
"""Events of a fleet; at the same time in this order."""


@dataclass(frozen=True)
class FleetConfig:
    """What changes in a fleet.

    Args:
        replicas: that serve from the start.
        autoscale: adds and removes replicas; None: nothing does.
        failures: None: no replica fails.
    """

    replicas: int
    autoscale: AutoscaleConfig | None = None
    failures: FailureConfig | None = None


@dataclass(slots=True, eq=False)
class Member:
    """A replica of a fleet, with its times in seconds.

    Args:
        index: its number.
        requested: when it was requested.
    """

    index: int
    requested: float
    state: State = "starting"
    replica: AnyReplica | None = None
    served: list[tuple[float, float]] = field(default_factory=list)
    """Spans in which it took requests, or drained."""
    since: float = 0.0
    """When it last began to serve."""
    drained: float = INF
    """When it began to drain."""
    num_starts: int = 0
    """Starts and repairs so far: an event of an earlier one is void."""
    lifetimes: Iterator[float] | None = None


@dataclass(slots=True)
class FleetRecord:
    """What happened to a fleet in a run. Times in seconds."""

    num_failures: int = 0
    num_retries: int = 0
    retried: set[int] = field(default_factory=set)
    """Numbers of the requests that were retried."""
    lost_output_tokens: int = 0
    """Generated on replicas that failed, and generated again or never delivered whole."""
    lost_kv_tokens: int = 0
    """Of the KV caches of running requests."""
    last_failed: float = 0.0
    """When the last request failed."""
    scaled: list[tuple[float, int]] = field(default_factory=list)
    """When replicas were added (above 0) or removed (below 0), and how many."""
    held: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of the time of each replica, from when it was requested until it was gone."""
    served: list[tuple[float, float]] = field(default_factory=list)
    repaired: list[tuple[float, float]] = field(default_factory=list)
    queued: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of waits at the router, of requests that found no replica."""
    end: float = 0.0

    def figures(self, devices: int) -> dict[str, float | None]:
        """Return what the fleet took, by name.

        Args:
            devices: of a replica.
        """
        held, served, repaired = (
            math.fsum(stop - begin for begin, stop in spans) for spans in (self.held, self.served, self.repaired)
        )
        return {
            "replica_hours": held / 3600, "gpu_hours": held * devices / 3600,
            "mean_replicas": held / self.end if self.end else None, "peak_replicas": float(peak(self.held)),
            "mean_serving": served / self.end if self.end else None,
            "scale_ups": float(sum(change > 0 for _, change in self.scaled)),
            "scale_downs": float(sum(change < 0 for _, change in self.scaled)),
            "num_failures": float(self.num_failures), "lost_output_tokens": float(self.lost_output_tokens),
            "lost_kv_tokens": float(self.lost_kv_tokens),
            "availability": served / (served + repaired) if served else None,
        }  # fmt: skip


def peak(spans: Sequence[tuple[float, float]]) -> int:
    """Return how many spans overlap at a time, at most; one that ends where another begins does not.

    >>> peak([(0.0, 4.0), (1.0, 2.0), (2.0, 3.0)])
    2
    """
    level = most = 0
    for _, change in sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans]):
        level += change
        most = max(most, level)
    return most


class Fleet:
    """Serves requests with replicas that come and go.

    Args:
        config: what changes.
        make: makes the replica of a number.
        route_of: makes a `Route` of the replicas that serve, a list that changes.
        log: of all replicas.
        seed: of the failures.
    """

    def __init__(
        self, config: FleetConfig, make: Callable[[int], AnyReplica], route_of: Callable[[Sequence[AnyReplica]], Route],
        log: StepLog, seed: Sequence[int] = (0,),
    ) -> None:  # fmt: skip
        self.config, self.log, self.record = config, log, FleetRecord()
        self._make, self._seed = make, seed
        self._members: list[Member] = []
        """Those that are not stopped, by their numbers."""
        self._serving: list[AnyReplica] = []
        """In the order of their numbers."""
        self._order: list[int] = []
        self._route = route_of(self._serving)
        self._events: list[tuple[float, int, int, Member | int | None, int]] = []
        """When, what, a number of its own, of which member (or the number of a replica), and of which of its starts."""
        self._serial = self._next_index = 0
        self._scaler = None if config.autoscale is None else Autoscaler(config.autoscale)
        self._queue: deque[tuple[Request, float]] = deque()
        self._num_sent = 0
        """Requests that were sent to replicas, or shed before."""
        self._tries: dict[int, int] = {}
        self._source: Source | None = None
        for _ in range(config.replicas):
            self._serve(self._add(0.0), 0.0)
        if config.autoscale is not None:
            self._push(config.autoscale.interval, _EVALUATE)
        if config.failures is not None:
            for time, index in config.failures.at:
                self._push(time, _FAIL, index)

    def serve(self, source: Source, refuse: Refuse, *, dependent: bool) -> None:
        """Serve all requests of a source, until each has ended, was refused, or has failed.

        Args:
            source: requests in the order of their arrival.
            refuse: whether a request is refused.
            dependent: whether requests arrive because others have ended.

        Raises:
            NoProgressError: requests wait on a replica, and none of them can ever run.
        """
        self._source = source
        self.log.on_end = source.ended
        while True:
            arrival, event = source.next_time(), self._events[0][0] if self._events else INF
            if dependent:
                if self._complete_first(min(arrival, event), source, refuse):
                    continue
            elif event <= arrival:
                for member in self._members:
                    if member.replica is not None:
                        member.replica.advance(event)
            if arrival == INF and not self._num_unfinished:
                return
            if arrival < event:
                self._send(arrival, source, refuse)
            else:
                self._next_event()

    def finish(self, end: float) -> FleetRecord:
        """Return the record of the run, which ended at a time, in seconds."""
        record = self.record
        record.end = end = max(end, record.last_failed)
        for member in list(self._members):
            if not self._settle_drained(member):
                if member.state in ("serving", "draining"):
                    member.served.append((member.since, end))
                elif member.state == "repairing":
                    record.repaired.append((member.since, end))
                self._stop(member, end)
        for spans in (record.held, record.served, record.repaired, record.queued):
            spans[:] = [(begin, min(stop, end)) for begin, stop in spans if begin < end]
        return record

    def _next_event(self) -> None:
        """Handle the next event; without one no replica will come for the requests that wait at the router."""
        if self._events:
            self._handle(*heappop(self._events))
        while self._queue and not self._events:
            self._fail_request(*self._queue.popleft())

    # Requests

    def _send(self, until: float, source: Source, refuse: Refuse) -> None:
        """Deal out the requests that arrive up to a time, in seconds."""
        while (time := source.next_time()) <= until:
            if (request := source.pop()) is None:
                continue
            num_shed = self.log.num_shed
            if refuse(request):
                self._num_sent += self.log.num_shed - num_shed
                source.ended(request, time)
            else:
                self._num_sent += 1
                self._dispatch(request, time)

    def _complete_first(self, until: float, source: Source, refuse: Refuse) -> bool:
        """Complete the plan that ends first, if that is before a time, in seconds; requests that follow from it are dealt out
        before its replica plans again. Returns whether there was one."""
        first = min((one.replica for one in self._members if one.replica is not None), key=_ends, default=None)
        if first is None or first.ends >= until:
            return False
        first.complete()
        self._send(first.now, source, refuse)
        first.begin()
        return True

    @property
    def _num_unfinished(self) -> int:
        return self._num_sent - self.log.num_ended - self.log.num_failed - self.log.num_shed

    def _dispatch(self, request: Request, time: float) -> None:
        if self._serving:
            self._route(request, time).accept(request, time)
        else:
            self._queue.append((request, time))

    def _fail_request(self, request: Request, time: float) -> None:
        """A request has failed: it is out of retries, or no replica is left."""
        self.record.last_failed = max(self.record.last_failed, time)
        self.log.fail(request)
        request.first_token_time = request.last_token_time = -1.0  # its client has no response
        if self._source is not None:
            self._source.ended(request, time)

    # Replicas

    def _add(self, time: float) -> Member:
        member = Member(self._next_index, time)
        if self.config.failures is not None:
            member.lifetimes = self.config.failures.lifetimes(self._seed, member.index)
        self._next_index += 1
        self._members.append(member)
        return member

    def _push(self, time: float, what: int, member: Member | int | None = None) -> None:
        self._serial += 1
        num_starts = member.num_starts if isinstance(member, Member) else 0
        heappush(self._events, (time, what, self._serial, member, num_starts))

    def _handle(self, time: float, what: int, serial: int, member: Member | int | None, num_starts: int) -> None:
        if what == _EVALUATE:
            self._evaluate(time)
        elif isinstance(member, int):
            chosen = next((one for one in self._members if one.index == member), None)
            if chosen is not None and chosen.state in ("serving", "draining"):
                self._fail(chosen, time)
        elif member is not None and member.num_starts == num_starts and member.state != "stopped":
            if what == _FAIL:
                self._fail(member, time)
            else:
                if member.state == "repairing":
                    self.record.repaired.append((member.since, time))
                self._serve(member, time)
                while self._queue:
                    request, since = self._queue.popleft()
                    self.record.queued.append((since, time))
                    self._dispatch(request, time)

    def _serve(self, member: Member, time: float) -> None:
        member.num_starts += 1
        member.state, member.since, member.replica = "serving", time, self._make(member.index)
        insort(self._order, member.index)
        self._serving.insert(self._order.index(member.index), member.replica)
        if member.lifetimes is not None and (lifetime := next(member.lifetimes, None)) is not None:
            self._push(time + lifetime, _FAIL, member)

    def _leave(self, member: Member) -> None:
        """No request is sent to a replica any more."""
        place = self._order.index(member.index)
        del self._order[place], self._serving[place]

    def _fail(self, member: Member, time: float) -> None:
        """A replica fails: a step that runs, all caches and running requests are lost; the requests are retried elsewhere."""
        failures, replica, record = self.config.failures, member.replica, self.record
        if failures is None or replica is None or self._settle_drained(member):
            return
        if member.state == "serving":
            self._leave(member)
        replica.settle(time)
        requests = replica.abandon()
        record.num_failures += 1
        member.served.append((member.since, time))
        member.replica = None
        if member.state == "draining" or failures.repair == INF:
            self._stop(member, time)
        else:
            member.state, member.since = "repairing", time
            self._push(time + failures.repair, _SERVE, member)
        for request in requests:
            record.lost_kv_tokens += request.num_computed_tokens
            tries = self._tries[request.index] = self._tries.get(request.index, 0) + 1
            if failures.resume == "restart" or tries > failures.retries:
                record.lost_output_tokens += request.num_output_tokens
            if tries > failures.retries:
                self._fail_request(request, time)
                continue
            record.num_retries += 1
            record.retried.add(request.index)
            failures.retry(request)
            self._dispatch(request, time)

    def _evaluate(self, time: float) -> None:
        scaler = self._scaler
        if scaler is None:
            return
        replicas = self._serving
        for replica in replicas:
            replica.settle(time)
        for member in list(self._members):
            self._settle_drained(member)
        current = [member for member in self._members if member.state != "draining"]
        waiting = len(self._queue) + sum(replica.num_waiting for replica in replicas)
        unfinished = len(self._queue) + sum(replica.num_unfinished for replica in replicas)
        usage = math.fsum(replica.kv_usage for replica in replicas)
        seen = Observation(time, len(replicas), len(current), waiting, unfinished, usage)
        change = scaler.evaluate(seen) - len(current)
        if change:
            self.record.scaled.append((time, change))
        for _ in range(change):
            self._push(time + scaler.config.start_up, _SERVE, self._add(time))
        # those that do not serve go first, then those that began last (Kubernetes, ReplicaSet, "Scaling a ReplicaSet")
        for member in sorted(current, key=_last_begun)[: max(-change, 0)]:
            self._drain(member, time)
        self._push(time + scaler.config.interval, _EVALUATE)

    def _drain(self, member: Member, time: float) -> None:
        """Send no more requests to a replica; it ends when it is empty."""
        if member.state != "serving" or member.replica is None:
            if member.state == "repairing":
                self.record.repaired.append((member.since, time))
            self._stop(member, time)
            return
        self._leave(member)
        member.state, member.replica.accepting, member.drained = "draining", False, time
        self._settle_drained(member)

    def _settle_drained(self, member: Member) -> bool:
        """Whether a replica drains and is empty: it was gone when its last request ended."""
        replica = member.replica
        if member.state != "draining" or replica is None or replica.num_unfinished:
            return False
        empty = max(member.drained, replica.now)
        member.served.append((member.since, empty))
        self._stop(member, empty)
        return True

    def _stop(self, member: Member, time: float) -> None:
        member.state, member.replica = "stopped", None
        self._members.remove(member)
        self.record.held.append((member.requested, time))
        self.record.served.extend(member.served)


def _ends(replica: AnyReplica) -> float:
    return replica.ends


def _last_begun(member: Member) -> tuple[bool, float, int]:
    return member.state == "serving", -member.since if member.state == "serving" else -member.requested, -member.index
