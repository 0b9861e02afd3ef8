"""How far the estimate is off where it was tested."""

from __future__ import annotations

from roofline.comparison.case import LATENCIES, RATES, Case
from roofline.comparison.rows import Row

RANK = 9
QUANTITIES = ("tpot_s", "itl_s", *LATENCIES, *RATES)
_FAR = 2.0


def reason(row: Row, case: Case) -> str:
    """For gaps that an estimate may well have."""
    steps = case.request.steps
    if steps is None or row.ratio is None or not 1 / _FAR < row.ratio < _FAR or not row.basis.startswith("estimate"):
        return ""
    usual = f"{steps.held_out.median_ape:.0%}" if steps.held_out is not None else "some percent"
    return f"estimates of TPOT were off by {usual} in the median of the runs they were tested on, and by more in half of them"
