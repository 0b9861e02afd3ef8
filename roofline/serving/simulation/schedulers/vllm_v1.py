"""vLLM's V1 engine: one budget of tokens a step, for those that decode first, then for prompts, which may be cut.

A request is let in where its whole prompt would fit (`scheduler_reserve_full_isl`, the default since 0.19; before, where the
first part did).
"""

from __future__ import annotations

from roofline.serving.simulation.admission import by_chunk
from roofline.serving.simulation.forming import mixed
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_admitted

SCHEDULER = Scheduler(
    name="vllm-v1",
    about="decodes first, prompts in chunks within one budget; the last let in goes",
    form=mixed,
    admission=by_chunk,
    victim=last_admitted,
    whole=True,
    chunked=True,
    source="vLLM 0.19, vllm/v1/core/sched/scheduler.py (Scheduler.schedule)",
)
