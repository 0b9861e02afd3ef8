"""Kinds of claims, a file each. `of()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.kinds.base import Shape

__all__ = ["of"]


def of(claim: Claim) -> Shape:
    """How claims of this kind are judged."""
    return _all()[claim.kind, claim.phase]


@cache
def _all() -> dict[tuple[str, str], Shape]:
    found: dict[tuple[str, str], Shape] = {}
    for module in pkgutil.iter_modules(__path__):
        shape = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SHAPE", None)
        if isinstance(shape, Shape):
            for key in shape.judges:
                if found.setdefault(key, shape) is not shape:
                    msg = f"two shapes judge {key}"
                    raise TypeError(msg)
    return found
