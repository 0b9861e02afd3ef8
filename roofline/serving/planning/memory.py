"""How many requests a replica holds at a time."""

from __future__ import annotations

from dataclasses import replace

from roofline.predict.request import Request
from roofline.predict.steps import PhaseName, Workload
from roofline.serving.planning.load import Load
from roofline.specs.workload import Step, decode, prefill

MAX_SLOTS = 1024
"""The most that engines run at a time unless they are told more."""


def slots_in_memory(request: Request, load: Load) -> int:
    """Requests of mean length, each at its last token, that memory holds on each rank, as `analyze` says; 0: not one.

    NB: most of those that run are not at their last token; what they leave free is for those that are longer than the mean.
    """
    ranks = request.deployment.data_parallel_size
    context = max(round(load.mean_input + load.mean_output) - 1, 1)
    most = request.memory.max_batch(context)
    slots = min(MAX_SLOTS * ranks, most) // ranks
    while slots and not asked(request, load, slots).all_fit():
        slots = min(slots - 1, int(slots * 0.98))
    return slots


def asked(request: Request, load: Load, slots: int) -> Request:
    """The question to `analyze`: so many requests a rank of mean lengths, from the prompt to the last token."""
    batch = slots * request.deployment.data_parallel_size
    prompt, answer = max(round(load.mean_input), 1), max(round(load.mean_output), 1)
    steps: tuple[tuple[PhaseName, Step], ...] = (("prefill", prefill(batch, prompt)), ("decode", decode(batch, prompt)))
    return replace(request, workload=Workload(batch, prompt, answer, prompt, steps))


def longest_held(request: Request, wanted: int) -> int:
    """The longest sequence, up to what is wanted, that every rank holds alone: an engine refuses to start with a longer one."""
    ranks = request.deployment.data_parallel_size
    most = request.memory.max_context(ranks)
    return wanted if most is None else min(wanted, most + 1)
