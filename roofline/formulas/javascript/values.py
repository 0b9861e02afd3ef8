"""Values and classes of Python in JavaScript: literals, data that the runtime's `revive` reads, fields, class bodies."""

from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import functools
import inspect
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from roofline.formulas.javascript.python_source import definition, generates, parameters, underlying, unwrapped

if TYPE_CHECKING:
    from roofline.formulas.javascript.program import Program

REQUIRED = object()
"""Stands for a default value that there is not."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field's default value, or the function that makes one."""

    default: object = REQUIRED
    factory: Any = None


_KNOWN: dict[type, dict[str, Field] | None] = {}


def fields(cls: type) -> dict[str, Field] | None:
    """The fields of a class in the order in which its constructor takes them; None of a class without."""
    if cls not in _KNOWN:
        _KNOWN[cls] = _fields(cls)
    return _KNOWN[cls]


def _fields(cls: type) -> dict[str, Field] | None:
    if issubclass(cls, BaseModel):
        return {name: _of_model(info) for name, info in cls.model_fields.items()}
    if not dataclasses.is_dataclass(cls):
        return None
    known = {entry.name: entry for entry in dataclasses.fields(cls)}
    return {name: _of_dataclass(known[name]) for name in inspect.signature(cls).parameters}


def _of_model(info: FieldInfo) -> Field:
    if info.default_factory is not None:
        return Field(factory=info.default_factory)
    return Field() if info.is_required() else Field(info.default)


def _of_dataclass(entry: dataclasses.Field[Any]) -> Field:
    if entry.default_factory is not dataclasses.MISSING:
        return Field(factory=entry.default_factory)
    return Field() if entry.default is dataclasses.MISSING else Field(entry.default)


# Data

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def literal(value: object) -> str:
    """A number, a text, a truth or None in JavaScript.

    >>> literal(None), literal(True), literal(float("-inf"))
    ('null', 'true', '-Infinity')
    """
    if isinstance(value, int):
        _check_integer(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json.dumps(value)


class Names(Protocol):
    """What knows the names that things have in a script: a program, or a translation of one."""

    def refer(self, value: Any) -> str:
        """An expression for a class or a function."""

    def constant(self, value: object) -> str:
        """The name of a constant."""


class Encoder:
    """Writes values for a program, which translates their classes and functions."""

    def __init__(self, program: Names) -> None:
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
            _check_integer(value)
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
        changed = {
            name: self.encode(part)
            for name, part in given.items()
            if part is not known[name].default and part != known[name].default
        }
        return {"$": self._program.refer(type(value)), **changed}

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        # NB: objects of JavaScript put whole numbers first
        if all(isinstance(key, str) and key != "__proto__" and not key.isdigit() for key in value):
            return {"$o": {key: self.encode(part) for key, part in value.items()}}
        return {"$d": [[self.encode(key), self.encode(part)] for key, part in value.items()]}

    def _function(self, value: FunctionType) -> dict[str, str]:
        name = self._program.refer(value)
        self._in_data[name] = None
        return {"$f": name}


def _check_integer(value: int) -> None:
    """Whole numbers that are no doubles are refused."""
    if abs(value) > 2**1023 or float(value) != value:
        msg = f"JavaScript does not have the number {value}"
        raise TypeError(msg)


def _order(value: object) -> str:
    """What orders the values of a set: neither where they lie in memory nor how they are hashed."""
    if isinstance(value, set | frozenset):
        return str(sorted(map(_order, value)))
    return _ADDRESS.sub("", str(value))


# Classes

_TRANSLATED = ("__init__", "__post_init__", "__add__", "__radd__", "__mul__", "__rmul__", "__str__", "__call__")
_UNUSED = ("__repr__", "__init_subclass__")
"""What only Python's prompt and the making of classes call."""

_BUILTIN = (dict, float, frozenset, int, list, set, str, tuple, Enum)


def class_text(program: Program, cls: type) -> str:
    """The class, its methods and properties, and its constants."""
    name, known = program.refer(cls), fields(cls)
    members, constants, after = [], {}, []
    if known is not None:
        members.append(_constructor(program, cls, known))
        after.append(f"{name}.$fields = {json.dumps(list(known))};")
        if dataclasses.is_dataclass(cls) and not all(entry.compare for entry in dataclasses.fields(cls)):
            compared = [entry.name for entry in dataclasses.fields(cls) if entry.compare]
            after.append(f"{name}.$compared = {json.dumps(compared)};")
    _check_class(program, cls)
    for key, member in _own(cls).items():
        if isinstance(function := underlying(member), FunctionType):
            if program.writes(function):
                members.append(_method(program, key, member, function))
        elif not key.startswith(("_abc", "model_")) and not hasattr(member, "__get__"):
            constants[key] = member
    members += [_answering(key, json.dumps(program.encode(value))) for key, value in program.evaluated(cls).items()]
    if constants:
        values = ", ".join(f"{key}: $.revive({json.dumps(program.encode(value))})" for key, value in constants.items())
        after.append(f"$.attributes({name}, {{ {values} }});")
    return f"class {name} extends {_base(program, cls)} {{ {' '.join(members)} }} {' '.join(after)}"


def _own(cls: type) -> dict[str, object]:
    """What a class has of its own, without fields, without validators and without what Python makes of them."""
    without = {*(fields(cls) or ()), *_validators(cls)}
    return {
        key: member
        for key, member in vars(cls).items()
        if key not in without and (key in _TRANSLATED or not key.startswith("__"))
    }


def _check_class(program: Program, cls: type) -> None:
    """What a class may have in Python alone is refused."""
    refused = [base.__name__ for base in _BUILTIN if issubclass(cls, base)]
    if sum(program.ours(base) and not program.is_native(base) for base in cls.__bases__) > 1:
        refused.append("several bases")
    if dataclasses.is_dataclass(cls):
        params: Any = vars(cls).get("__dataclass_params__")
        refused += ["order=True"] if params and params.order else []
        refused += ["eq=False"] if params and not params.eq else []
    for key, member in vars(cls).items():
        if not isinstance(function := underlying(member), FunctionType):
            refused += [key] if unwrapped(function) is not None else []  # a method with a cache
        elif key.startswith("__") and key not in (*_TRANSLATED, *_UNUSED) and program.writes(function):
            refused.append(key)
    if refused:
        msg = f"{cls.__module__}.{cls.__qualname__}: cannot translate {', '.join(refused)}"
        raise TypeError(msg)


def _validators(cls: type) -> set[str]:
    """Names of validators, which data from Python has passed already."""
    if not issubclass(cls, BaseModel):
        return set()
    known = cls.__pydantic_decorators__
    return {
        *known.field_validators,
        *known.model_validators,
        *known.field_serializers,
        *known.model_serializers,
        *known.validators,
    }


def _base(program: Program, cls: type) -> str:
    for base in cls.__bases__:
        if program.ours(base) and not program.is_native(base):
            return program.refer(base)
    if issubclass(cls, BaseException):
        return "$.Exception"
    return "$.Obj" if fields(cls) is None else "$.Data"


def _constructor(program: Program, cls: type, known: dict[str, Field]) -> str:
    """Sets the fields; with `$.SKIP` none, for classes that extend this one and for copies."""
    given, sets = [], []
    for name, field in known.items():
        given.append(f"{name}_{_default(program, field)}")
        shadows = any(isinstance(vars(base).get(name), property | cached_property) for base in cls.__mro__[1:])
        sets.append(f'$.field(this, "{name}", {name}_);' if shadows else f"this.{name} = {name}_;")
    skip = f"if ({next(iter(known))}_ === $.SKIP) return; " if known else ""
    after = " this.__post_init__();" if hasattr(cls, "__post_init__") else ""
    return f"constructor({', '.join(given)}) {{ super($.SKIP); {skip}{' '.join(sets)}{after} }}"


def _default(program: Program, field: Field) -> str:
    if field.factory is not None:
        return f" = {program.refer(field.factory)}()"
    return "" if field.default is REQUIRED else f" = {program.refer(field.default)}"


def _method(program: Program, key: str, member: object, function: FunctionType) -> str:
    """A method, a property, a class method or a static one."""
    node = definition(function)
    if not isinstance(node, ast.FunctionDef):
        msg = f"{function.__module__}.{function.__qualname__}: cannot translate a lambda as a method"
        raise TypeError(msg)
    static = isinstance(member, staticmethod)
    given, body = program.body(function).inside(node.args, node.body, skip_first=not static)
    first = "" if static else f"const {parameters(node.args)[0].arg} = this; "
    match member:
        case property():
            return f"get {key}() {{ {first}{body} }}"
        case cached_property():
            return f'get {key}() {{ {first}return $.keep(this, "{key}", () => {{ {body} }}); }}'
        case classmethod() | staticmethod():
            return f"static {key}({given}) {{ {first}{body} }} {_on_instances(key)}"
    if program.remembers(function):
        body = recalled(function.__qualname__, node.args, body)
    return f"{'*' if generates(node.body) else ''}{key}({given}) {{ {first}{body} }}"


def recalled(name: str, arguments: ast.arguments, body: str) -> str:
    """The body of a function that answers equal arguments from memory."""
    given = ", ".join(parameter.arg for parameter in parameters(arguments))
    return f"return $.recall({json.dumps(name)}, [{given}], () => {{ {body} }});"


def _on_instances(key: str) -> str:
    """What a class answers, its objects answer too."""
    return f"{key}(...given) {{ return this.constructor.{key}(...given); }}"


def _answering(key: str, value: str) -> str:
    """A class method of which only the value is known."""
    return f"static {key}() {{ return {value}; }} {key}() {{ return {value}; }}"


# Python's own functions that the runtime has, and in which order it takes their keyword arguments

Entry = TypeVar("Entry")

_ONE, _TWO, _THREE = ("x",), ("x", "y"), ("x", "y", "z")
_ANY = None

# Object -> the runtime's function and its parameters: as many as the runtime takes, with the names that Python knows them by.
FUNCTIONS: dict[object, tuple[str, tuple[str, ...] | None]] = {
    abs: ("abs", _ONE),
    all: ("all", _ONE),
    any: ("any", _ONE),
    bool: ("bool", _ONE),
    dict.fromkeys: ("fromkeys", _TWO),
    divmod: ("divmod", _TWO),
    enumerate: ("enumerate", ("iterable", "start")),
    filter: ("filter", _TWO),
    float: ("float", _ONE),
    frozenset: ("set", _ONE),
    getattr: ("getattr", _THREE),
    id: ("identity", _ONE),
    int: ("int", _ONE),
    len: ("len", _ONE),
    list: ("list", _ONE),
    map: ("map", _ANY),
    range: ("range", _THREE),
    repr: ("repr", _ONE),
    reversed: ("reversed", _ONE),
    round: ("round", ("number", "ndigits")),
    set: ("set", _ONE),
    sorted: ("sorted", ("iterable", "key", "reverse")),
    str: ("str", _ONE),
    sum: ("sum", ("iterable", "start")),
    tuple: ("list", _ONE),
    type: ("type", _ONE),
    collections.Counter: ("counter", _ONE),
    copy.copy: ("copied", _ONE),
    dataclasses.asdict: ("asdict", _ONE),
    functools.reduce: ("reduce", _THREE),
    itertools.chain: ("chain", _ANY),
    itertools.pairwise: ("pairwise", _ONE),
    itertools.product: ("product", _ANY),
    math.log: ("log", _TWO),
    math.log2: ("log2", _ONE),
    math.log10: ("log10", _ONE),
}

# Expressions rather than functions of the runtime.
PLAIN: dict[object, str] = {
    math.atan2: "Math.atan2",
    ...: "$.Ellipsis",
    math.ceil: "Math.ceil",
    math.exp: "Math.exp",
    math.expm1: "Math.expm1",
    math.floor: "Math.floor",
    math.isfinite: "Number.isFinite",
    math.log1p: "Math.log1p",
    math.isinf: "((x) => Math.abs(x) === Infinity)",
    math.sqrt: "Math.sqrt",
    ord: "((letter) => letter.codePointAt(0))",
}

TYPES: dict[object, str] = {
    bool: "$.bool",
    dict: "$.dict",
    float: "$.float",
    frozenset: "$.set",
    int: "$.int",
    list: "$.list",
    set: "$.set",
    str: "$.str",
    tuple: "$.list",
    type(None): "null",
}

# Methods of Python's own types that the runtime has (`$.method`), with their parameters as above.
METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("copy", "items", "keys", "values", "lower", "upper", "capitalize"), ()),
    **dict.fromkeys(("isalnum", "isdigit", "is_integer"), ()),
    **dict.fromkeys(("append", "extend", "index", "count", "update", "add", "discard", "union", "model_validate"), _ONE),
    **dict.fromkeys(("join", "startswith", "endswith", "partition", "rpartition", "strip", "lstrip", "rstrip"), _ONE),
    **dict.fromkeys(("removeprefix", "removesuffix", "ljust", "rjust"), _ONE),
    **dict.fromkeys(("get", "insert", "pop", "setdefault"), _TWO),
    "model_copy": ("update",),
    "replace": _THREE,
    "split": ("sep", "maxsplit"),
}

OTHERS = frozenset({"reverse", "sort"})
"""Methods of arrays that Python has under the same name; those of JavaScript do something else."""


def looked_up(table: Mapping[object, Entry], key: object) -> Entry | None:
    """The entry of a table; None of what is not in it, and of what cannot be a key."""
    try:
        return table.get(key)
    except TypeError:  # not hashable
        return None


def expression(value: object) -> str | None:
    """What stands for one of Python's own types or functions; None of everything else."""
    if (text := looked_up(TYPES, value) or looked_up(PLAIN, value)) is not None:
        return text
    entry = looked_up(FUNCTIONS, value)
    return None if entry is None else f"$.{entry[0]}"
