"""Usual mistakes, a file each. `likely()` finds them by walking this package."""

from __future__ import annotations

import importlib
import math
import pkgutil
from functools import cache

from roofline.audit.claims.case import Case
from roofline.audit.claims.mistakes.base import Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

__all__ = ["likely"]


def likely(case: Case, roof: Roof, ratio: float | None) -> tuple[LikelyMistake, ...]:
    """The mistakes that would give the number, the closest first; of equally close ones, the more usual first."""
    found = [
        (round(abs(math.log(one.closeness)), 2), mistake.order, one)
        for mistake in _all()
        if case.claim.kind in mistake.kinds and (one := mistake.explain(case, roof, ratio or 0.0)) is not None
    ]
    return tuple(one for *_, one in sorted(found, key=lambda entry: entry[:2]))


@cache
def _all() -> tuple[Mistake, ...]:
    found: dict[str, Mistake] = {}
    for module in pkgutil.iter_modules(__path__):
        mistake = getattr(importlib.import_module(f"{__name__}.{module.name}"), "MISTAKE", None)
        if isinstance(mistake, Mistake) and found.setdefault(mistake.name, mistake) is not mistake:
            msg = f"two mistakes named {mistake.name!r}"
            raise TypeError(msg)
    return tuple(found.values())
