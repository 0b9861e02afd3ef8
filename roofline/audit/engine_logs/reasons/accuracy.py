"""How often the estimate's band holds where it was tested."""

from __future__ import annotations

from roofline.audit.engine_logs.case import Case
from roofline.audit.engine_logs.rows import Row
from roofline.formatting import percent

RANK = 9
QUANTITIES = ("tpot_s", "itl_s")
_FAR = 2.0


def reason(row: Row, case: Case) -> str:
    """For gaps that an estimate may well have: its band is none that holds always."""
    steps = case.request.steps
    if steps is None or steps.held_out is None or row.ratio is None or not row.basis.startswith("estimate"):
        return ""
    missed = 1 - steps.held_out.coverage
    if not 1 / _FAR < row.ratio < _FAR or round(missed, 2) <= 0:
        return ""
    return f"the band missed {percent(missed, 0)} of the runs that the estimate of TPOT was tested on"
