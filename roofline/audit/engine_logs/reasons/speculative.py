"""Several tokens a step."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case, slower
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = (*LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the engine guesses tokens ahead."""
    if case.argument("speculative_config") is None or slower(row):
        return ""
    if row.quantity == "itl_s":
        return "ITL is of steps, each with several tokens; the prediction is a step a token"
    return "speculative decoding is on; the prediction is a step a token"
