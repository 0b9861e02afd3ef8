"""Prompts that begin alike are computed once."""

from __future__ import annotations

import math

from roofline.audit.engine_logs.arguments import flag
from roofline.audit.engine_logs.case import Case
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = ("ttft_s", "e2e_s", "requests_per_s", "total_tokens_per_s")


def reason(row: Row, case: Case) -> str:
    """Where a server was faster, and prefix caching may have been on (the default of vLLM from 0.8 on, and of SGLang)."""
    faster = row.ratio is not None and (row.ratio > 1 if row.unit == "s" else row.ratio < 1)
    said = case.argument("enable_prefix_caching")
    off = (said is not None and not flag(said)) or flag(case.argument("disable_prefix_caching"))
    arriving = row.unit == "1/s" and case.bench is not None and not math.isinf(case.bench.load.rate)
    if not faster or off or (arriving and case.served is not None and not case.served.saturated):
        return ""
    return "prompts that share a prefix are computed once (prefix caching); here each is computed whole"
