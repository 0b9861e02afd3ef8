"""Multiply-accumulates counted as one operation, where peaks count two."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    why = "with one FLOP for a multiply-accumulate, where the peak counts two, the ceiling would be {figure}"
    return under(case, "MAC for FLOP", why, case.read_as(twist=Twist(peak=2)))


MISTAKE = Mistake(name="MAC for FLOP", kinds=("ttft", "tokens_per_s"), explain=_explain, order=41)
