"""What comes to a server in one run: arrivals with lengths, or clients with lengths."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING

from roofline.serving.simulation.arrivals.base import CHUNK, Arrivals, Clients
from roofline.serving.simulation.job import Job
from roofline.serving.traffic.classes import Class
from roofline.serving.traffic.trace import Trace

if TYPE_CHECKING:
    import numpy as np

REQUESTS = 10_000
"""Of a workload that has no end of its own."""
MOST_AT_ONCE = 2_000_000
"""Requests that a run holds at a time, under way or waiting: about a gigabyte."""


@dataclass(frozen=True)
class Workload:
    """Requests of classes, each with arrivals of its own (an open loop), or with clients (a closed one), or a trace.

    `requests`: the most that come. `until`: seconds after which none comes. `stretch`: of a trace's times, for another rate.
    `warm_up`: requests that are not counted, the first ones of all clients.
    """

    classes: tuple[Class, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    clients: tuple[Clients, ...] = ()
    trace: Trace | None = None
    stretch: float = 1.0
    requests: int | None = None
    until: float = math.inf
    warm_up: int = 0
    source: str = ""
    """As it was given."""

    @property
    def closed(self) -> bool:
        """Whether requests come because others have ended."""
        return bool(self.clients)

    @property
    def random(self) -> bool:
        """Whether another seed makes another run."""
        return self.trace is None

    @property
    def rate(self) -> float | None:
        """Requests a second that are asked for; None of clients, and of what comes all at once."""
        if self.trace is not None:
            return self.trace.rate / self.stretch if self.trace.rate else None
        rates = [one.rate for one in self.arrivals]
        return None if not rates or None in rates else sum(rate for rate in rates if rate)

    @property
    def expected(self) -> int | None:
        """Requests that will come, as far as that can be told; None where they can not."""
        if self.trace is not None:
            least = len(self.trace)
        else:
            counts = [one.count for one in self.arrivals]
            least = sum(each or 0 for each in counts) if counts and None not in counts else 2**60
        if self.rate is not None and self.until < math.inf:
            least = min(least, round(self.rate * self.until))
        found = min(least, self.requests or 2**60)
        return None if found == 2**60 else found

    @property
    def at_once(self) -> int:
        """Clients that come to send: no more than there are requests."""
        return min(sum(one.clients for one in self.clients), self.requests or 2**60)

    def starts(self) -> list[float]:
        """When the clients that come to send do so first, ascending. They begin in turn, so that of more clients than requests
        the later ones have nothing to send."""
        return list(islice(heapq.merge(*(one.starts() for one in self.clients)), self.at_once))

    def jobs(self, seed: Sequence[int]) -> Iterator[Job]:
        """The requests of an open loop, in the order of their arrival."""
        found = self._traced() if self.trace is not None else self._drawn(seed)
        for job in islice(found, self.requests):
            if job.arrived > self.until:
                return
            yield job

    def lengths(self, seed: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Tokens of prompt and answer, and class, of the requests of a closed loop, as they are sent. Classes by the share of
        their clients."""
        import numpy as np

        rngs = [np.random.default_rng([*seed, kind]) for kind in range(len(self.classes))]
        streams = [_pairs(one, rng) for one, rng in zip(self.classes, rngs, strict=True)]
        if len(streams) == 1:
            drawn: Iterator[tuple[int, int, int]] = ((prompt, answer, 0) for prompt, answer in streams[0])
        else:
            shares = np.cumsum([one.clients for one in self.clients]) / sum(one.clients for one in self.clients)
            which = np.random.default_rng([*seed, len(rngs)])
            drawn = (
                (*next(streams[kind]), kind)
                for kind in (int(np.searchsorted(shares, which.random(), side="right")) for _ in count())
            )
        return islice(drawn, self.requests)

    def _traced(self) -> Iterator[Job]:
        trace = self.trace
        assert trace is not None  # noqa: S101 - asked for only then
        first = 0.0 if trace.arrived is None else float(trace.arrived[0])
        for start in range(0, len(trace), CHUNK):
            part = slice(start, start + CHUNK)
            prompts, answers = trace.prompts[part].tolist(), trace.outputs[part].tolist()
            times = [0.0] * len(prompts)
            if trace.arrived is not None:
                times = ((trace.arrived[part] - first) * self.stretch).tolist()
            for index, (at, prompt, answer) in enumerate(zip(times, prompts, answers, strict=True), start):
                yield Job(index, at, prompt, answer)

    def _drawn(self, seed: Sequence[int]) -> Iterator[Job]:
        import numpy as np

        streams = [
            _stream(one, arrivals, kind, np.random.default_rng([*seed, kind]))
            for kind, (one, arrivals) in enumerate(zip(self.classes, self.arrivals, strict=True))
        ]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams)
        for index, (at, kind, prompt, answer) in enumerate(merged):
            yield Job(index, at, prompt, answer, kind)


def _stream(one: Class, arrivals: Arrivals, kind: int, rng: np.random.Generator) -> Iterator[tuple[float, int, int, int]]:
    left = arrivals.count
    for times in arrivals.times(rng):
        here = times if left is None else times[:left]
        lengths = one.sample(rng, len(here))
        for at, prompt, answer in zip(here.tolist(), lengths[:, 0].tolist(), lengths[:, 1].tolist(), strict=True):
            yield at, kind, prompt, answer
        if left is not None:
            left -= len(here)
            if left <= 0:
                return


def _pairs(one: Class, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    while True:
        lengths = one.sample(rng, CHUNK)
        yield from zip(lengths[:, 0].tolist(), lengths[:, 1].tolist(), strict=True)
