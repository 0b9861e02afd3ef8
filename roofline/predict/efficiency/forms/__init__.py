"""The forms, a file an op or a few that are alike. `registry()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.errors import UnknownNameError
from roofline.predict.efficiency.form import Form

__all__ = ["by_name", "registry"]


@cache
def _all() -> dict[str, Form]:
    """Forms by name."""
    found: dict[str, Form] = {}
    for module in pkgutil.iter_modules(__path__):
        for form in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(form, Form) and found.setdefault(form.name, form) is not form:
                msg = f"two forms named {form.name!r}"
                raise TypeError(msg)
    return found


@cache
def registry() -> dict[str, tuple[Form, ...]]:
    """The forms of each op of records: one a kind of kernel. Which kind a backend launches, a fit finds out."""
    found: dict[str, tuple[Form, ...]] = {}
    for form in _all().values():
        for op in form.ops:
            found[op] = (*found.get(op, ()), form)
    return dict(sorted(found.items()))


def by_name(name: str) -> Form:
    """The form of that name."""
    if name not in _all():
        raise UnknownNameError("form", name, _all(), list_all=True)
    return _all()[name]
