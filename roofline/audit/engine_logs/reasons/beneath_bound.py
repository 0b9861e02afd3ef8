"""Faster than any kernel can be: something is not as the files say."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row

RANK = 0
QUANTITIES = ("tpot_s", "itl_s", *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the bound is beaten."""
    if row.bound is None or not (row.measured < row.bound if row.quantity in LATENCIES else row.measured > row.bound):
        return ""
    if case.argument("speculative_config") is not None:
        return "speculative decoding gives several tokens a step"
    return (
        "faster than the hardware allows: fewer requests at work than the load says, answers cut short, speculative "
        "decoding, or another card"
    )
