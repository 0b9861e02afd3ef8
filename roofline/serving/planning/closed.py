"""A closed loop: so many clients, each of which sends its next request when it has its answer.

With c clients on a replica of S slots, n = min(c, S) run at a time. TPOT is that of `roofline.serving.queueing.closed_loop`,
which measurement confirms (docs/accuracy.md). The requests a second follow from Little's law, lambda = n / (TTFT + E[m] TPOT),
where TTFT is that of the same replica under random arrivals at that rate; what of c/lambda is in neither is a wait, for a seat
or at a server that is saturated. Percentiles are those of random arrivals, in proportion to the means.

NB: TTFT of a real closed loop is decided by the load generator: clients that start together with lengths that are all equal
stay in step, and wait for each other's prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.predict.compiled import Compiled
from roofline.serving.planning.expected import Expected, Times, expected
from roofline.serving.planning.load import TPOT, TTFT, Load
from roofline.serving.planning.sizing import UTILISATION, Sized
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.serving.queueing.steady import steady

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Turn:
    """What clients of one replica see, and how many requests a second they make of it."""

    clients: float
    rate: float
    expected: Expected

    def misses(self, load: Load) -> list[str]:
        """Objectives that are not met."""
        found = []
        for service in load.services:
            ttft, tpot = self.expected.classes[service.name]
            for name, times, limit in ((TTFT, ttft, service.ttft), (TPOT, tpot, service.tpot)):
                if limit is not None and (times.at is None or times.at > limit):
                    found.append(name)
        return list(dict.fromkeys(found))


def turn(of: Sized, load: Load, clients: float) -> Turn:
    """So many clients on one replica (of all its ranks)."""
    ranks = of.replica.ranks
    running = min(clients, of.slots * ranks)
    loop = ClosedLoop(Compiled(of.replica.request, "decode")).tpot(
        max(running, 1.0), max(round(load.mean_input), 1), max(load.mean_output, 1.0)
    )
    name = of.replica.basis
    tpot = float(loop[name])
    steps = of.server.mean_steps
    top = of.server.capacity * UTILISATION
    # no more than it can do: answers of one token have no steps that would hold the clients back
    rate = min(running / max(steps * tpot, 1e-9), of.server.capacity)
    for _ in range(_ROUNDS):
        ttft = _mean_ttft(of, load, min(rate, top))
        # half of the way: TTFT rises with the rate
        rate = min((rate + running / (ttft + steps * tpot)) / 2, of.server.capacity)
    seen = expected(of, of, load, (min(rate, top),) * 2)
    low, high = (float(loop[end]) if name == "estimate" else None for end in ("low", "high"))
    waits = max(clients / rate - _mean_ttft(of, load, min(rate, top)) - steps * tpot, 0.0)
    mine = Times(tpot, tpot, tpot, low, high, float(loop["bound"]), seen.tpot.percentile)
    if seen.tpot.mean is None:  # no answer has more than a token
        mine = seen.tpot
    found = replace(
        seen,
        tpot=_like(seen.tpot, mine),
        ttft=_later(seen.ttft, waits),
        classes={
            key: (_later(one, waits), _like(other, mine, seen.tpot.mean)) for key, (one, other) in seen.classes.items()
        },
        running=running,
        slot_wait_s=waits,
        utilisation=min(rate / of.server.capacity, 1.0),
    )  # fmt: skip
    return Turn(clients, rate, found)


def _mean_ttft(of: Sized, load: Load, rate: float) -> float:
    state = steady(of.server, rate)
    return sum(service.mix.share * float(state.ttft_mean(k)[0]) for k, service in enumerate(load.services))


def _like(open_loop: Times, closed: Times, mean: float | None = None) -> Times:
    """The mean of the closed loop, with the spread that random arrivals have around theirs."""
    average = open_loop.mean if mean is None else mean
    if not average or closed.mean is None or open_loop.mean is None:
        return closed
    own = open_loop.mean / average  # of a class, over that of all
    factor = closed.mean / average

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * factor

    return Times(
        closed.mean * own, scaled(open_loop.p50), scaled(open_loop.at),
        None if closed.low is None else closed.low * own, None if closed.high is None else closed.high * own,
        None if closed.bound is None else closed.bound * own, open_loop.percentile,
    )  # fmt: skip


def _later(times: Times, seconds: float) -> Times:
    """The same after a wait."""

    def after(value: float | None) -> float | None:
        return None if value is None else value + seconds

    return replace(
        times, mean=after(times.mean), p50=after(times.p50), at=after(times.at), low=after(times.low), high=after(times.high)
    )
