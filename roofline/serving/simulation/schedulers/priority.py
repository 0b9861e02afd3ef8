"""Priority: as vLLM's V1 with `--scheduling-policy priority`. Classes of requests in the order of their importance."""

from __future__ import annotations

from roofline.serving.simulation.admission import by_chunk
from roofline.serving.simulation.forming import mixed
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.queues import Ordered
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import least_important


def _class(job: Job) -> int:
    return job.kind


SCHEDULER = Scheduler(
    name="priority",
    about="as vllm-v1; the first class is next, and the last class goes",
    form=mixed,
    admission=by_chunk,
    victim=least_important,
    queue=lambda: Ordered(_class),
    whole=True,
    chunked=True,
    source="vLLM 0.19, vllm/v1/core/sched/request_queue.py (PriorityRequestQueue)",
)
