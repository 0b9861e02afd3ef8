"""The phrases, a file a subject. `all_phrases()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.claims.text.phrase import Phrase

__all__ = ["all_phrases"]


@cache
def all_phrases() -> tuple[Phrase, ...]:
    """Every phrase; of two that read equally much the first counts."""
    found: list[Phrase] = []
    for module in pkgutil.iter_modules(__path__):
        found += getattr(importlib.import_module(f"{__name__}.{module.name}"), "PHRASES", ())
    return tuple(found)
