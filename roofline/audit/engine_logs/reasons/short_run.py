"""A run that is mostly beginning and end."""

from __future__ import annotations

from roofline.audit.engine_logs.case import RATES, Case, slower
from roofline.audit.engine_logs.rows import Row

RANK = 3
QUANTITIES = RATES
_WAVES = 5


def reason(row: Row, case: Case) -> str:
    """Where each slot serves few requests, and the server was slower."""
    if (
        case.bench is None
        or case.served is None
        or not slower(row)
        or case.bench.load.requests >= _WAVES * case.served.concurrency
    ):
        return ""
    each = case.bench.load.requests / case.served.concurrency
    return f"a short run: {each:.1f} requests a slot, so that filling up and running out weigh; the prediction is of the middle"
