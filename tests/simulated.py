"""Servers in small: a replica with its events, and random worlds for properties."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.serving.simulation.balancers import balancer
from roofline.serving.simulation.book import Book
from roofline.serving.simulation.eviction import MODES, Linear, Preempting
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.loop import closed_loop, open_loop
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.room import Room
from roofline.serving.simulation.schedulers import scheduler, schedulers
from roofline.serving.simulation.step_time import Cell, Chunk, StepTime

Event = tuple[Any, ...]
Tell = Callable[[Replica], Callable[[Event], None]]
"""What makes a listener for the events of a replica."""


@dataclass(frozen=True)
class Bent:
    """Steps whose time bends twice with the context; each prompt token, and pair with what is cached, takes its time."""

    base: float
    each: float
    cached: float
    token: float
    pair: float

    def cells(self, sequences: int) -> list[Cell]:
        """Three pieces that meet at 40 and 100 cached tokens a sequence."""
        n, start, slope = sequences, self.base + self.each * sequences, self.cached
        return [
            (40 * n, start, slope),
            (100 * n, start - 20 * n * slope, 1.5 * slope),
            (math.inf, start + 80 * n * slope, 0.5 * slope),
        ]

    def mixed(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        """The same, and the prompts."""
        found = self.base
        if sequences:
            found = next(base + slope * cached for below, base, slope in self.cells(sequences) if cached < below)
        return found + sum(new * (self.token + self.pair * before) for new, before in chunks)


@dataclass
class Served:
    """What happened: events of each replica, the book, who was refused, the replicas as they were left."""

    replicas: list[Replica]
    book: Book
    events: list[tuple[int, Event]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def of(self, *kinds: str, replica: int = 0) -> list[Event]:
        """Events of some kinds (all, where none is named) of a replica."""
        return [event for at, event in self.events if at == replica and (not kinds or event[0] in kinds)]


def serve(
    name: str, jobs: Sequence[Job], times: StepTime, room: Room, *, replicas: int = 1, stepwise: bool = False,
    preempting: Preempting | None = None, way: str = "round-robin", clients: Sequence[float] = (), think: float = 0.0,
    tell: Tell | None = None,
) -> Served:  # fmt: skip
    """Serve requests; with `clients`, when those start, in a closed loop. `tell` hears of every event too."""
    book = Book()
    found = Served([], book)
    found.replicas = [
        Replica(scheduler(name), times, room, book=book, preempting=preempting, index=index, stepwise=stepwise)
        for index in range(replicas)
    ]

    def listen(index: int, other: Callable[[Event], None] | None) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            found.events.append((index, event))
            if other is not None:
                other(event)

        return heard

    for index, replica in enumerate(found.replicas):
        replica.watch = listen(index, None if tell is None else tell(replica))

    def refuse(job: Job) -> bool:
        if found.replicas[0].refusal(job) is None:
            return False
        found.refused.append(job.index)
        return True

    pick = balancer(way, found.replicas)
    if clients:
        lengths = iter([(job.prompt, job.answer, job.kind) for job in jobs])
        closed_loop(lengths, clients, found.replicas, pick, refuse, book, think=think)
    else:
        open_loop(jobs, found.replicas, pick, refuse)
    return found


@dataclass(frozen=True)
class World:
    """A random server under a random workload, often too small for it."""

    name: str
    mode: str
    run: Callable[..., Served]
    """Serves it, step by step or not; `tell` as that of `serve`."""
    requests: tuple[tuple[float, int, int, int], ...]
    """Arrival, tokens of prompt and answer, class; in a closed loop the arrival says nothing."""


def world(seed: int) -> World:
    """The world of a seed."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    name = rng.choice(sorted(schedulers()))
    size, blocks = rng.choice([1, 3, 4, 16]), rng.randint(6, 80)
    room = Room(blocks, size, seats=rng.randint(1, 12), budget=rng.randint(12, 64), own=rng.choice([0, 0, 1]))
    mode = rng.choice(MODES)
    costs = Linear(rng.random() * 0.1, rng.random() * 0.03, rng.random() * 0.5)
    preempting = Preempting(mode, costs, rng.choice([math.inf, 60]))
    times = Bent(rng.uniform(0.5, 2), rng.random() * 0.1, rng.random() * 0.01, rng.random() * 0.1, rng.random() * 0.001)
    replicas, way = rng.choice([1, 1, 2, 3]), rng.choice(["round-robin", "least-loaded"])
    many, top = rng.randint(1, 40), max(2, blocks * size // 2)
    pace = rng.choice([0, 0.1, 1, 10])
    at, requests = 0.0, []
    for _ in range(many):
        requests.append((at, rng.randint(1, top), rng.randint(1, top), rng.randint(0, 2)))
        at += rng.expovariate(1 / pace) if pace else 0.0
    clients = [rng.random() * 3 for _ in range(rng.randint(1, 8))] if rng.random() < 0.3 else []

    def run(stepwise: bool, tell: Tell | None = None) -> Served:
        jobs = [Job(index, *request) for index, request in enumerate(requests)]
        return serve(
            name, jobs, times, room, replicas=replicas, stepwise=stepwise, preempting=preempting, way=way, clients=clients,
            think=0.3, tell=tell,
        )  # fmt: skip

    return World(name, mode, run, tuple(requests))
