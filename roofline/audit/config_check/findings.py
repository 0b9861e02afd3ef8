"""Limits that do not depend on the load's times: memory, what an engine refuses to start with, devices, lengths, money."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.audit.config_check.result import Finding, Verdict
from roofline.audit.config_check.standing import Standing
from roofline.audit.config_check.subject import Subject
from roofline.errors import InputError
from roofline.serving.traffic.classes import Class

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_QUANTILES = 512
_ENOUGH = 1e-9


def at_start(subject: Subject, stands: Standing) -> Iterator[Finding]:
    """Whether the engine starts: room for its longest sequence, steps that hold what they have to, devices for all ranks."""
    fits = stands.starts and stands.seats > 0
    needed = stands.needed_bytes
    yield Finding("memory", None, stands.budget_bytes, needed, needed, needed, "met" if fits else "missed")
    if subject.run.server.name == "vllm":
        least = max(subject.seats, 0 if subject.chunked else stands.longest)
        budget = stands.request.memory.max_num_batched_tokens
        yield _plain("start", budget, least)
    if (gpus := subject.run.gpus) is not None:
        yield _plain("gpus", gpus.value, stands.request.deployment.devices)


def of_lengths(subject: Subject, stands: Standing) -> Iterator[Finding]:
    """Of each class with requests that may be too long: the share of them that the engine refuses."""
    for one in subject.question.traffic.classes:
        share = refused(one, stands.longest)
        if share > 0:
            allowed = 1 - one.percentile
            verdict: Verdict = "missed" if share > allowed + _ENOUGH else "at risk"
            yield Finding("length", one.name, allowed, share, share, share, verdict, one.percentile)


def refused(one: Class, longest: int) -> float:
    """The share of a class's requests that have more tokens than an engine takes, prompt and answer together."""
    import numpy as np

    if one.pairs is not None:
        return float(np.mean(one.pairs.prompts + one.pairs.outputs > longest))
    ends = (one.input_len.maximum, one.output_len.maximum)
    if None not in ends and sum(end for end in ends if end is not None) <= longest:
        return 0.0
    prompts, answers = one.input_len.quantiles(_QUANTILES), one.output_len.quantiles(_QUANTILES)
    return float(np.mean(prompts[:, None] + answers[None, :] > longest))


def of_limits(subject: Subject, stands: Standing) -> Iterator[Finding]:
    """Limits on devices and on money, of all replicas."""
    question, devices = subject.question, stands.request.deployment.devices * subject.replicas
    hardware = question.hardware[0]
    if question.max_gpus is not None:
        yield _plain("max_gpus", question.max_gpus, devices)
    if question.inventory is not None:
        yield _plain("inventory", replace(question, max_gpus=None).devices(hardware), devices)
    if question.max_cost is not None:
        price = question.prices.of(hardware)
        if price is None:
            raise InputError(f"--max-cost needs a price of {hardware.name}, and none is known: give --price FILE")
        hour, high = price.value * devices, price.high * devices
        verdict: Verdict = "missed" if hour > question.max_cost else "at risk" if high > question.max_cost else "met"
        yield Finding("max_cost", None, question.max_cost, hour, price.low * devices, high, verdict)


def _plain(objective: str, limit: float, value: float) -> Finding:
    return Finding(objective, None, limit, value, value, value, "missed" if value > limit else "met")
