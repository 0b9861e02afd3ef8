"""A prompt that was in the cache already, all but its last token: no mistake, but something that has to be said."""

from __future__ import annotations

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    found = case.read_as(twist=Twist(reuse=True))
    if found is None or found.value is None or case.ratio(found.value) > SLACK:
        return None
    soonest = case.claim.written(found.value)
    why = f"possible where the prompt is in the prefix cache already, which has to be said: {soonest} at the soonest"
    return LikelyMistake(name="prefix cached", why=why, figure=found.value, closeness=case.ratio(found.value))


MISTAKE = Mistake(name="prefix cached", kinds=("ttft",), explain=_explain, order=60)
