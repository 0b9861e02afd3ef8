"""Answers of different lengths."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row
from roofline.formatting import percent

RANK = 5
QUANTITIES = (*LATENCIES, *RATES)
_MUCH = 0.3


def reason(row: Row, case: Case) -> str:
    """Where lengths differ: the prediction has their mean alone."""
    spread = case.bench.load.spread if case.bench is not None else None
    if spread is None or spread < _MUCH:
        return ""
    return f"answers differ in length (standard deviation {percent(spread, 0)} of the mean): the last ones run nearly alone"
