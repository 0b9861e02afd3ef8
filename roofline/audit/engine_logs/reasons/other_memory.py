"""Less was left for the cache than weights and activations explain."""

from __future__ import annotations

from roofline.audit.engine_logs.case import CACHE, Case
from roofline.audit.engine_logs.rows import Row

RANK = 8
QUANTITIES = CACHE


def reason(row: Row, case: Case) -> str:
    """What else may hold memory, where there is less of it, or what may be smaller, where there is more."""
    if row.ratio is None:
        return ""
    if row.predicted == 0:
        return "by what is counted nothing is left for a cache: it is another card, format or split than the log's"
    if row.ratio > 1:
        return (
            "something else holds memory: another process, a vision tower's activations, adapters, a compiled model's buffers"
        )
    if case.request.deployment.max_num_seqs and case.subject.engine == "vllm":
        return "the step that the engine tried took less than is counted"
    return ""
