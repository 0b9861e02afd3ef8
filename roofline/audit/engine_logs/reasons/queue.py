"""TTFT is mostly waiting."""

from __future__ import annotations

from roofline.audit.engine_logs.case import Case
from roofline.audit.engine_logs.rows import Row

RANK = 2
QUANTITIES = ("ttft_s", "e2e_s")


def reason(row: Row, case: Case) -> str:
    """Where requests wait for others."""
    if case.served is None:
        return ""
    if case.served.saturated:
        return (
            "TTFT is the time in the queue, which grows with every request that arrives: a small gap in throughput is a "
            "large one here"
        )
    return "TTFT depends on how the prompts arrive together, and on the order in which the engine takes them"
