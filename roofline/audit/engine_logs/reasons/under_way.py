"""More requests are under way at the estimate than were at the server, as times and requests under way feed each other."""

from __future__ import annotations

import math

from roofline.audit.engine_logs.case import LATENCIES, Case
from roofline.audit.engine_logs.rows import Row

RANK = 3
QUANTITIES = LATENCIES
_OFF = 1.2


def reason(row: Row, case: Case) -> str:
    """At a rate, where Little's law on the measured figures gives other requests under way than are predicted."""
    if case.bench is None or case.served is None or case.served.saturated or math.isinf(case.bench.load.rate):
        return ""
    rate, first, rest = (case.bench.measured.get(name) for name in ("requests_per_s", "ttft_s", "tpot_s"))
    if rate is None or first is None or rest is None:
        return ""
    under_way = rate * (first + max(case.bench.load.output_len - 1, 0.0) * rest)
    if 1 / _OFF < case.served.concurrency / under_way < _OFF:
        return ""
    return (
        f"{under_way:.1f} requests were under way by Little's law, and {case.served.concurrency:.1f} are predicted: "
        "at a rate, longer steps bring more requests under way, and those make steps longer still"
    )
