"""Several tokens a step by speculative decoding: no mistake, but something that has to be said."""

from __future__ import annotations

import math

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.floor import Twist
from roofline.audit.claims.mistakes.base import RATES, Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

# Drafts gain 2 to 5 tokens a step (EAGLE-3, arXiv:2503.01840: up to 6.5 on code).
_MOST = 6


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    if case.claim.phase != "decode" or roof.value is None:
        return None
    accepted = max(math.ceil(ratio / SLACK), 2)
    if accepted > _MOST or ratio <= SLACK:
        return None
    found = case.read_as(twist=Twist(tokens_per_step=accepted))
    if found is None or found.value is None:
        return None
    why = f"possible with speculative decoding that gains {accepted} tokens a step or more, which has to be said: {{figure}}"
    return LikelyMistake(
        name="speculative decoding", why=why.format(figure=case.claim.written(found.value)), figure=found.value,
        closeness=case.ratio(found.value),
    )  # fmt: skip


MISTAKE = Mistake(name="speculative decoding", kinds=RATES, explain=_explain, order=60)
