"""The cache in other formats: two bytes an element, and one."""

from __future__ import annotations

from dataclasses import replace

from roofline.blocks.precision import resolve_precision
from roofline.predict.limits.variants.base import Variant
from roofline.predict.request import Request
from roofline.predict.speculative.memory import SpeculativeMemory

_TRIED = ("bf16", "fp8")


def variants(request: Request) -> list[Variant]:
    """The formats of another size than the one in use, where anything is cached a token."""
    memory = request.memory
    if not memory.fullest.layout.kinds:
        return []
    found = []
    for name in _TRIED:
        deployment = request.deployment.model_copy(update={"kv_cache_dtype": name})
        multiplies = request.hardware.accelerator.peak_flops
        precision, _ = resolve_precision(request.model, deployment, multiplies, request.engine)
        if precision.kv.bytes != request.precision.kv.bytes:
            why = f"{precision.kv.bytes:g} byte{'s' * (precision.kv.bytes != 1)} an element"
            changed = replace(memory, deployment=deployment, precision=precision)
            if isinstance(changed, SpeculativeMemory) and (draft := changed.draft) is not None:
                changed = replace(changed, draft=replace(draft, precision=replace(draft.precision, kv=precision.kv)))
            found.append(Variant(f"KV in {name}", why, changed))
    return found
