"""What the numbers of a deployment stand on: formats, the engine's defaults, and whose kernels were measured."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.graph import build
from roofline.predict import record
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import Request
from roofline.serving.planning.load import Load
from roofline.specs.assumption import Assumption
from roofline.specs.workload import Step, decode, prefill

_WORKLOAD = ("batch", "input_len", "context", "max_num_seqs", "max_num_batched_tokens")
"""What a plan chooses, or has from the traffic."""


def stands_on(request: Request, load: Load) -> Iterable[Assumption]:
    """The choices behind a deployment, and what its estimates stand on."""
    yield from (note for note in request.assumptions if note.name not in _WORKLOAD)
    if not request.estimator.applies:
        yield from record.no_estimate(request.deployment.backend)
        return
    ranks = request.deployment.data_parallel_size
    slots = request.deployment.max_num_seqs or 1
    steps: tuple[Step, ...] = (
        decode(slots * ranks, max(round(load.mean_input + load.mean_output), 1)), prefill(ranks, max(round(load.mean_input), 1))
    )  # fmt: skip
    launched: list[Kernel] = []
    for step in steps:
        launched += kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage))
    yield from record.estimates(request.estimator, launched)
    yield from record.engine_steps(request.steps)
