"""Weights that are kept on the host and sent in every step: no mistake, but something that has to be said."""

from __future__ import annotations

from dataclasses import replace

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.mistakes.base import RATES, Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof
from roofline.errors import InputError


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del ratio
    if roof.value is not None or roof.need is None:
        return None
    whole = replace(case, ignore_memory=True).read_as(batch=case.statement.batch or 1)
    if whole is None or whole.value is None or whole.seconds is None or case.ratio(whole.value) > SLACK:
        return None
    try:
        link = case.hardware.to_host().inside
    except InputError:
        return None
    if link is None:
        return None
    # what is not in device memory crosses the link in every step
    sent = (roof.need.bytes - roof.need.capacity) / link.per_direction.value
    figure = whole.value * (max(sent, whole.seconds) / whole.seconds) ** (1 if case.claim.is_time else -1)
    if case.ratio(figure) > SLACK:
        return None
    why = "possible with what does not fit kept on the host and sent in every step, "
    why += f"over {link.name}: {case.claim.written(figure)}"
    return LikelyMistake(name="offloading", why=why, figure=figure, closeness=case.ratio(figure))


MISTAKE = Mistake(name="offloading", kinds=RATES, explain=_explain, order=62)
