"""The active parameters of a mixture of experts in the place of all: those that one token uses."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import RATES, Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof
from roofline.predict.parameters import count_parameters


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    if case.model is None:
        return None
    counted = count_parameters(case.model)
    share = counted.active / counted.total
    if share > 0.99:
        return None
    if case.claim.kind == "fits" or roof.value is None:
        if roof.need is None or roof.need.fits or ratio * share > 1:
            return None
        why = f"the {counted.active / 1e9:.3g}B active parameters would fit, but all {counted.total / 1e9:.4g}B have to be held"
        return LikelyMistake(
            name="active for total parameters", why=why, figure=roof.need.bytes * share, closeness=ratio * share
        )
    why = "with the experts of one token read for a whole batch the ceiling would be {figure}"
    return under(case, "active for total parameters", why, case.read_as(twist=Twist(active_experts=True)))


MISTAKE = Mistake(name="active for total parameters", kinds=(*RATES, "ttft", "fits"), explain=_explain, order=22)
