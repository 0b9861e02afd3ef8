"""One run of a workload on a server, counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.simulation.balancers import balancer
from roofline.serving.simulation.book import Book
from roofline.serving.simulation.busy import Busy
from roofline.serving.simulation.interrupts import Interrupts, StoppedError
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.loop import Refuse, closed_loop, open_loop
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.rows import Rows
from roofline.serving.simulation.server import Server
from roofline.serving.simulation.tally import Tally
from roofline.serving.simulation.workload import MOST_AT_ONCE, Workload

if TYPE_CHECKING:
    from roofline.serving.simulation.perfetto import Trace

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
    refusals: list[dict[str, Any]] = field(default_factory=list)
    ended: int = 0
    stopped: bool = False
    """Whether somebody put an end to it."""


@dataclass(frozen=True)
class Watchers:
    """Who follows a run. `rows` writes a row a request, `trace` what a viewer shows; `told` hears now and then how many
    requests have ended, of how many; with `interrupts` Ctrl-C ends it."""

    rows: Rows | None = None
    trace: Trace | None = None
    interrupts: Interrupts | None = None
    told: Callable[[int, int | None], None] | None = None


def run(server: Server, asked: Workload, seed: Iterable[int], share: float, watchers: Watchers = Watchers()) -> Run:
    """One run, of which a share of the requests, the first ones, is not counted."""
    expected = asked.expected
    if share and expected is None:
        raise InputError("--warm-up: nobody knows how many requests will come; give --requests")
    cut = asked.warm_up or (int(share * expected) if expected is not None else 0)
    found = _begun(server, asked, cut, watchers.rows)
    tally, trace = found.tally, watchers.trace
    interrupts = watchers.interrupts
    whole, running = (nullcontext, nullcontext) if interrupts is None else (interrupts.whole, interrupts.running)

    def read(book: Book) -> None:
        with whole():
            tally.read(book)
        if watchers.told is not None:
            watchers.told(book.ended, expected)

    book = Book(read)
    replicas = [
        Replica(
            server.scheduler, server.tables, server.room, book=book, preempting=server.preempting, index=index,
            stepwise=server.stepwise,
        )
        for index in range(server.replicas)
    ]  # fmt: skip
    if trace is not None:
        for replica in replicas:
            replica.watch = trace.watch(replica)
    try:
        with running():
            _serve(server, asked, tuple(seed), replicas, book, _gate(server, found, book, replicas[0], trace))
            read(book)
    except StoppedError:
        found.stopped = True
        tally.read(book)
    found.preemptions, found.ended = book.preemptions, book.ended
    return found


def _begun(server: Server, asked: Workload, cut: int, rows: Rows | None) -> Run:
    """A run of which nothing is counted yet."""
    objectives = {
        kind: (one.ttft or math.inf, one.tpot or math.inf) for kind, one in enumerate(asked.classes) if one.ttft or one.tpot
    }
    tally = Tally(
        cut=cut,
        after=math.inf if cut else 0.0,
        objectives=objectives,
        busy=Busy(server.tables),
        rows=rows.write if rows else None,
    )
    return Run(tally, cut=cut)


def _gate(server: Server, found: Run, book: Book, replica: Replica, trace: Trace | None) -> Callable[[Job], bool]:
    """Counts the requests that come, and refuses those that could never be served.

    Raises:
        InputError: by the function that is returned: more requests under way at a time than a run holds.
    """
    # so many tokens, prompt and answer, are never refused: the last is not cached
    most = min(server.longest, (server.room.blocks - server.room.own) * server.room.block_size + 1)

    def refuse(job: Job) -> bool:
        found.arrived += 1
        at = found.latest = job.arrived
        if job.index == 0:
            found.first = at
        if found.cut and job.index == found.cut:
            found.tally.after = at
        total = job.prompt + job.answer
        if total <= most:
            if found.arrived - found.refused - book.ended > MOST_AT_ONCE:
                raise InputError(
                    f"{MOST_AT_ONCE:,} requests are under way or wait {at:,.4g} s after the start, and a run holds no more: "
                    "give fewer --requests, a lower rate, or more --replicas"
                )
            return False
        why = f"{total:,} tokens are more than the {server.longest:,} of a sequence" if total > server.longest else None
        why = why or replica.refusal(job)
        found.refused += 1
        if trace is not None:
            trace.refused(job)
        if len(found.refusals) < _TOLD:
            found.refusals.append({"request": job.index, "prompt": job.prompt, "answer": job.answer, "why": why})
        return True

    return refuse


def _serve(server: Server, asked: Workload, seed: tuple[int, ...], replicas: list[Replica], book: Book, refuse: Refuse) -> None:
    pick = balancer(server.balancer, replicas)
    if not asked.closed:
        open_loop(asked.jobs(seed), replicas, pick, refuse)
        return
    closed_loop(
        asked.lengths(seed), asked.starts(), replicas, pick, refuse, book, think=asked.clients[0].think, until=asked.until
    )
