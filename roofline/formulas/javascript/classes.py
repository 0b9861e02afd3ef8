"""A Python class as JavaScript."""

from __future__ import annotations

import ast
import dataclasses
import json
from enum import Enum
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from roofline.formulas.javascript.fields import REQUIRED, Field, fields
from roofline.formulas.javascript.parameters import parameters
from roofline.formulas.javascript.scope import generates
from roofline.formulas.javascript.sources import definition, underlying, unwrapped

if TYPE_CHECKING:
    from roofline.formulas.javascript.program import Program

_KEPT = ("__init__", "__post_init__", "__add__", "__radd__", "__mul__", "__rmul__", "__str__", "__call__")
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
    _check(program, cls)
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
        key: member for key, member in vars(cls).items() if key not in without and (key in _KEPT or not key.startswith("__"))
    }


def _check(program: Program, cls: type) -> None:
    """What a class may have in Python alone is refused."""
    found = [base.__name__ for base in _BUILTIN if issubclass(cls, base)]
    if sum(program.ours(base) and not program.is_native(base) for base in cls.__bases__) > 1:
        found.append("several bases")
    if dataclasses.is_dataclass(cls):
        params: Any = vars(cls).get("__dataclass_params__")
        found += ["order=True"] if params and params.order else []
        found += ["eq=False"] if params and not params.eq else []
        found += [f"{entry.name}: compare=False" for entry in dataclasses.fields(cls) if not entry.compare]
    for key, member in vars(cls).items():
        if not isinstance(function := underlying(member), FunctionType):
            found += [key] if unwrapped(function) is not None else []  # a method with a cache
        elif key.startswith("__") and key not in (*_KEPT, *_UNUSED) and program.writes(function):
            found.append(key)
    if found:
        msg = f"{cls.__module__}.{cls.__qualname__}: cannot translate {', '.join(found)}"
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
    return f"{'*' if generates(node.body) else ''}{key}({given}) {{ {first}{body} }}"


def _on_instances(key: str) -> str:
    """What a class answers, its objects answer too."""
    return f"{key}(...given) {{ return this.constructor.{key}(...given); }}"


def _answering(key: str, value: str) -> str:
    """A class method of which only the value is known."""
    return f"static {key}() {{ return {value}; }} {key}() {{ return {value}; }}"
