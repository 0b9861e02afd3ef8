"""Forms of deployments, a file each. `forms()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.config_check.forms.base import Form

__all__ = ["Form", "forms"]


@cache
def forms() -> tuple[Form, ...]:
    """All of them, in the order in which they are asked."""
    found = [getattr(importlib.import_module(f"{__name__}.{one.name}"), "FORM", None) for one in pkgutil.iter_modules(__path__)]
    return tuple(sorted((one for one in found if isinstance(one, Form)), key=lambda one: one.order))
