"""What several devices do together, given for one."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.audit.claims.case import Case
from roofline.audit.claims.mistakes.base import TIMED, Mistake, first_enough
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

_NAME = "several devices for one"
_COUNTS = (2, 4, 8, 16)


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof
    if case.claim.kind == "peak_flops":
        return _peak(case, ratio)
    if case.claim.kind == "fits":
        return _fits(case)
    found = first_enough(case, _readings(case))
    if found is None or found[1].value is None:
        return None
    count, figure = found[0], found[1].value
    why = f"it is possible on {count} devices together, where the ceiling is {case.claim.written(figure)}"
    return LikelyMistake(name=_NAME, why=why, figure=figure, closeness=case.ratio(figure))


def _readings(case: Case) -> Iterator[tuple[str, Roof | None]]:
    if case.devices == 1:
        for count in _COUNTS:
            yield f"{count}", case.read_as(devices=count)
    elif case.claim.scope == "gpu":
        yield f"{case.devices}", case.read_as(scope="total")


def _peak(case: Case, ratio: float) -> LikelyMistake | None:
    times = round(ratio)
    if case.devices > 1 or times not in _COUNTS or abs(ratio / times - 1) > 0.01:
        return None
    why = f"it is the peak of {times} devices together"
    return LikelyMistake(name=_NAME, why=why, figure=case.claim.value, closeness=1.0)


def _fits(case: Case) -> LikelyMistake | None:
    for count, roof in _readings(case):
        if roof is not None and roof.need is not None:
            share = roof.need.bytes / roof.need.capacity
            return LikelyMistake(name=_NAME, why=f"it fits on {count} devices", figure=roof.need.bytes, closeness=share)
    return None


MISTAKE = Mistake(name=_NAME, kinds=(*TIMED, "fits", "peak_flops"), explain=_explain, order=35)
