"""vLLM's V1 engine with asynchronous scheduling, its default since 0.14: as `vllm-v1`, but formed ahead.

A step is formed while the one before runs, so that no device waits for the scheduler. Whoever comes in a step waits for its
end and for the next step.

NB: a request that is preempted loses the token of the step that runs meanwhile; here it keeps it.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.serving.simulation.schedulers import vllm_v1

SCHEDULER = replace(
    vllm_v1.SCHEDULER,
    name="vllm-v1-async",
    about="as vllm-v1; each step is formed while the one before runs",
    ahead=True,
    source="vLLM 0.19, vllm/v1/engine/core.py (EngineCore.step_with_batch_queue), vllm/v1/core/sched/async_scheduler.py",
)
