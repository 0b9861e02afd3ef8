"""Operators: what one kernel-sized piece of work costs. One file an operator; they know no model and no hardware.

`registry()` finds them by walking this package, and those that other installed packages announce under the entry point
group `roofline.operators`: there is no list to forget.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from roofline.operators.base import Operator


@cache
def registry() -> dict[str, type[Operator]]:
    """Operator classes by kind. Two classes of one kind are an error: a missing rule must never hide another."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    from importlib.metadata import entry_points

    for point in entry_points(group="roofline.operators"):
        point.load()
    found: dict[str, type[Operator]] = {}
    for operator in _subclasses(Operator):
        if "kind" not in vars(operator):
            continue  # what several operators share, not one of them
        if found.setdefault(operator.kind, operator) is not operator:
            msg = f"two operators of kind {operator.kind!r}: {found[operator.kind].__module__} and {operator.__module__}"
            raise TypeError(msg)
    return dict(sorted(found.items()))


def _subclasses(base: type[Operator]) -> Iterator[type[Operator]]:
    for child in base.__subclasses__():
        # NB: dataclass(slots=True) builds a second class; the first is never registered under its module's name.
        if getattr(importlib.import_module(child.__module__), child.__name__, None) is child:
            yield child
            yield from _subclasses(child)
