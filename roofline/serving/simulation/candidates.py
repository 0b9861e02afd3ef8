"""Preemption candidates: the running request that is preempted when a block is missing.

Packages add more through the entry-point group `roofline.preemption_candidates`, each a `PreemptionCandidate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.registry import Registry
from roofline.serving.simulation.request import Request

if TYPE_CHECKING:
    from roofline.serving.simulation.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A way to choose.

    Args:
        name: as `--preemption-candidate` has it.
        about: one line on which it is.
        choose: returns the running request that is preempted; `Scheduler.num_missing_blocks` are missing.
        source: where it is described.
    """

    name: str
    about: str
    choose: Callable[[Scheduler], Request]
    source: str = ""


def last_admitted(scheduler: Scheduler) -> Request:
    """The end of the running list, as vLLM's V1 does."""
    return next(reversed(scheduler.running))


def last_arrived(scheduler: Scheduler) -> Request:
    """The request that arrived last, as vLLM's V0 does: first come, first served, also after a preemption."""
    return max(scheduler.running, key=lambda request: (request.arrival_time, request.index))


def least_important(scheduler: Scheduler) -> Request:
    """Of the last class, the request that arrived last."""
    return max(scheduler.running, key=lambda request: (request.class_index, request.arrival_time, request.index))


def fewest_output_tokens(scheduler: Scheduler) -> Request:
    """The request with the fewest output tokens; of equal ones that with the longest prompt, the last admitted."""
    batch = scheduler.batch

    def key(request: Request) -> tuple[int, int]:
        more = batch.num_output_tokens(request) if request.final_step >= 0 else request.num_output_tokens
        return more, -request.num_prompt_tokens

    return min(reversed(scheduler.running), key=key)


def cheapest(scheduler: Scheduler) -> Request:
    """The request whose loss costs the fewest seconds, of those that free as many blocks as are missing, if there are any.

    A loss costs the copies to the host and back where the cache would be swapped, else an empty step that computes its tokens
    again. It never falls while a request runs, so that the request that is dearest ends.
    """
    batch, cache, preemption = scheduler.batch, scheduler.kv_cache, scheduler.preemption
    mixed = scheduler.step_time.mixed

    def key(request: Request) -> tuple[bool, float]:
        decodes = request.final_step >= 0
        num_tokens = int(batch.cached_tokens(request)) if decodes else request.num_computed_tokens
        num_blocks = cache.blocks_held(request, batch.num_steps, allocated=False) if decodes else request.num_blocks
        num_prefix = request.num_prefix_tokens
        if decodes and preemption.swaps(num_tokens, scheduler.num_swapped_tokens, num_prefix):
            seconds = sum(preemption.costs.swap_seconds(num_tokens))
        else:
            num_dropped = num_tokens - num_prefix
            seconds = mixed(0, 0, [(num_dropped, num_prefix)]) if num_dropped > 0 else 0.0
        return num_blocks < scheduler.num_missing_blocks, seconds

    return min(reversed(scheduler.running), key=key)


CANDIDATES: Registry[PreemptionCandidate] = Registry(
    "preemption candidate",
    (
        PreemptionCandidate(
            "last-admitted", "the request that was admitted last", last_admitted,
            "vLLM 0.19, vllm/v1/core/sched/scheduler.py: the end of the running list",
        ),
        PreemptionCandidate(
            "last-arrived", "the request that arrived last", last_arrived,
            "Kwon et al. 2023, arXiv:2309.06180, section 4.5; vLLM 0.6, vllm/core/scheduler.py",
        ),
        PreemptionCandidate(
            "least-important", "of the last class, the request that arrived last", least_important,
            "vLLM 0.19, vllm/v1/core/sched/scheduler.py, with `--scheduling-policy priority`",
        ),
        PreemptionCandidate(
            "fewest-output-tokens", "the fewest output tokens so far; of equal ones the longest prompt", fewest_output_tokens,
            "SGLang 0.5, managers/schedule_batch.py (ScheduleBatch.retract_decode)",
        ),
        PreemptionCandidate(
            "cheapest",
            "the fewest seconds to compute its tokens again, or to copy them out and back, of those that free what is missing",
            cheapest,
        ),
    ),
    group="roofline.preemption_candidates",
    accepts=PreemptionCandidate,
)  # fmt: skip
"""Ways to choose the request that is preempted, by name."""
