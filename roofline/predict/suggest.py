"""What to change when a deployment does not fit: each suggestion is tried, and only what fits is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.errors import InputError
from roofline.graph import check_parallel
from roofline.predict.request import Request
from roofline.predict.result import Memory
from roofline.specs.precision import resolve_precision


def what_would_fit(request: Request, result: Memory) -> Iterator[str]:
    """Flags that would make it fit, in the order of how little they change."""
    if 0 < result.max_batch < request.workload.batch:
        yield f"--batch {result.max_batch} at this context"
    if result.max_context is not None and 0 < result.max_context < request.workload.context:
        yield f"--context {result.max_context} at this batch"
    for kind, change in (
        ("kv_cache_dtype", "fp8"),
        ("quantization", "fp8"),
        ("quantization", "awq"),
    ):
        if getattr(request.deployment, kind) is None and _fits(request, {kind: change}):
            yield f"--{kind.replace('_', '-')} {change}"
    size = request.deployment.tensor_parallel_size
    for bigger in (2 * size, 4 * size, 8 * size, 16 * size):
        if _fits(request, {"tensor_parallel_size": bigger}):
            yield f"--tensor-parallel-size {bigger}"
            break


def _fits(request: Request, change: dict[str, object]) -> bool:
    deployment = request.deployment.model_copy(update=change)
    try:
        check_parallel(request.model, deployment)
        precision, _ = resolve_precision(request.model, deployment, request.hardware.accelerator.peak_flops)
        if deployment.tensor_parallel_size > 1:
            request.hardware.link(deployment.tensor_parallel_size)
    except InputError:
        return False
    memory = replace(request.memory, deployment=deployment, precision=precision)
    return all(memory.fits(step) for _, step in request.workload.steps)
