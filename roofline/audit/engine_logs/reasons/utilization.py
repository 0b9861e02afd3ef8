"""Nobody said which share of the device the engine takes."""

from __future__ import annotations

from roofline.audit.engine_logs.budgets import budget
from roofline.audit.engine_logs.case import CACHE, Case
from roofline.audit.engine_logs.rows import Row

RANK = 2
QUANTITIES = CACHE
_FURTHER = 0.005


def reason(row: Row, case: Case) -> str:
    """The share that would explain the log's cache."""
    cache = case.row("kv_cache_bytes")
    if not case.assumed("gpu_memory_utilization") or cache is None or case.log is None:
        return ""
    part = case.request.memory.fullest
    found = budget(case.subject.engine, case.request, part, case.log.release, eager=case.subject.eager)
    share = (cache.measured + sum(entry.size for entry in found.taken)) / found.device.size
    if not 0 < share < 1 or abs(share - part.utilization) < _FURTHER:
        return ""
    said = f"no line says the share of memory; {share:.2f} in place of {part.utilization:g} would explain it"
    return f"{said} (--gpu-memory-utilization)"
