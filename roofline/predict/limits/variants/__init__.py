"""With and without: one file a comparison. A module with a function `variants(request)` is found by walking the package."""

from __future__ import annotations

import importlib
import pkgutil

from roofline.predict.limits.variants.base import Variant
from roofline.predict.request import Request


def variants(request: Request) -> list[Variant]:
    """The comparisons that apply to a request, in the order of their files' names."""
    found: list[Variant] = []
    for module in pkgutil.iter_modules(__path__):
        if module.name != "base":
            found += importlib.import_module(f"{__name__}.{module.name}").variants(request)
    return found
