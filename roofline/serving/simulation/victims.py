"""Who is preempted when a block is needed and none is free. Each is asked only while somebody holds a seat."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.serving.simulation.job import Job
    from roofline.serving.simulation.replica import Replica


def last_admitted(replica: Replica) -> Job:
    """The end of the running list, as vLLM's V1 does."""
    return next(reversed(replica.running))


def last_arrived(replica: Replica) -> Job:
    """Who came last, as vLLM's V0 does: those that came first are served first, also after a preemption."""
    return max(replica.running, key=lambda job: (job.arrived, job.index))


def least_important(replica: Replica) -> Job:
    """Of the last class, who came last."""
    return max(replica.running, key=lambda job: (job.kind, job.arrived, job.index))
