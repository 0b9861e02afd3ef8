"""The events of a server in the order of time.

Requests that come whatever the server does (an open loop) are dealt to replicas, each of which is brought up to the arrival:
between two arrivals replicas have nothing to do with each other. Where a request comes because another has ended (a closed
loop), the replica whose plan ends first goes on, and what it brings about is dealt out before it plans again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

from roofline.serving.simulation.balancers import Balancer
from roofline.serving.simulation.book import Book
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.replica import Replica

Refuse = Callable[[Job], bool]
"""Whether a request is refused, which is then on record."""


def open_loop(jobs: Iterable[Job], replicas: Sequence[Replica], pick: Balancer, refuse: Refuse) -> None:
    """Serve requests that arrive in ascending order, until all have ended."""
    for job in jobs:
        if not refuse(job):
            pick(job.arrived).accept(job, job.arrived)
    for replica in replicas:
        replica.advance(math.inf)


def closed_loop(
    lengths: Iterator[tuple[int, int, int]],
    starts: Sequence[float],
    replicas: Sequence[Replica],
    pick: Balancer,
    refuse: Refuse,
    book: Book,
    *,
    think: float = 0.0,
    until: float = math.inf,
) -> None:
    """Clients, each of which sends its first request at its time of `starts`, and the next one `think` seconds after it has its
    answer, until `lengths` (tokens of the prompt and of the answer, class) come to an end. None sends after `until`."""
    coming = [(at, client) for client, at in enumerate(starts)]
    coming.sort()
    sent = 0

    def ended(job: Job, at: float) -> None:
        heappush(coming, (at + think, job.client))

    def send(until_now: float) -> None:
        nonlocal sent
        while coming and coming[0][0] <= until_now:
            at, client = heappop(coming)
            found = next(lengths, None) if at <= until else None
            if found is None:
                continue
            job = Job(sent, at, *found, client)
            sent += 1
            if refuse(job):
                heappush(coming, (at + think, client))  # it sends another
            else:
                pick(at).accept(job, at)

    book.tell = ended
    while True:
        replica = min(replicas, key=lambda one: one.ends)
        if coming and coming[0][0] <= replica.ends:
            send(coming[0][0])
        elif replica.ends == math.inf:
            return
        else:
            replica.complete()
            replica.run, replica.chunks = 0, []  # nothing is planned
            send(replica.now)
            replica.begin()
