"""Values as data: JSON that the runtime's `revive` makes into what it was."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from roofline.formulas.javascript.fields import Field, fields

if TYPE_CHECKING:
    from roofline.formulas.javascript.program import Program

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def literal(value: object) -> str:
    """A number, a text, a truth or None in JavaScript.

    >>> literal(None), literal(True), literal(float("-inf"))
    ('null', 'true', '-Infinity')
    """
    if isinstance(value, int):
        _check(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json.dumps(value)


class Encoder:
    """Writes values for a program, which translates their classes and functions."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._in_data: dict[str, None] = {}
        self._ways: tuple[tuple[Any, Callable[[Any], object]], ...] = (
            (float, lambda value: value if math.isfinite(value) else {"$n": str(value)}),
            (tuple | list, lambda value: [self.encode(part) for part in value]),
            (Mapping, self._mapping),
            (set | frozenset, lambda value: {"$s": [self.encode(part) for part in sorted(value, key=_order)]}),
            (date, lambda value: value.isoformat()),
            (Path, str),
            (type, lambda value: {"$c": program.refer(value)}),
            (FunctionType, self._function),
        )

    @property
    def functions(self) -> list[str]:
        """Names of the functions that data refer to."""
        return sorted(self._in_data)

    def encode(self, value: Any, *, whole: bool = False) -> Any:
        """A value as JSON. `whole`: not by the name that it has in the program."""
        if isinstance(value, int):
            _check(value)
        if value is None or isinstance(value, int | str):
            return value
        for kinds, way in self._ways:
            if isinstance(value, kinds):
                return way(value)
        if (known := fields(type(value))) is None:
            msg = f"cannot write {value!r} as data"
            raise TypeError(msg)
        if not whole and any(isinstance(getattr(value, name), FunctionType) for name in known):
            return {"$k": self._program.constant(value)}  # what has functions stands in the program, once
        return self._object(value, known)

    def _object(self, value: object, known: Mapping[str, Field]) -> dict[str, Any]:
        """An object without the fields that have their default value."""
        given = {name: getattr(value, name) for name in known}
        found = {
            name: self.encode(part)
            for name, part in given.items()
            if part is not known[name].default and part != known[name].default
        }
        return {"$": self._program.refer(type(value)), **found}

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        # NB: objects of JavaScript put whole numbers first
        if all(isinstance(key, str) and key != "__proto__" and not key.isdigit() for key in value):
            return {"$o": {key: self.encode(part) for key, part in value.items()}}
        return {"$d": [[self.encode(key), self.encode(part)] for key, part in value.items()]}

    def _function(self, value: FunctionType) -> dict[str, str]:
        name = self._program.refer(value)
        self._in_data[name] = None
        return {"$f": name}


def _check(value: int) -> None:
    """Whole numbers that are no doubles are refused."""
    if abs(value) > 2**1023 or float(value) != value:
        msg = f"JavaScript does not have the number {value}"
        raise TypeError(msg)


def _order(value: object) -> str:
    """What orders the values of a set: neither where they lie in memory nor how they are hashed."""
    if isinstance(value, set | frozenset):
        return str(sorted(map(_order, value)))
    return _ADDRESS.sub("", str(value))
