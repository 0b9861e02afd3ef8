"""The peak with structured sparsity, which datasheets print first, in the place of the dense one."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.kinds.peak import SPARSE, sparse_factor
from roofline.audit.claims.mistakes.base import Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    if case.claim.sparse or sparse_factor(case) == 1:
        return None
    if case.claim.kind == "peak_flops":
        why = "it is the peak with 2:4 sparsity, {figure}: twice the dense one, for weights of which half are zero"
        return under(case, "sparse peak", why, case.read_as(sparse=True), near=min(0.97, 1 - case.claim.rounding))
    why = "with the sparse peak in the place of the dense one the ceiling would be {figure}"
    return under(case, "sparse peak", why, case.read_as(twist=Twist(peak=SPARSE)))


MISTAKE = Mistake(name="sparse peak", kinds=("peak_flops", "ttft", "tokens_per_s"), explain=_explain, order=10)
