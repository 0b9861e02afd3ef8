"""Kernels are launched one by one."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case, slower
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = (*LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the engine was started without CUDA graphs, and was slower."""
    if not case.subject.eager or not slower(row):
        return ""
    return "eager mode: without CUDA graphs the host launches every kernel, which the prediction takes to be hidden"
