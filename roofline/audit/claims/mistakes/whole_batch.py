"""The rate of a whole batch, given for one user."""

from __future__ import annotations

from dataclasses import replace

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.mistakes.base import RATES, Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof
from roofline.predict.memory import largest

_MOST = 4096


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    claim, value = case.claim, case.claim.value
    alone = claim.scope == "user" or claim.is_time or case.statement.batch == 1
    if not alone or claim.phase != "decode" or value is None:
        return None
    rate = 1 / value if claim.is_time else value
    whole = replace(case, claim=replace(claim, kind="tokens_per_s", value=rate, scope="total"))

    def short(batch: int) -> bool:
        found = whole.read_as(batch=batch)
        return found is not None and found.value is not None and rate > found.value * SLACK

    stated = case.statement.batch or 1
    batch = stated if stated > 1 and not short(stated) else largest(short, _MOST) + 1
    found = whole.read_as(batch=batch)
    if batch == 1 or found is None or found.value is None or found.value * SLACK < rate:
        return None

    def unlikely(batch: int) -> bool:
        expected = replace(whole, statement=replace(whole.statement, batch=batch)).reach().estimate
        return expected is None or expected < rate

    limit = whole.claim.written(found.value)
    expected = largest(unlikely, _MOST, batch) + 1 if unlikely(batch) else batch
    reached = f"; the estimate reaches it from batch {expected:,} on" if batch <= expected < _MOST else ""
    least = f"batch {batch:,}" if stated == batch else f"batch {batch:,} or more"
    all_users = f"all users of {least} together (at batch {batch:,} at most {limit}{reached})"
    why = f"{whole.claim.written(rate)} is possible for {all_users}"
    return LikelyMistake(name="whole batch for one user", why=why, figure=found.value, closeness=rate / found.value)


MISTAKE = Mistake(name="whole batch for one user", kinds=RATES, explain=_explain, order=11)
