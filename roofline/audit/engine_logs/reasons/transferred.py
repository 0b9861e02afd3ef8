"""No kernels were measured on this accelerator."""

from __future__ import annotations

from roofline.audit.engine_logs.case import LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row
from roofline.specs.library import fit_files

RANK = 6
QUANTITIES = (*LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Where the estimate stands on another card, or there is none."""
    name = case.request.hardware.accelerator.name
    if not row.basis.startswith("estimate"):
        return "there is no estimate, only the bound, which no kernel reaches"
    if name not in fit_files():
        return f"no kernels were measured on {name}: the estimate stands on other accelerators'"
    return ""
