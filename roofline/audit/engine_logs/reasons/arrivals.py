"""Below saturation the throughput is what arrives, and arrivals are random."""

from __future__ import annotations

import math

from roofline.audit.engine_logs.case import RATES, Case
from roofline.audit.engine_logs.rows import Row
from roofline.formatting import percent

RANK = 1
QUANTITIES = RATES
_SIGMAS = 3.0


def reason(row: Row, case: Case) -> str:
    """Where the gap is one that as many random arrivals may have.

    Times between them are exponential, as benchmarks draw them: n take n / rate, give or take one part in the root of n.
    """
    if case.bench is None or case.served is None or case.served.saturated or row.ratio is None:
        return ""
    load = case.bench.load
    part = 1 / math.sqrt(load.requests)
    if math.isinf(load.rate) or abs(row.ratio - 1) > _SIGMAS * part:
        return ""
    return (
        f"{load.requests:,} random arrivals take {percent(part, 0)} more or less time than the rate says (standard deviation)"
    )
