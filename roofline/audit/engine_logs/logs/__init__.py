"""Start-up lines of engines, a file each format. `formats()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.engine_logs.logs.base import Format

__all__ = ["Format", "formats"]


@cache
def formats() -> tuple[Format, ...]:
    """Every format that is known, by engine and versions."""
    found = [
        value
        for module in pkgutil.iter_modules(__path__)
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        if isinstance(value, Format)
    ]
    unique = {form.title: form for form in found}
    return tuple(sorted(unique.values(), key=lambda form: form.title))
