"""A batch whose sequences share what is cached, which is then read once: no mistake, but something that has to be said."""

from __future__ import annotations

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.mistakes.base import RATES, Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    cached = case.statement.cached
    if not cached or (case.statement.batch or 1) == 1 or case.claim.phase != "decode":
        return None
    found = case.read_as(options={"shared_prefix": cached})
    if found is None or found.value is None or case.ratio(found.value) > SLACK:
        return None
    why = f"possible where all sequences share the cached tokens, which has to be said: {case.claim.written(found.value)}"
    return LikelyMistake(name="shared prefix", why=why, figure=found.value, closeness=case.ratio(found.value))


MISTAKE = Mistake(name="shared prefix", kinds=RATES, explain=_explain, order=61)
