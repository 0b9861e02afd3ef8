"""Which replica a request goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline.errors import UnknownNameError
from roofline.serving.simulation.replica import Replica

Balancer = Callable[[float], Replica]
"""The replica for a request that arrives at a time, to which the replica may have to be advanced."""


def round_robin(replicas: Sequence[Replica]) -> Balancer:
    """One after the other."""
    at = -1

    def pick(now: float) -> Replica:
        nonlocal at
        at = (at + 1) % len(replicas)
        replicas[at].advance(now)
        return replicas[at]

    return pick


def least_loaded(replicas: Sequence[Replica]) -> Balancer:
    """The one with the fewest requests that it has not yet answered; of equal ones the first."""

    def pick(now: float) -> Replica:
        for replica in replicas:
            replica.advance(now)
        return min(replicas, key=lambda replica: replica.load)

    return pick


BALANCERS: dict[str, Callable[[Sequence[Replica]], Balancer]] = {"round-robin": round_robin, "least-loaded": least_loaded}


def balancer(name: str, replicas: Sequence[Replica]) -> Balancer:
    """The balancer of a name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in BALANCERS:
        raise UnknownNameError("balancer", name, BALANCERS, list_all=True)
    return BALANCERS[name](replicas)
