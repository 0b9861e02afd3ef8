"""Routers deal requests to replicas, and the event loops bring replicas forward in the order of time.

In an open loop each replica is advanced up to the arrival of a request: between two arrivals replicas have nothing to do with
each other. Where a request arrives because another has ended (a closed loop), the replica whose plan ends first goes on, and
the requests that follow are dealt out before it plans again. Packages add routers through the entry-point group
`roofline.routers`, each a `Router`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from roofline.registry import Registry
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import StepLog

AnyReplica = Replica | RankGroup
Route = Callable[[float], AnyReplica]
"""Returns the replica for a request that arrives at a time, advanced to that time."""

Refuse = Callable[[Request], bool]
"""Whether a request is refused; it is on record then."""


@dataclass(frozen=True, slots=True)
class Router:
    """A way to deal requests: its name as `--balancer` has it, and what makes a `Route` of replicas."""

    name: str
    route: Callable[[Sequence[AnyReplica]], Route]


def _round_robin(replicas: Sequence[AnyReplica]) -> Route:
    """One after the other."""
    last = -1

    def route(time: float) -> AnyReplica:
        nonlocal last
        last = (last + 1) % len(replicas)
        replicas[last].advance(time)
        return replicas[last]

    return route


def _least_loaded(replicas: Sequence[AnyReplica]) -> Route:
    """The replica with the fewest unfinished requests; of equal ones the first."""

    def route(time: float) -> AnyReplica:
        for replica in replicas:
            replica.advance(time)
        return min(replicas, key=lambda replica: replica.num_unfinished)

    return route


ROUTERS: Registry[Router] = Registry(
    "balancer",
    (Router("round-robin", _round_robin), Router("least-loaded", _least_loaded)),
    group="roofline.routers",
    accepts=Router,
)
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
            route(request.arrival_time).accept(request, request.arrival_time)
    for replica in replicas:
        replica.advance(math.inf)


def closed_loop(
    lengths: Iterator[tuple[int, int, int]], starts: Sequence[float], replicas: Sequence[AnyReplica], route: Route,
    refuse: Refuse, log: StepLog, *, think: float = 0.0, until: float = math.inf,
    cached: Callable[[int, int], int] = lambda _prompt, _class: 0,
) -> None:  # fmt: skip
    """Serve clients until all requests have ended.

    Args:
        lengths: prompt tokens, output tokens and class of the requests in the order in which they are sent; clients stop at its
            end.
        cached: tokens of a prompt that are in the prefix cache, by its length and its class.
        starts: when each client sends its first request, in seconds.
        replicas: replicas, which share `log`.
        route: which replica a request goes to.
        refuse: whether a request is refused; its client sends another.
        log: reports the ends of requests.
        think: seconds between a response and the client's next request.
        until: seconds after which no client sends.

    Raises:
        NoProgressError: requests wait, and none of them can ever run.
    """
    pending = [(time, client) for client, time in enumerate(starts)]
    pending.sort()
    num_sent = 0

    def ended(request: Request, time: float) -> None:
        heappush(pending, (time + think, request.client))

    def send(until_now: float) -> None:
        nonlocal num_sent
        while pending and pending[0][0] <= until_now:
            time, client = heappop(pending)
            tokens = next(lengths, None) if time <= until else None
            if tokens is None:
                continue
            request = Request(num_sent, time, *tokens, client, cached(tokens[0], tokens[2]))
            num_sent += 1
            if refuse(request):
                heappush(pending, (time + think, client))
            else:
                route(time).accept(request, time)

    log.on_end = ended
    while True:
        replica = min(replicas, key=lambda one: one.ends)
        if pending and pending[0][0] <= replica.ends:
            send(pending[0][0])
        elif replica.ends == math.inf:
            return
        else:
            replica.complete()
            send(replica.now)
            replica.begin()
