"""The log is of another card than the hardware that was given, or of a slice of it."""

from __future__ import annotations

from roofline.audit.engine_logs.budgets import budget
from roofline.audit.engine_logs.case import CACHE, GIB, Case
from roofline.audit.engine_logs.rows import Row

RANK = 0
QUANTITIES = ("device_bytes", *CACHE)
_OFF = 0.05
_LEAST, _MOST = 0.8, 1.08
"""Of the card's memory. Where no line says it, engines are seldom given a share that is as far from the default as this;
the share cannot be above 1."""


def reason(row: Row, case: Case) -> str:
    """Where the memory that the log names, or that its cache comes to, is far from the hardware's."""
    device = case.row("device_bytes")
    if device is None:
        return _by_cache(case)
    if device.within or device.ratio is None or abs(device.ratio - 1) < _OFF:
        return ""
    name = case.request.hardware.accelerator.name
    if case.log is not None and case.log.engine == "sglang" and device.ratio > 1:
        return f"{device.measured / GIB:.1f} GiB were free at the start: other processes held memory, or it is no {name}"
    return f"the log's device has {device.measured / GIB:.1f} GiB: it is no {name}, or a slice of one"


def _by_cache(case: Case) -> str:
    """The memory that the log's cache and its weights stand for, at the share that the engine takes."""
    cache = case.row("kv_cache_bytes")
    if cache is None or case.log is None or case.log.engine != "vllm":
        return ""
    part = case.request.memory.fullest
    found = budget(case.subject.engine, case.request, part, case.log.release, eager=case.subject.eager)
    weights = case.row("weights_bytes")
    more = 0.0 if weights is None or weights.predicted is None else weights.measured - weights.predicted
    size = (cache.measured + sum(entry.size for entry in found.taken) + more) / part.utilization
    if _LEAST < size / found.device.size < _MOST:
        return ""
    name = case.request.hardware.accelerator.name
    held = ", or memory that other processes held" if size < found.device.size else ""
    comes_to = f"the log's memory comes to a device of about {size / GIB:.0f} GiB"
    return f"{comes_to}, and {name} has {found.device.size / GIB:.0f}: another card{held}"
