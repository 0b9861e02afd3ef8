"""A median beside a mean."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, Case
from roofline.audit.engine_logs.rows import Row

RANK = 7
QUANTITIES = LATENCIES


def reason(row: Row, case: Case) -> str:
    """Where the file has no mean."""
    if case.bench is None or row.quantity not in case.bench.medians:
        return ""
    return "the file has the median; the prediction is of the mean"
