"""Bytes read as bits: eight times as fast, or an eighth of the memory."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import RATES, Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

BITS = 8


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    if case.claim.kind == "fits":
        # a need of 141 GB that is read as 141 Gbit: worth saying only where what is left fills a good part of memory
        closeness = ratio / BITS
        if not 0.5 <= closeness <= 1 or roof.need is None:
            return None
        why = "bytes read as bits would be an eighth of what is needed"
        return LikelyMistake(name="bits for bytes", why=why, figure=roof.need.bytes / BITS, closeness=closeness)
    why = "with bytes read as bits (eight times the bandwidth) the ceiling would be {figure}"
    return under(case, "bits for bytes", why, case.read_as(twist=Twist(bandwidth=BITS)))


MISTAKE = Mistake(name="bits for bytes", kinds=(*RATES, "fits"), explain=_explain, order=40)
