"""The requests of a measured run, served by the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.audit.replay.times import Times
from roofline.errors import InputError
from roofline.serving.simulation.balancers import balancer
from roofline.serving.simulation.book import END, Book
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.loop import open_loop
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.server import Server
from roofline.serving.traffic.engine_run import EngineRun


@dataclass(frozen=True)
class Served:
    """What became of them."""

    times: Times
    preemptions: int


def again(run: EngineRun, server: Server) -> Served:
    """Serve the requests of a run as they arrived.

    As an engine's own times do, latencies begin when the engine looks at what has come, which it does between two steps.

    Raises:
        InputError: a request that the server could never serve.
    """
    import numpy as np

    book = Book()
    replicas = [
        Replica(server.scheduler, server.tables, server.room, book=book, preempting=server.preempting, index=index)
        for index in range(server.replicas)
    ]
    requests = zip(run.arrived.tolist(), run.trace.prompts.tolist(), run.trace.outputs.tolist(), strict=True)
    jobs = [Job(index, *one) for index, one in enumerate(requests)]

    def refuse(job: Job) -> bool:
        if job.prompt + job.answer > server.longest:
            why = f"has {job.prompt + job.answer:,} tokens, and a sequence at most {server.longest:,} (--max-model-len)"
        elif (refusal := replicas[0].refusal(job)) is not None:
            why = refusal
        else:
            return False
        raise InputError(f"{run.trace.path}: request {job.index} {why}: the run had another deployment")

    open_loop(jobs, replicas, balancer(server.balancer, replicas), refuse)
    rows = np.array(book.ends, dtype=np.float64).reshape(-1, len(END))
    ended = dict(zip(END, rows[np.argsort(rows[:, END.index("index")])].T, strict=True))
    seen = np.array([job.seen for job in jobs])
    return Served(Times.of(seen, ended["first"], ended["ended"], run.trace.outputs), book.preemptions)
