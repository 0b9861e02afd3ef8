"""Work on the host that short steps do not hide."""

from __future__ import annotations

from roofline.audit.engine_logs.case import RATES, Case, slower
from roofline.audit.engine_logs.rows import Row

RANK = 4
QUANTITIES = ("tpot_s", "itl_s", *RATES)
_SHORT = 0.015


def reason(row: Row, case: Case) -> str:
    """Where steps are short, and the server was slower."""
    step = case.row("tpot_s") or case.row("itl_s")
    if step is None or step.measured > _SHORT or not slower(row):
        return ""
    return f"steps of {step.measured * 1e3:.1f} ms: scheduling, detokenising and streaming on the host are not modelled apart"
