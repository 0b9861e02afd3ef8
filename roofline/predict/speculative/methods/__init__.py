"""Ways to make a draft, one file each, found by walking the package: `NAME`, and `draft(request, asked, options)`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def methods() -> dict[str, ModuleType]:
    """The modules by the name of their method."""
    found = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.NAME: module for module in found}
