"""The order of candidates."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.serving.planning.assemble import Draft, cost_per_hour
from roofline.serving.planning.question import Question
from roofline.serving.queueing.steady import steady


def quick_times(question: Question, draft: Draft) -> tuple[float, float]:
    """Mean TTFT and TPOT of a draft, without bands and percentiles."""
    if draft.seen is not None:
        return draft.seen.expected.ttft.mean or 0.0, draft.seen.expected.tpot.mean or 0.0
    rate = question.load.rate or 0.0
    first, later = draft.parts[0], draft.parts[-1]
    prompts = steady(first[1].server, rate / (first[2] + draft.spare))
    answers = prompts if later is first else steady(later[1].server, rate / (later[2] + draft.spare))
    shares = [service.mix.share for service in question.load.services]
    return (
        sum(share * float(prompts.ttft_mean(k)[0]) for k, share in enumerate(shares)),
        sum(share * float(answers.tpot_mean(k)[0]) for k, share in enumerate(shares)),
    )


def order(question: Question, found: Sequence[Draft]) -> list[tuple[Draft, tuple[float, ...]]]:
    """Drafts by what is asked to be least; each with what it is judged by: cost (devices, where any has no price), TTFT, TPOT.

    Of equal ones that with fewer devices comes first, and then the quicker one. Where cost is asked for, what has no price
    comes last.
    """
    judged = []
    costs = [cost_per_hour(question, draft) for draft in found]
    priced = None not in costs
    for draft, cost in zip(found, costs, strict=True):
        ttft, tpot = quick_times(question, draft)
        key: tuple[float, ...] = (float("inf") if cost is None else cost, draft.devices, tpot, ttft)
        if question.rank == "gpus":
            key = (draft.devices, key[0], tpot, ttft)
        elif question.rank == "latency":
            key = (_slowness(question, ttft, tpot), key[0], draft.devices)
        judged.append((draft, key, (cost if priced and cost is not None else float(draft.devices), ttft, tpot)))
    judged.sort(key=lambda each: each[1])
    return [(draft, measures) for draft, _, measures in judged]


def _slowness(question: Question, ttft: float, tpot: float) -> float:
    """Seconds of a mean request from its arrival to its last token."""
    return ttft + max(question.load.mean_output - 1, 0) * tpot
