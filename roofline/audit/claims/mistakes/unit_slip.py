"""A prefix or a second too few: milliseconds for seconds, microseconds for milliseconds, tokens a minute for a second."""

from __future__ import annotations

from roofline.audit.claims.case import Case
from roofline.audit.claims.mistakes.base import TIMED, Mistake, within
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    value, ceiling = case.claim.value, roof.value
    if value is None or ceiling is None:
        return None
    factor, what = (1000, "a thousand times longer") if case.claim.is_time else (1 / 60, "a minute, not a second")
    meant = value * factor
    figure = ceiling / factor  # the ceiling that the number as written stands beneath
    if (closeness := within(case, figure, near=0.3)) is None:
        return None
    why = f"the unit may have slipped: {what}, it would be {case.claim.written(meant)}"
    return LikelyMistake(name="unit", why=why, figure=figure, closeness=closeness)


MISTAKE = Mistake(name="unit", kinds=TIMED, explain=_explain, order=45)
