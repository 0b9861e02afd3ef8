"""Several tokens a step."""

from __future__ import annotations

from roofline.comparison.case import LATENCIES, RATES, Case, slower
from roofline.comparison.rows import Row

RANK = 1
QUANTITIES = (*LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the engine guesses tokens ahead."""
    if case.argument("speculative_config") is None or slower(row):
        return ""
    if row.quantity == "itl_s":
        return "ITL is of steps, each with several tokens; the prediction is a step a token"
    return "speculative decoding is on; the prediction is a step a token"
