"""Kinds of arrivals, a file each. `parse_arrivals` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.errors import InputError, UnknownNameError
from roofline.serving.simulation.arrivals.base import Arrivals, Clients, Kind

__all__ = ["Arrivals", "Clients", "kinds", "parse_arrivals"]


def parse_arrivals(text: str) -> Arrivals | Clients:
    """Arrivals as they are written: `poisson:8`, `gamma:8:2`, `closed:32`, `at-once:1000`, ...

    >>> parse_arrivals("gamma:300/min:2").rate
    5.0

    Raises:
        InputError: no such kind, or wrong arguments.
    """
    word, *given = (part.strip() for part in text.split(":"))
    if word not in kinds():
        forms = ", ".join(kind.form for kind in kinds().values())
        raise UnknownNameError("arrivals", word, kinds(), f"Allowed: {forms}, or a YAML file of traffic.")
    kind = kinds()[word]
    try:
        return kind.read(given)
    except InputError as error:
        raise InputError(f"{text}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{text}: must be {kind.form}") from None


@cache
def kinds() -> dict[str, Kind]:
    """All, by word."""
    found: dict[str, Kind] = {}
    for module in pkgutil.iter_modules(__path__):
        kind = getattr(importlib.import_module(f"{__name__}.{module.name}"), "KIND", None)
        if isinstance(kind, Kind) and found.setdefault(kind.word, kind) is not kind:
            msg = f"two kinds of arrivals are called {kind.word}"
            raise TypeError(msg)
    return found
