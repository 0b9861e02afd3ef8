"""A KV cache of K alone: half of it."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import RATES, Mistake, under
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del ratio
    if not case.cache_matters(roof):
        return None
    found = case.read_as(twist=Twist(cache=0.5))
    if case.claim.kind != "fits":
        return under(case, "K without V", "with K alone in the cache the ceiling would be {figure}", found)
    if found is None or found.need is None or not found.need.fits or roof.need is None:
        return None
    why = "with K alone in the cache it would fit"
    return LikelyMistake(name="K without V", why=why, figure=found.need.bytes, closeness=found.need.bytes / found.need.capacity)


MISTAKE = Mistake(name="K without V", kinds=(*RATES, "fits"), explain=_explain, order=25)
