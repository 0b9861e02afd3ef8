"""What a program has found so far, and the names that it gets in the script."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from types import FunctionType

_RESERVED = ("Error", "Infinity", "Math", "NaN", "Number", "program")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Register:
    """Functions, classes and constants in the order in which they were found.

    They are told apart by identity: some have no hash, and equal ones are not the same. The lists keep them alive.
    """

    def __init__(self, scripts: Iterable[str]) -> None:
        """`scripts` are expressions whose names are taken."""
        self.functions: list[FunctionType] = []
        self.classes: list[type] = []
        self.constants: list[tuple[str, object]] = []
        self.cached: set[int] = set()
        self._names: dict[int, str] = {}
        self._methods: dict[str, list[ast.arguments]] = {}
        self._taken = {*_RESERVED, *(found[0] for script in scripts if (found := _WORD.match(script)))}

    def __len__(self) -> int:
        return len(self._names)

    def name(self, value: object) -> str | None:
        """The name of something that was found before."""
        return self._names.get(id(value))

    def add_function(self, function: FunctionType) -> str:
        """The name of a function that is new."""
        self.functions.append(function)
        return self._named(function, f"{function.__module__.rpartition('.')[2]}_{function.__qualname__}")

    def add_class(self, cls: type) -> str:
        """The name of a class that is new."""
        self.classes.append(cls)
        return self._named(cls, cls.__name__)

    def add_method(self, name: str, arguments: ast.arguments) -> None:
        """The parameters of a method of some class."""
        self._methods.setdefault(name, []).append(arguments)

    def constant(self, value: object) -> str:
        """The name of a constant, new or not."""
        if (known := self.name(value)) is not None:
            return known
        name = self._named(value, f"K{len(self.constants)}")
        self.constants.append((name, value))
        return name

    def methods(self, name: str) -> list[ast.arguments]:
        """Parameters of all methods of a name."""
        return self._methods.get(name, [])

    def _named(self, value: object, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).strip("_")
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}{count}"
        self._taken.add(name)
        self._names[id(value)] = name
        return name
