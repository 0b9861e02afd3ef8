"""One run of a workload on a server, counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError
from roofline.simulation.balancers import balancer
from roofline.simulation.book import Book
from roofline.simulation.busy import Busy
from roofline.simulation.job import Job
from roofline.simulation.loop import closed_loop, open_loop
from roofline.simulation.replica import Replica
from roofline.simulation.rows import Rows
from roofline.simulation.server import Server
from roofline.simulation.tally import Tally
from roofline.simulation.workload import Workload

_TOLD = 5  # refusals


@dataclass
class Run:
    """One run: what was counted, and who was refused."""

    tally: Tally
    arrived: int = 0
    refused: int = 0
    cut: int = 0
    preemptions: int = 0
    first: float = math.inf
    """When the first request came, and the last."""
    latest: float = 0.0
    refusals: tuple[dict[str, Any], ...] = ()


def run(server: Server, asked: Workload, seed: Iterable[int], share: float, rows: Rows | None) -> Run:
    """One run."""
    objectives = {
        kind: (one.ttft or math.inf, one.tpot or math.inf) for kind, one in enumerate(asked.classes) if one.ttft or one.tpot
    }
    expected = asked.expected
    cut = int(share * expected) if expected is not None else 0
    if share and expected is None:
        raise InputError("--warm-up: nobody knows how many requests will come; give --requests")
    tally = Tally(
        cut=cut,
        after=math.inf if cut else 0.0,
        objectives=objectives,
        busy=Busy(server.tables),
        rows=rows.write if rows else None,
    )
    found = Run(tally, cut=cut)
    book = Book(tally.read)
    replicas = [
        Replica(
            server.scheduler, server.tables, server.room, book=book, preempting=server.preempting, index=index,
            stepwise=server.stepwise,
        )
        for index in range(server.replicas)
    ]  # fmt: skip
    refusals: list[dict[str, Any]] = []

    # so many tokens, prompt and answer, are never refused: the last is not cached
    most = min(server.longest, (server.room.blocks - server.room.own) * server.room.block_size + 1)

    def refuse(job: Job) -> bool:
        found.arrived += 1
        at = found.latest = job.arrived
        if job.index == 0:
            found.first = at
        if cut and job.index == cut:
            tally.after = at
        total = job.prompt + job.answer
        if total <= most:
            return False
        why = f"{total:,} tokens are more than the {server.longest:,} of a sequence" if total > server.longest else None
        why = why or replicas[0].refusal(job)
        found.refused += 1
        if len(refusals) < _TOLD:
            refusals.append({"request": job.index, "prompt": job.prompt, "answer": job.answer, "why": why})
        return True

    pick = balancer(server.balancer, replicas)
    numbers = tuple(seed)
    if asked.closed:
        starts = [one.ramp * index / one.clients for one in asked.clients for index in range(one.clients)]
        closed_loop(
            asked.lengths(numbers), starts, replicas, pick, refuse, book, think=asked.clients[0].think, until=asked.until
        )
    else:
        open_loop(asked.jobs(numbers), replicas, pick, refuse)
    tally.read(book)
    found.preemptions, found.refusals = book.preemptions, tuple(refusals)
    return found
