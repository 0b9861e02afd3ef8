"""Engines' command lines, a file each. `engines()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.serving.planning.engines.base import EngineFlags

__all__ = ["engines"]


@cache
def engines() -> tuple[EngineFlags, ...]:
    """All of them, by name."""
    found = [
        getattr(importlib.import_module(f"{__name__}.{one.name}"), "ENGINE", None) for one in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted((one for one in found if isinstance(one, EngineFlags)), key=lambda one: one.name))
