"""Kernels: how torch runs the operators of a point. One file a family; `make` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.measure.bench.kernels.base import Kernel
from roofline.measure.bench.place import Place
from roofline.measure.bench.point import Point

__all__ = ["Kernel", "make", "registry"]


@cache
def registry() -> dict[str, type[Kernel]]:
    """Kernels by op."""
    found: dict[str, type[Kernel]] = {}
    for module in pkgutil.iter_modules(__path__):
        for entry in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(entry, type) and issubclass(entry, Kernel) and entry is not Kernel:
                for op in entry.ops:
                    if found.setdefault(op, entry) is not entry:
                        msg = f"two kernels for op {op!r}"
                        raise TypeError(msg)
    return dict(sorted(found.items()))


def make(point: Point, place: Place, *, whole_products: bool = False) -> Kernel:
    """The kernel of a point. `whole_products`: attention without a mask, to be counted."""
    return registry()[point.op](point, place, whole_products=whole_products)
