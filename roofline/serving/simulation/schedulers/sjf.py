"""Shortest job first: as vLLM's V1, but of those that wait the one with the fewest tokens, prompt and answer, is next.

NB: the length of an answer is taken to be known.
"""

from __future__ import annotations

from roofline.serving.simulation.admission import by_chunk
from roofline.serving.simulation.forming import mixed
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.queues import Ordered
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_admitted


def _tokens(job: Job) -> int:
    return job.prompt + job.answer


SCHEDULER = Scheduler(
    name="sjf",
    about="as vllm-v1; of those that wait the shortest, prompt and answer, is next",
    form=mixed,
    admission=by_chunk,
    victim=last_admitted,
    queue=lambda: Ordered(_tokens),
    whole=True,
    chunked=True,
)
