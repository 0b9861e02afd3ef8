"""Nobody said how many sequences the engine holds, which decides what sampling takes."""

from __future__ import annotations

from roofline.audit.engine_logs.case import CACHE, Case
from roofline.audit.engine_logs.rows import Row

RANK = 4
QUANTITIES = ("activations_bytes", *CACHE)


def reason(row: Row, case: Case) -> str:
    """Where the peak of sampling stands on a default."""
    if case.subject.engine != "vllm" or not case.assumed("max_num_seqs"):
        return ""
    seqs = case.request.deployment.max_num_seqs
    return (
        f"no line says max_num_seqs, {seqs} by default; sampling, and so the room for the cache, depends on it (--max-num-seqs)"
    )
