"""What a mistake is: a reading of a claim under which its number would be what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from roofline.audit.claims.case import NEAR, SLACK, Case
from roofline.audit.claims.claim import ClaimKind
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

RATES: tuple[ClaimKind, ...] = ("tokens_per_s", "tpot")
TIMED: tuple[ClaimKind, ...] = ("tokens_per_s", "tpot", "ttft")

Explain = Callable[[Case, Roof, float], LikelyMistake | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A usual mistake. `explain` is given the case, its roof and the ratio of claim to ceiling; it answers None where the
    mistake would not give the number. Of mistakes that explain it equally well the one of lower `order` is shown first."""

    name: str
    kinds: tuple[ClaimKind, ...]
    explain: Explain
    order: int = 50


def within(case: Case, figure: float | None, near: float = NEAR) -> float | None:
    """The claim over the ceiling of another reading, where the claim is possible under it and not far below it."""
    if figure is None or figure <= 0:
        return None
    closeness = case.ratio(figure)
    return closeness if near <= closeness <= max(SLACK, 1 + case.claim.rounding) else None


def under(case: Case, name: str, why: str, roof: Roof | None, near: float = NEAR) -> LikelyMistake | None:
    """A mistake whose reading has that roof; `why` may name it as {figure}."""
    if roof is None or roof.value is None or (closeness := within(case, roof.value, near)) is None:
        return None
    return LikelyMistake(
        name=name, why=why.format(figure=case.claim.written(roof.value)), figure=roof.value, closeness=closeness
    )


def first_enough(case: Case, readings: Iterable[tuple[str, Roof | None]]) -> tuple[str, Roof] | None:
    """The first of several readings, mildest first, under which the claim is possible, however far below it."""
    for words, roof in readings:
        if roof is not None and roof.value is not None and case.claim.value is not None and case.ratio(roof.value) <= SLACK:
            return words, roof
    return None
