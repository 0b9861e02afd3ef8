"""A program: everything that some functions need, translated from Python to JavaScript.

What a function refers to is found by looking it up as Python would, and is translated in its turn; constants are evaluated
while translating and written out as data. The result is one classic script, because ES modules do not load from `file://`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from roofline.formulas.javascript import builtins
from roofline.formulas.javascript.body import Body
from roofline.formulas.javascript.classes import class_text
from roofline.formulas.javascript.compact import compact
from roofline.formulas.javascript.data import Encoder, literal
from roofline.formulas.javascript.fields import fields
from roofline.formulas.javascript.functions import returning
from roofline.formulas.javascript.register import Register
from roofline.formulas.javascript.scope import Scope, generates
from roofline.formulas.javascript.sources import (
    defined_in,
    definition,
    described,
    parameters_of,
    underlying,
    unwrapped,
    written_in,
)
from roofline.formulas.javascript.subset import unlike

RUNTIME = Path(__file__).with_name("runtime.js")
EVALUATED = "evaluated"
"""In the place of a script: a function without arguments whose value is found while translating; a class method too."""
_HOME = Path(__file__).resolve().parents[2]


class Program:
    """Translates functions with all that they need.

    `natives` maps Python functions and classes to what stands for them in JavaScript: an expression, or `EVALUATED`.
    `folders` hold the code that may be translated; what is elsewhere and has no native is refused.
    """

    def __init__(self, natives: Mapping[Any, str], folders: Collection[Path] = (_HOME,)) -> None:
        self._natives = {id(_key(value)): (value, script) for value, script in natives.items()}
        self._folders = folders
        self._encoder = Encoder(self)
        self._found = Register(natives.values())
        self._values: dict[int, object] = {}
        self._roots: dict[str, str] = {}
        self._made: tuple[tuple[int, int, int], str] | None = None
        self.missing: list[TypeError] = []
        """Calls of methods that no class has which is known yet."""

    def export(self, name: str, function: Callable[..., Any]) -> None:
        """Make a function known to the page, under a name."""
        self._roots[name] = self.refer(function)

    def encode(self, value: Any) -> Any:
        """Data as JSON that the runtime's `revive` makes into what it is; its classes are translated."""
        return self._encoder.encode(value)

    def source(self) -> str:
        """The script: `const program = {name: function, ...}`. It is made again only where more has been referred to since."""
        state = (len(self._found), len(self._roots), len(self._encoder.functions))
        if self._made is None or self._made[0] != state:
            text = self._script()
            self._made = ((len(self._found), len(self._roots), len(self._encoder.functions)), text)
        return self._made[1]

    def _script(self) -> str:
        texts: dict[int, str] = {}
        known = -1
        while known != len(self._found):  # what is found last may have methods that change how those of its names are called
            known = len(self._found)
            self.missing.clear()
            texts = self._translated()
        if self.missing:
            raise self.missing[0]
        classes = [self.refer(cls) for cls in self._found.classes]
        parts = ["const program = (() => {"]
        parts += [texts[id(value)] for value in (*self._found.functions, *self._found.classes)]
        parts += [self._lazy(name, value) for name, value in self._found.constants]
        parts += [f"$.constants.{name} = {name};" for name, _ in self._found.constants]
        parts += [f"$.classes.{name} = {name};" for name in classes]
        parts += [f"$.functions.{name} = {name};" for name in self._encoder.functions]
        parts += [f"return {{ {', '.join(f'{name}: {script}' for name, script in self._roots.items())} }};", "})();"]
        return RUNTIME.read_text(encoding="utf-8") + "".join(f"{compact(part)}\n" for part in parts)

    # What refers to what

    def refer(self, value: Any) -> str:
        """An expression for something that Python refers to; what is ours is translated from now on."""
        _, script = self._natives.get(id(_key(value)), (None, None))
        if script is not None and script != EVALUATED:
            return script
        if value is None or isinstance(value, bool | int | float | str):
            return literal(value)
        if (text := builtins.expression(value)) is not None:
            return text
        if isinstance(value, MethodType):
            return f"{self.refer(value.__self__)}.{value.__name__}"
        if isinstance(value, type):
            return self._class(value)
        if (plain := unwrapped(value)) is not None:
            return self._function(value, plain) if script is None else self._value(value)
        if callable(value) and fields(type(value)) is None:
            raise _stranger(value)
        return f"{self.constant(value)}()"

    def constant(self, value: object) -> str:
        """The name of a constant, which is made when it is first called."""
        return self._found.constant(value)

    def is_native(self, value: object) -> bool:
        """Whether something of the page's own stands for it."""
        return id(_key(value)) in self._natives

    def ours(self, cls: type) -> bool:
        """Whether a class may be translated."""
        return defined_in(cls, self._folders)

    def writes(self, function: FunctionType) -> bool:
        """Whether a method is translated with its class."""
        return written_in(function, self._folders) and not self.is_native(function)

    def methods(self, name: str) -> list[ast.arguments]:
        """Parameters of all known methods of a name."""
        return self._found.methods(name)

    def evaluated(self, cls: type) -> dict[str, object]:
        """Class methods of which only the value is known, with their values."""
        found = [value for value, script in self._natives.values() if script == EVALUATED and isinstance(value, MethodType)]
        owned = [value for value in found if isinstance(value.__self__, type) and issubclass(cls, value.__self__)]
        return {value.__name__: getattr(cls, value.__name__)() for value in owned}

    def body(self, function: FunctionType) -> Body:
        """A translator of the inside of a function."""
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = {**function.__globals__, **{name: cell.cell_contents for name, cell in closure}}
        body = Body(self, f"{function.__module__}.{function.__qualname__}", names, Scope(set()))
        for part, reason in unlike(definition(function)):
            raise body.refused(part, reason)
        return body

    def _value(self, function: Callable[[], object]) -> str:
        """A function that answers what it answers while translating."""
        key = id(_key(function))
        if key not in self._values:
            self._values[key] = function()
        return f"(() => {self.constant(self._values[key])}())"

    def _function(self, value: object, plain: FunctionType) -> str:
        if not written_in(plain, self._folders):
            raise _stranger(plain)
        if plain is not value:
            self._found.cached.add(id(plain))
        return self._found.name(plain) or self._found.add_function(plain)

    def _class(self, cls: type) -> str:
        if not self.ours(cls):
            raise _stranger(cls)
        if (known := self._found.name(cls)) is not None:
            return known
        for base in cls.__bases__:
            if self.ours(base) and not self.is_native(base):
                self.refer(base)
        for member in vars(cls).values():
            function = underlying(member)
            if not isinstance(function, FunctionType) or isinstance(member, property | cached_property):
                continue
            if written_in(function, self._folders):
                self._found.add_method(function.__name__, parameters_of(function))
        return self._found.add_class(cls)

    # Texts

    def _translated(self) -> dict[int, str]:
        """Texts of all functions and classes, by identity; what they refer to is found on the way."""
        texts: dict[int, str] = {}
        known = -1
        while known != len(self._found):
            known = len(self._found)
            texts |= {id(cls): class_text(self, cls) for cls in list(self._found.classes) if id(cls) not in texts}
            texts |= {id(one): self._function_text(one) for one in list(self._found.functions) if id(one) not in texts}
            for name, value in list(self._found.constants):
                self._lazy(name, value)
        return texts

    def _lazy(self, name: str, value: object) -> str:
        data = json.dumps(self._encoder.encode(value, whole=True), separators=(",", ":"))
        return f"const {name} = $.lazy(() => $.revive({data}));"

    def _function_text(self, function: FunctionType) -> str:
        node, name = definition(function), self._found.name(function)
        statements = node.body if isinstance(node, ast.FunctionDef) else [returning(node)]
        given, body = self.body(function).inside(node.args, statements)
        if id(function) in self._found.cached:
            return f"const {name} = $.memo(({given}) => {{ {body} }});"
        return f"function{'*' if generates(statements) else ''} {name}({given}) {{ {body} }}"


def _stranger(value: object) -> TypeError:
    return TypeError(f"cannot translate {described(value)}: it is not ours")


def _key(value: object) -> object:
    """What stands for a function in tables: a bound method is made anew at each access."""
    return value.__func__ if isinstance(value, MethodType) else value
