"""Where the source of a Python function is: its node in the syntax tree of its module."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Collection
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType

Definition = ast.FunctionDef | ast.Lambda
_Cached = type(cache(lambda: None))


def definition(function: FunctionType) -> Definition:
    """The node of a function, of a method, or of a lambda."""
    first = function.__code__.co_firstlineno
    found = _definitions(function.__code__.co_filename).get((function.__name__, first), [])
    if len(found) != 1:
        msg = f"{function.__module__}.{function.__qualname__}: {len(found)} definitions begin in line {first}"
        raise TypeError(msg)
    return found[0]


def parameters_of(function: FunctionType) -> ast.arguments:
    """The parameters of a function."""
    return definition(function).args


def unwrapped(value: object) -> FunctionType | None:
    """A function without `cache` round it; None of what is no function."""
    if isinstance(value, _Cached):
        value = value.__wrapped__
    return value if isinstance(value, FunctionType) else None


def underlying(member: object) -> object:
    """The function behind a method, a property or a class method; anything else as it is."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def described(value: object) -> str:
    """Something by the name that it has in its module."""
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', repr(value))}"


def written_in(function: FunctionType, folders: Collection[Path]) -> bool:
    """Whether a function has its source in one of these folders: dataclasses make methods that have none."""
    return _inside(function.__code__.co_filename, folders)


def defined_in(cls: type, folders: Collection[Path]) -> bool:
    """Whether a class is of a module in one of these folders."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return path is not None and _inside(path, folders)


def _inside(path: str, folders: Collection[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


@cache
def _definitions(path: str) -> dict[tuple[str, int], list[Definition]]:
    """All definitions of a file by name and by the line that they begin in, decorators included."""
    found: dict[tuple[str, int], list[Definition]] = defaultdict(list)
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Lambda):
            found["<lambda>", node.lineno].append(node)
        elif isinstance(node, ast.FunctionDef):
            found[node.name, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])].append(node)
    return found
