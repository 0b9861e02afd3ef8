"""Results of benchmarks, a file each format. `formats()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.engine_logs.benches.base import Bench, BenchFormat, Load

__all__ = ["Bench", "BenchFormat", "Load", "formats"]


@cache
def formats() -> tuple[BenchFormat, ...]:
    """Every format that is known; those with more keys of their own first."""
    found = {
        value.title: value
        for module in pkgutil.iter_modules(__path__)
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        if isinstance(value, BenchFormat)
    }
    return tuple(sorted(found.values(), key=lambda form: (-len(form.has), form.title)))
