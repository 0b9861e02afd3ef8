"""Routers deal requests to replicas, and the event loops bring replicas forward in the order of time.

In an open loop each replica is advanced up to the arrival of a request: between two arrivals replicas have nothing to do with
each other. Where a request arrives because another has ended (clients, conversations), the replica whose plan ends first goes
on, and the requests that follow are dealt out before it plans again. Packages add routers through the entry-point group
`roofline.routers`, each a `Router`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from roofline.registry import Registry
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import StepLog

AnyReplica = Replica | RankGroup
Route = Callable[[Request, float], AnyReplica]
"""Returns the replica for a request that arrives at a time, advanced to that time."""

Refuse = Callable[[Request], bool]
"""Whether a request is refused; it is on record then."""


class Source(Protocol):
    """Requests of which some arrive because others have ended."""

    def next_time(self) -> float:
        """Return when the next request arrives, as far as that is known, in seconds; infinity: none is known."""

    def pop(self) -> Request | None:
        """Return the request that arrives at `next_time`; None: nothing comes of it."""

    def ended(self, request: Request, time: float) -> None:
        """Note that a request has ended, or was refused, at `time`, in seconds."""


@dataclass(frozen=True, slots=True)
class Router:
    """A way to deal requests.

    Args:
        name: as `--router` has it.
        route: makes a `Route` of replicas. In a fleet that changes, replicas join and leave the sequence between two requests
            (it is never empty when one arrives); those that left are not `accepting`.
        about: one line on what it does.
        source: where it is described.
    """

    name: str
    route: Callable[[Sequence[AnyReplica]], Route]
    about: str = ""
    source: str = ""


def _advance(replicas: Sequence[AnyReplica], time: float) -> None:
    for replica in replicas:
        replica.advance(time)


def _num_unfinished(replica: AnyReplica) -> int:
    return replica.num_unfinished


def _num_tokens(replica: AnyReplica) -> int:
    return replica.num_prompt_tokens


def _round_robin(replicas: Sequence[AnyReplica]) -> Route:
    last = -1

    def route(request: Request, time: float) -> AnyReplica:
        nonlocal last
        last = (last + 1) % len(replicas)
        replicas[last].advance(time)
        return replicas[last]

    return route


def _least(load: Callable[[AnyReplica], int]) -> Callable[[Sequence[AnyReplica]], Route]:
    """The replica with the least of a load; of equal ones the first."""

    def make(replicas: Sequence[AnyReplica]) -> Route:
        def route(request: Request, time: float) -> AnyReplica:
            _advance(replicas, time)
            return min(replicas, key=load)

        return route

    return make


def _power_of_two(replicas: Sequence[AnyReplica]) -> Route:
    rng = random.Random(0)  # noqa: S311 - the same run deals the same

    def route(request: Request, time: float) -> AnyReplica:
        two = rng.sample(replicas, 2) if len(replicas) > 1 else replicas
        _advance(two, time)
        return min(two, key=_num_unfinished)

    return route


MIN_MATCH = 0.3
"""Share of a prompt that a replica must have cached to be chosen for it."""
_UNBALANCED = (64, 1.5)
"""Requests that the replica with the most has more than the one with the fewest, and how many times as many: beyond both,
cached prefixes do not count."""


def _prefix_aware(replicas: Sequence[AnyReplica]) -> Route:
    def route(request: Request, time: float) -> AnyReplica:
        _advance(replicas, time)
        loads = [replica.num_unfinished for replica in replicas]
        most, fewest = max(loads), min(loads)
        if request.content is not None and not (most - fewest > _UNBALANCED[0] and most > _UNBALANCED[1] * fewest):
            cached = [replica.cached_tokens(request, time) for replica in replicas]
            if max(cached) > MIN_MATCH * request.num_prompt_tokens:
                # of those with as much of it the one with the fewest requests
                return replicas[max(range(len(replicas)), key=lambda index: (cached[index], -loads[index]))]
        return replicas[loads.index(fewest)]

    return route


def _lora_aware(replicas: Sequence[AnyReplica]) -> Route:
    def route(request: Request, time: float) -> AnyReplica:
        _advance(replicas, time)
        loads = [replica.num_unfinished for replica in replicas]
        most, fewest = max(loads), min(loads)
        if not (most - fewest > _UNBALANCED[0] and most > _UNBALANCED[1] * fewest):
            having = [index for index, replica in enumerate(replicas) if replica.has_adapter(request.adapter)]
            if having:
                return replicas[min(having, key=loads.__getitem__)]
        return replicas[loads.index(fewest)]

    return route


def _session_sticky(replicas: Sequence[AnyReplica]) -> Route:
    served: dict[int, AnyReplica] = {}

    def route(request: Request, time: float) -> AnyReplica:
        if (replica := served.get(request.session)) is not None and replica.accepting:
            replica.advance(time)
            return replica
        _advance(replicas, time)
        replica = min(replicas, key=_num_unfinished)
        if request.session >= 0:
            served[request.session] = replica
        return replica

    return route


ROUTERS: Registry[Router] = Registry(
    "router",
    (
        Router("round-robin", _round_robin, "one after the other"),
        Router("least-loaded", _least(_num_unfinished), "the fewest unfinished requests"),
        Router("least-tokens", _least(_num_tokens), "the fewest prompt tokens of unfinished requests"),
        Router(
            "power-of-two", _power_of_two, "of two replicas drawn at random the one with fewer unfinished requests",
            "Mitzenmacher 2001, The power of two choices in randomized load balancing, IEEE TPDS 12(10)",
        ),
        Router(
            "prefix-aware", _prefix_aware,
            "the longest cached prefix, from 30 % of the prompt on; else, and where loads are far apart, the fewest requests",
            "SGLang 0.5, sgl-router, src/policies/cache_aware.rs (its tree of what was sent stands for what is cached)",
        ),
        Router(
            "lora-aware", _lora_aware,
            "a replica that has the request's adapter on the device; else, and where loads are far apart, the fewest requests",
            "Gateway API Inference Extension 1.0, pkg/epp/scheduling/framework/plugins/scorer/lora_affinity.go (as a rule)",
        ),
        Router("session-sticky", _session_sticky, "turns of a conversation go to the replica of its first"),
    ),
    group="roofline.routers",
    accepts=Router,
)  # fmt: skip
"""Routers by name."""


def open_loop(requests: Iterable[Request], replicas: Sequence[AnyReplica], route: Route, refuse: Refuse) -> None:
    """Serve requests that arrive in ascending order, until all have ended.

    Args:
        requests: in the order of arrival.
        replicas: replicas that `route` chooses from.
        route: which replica a request goes to.
        refuse: whether a request is refused.

    Raises:
        NoProgressError: requests wait, and none of them can ever run.
    """
    for request in requests:
        if not refuse(request):
            route(request, request.arrival_time).accept(request, request.arrival_time)
    for replica in replicas:
        replica.advance(math.inf)


class OpenSource:
    """Requests that arrive whatever becomes of others, as a `Source`.

    Args:
        requests: in the order of their arrival.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = iter(requests)
        self._next = next(self._requests, None)

    def next_time(self) -> float:
        """Return when the next request arrives, in seconds; infinity: none does."""
        return math.inf if self._next is None else self._next.arrival_time

    def pop(self) -> Request | None:
        """Return the request that arrives at `next_time`."""
        request, self._next = self._next, next(self._requests, None)
        return request

    def ended(self, request: Request, time: float) -> None:
        """Note that a request has ended: nothing follows."""


def ordered_loop(
    requests: Iterable[Request], replicas: Sequence[AnyReplica], route: Route, refuse: Refuse, logs: Sequence[StepLog]
) -> None:
    """As `open_loop`, with the events of all replicas in the order of time: for replicas that have something in common.

    Raises:
        NoProgressError: requests wait, and none of them can ever run.
    """
    dependent_loop(OpenSource(requests), replicas, route, refuse, logs)


def dependent_loop(
    source: Source, replicas: Sequence[AnyReplica], route: Route, refuse: Refuse, logs: Sequence[StepLog]
) -> None:
    """Serve requests of which some arrive because others have ended, until all have ended.

    Args:
        source: requests.
        replicas: replicas that `route` chooses from.
        route: which replica a request goes to.
        refuse: whether a request is refused.
        logs: of the replicas; they report the ends of requests.

    Raises:
        NoProgressError: requests wait, and none of them can ever run.
    """

    def accept(request: Request, time: float) -> None:
        route(request, time).accept(request, time)

    send = arrivals_until(source, accept, refuse)
    for log in logs:
        log.on_end = source.ended
    single = replicas[0] if len(replicas) == 1 else None
    while True:
        replica = single or min(replicas, key=_ends)
        arrival = source.next_time()
        if arrival <= replica.ends and arrival < math.inf:
            send(arrival)
        elif replica.ends == math.inf:
            return
        else:
            replica.complete()
            send(replica.now)
            replica.begin()


def arrivals_until(source: Source, accept: Callable[[Request, float], None], refuse: Refuse) -> Callable[[float], None]:
    """Return a function that accepts or refuses the requests that arrive up to a time in seconds.

    Args:
        source: requests.
        accept: sends a request to a replica at the time of its arrival.
        refuse: whether a request is refused.
    """

    def send(until: float) -> None:
        while (time := source.next_time()) <= until:
            if (request := source.pop()) is None:
                continue
            if refuse(request):
                source.ended(request, time)
            else:
                accept(request, time)

    return send


def _ends(replica: AnyReplica) -> float:
    return replica.ends
