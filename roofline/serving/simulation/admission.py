"""How many blocks a request has to find before it gets a seat. `new`: tokens of its prompt that the step would compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.serving.simulation.job import Job
    from roofline.serving.simulation.replica import Replica


def by_chunk(replica: Replica, job: Job, new: int) -> int:
    """Those of the chunk; the rest is looked for when it is computed."""
    return replica.blocks_of(job.computed + new)


def by_prompt(replica: Replica, job: Job, new: int) -> int:
    """Those of the whole prompt, and of what it had generated when it was preempted."""
    return replica.blocks_of(job.target)


def by_length(replica: Replica, job: Job, new: int) -> int:
    """Those of its last step, reserved from the first: it never runs short. The length of its answer is taken to be known."""
    return replica.blocks_of(job.longest)
