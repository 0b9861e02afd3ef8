"""The cache is in another format."""

from __future__ import annotations

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.case import CACHE, Case
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = (AIDED, *CACHE)
_NEAR = 0.1


def reason(row: Row, case: Case) -> str:
    """Where the tokens that the log's memory holds are half of those predicted, or twice."""
    aided = case.row(AIDED)
    if aided is None or aided.within or aided.ratio is None:
        return ""
    weights = case.row("weights_bytes")
    if weights is not None and not weights.within:
        return ""  # then it is the model, or how it is split
    kv = case.request.precision.kv.name
    if abs(aided.ratio - 0.5) < 0.5 * _NEAR:
        return f"the cache holds twice the tokens of {kv}: it is kept in half the bytes (--kv-cache-dtype fp8)"
    if abs(aided.ratio - 2) < 2 * _NEAR:
        return f"the cache holds half the tokens of {kv}: it is kept in twice the bytes (--kv-cache-dtype)"
    return ""
