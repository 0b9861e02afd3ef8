"""What to change when a deployment does not fit: each suggestion is tried, and only what fits is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.blocks.precision import resolve_precision
from roofline.errors import InputError
from roofline.graph import check_parallel, communicating
from roofline.predict.memory import largest
from roofline.predict.request import Request
from roofline.predict.result import Memory


def what_would_fit(request: Request, result: Memory) -> Iterator[str]:
    """Flags of which any one would make it fit, in the order of how little they change."""
    workload = request.workload
    if result.max_batch_of_steps:
        yield f"--batch {result.max_batch_of_steps}"
    decodes = any(name == "decode" for name, _ in workload.steps) and workload.output_len is None
    if decodes and not workload.segmented and workload.context > 1:
        context = largest(lambda length: _fits_after(request, length), workload.context - 1)
        if context:
            yield f"--context {context}"
    for name, change in (("kv_cache_dtype", "fp8"), ("quantization", "fp8"), ("quantization", "awq")):
        if getattr(request.deployment, name) is None and _changed_fits(request, {name: change}):
            yield f"--{name.replace('_', '-')} {change}"
    size = request.deployment.tensor_parallel_size
    for bigger in (2 * size, 4 * size, 8 * size, 16 * size):
        if _changed_fits(request, {"tensor_parallel_size": bigger}):
            yield f"--tensor-parallel-size {bigger}"
            break


def _fits_after(request: Request, length: int) -> bool:
    """Whether every step fits if sequences are decoded after so many tokens."""
    steps = (
        tuple(replace(segment, cached=length) if segment.decode else segment for segment in step)
        for _, step in request.memory_steps()
    )
    return all(request.memory.fits(step) for step in steps)


def _changed_fits(request: Request, change: dict[str, object]) -> bool:
    deployment = request.deployment.model_copy(update=change)
    try:
        check_parallel(request.model, deployment)
        for group in communicating(deployment):
            request.hardware.connection(group)
        precision, _ = resolve_precision(
            request.model,
            deployment,
            request.hardware.accelerator.peak_flops,
            request.engine,
        )
    except InputError:
        return False
    memory = replace(request.memory, deployment=deployment, precision=precision)
    return replace(request, memory=memory).all_fit()
