"""vLLM's V0 engine: a step has whole prompts, as long as any can be let in, or decodes; 1 % of the blocks stays free at
admission.

NB: V0 wants a free block for each sequence that decodes, needed or not; here it has to be needed.
"""

from __future__ import annotations

from roofline.serving.simulation.admission import by_prompt
from roofline.serving.simulation.forming import prompts_first
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_arrived

SCHEDULER = Scheduler(
    name="vllm-v0",
    about="prompts first, in steps of their own; the last arrived goes",
    form=prompts_first,
    admission=by_prompt,
    victim=last_arrived,
    watermark=0.01,
    source="vLLM 0.6, vllm/core/scheduler.py (Scheduler._schedule_default); Kwon et al. 2023, arXiv:2309.06180, section 4.5",
)
