"""Requests that were not answered."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row

RANK = 0
QUANTITIES = (*LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where some failed."""
    if case.bench is None or not case.bench.failed:
        return ""
    are = "is" if case.bench.failed == 1 else "are"
    return f"{case.bench.failed:,} of {case.bench.load.requests:,} requests failed, and {are} in no figure"
