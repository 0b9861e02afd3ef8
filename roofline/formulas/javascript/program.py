"""A program: everything that some functions need, translated from Python to JavaScript.

What a function refers to is looked up as Python would do it, and is translated in its turn; constants are evaluated
while translating and written out as data. The result is one classic script, because ES modules do not load from `file://`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from roofline.formulas.javascript import values
from roofline.formulas.javascript.python_source import (
    Scope,
    defined_in,
    definition,
    described,
    generates,
    parameters_of,
    underlying,
    unlike,
    unwrapped,
    written_in,
)
from roofline.formulas.javascript.translator import Translator, returning
from roofline.formulas.javascript.values import Encoder, class_text, fields, literal, recalled

RUNTIME = Path(__file__).with_name("runtime.js")
EVALUATED = "evaluated"
"""Instead of a script: a function without arguments whose value is computed while translating; a class method too."""
_HOME = Path(__file__).resolve().parents[2]
_RESERVED = ("Error", "Infinity", "Math", "NaN", "Number", "program")
_WORD = re.compile(r"[A-Za-z_]\w*")
_STRING = re.compile(r'("(?:[^"\\]|\\.)*")')
_SPACE = re.compile(r"\s*([{}()\[\];,=<>+*?:&|!])\s*")


@dataclass(slots=True)
class _Text:
    """The translation of a function or class, and what it depended on."""

    script: str = ""
    methods: dict[str, int] = field(default_factory=dict)
    """How many methods of a name were known, of each name that was looked up."""
    missing: list[TypeError] = field(default_factory=list)
    """Calls of methods that no known class had."""


class Program:
    """Translates functions with all that they need.

    `natives` maps Python functions and classes to what stands for them in JavaScript: an expression, or `EVALUATED`.
    `folders` hold the code that may be translated; what is elsewhere and has no native is refused. `remembered` are functions
    and methods that answer equal arguments from memory: their arguments are frozen, their answers never changed, or dicts,
    which are copied.
    """

    def __init__(
        self, natives: Mapping[Any, str], folders: Collection[Path] = (_HOME,), remembered: Collection[Any] = ()
    ) -> None:
        self._remembered = {id(function): function for function in remembered}
        self._natives = {id(_key(value)): (value, script) for value, script in natives.items()}
        self._folders = folders
        self._encoder = Encoder(self)
        self._register = _Register(natives.values())
        self._values: dict[int, object] = {}
        self._roots: dict[str, str] = {}
        self._texts: dict[int, _Text] = {}
        self._current = _Text()

    def export(self, name: str, function: Callable[..., Any]) -> None:
        """Make a function available to the page under a name."""
        self._roots[name] = self.refer(function)

    def encode(self, value: Any) -> Any:
        """Return data as JSON values from which the runtime's `revive` makes objects; their classes are translated.

        Raises:
            TypeError: a value that JavaScript does not have.
        """
        return self._encoder.encode(value)

    def source(self) -> str:
        """Return the script: `const program = {name: function, ...}`. Only what is new since the last call is translated.

        Raises:
            TypeError: Python that cannot be translated, with the function and the expression.
        """
        self._translate()
        if missing := [error for text in self._texts.values() for error in text.missing]:
            raise missing[0]
        register = self._register
        classes = [self.refer(cls) for cls in register.classes]
        parts = ["const program = (() => {"]
        parts += [self._texts[id(value)].script for value in (*register.functions, *register.classes)]
        parts += [self._lazy(name, value) for name, value in register.constants]
        parts += [f"$.constants.{name} = {name};" for name, _ in register.constants]
        parts += [f"$.classes.{name} = {name};" for name in classes]
        parts += [f"$.functions.{name} = {name};" for name in self._encoder.functions]
        parts += [f"return {{ {', '.join(f'{name}: {script}' for name, script in self._roots.items())} }};", "})();"]
        return RUNTIME.read_text(encoding="utf-8") + "".join(f"{_compact(part)}\n" for part in parts)

    def named(self) -> list[tuple[Any, str]]:
        """Classes, and functions that data refer to, with their names in the script; as of the last `source`."""
        functions = {name: function for function in self._register.functions if (name := self._register.name(function))}
        classes = [(cls, self.refer(cls)) for cls in self._register.classes]
        return [*classes, *((functions[name], name) for name in self._encoder.functions if name in functions)]

    # What refers to what

    def refer(self, value: Any) -> str:
        """Return a JavaScript expression for something that Python refers to; functions and classes of ours are translated
        from now on.

        Raises:
            TypeError: it is neither ours nor known to the runtime.
        """
        _, script = self._natives.get(id(_key(value)), (None, None))
        if script is not None and script != EVALUATED:
            return script
        if value is None or isinstance(value, bool | int | float | str):
            return literal(value)
        if (text := values.expression(value)) is not None:
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
        return self._register.constant(value)

    def is_native(self, value: object) -> bool:
        """Whether something of the page's own stands for it."""
        return id(_key(value)) in self._natives

    def ours(self, cls: type) -> bool:
        """Whether a class may be translated."""
        return defined_in(cls, self._folders)

    def remembers(self, function: FunctionType) -> bool:
        """Whether a function or method answers equal arguments from memory."""
        return id(function) in self._remembered

    def writes(self, function: FunctionType) -> bool:
        """Whether a method is translated with its class."""
        return written_in(function, self._folders) and not self.is_native(function)

    def methods(self, name: str) -> list[ast.arguments]:
        """Parameters of all known methods of a name. What is being translated depends on them from now on."""
        known = self._register.methods.get(name, [])
        self._current.methods[name] = len(known)
        return known

    def miss(self, error: TypeError) -> None:
        """Note a call of a method that no class has so far; `source` raises it if that does not change."""
        self._current.missing.append(error)

    def evaluated(self, cls: type) -> dict[str, object]:
        """Class methods of which only the value is known, with their values."""
        methods = [value for value, script in self._natives.values() if script == EVALUATED and isinstance(value, MethodType)]
        owned = [value for value in methods if isinstance(value.__self__, type) and issubclass(cls, value.__self__)]
        return {value.__name__: getattr(cls, value.__name__)() for value in owned}

    def body(self, function: FunctionType) -> Translator:
        """A translator of the inside of a function."""
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = {**function.__globals__, **{name: cell.cell_contents for name, cell in closure}}
        translator = Translator(self, f"{function.__module__}.{function.__qualname__}", names, Scope(set()))
        for part, reason in unlike(definition(function)):
            raise translator.refused(part, reason)
        return translator

    def _value(self, function: Callable[[], object]) -> str:
        """A function that returns what it returned while translating."""
        key = id(_key(function))
        if key not in self._values:
            self._values[key] = function()
        return f"(() => {self.constant(self._values[key])}())"

    def _function(self, value: object, plain: FunctionType) -> str:
        if not written_in(plain, self._folders):
            raise _stranger(plain)
        if plain is not value:
            self._register.cached.add(id(plain))
        return self._register.name(plain) or self._register.add_function(plain)

    def _class(self, cls: type) -> str:
        if (known := self._register.name(cls)) is not None:
            return known
        if not self.ours(cls):
            raise _stranger(cls)
        for base in cls.__bases__:
            if self.ours(base) and not self.is_native(base):
                self.refer(base)
        for member in vars(cls).values():
            function = underlying(member)
            if not isinstance(function, FunctionType) or isinstance(member, property | cached_property):
                continue
            if written_in(function, self._folders):
                self._register.add_method(function.__name__, parameters_of(function))
        return self._register.add_class(cls)

    # Texts

    def _translate(self) -> None:
        """Translate all functions and classes, and what they refer to, until nothing new comes up.

        A class that is discovered late may have methods that change how those of the same name are called: what looked the
        name up is translated again.
        """
        register, known = self._register, -1
        while known != len(register):
            known = len(register)
            changed = self._write(register.classes, lambda cls: class_text(self, cls))
            changed += self._write(register.functions, self._function_text)
            for name, value in list(register.constants):
                self._lazy(name, value)
            if changed and known == len(register):
                known = -1  # a last look: methods may have come with classes that constants refer to

    def _write(self, values: Iterable[Any], written: Callable[[Any], str]) -> int:
        """Translate what is new or out of date; returns how many."""
        stale = [value for value in values if id(value) not in self._texts or self._outdated(self._texts[id(value)])]
        for value in stale:
            self._texts[id(value)] = self._current = _Text()
            self._current.script = written(value)
        self._current = _Text()
        return len(stale)

    def _outdated(self, text: _Text) -> bool:
        known = self._register.methods
        return any(len(known.get(name, ())) != count for name, count in text.methods.items())

    def _lazy(self, name: str, value: object) -> str:
        data = json.dumps(self._encoder.encode(value, whole=True), separators=(",", ":"))
        return f"const {name} = $.lazy(() => $.revive({data}));"

    def _function_text(self, function: FunctionType) -> str:
        node, name = definition(function), self._register.name(function)
        statements = node.body if isinstance(node, ast.FunctionDef) else [returning(node)]
        given, body = self.body(function).inside(node.args, statements)
        if id(function) in self._register.cached:
            return f"const {name} = $.memo(({given}) => {{ {body} }});"
        if self.remembers(function):
            body = recalled(name or "", node.args, body)
        return f"function{'*' if generates(statements) else ''} {name}({given}) {{ {body} }}"


class _Register:
    """What a program refers to, in the order in which it was discovered, and the names that it gets in the script.

    Values are compared by identity: some have no hash, and equal ones are not the same. The lists keep them alive.
    """

    def __init__(self, scripts: Iterable[str]) -> None:
        """`scripts` are expressions whose names are taken."""
        self.functions: list[FunctionType] = []
        self.classes: list[type] = []
        self.constants: list[tuple[str, object]] = []
        self.cached: set[int] = set()
        self.methods: dict[str, list[ast.arguments]] = {}
        """Parameters of the methods of all classes, by name."""
        self._names: dict[int, str] = {}
        self._taken = {*_RESERVED, *(word[0] for script in scripts if (word := _WORD.match(script)))}

    def __len__(self) -> int:
        return len(self._names)

    def name(self, value: object) -> str | None:
        """The name of something that is known."""
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
        self.methods.setdefault(name, []).append(arguments)

    def constant(self, value: object) -> str:
        """The name of a constant, new or not."""
        if (known := self.name(value)) is not None:
            return known
        name = self._named(value, f"K{len(self.constants)}")
        self.constants.append((name, value))
        return name

    def _named(self, value: object, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).strip("_")
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}{count}"
        self._taken.add(name)
        self._names[id(value)] = name
        return name


def _compact(script: str) -> str:
    """The script with one space at most between two words, and none beside signs; strings stay as they are.

    >>> _compact('const a = { b: "c, d" };')
    'const a={b:"c, d"};'
    """
    return "".join(part if index % 2 else _SPACE.sub(r"\1", part) for index, part in enumerate(_STRING.split(script)))


def _stranger(value: object) -> TypeError:
    return TypeError(f"cannot translate {described(value)}: it is not ours")


def _key(value: object) -> object:
    """What stands for a function in tables: a bound method is made anew at each access."""
    return value.__func__ if isinstance(value, MethodType) else value
