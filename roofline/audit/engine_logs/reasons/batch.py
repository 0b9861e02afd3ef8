"""Fewer requests run at a time than are under way."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row
from roofline.formatting import plural

RANK = 4
QUANTITIES = ("tpot_s", "itl_s", *LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the cache decides the batch, and so every time."""
    if case.served is None or "the cache" not in case.served.way:
        return ""
    held = plural(case.served.concurrency, "request")
    return f"the cache holds {held} by the mean of their lengths; preemptions are not modelled"
