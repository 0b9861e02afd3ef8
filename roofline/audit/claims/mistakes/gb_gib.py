"""Binary prefixes where decimal ones are meant: GB/s as 2^30, TFLOP/s as 2^40."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import TIMED, Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    found = case.read_as(twist=Twist(bandwidth=2**30 / 1e9, peak=2**40 / 1e12))
    why = "with GB/s read as 2^30 and TFLOP/s as 2^40 the ceiling would be {figure}"
    return under(case, "GB for GiB", why, found, near=0.9)


MISTAKE = Mistake(name="GB for GiB", kinds=(*TIMED, "peak_flops"), explain=_explain, order=15)
