"""Engines' servers, a file each. `servers()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.audit.config_check.servers.base import Server

__all__ = ["servers"]


@cache
def servers() -> tuple[Server, ...]:
    """All of them, by name."""
    found = [
        getattr(importlib.import_module(f"{__name__}.{one.name}"), "SERVER", None) for one in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted((one for one in found if isinstance(one, Server)), key=lambda one: one.name))
