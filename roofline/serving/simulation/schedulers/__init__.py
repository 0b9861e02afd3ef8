"""Schedulers, a file each. `scheduler()` finds them by walking this package; others may add theirs by entry points of the group
`roofline.schedulers`, each a `Scheduler`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.errors import UnknownNameError
from roofline.serving.simulation.schedulers.base import Scheduler

__all__ = ["Scheduler", "scheduler", "schedulers"]


def scheduler(name: str) -> Scheduler:
    """The scheduler of a name.

    Raises:
        UnknownNameError: there is none.
    """
    found = schedulers()
    if name not in found:
        raise UnknownNameError("scheduler", name, found, list_all=True)
    return found[name]


@cache
def schedulers() -> dict[str, Scheduler]:
    """All, by name."""
    from importlib.metadata import entry_points

    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    ours = [getattr(module, "SCHEDULER", None) for module in modules]
    found: dict[str, Scheduler] = {}
    for one in (*ours, *(point.load() for point in entry_points(group="roofline.schedulers"))):
        if isinstance(one, Scheduler) and found.setdefault(one.name, one) is not one:
            msg = f"two schedulers are called {one.name}"
            raise TypeError(msg)
    return found
