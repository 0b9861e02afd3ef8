"""The schedulers that ship: how each forms a step, which blocks it wants at admission, which request it preempts.

Packages add schedulers through the entry-point group `roofline.schedulers`, each a `SchedulingPolicy`.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.registry import Registry
from roofline.serving.simulation.candidates import last_admitted, last_arrived, least_important
from roofline.serving.simulation.queues import LeastServed, PriorityQueue, ShortestFirst
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import Scheduler, SchedulingPolicy

# How a step is formed


def _decodes_first(scheduler: Scheduler) -> None:
    """A token of each request that decodes, then prompts that were begun; what is left of the budget goes to waiting requests,
    unless one was preempted."""
    scheduler.decodes = True
    num_decodes = scheduler.batch.num_sequences
    if num_decodes:
        scheduler.allocate_decodes()
        num_decodes = scheduler.batch.num_sequences
    token_budget = scheduler.max_num_batched_tokens - num_decodes * scheduler.num_step_tokens
    if scheduler.prefilling:
        for request in list(scheduler.prefilling):
            num_new_tokens = min(request.num_tokens - request.num_computed_tokens, token_budget)
            if num_new_tokens <= 0 or request not in scheduler.running:
                continue
            if not scheduler.allocate_chunk(request, num_new_tokens):
                break
            scheduler.prefills.append((request, num_new_tokens))
            token_budget -= num_new_tokens
    if not scheduler.preempted:
        if scheduler.swapped:
            token_budget -= scheduler.resume_swapped() * scheduler.num_step_tokens
        scheduler.admit_waiting(token_budget)


def _prompts_first(scheduler: Scheduler) -> None:
    """Prompts alone as long as any can be admitted, else decodes. None is admitted while a request is on the host."""
    scheduler.decodes = False
    if not scheduler.swapped:
        scheduler.admit_waiting(scheduler.max_num_batched_tokens)
    if scheduler.prefills:
        return
    scheduler.decodes = True
    scheduler.allocate_decodes()
    if not scheduler.preempted:
        scheduler.resume_swapped()


def _prompts_first_in_chunks(scheduler: Scheduler) -> None:
    """The prompt that was cut, then those of waiting requests, the last of them cut, without decodes; else decodes alone."""
    scheduler.decodes = False
    token_budget = scheduler.max_num_batched_tokens
    for request in list(scheduler.prefilling):
        num_new_tokens = min(request.num_tokens - request.num_computed_tokens, token_budget)
        if request not in scheduler.running:
            continue
        if num_new_tokens <= 0 or not scheduler.allocate_chunk(request, num_new_tokens):
            break
        scheduler.prefills.append((request, num_new_tokens))
        token_budget -= num_new_tokens
    if not scheduler.preempted and not scheduler.swapped:
        scheduler.admit_waiting(token_budget)
    if scheduler.prefills:
        return
    scheduler.decodes = True
    scheduler.allocate_decodes()
    if not scheduler.preempted:
        scheduler.resume_swapped()


def _static_batches(scheduler: Scheduler) -> None:
    """A batch is admitted when the last one has ended; its prompts are computed, then it decodes until its last end."""
    scheduler.decodes = False
    if not scheduler.running:
        scheduler.admit_waiting(0)
    token_budget = scheduler.max_num_batched_tokens
    for request in scheduler.prefilling:
        num_new_tokens = request.num_tokens - request.num_computed_tokens
        if num_new_tokens > token_budget and scheduler.prefills:
            break
        scheduler.prefills.append((request, num_new_tokens))
        token_budget -= num_new_tokens


# Blocks at admission


def _blocks_of_chunk(scheduler: Scheduler, request: Request, num_new_tokens: int) -> int:
    """Blocks of the first chunk; the others are allocated when they are computed."""
    return scheduler.kv_cache.blocks_of(request.num_computed_tokens + num_new_tokens)


def _blocks_of_prompt(scheduler: Scheduler, request: Request, num_new_tokens: int) -> int:
    """Blocks of the whole prompt, and of the output before a preemption."""
    return scheduler.kv_cache.blocks_of(request.num_tokens)


def _blocks_of_last_step(scheduler: Scheduler, request: Request, num_new_tokens: int) -> int:
    """Blocks of the final length, reserved at admission. The output length is assumed to be known."""
    return scheduler.kv_cache.final_blocks(request)


# The schedulers

VLLM_V0 = SchedulingPolicy(
    name="vllm-v0",
    about="prompts first, in steps of their own; the last arrived is preempted",
    # NB: V0 wants a free block for each sequence that decodes, needed or not; here it has to be needed
    schedule=_prompts_first,
    blocks_to_admit=_blocks_of_prompt,
    preemption_candidate=last_arrived,
    mixed_steps=False,
    watermark=0.01,
    source="vLLM 0.6, vllm/core/scheduler.py (Scheduler._schedule_default); Kwon et al. 2023, arXiv:2309.06180, section 4.5",
)

VLLM_V1 = SchedulingPolicy(
    name="vllm-v1",
    about="decodes first, prompts in chunks within one budget; the last admitted is preempted",
    schedule=_decodes_first,
    blocks_to_admit=_blocks_of_chunk,
    preemption_candidate=last_admitted,
    # `scheduler_reserve_full_isl`, the default since 0.19; before, the first chunk had to fit
    full_prompt_must_fit=True,
    chunked_prefill=True,
    loads_prefixes=True,
    source="vLLM 0.19, vllm/v1/core/sched/scheduler.py (Scheduler.schedule)",
)

VLLM_V1_ASYNC = replace(
    VLLM_V1,
    name="vllm-v1-async",
    about="as vllm-v1; each step is formed while the one before runs",
    # vLLM's default since 0.14. A request that arrives in a step waits for its end and for the next step.
    # NB: a preempted request loses the token of the step that runs meanwhile; here it keeps it
    async_scheduling=True,
    source="vLLM 0.19, vllm/v1/engine/core.py (EngineCore.step_with_batch_queue), vllm/v1/core/sched/async_scheduler.py",
)

PRIORITY = replace(
    VLLM_V1,
    name="priority",  # vLLM's `--scheduling-policy priority`
    about="as vllm-v1; the first class is next, and the last class is preempted",
    preemption_candidate=least_important,
    queue=lambda: PriorityQueue(lambda request: request.class_index),
    source="vLLM 0.19, vllm/v1/core/sched/request_queue.py (PriorityRequestQueue)",
)

SJF = replace(
    VLLM_V1,
    name="sjf",
    about="as vllm-v1; of the waiting requests the shortest, prompt and output, is next",
    # NB: the output length is known, or predicted with an error (--length-error)
    queue=ShortestFirst(),
    source="Fu et al. 2024, arXiv:2408.15792, with predicted lengths; without a prediction it is first come, first served",
)

FAIR = replace(
    VLLM_V1,
    name="fair",
    about="as vllm-v1; of the waiting classes the one that was served least is next (virtual token counter, VTC)",
    queue=LeastServed(),
    source="Sheng et al. 2024, arXiv:2401.00588, algorithm 2",
)

SARATHI = SchedulingPolicy(
    name="sarathi",
    about="decodes first, prompts in chunks within 512 tokens; blocks for whole prompts; the last arrived is preempted",
    schedule=_decodes_first,
    blocks_to_admit=_blocks_of_prompt,
    preemption_candidate=last_arrived,
    chunked_prefill=True,
    loads_prefixes=True,
    watermark=0.01,
    max_num_batched_tokens=512,
    source="Agrawal et al. 2024, arXiv:2403.02310, algorithm 3",
)

ORCA = SchedulingPolicy(
    name="orca",
    about="whole prompts beside decodes; blocks reserved for the whole output, none is preempted",
    # NB: the output length is assumed to be known ("Orca (Oracle)" of arXiv:2309.06180, section 6.1)
    schedule=_decodes_first,
    blocks_to_admit=_blocks_of_last_step,
    preemption_candidate=last_admitted,
    reserves_output=True,
    loads_prefixes=True,
    source="Yu et al. 2022 (Orca), OSDI, algorithm 1",
)

NO_EVICT = replace(
    ORCA,
    name="no-evict",
    about="TensorRT-LLM's default: as orca, a request starts once blocks for all of it are free, and none is preempted",
    slot_while_receiving=True,  # measured TTFT of its decode servers has the wait for a slot (tests/golden)
    source="TensorRT-LLM, CapacitySchedulerPolicy.GUARANTEED_NO_EVICT (llmapi/llm_args.py, SchedulerConfig)",
)

SGLANG = SchedulingPolicy(
    name="sglang",
    about="prompts first, in steps of their own and in chunks; each step is formed while the one before runs",
    # NB: SGLang also leaves room for a share of the output tokens that running requests may still have (new_token_ratio)
    schedule=_prompts_first_in_chunks,
    blocks_to_admit=_blocks_of_chunk,
    preemption_candidate=last_admitted,
    full_prompt_must_fit=True,
    chunked_prefill=True,
    loads_prefixes=True,
    async_scheduling=True,
    mixed_steps=False,
    source="SGLang 0.5, managers/scheduler.py (get_next_batch_to_run, event_loop_overlap), managers/schedule_policy.py",
)

STATIC = SchedulingPolicy(
    name="static",
    about="a batch runs until all its requests have ended",
    schedule=_static_batches,
    blocks_to_admit=_blocks_of_last_step,
    preemption_candidate=last_admitted,
    reserves_output=True,
    static_batching=True,
    mixed_steps=False,
    source="Yu et al. 2022 (Orca), OSDI, section 2: the baseline",
)

SCHEDULERS: Registry[SchedulingPolicy] = Registry(
    "scheduler",
    (FAIR, NO_EVICT, ORCA, PRIORITY, SARATHI, SGLANG, SJF, STATIC, VLLM_V0, VLLM_V1, VLLM_V1_ASYNC),
    group="roofline.schedulers",
    accepts=SchedulingPolicy,
)
"""Scheduling policies by name."""
