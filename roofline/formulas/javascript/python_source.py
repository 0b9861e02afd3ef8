"""Reading Python: where the source of a function is, its parameters, which names are its own, what would mean something else
in JavaScript."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

Definition = ast.FunctionDef | ast.Lambda
_Cached = type(cache(lambda: None))


def definition(function: FunctionType) -> Definition:
    """The node of a function, of a method, or of a lambda."""
    first = function.__code__.co_firstlineno
    nodes = _definitions(function.__code__.co_filename).get((function.__name__, first), [])
    if len(nodes) != 1:
        msg = f"{function.__module__}.{function.__qualname__}: {len(nodes)} definitions begin in line {first}"
        raise TypeError(msg)
    return nodes[0]


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
    nodes: dict[tuple[str, int], list[Definition]] = defaultdict(list)
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Lambda):
            nodes["<lambda>", node.lineno].append(node)
        elif isinstance(node, ast.FunctionDef):
            nodes[node.name, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])].append(node)
    return nodes


# Parameters


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters: keyword-only ones after the others, `**kwargs` last."""
    listed = [*arguments.posonlyargs, *arguments.args]
    listed += [arguments.vararg] if arguments.vararg else []
    listed += arguments.kwonlyargs
    return [*listed, arguments.kwarg] if arguments.kwarg else listed


def defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Default values by parameter."""
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    by_name = {parameter.arg: value for parameter, value in zip(last, arguments.defaults, strict=True)}
    return by_name | {
        parameter.arg: value
        for parameter, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }


def rest(arguments: ast.arguments) -> ast.arg | None:
    """`*values` where nothing follows it, which JavaScript has too; elsewhere it is handed over as a list."""
    return None if arguments.kwonlyargs or arguments.kwarg else arguments.vararg


def without_first(arguments: ast.arguments) -> ast.arguments:
    """Parameters without `self`."""
    return ast.arguments(
        posonlyargs=[],
        args=[*arguments.posonlyargs, *arguments.args][1:],
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=arguments.kw_defaults,
        kwarg=arguments.kwarg,
        defaults=arguments.defaults,
    )


# Scopes

_RESERVED = frozenset(
    {
        "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do",
        "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements", "import",
        "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public", "return",
        "static", "super", "switch", "this", "throw", "true", "try", "typeof", "undefined", "var", "void", "while", "with",
        "yield",
    }
)  # fmt: skip


def spelled(name: str) -> str:
    """A Python name that JavaScript accepts.

    >>> spelled("self"), spelled("new"), spelled("_x")
    ('self', 'new_', '_x')
    """
    return f"{name}_" if name in _RESERVED else name


@dataclass
class Scope:
    """Names of one function, with the arguments of functions that are defined in it."""

    names: set[str]
    outer: Scope | None = None
    functions: dict[str, ast.arguments] = field(default_factory=dict)
    imported: dict[str, object] = field(default_factory=dict)
    """What imports inside the function bind."""

    def owner(self, name: str) -> Scope | None:
        """The innermost function that a name belongs to."""
        return self if name in self.names else self.outer.owner(name) if self.outer else None

    def importing(self, name: str) -> Scope | None:
        """The innermost function that imports a name."""
        return self if name in self.imported else self.outer.importing(name) if self.outer else None


def assigned(body: list[ast.stmt]) -> set[str]:
    """Names that statements bind, without those of functions and comprehensions inside them."""
    return {name for statement in body for name in _bound(statement)}


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in _parts(node):
        yield from _bound(child)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node in the same scope: targets of a comprehension are its own, an assignment expression in it is not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from (child.iter, *child.ifs)
        else:
            yield child


def targets(node: ast.expr) -> set[str]:
    """Names in the target of a loop or of a comprehension."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def generates(body: list[ast.stmt]) -> bool:
    """Whether a function is a generator."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            stack += ast.iter_child_nodes(node)
    return False


# What looks the same in both languages and is not: refused, so that a page never computes something other than Python

_ORDER = ast.Lt | ast.LtE | ast.Gt | ast.GtE
_CHANGEABLE = ast.List | ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp


def unlike(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Parts of a function that would mean something else in JavaScript, with the reason."""
    for part in ast.walk(node):
        for reason, applies in _RULES.get(type(part), ()):
            if applies(part):
                yield part, reason


def _calls(node: ast.AST, *names: str) -> bool:
    """Whether an expression is a call of one of these functions."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _unpacks_unevenly(node: ast.Tuple | ast.List) -> bool:
    if not isinstance(node.ctx, ast.Store):
        return False
    starred = [isinstance(part, ast.Starred) for part in node.elts]
    return any(starred[:-1]) or (any(starred) and any(isinstance(part, ast.Subscript) for part in node.elts))


def _chains_calls(node: ast.Compare) -> bool:
    return any(
        isinstance(part, ast.Call | ast.NamedExpr) and not _calls(part, "abs", "len")
        for entry in node.comparators[:-1]
        for part in ast.walk(entry)
    )


def _orders_sets(node: ast.Compare) -> bool:
    if not any(isinstance(op, _ORDER) for op in node.ops):
        return False
    parts = [node.left, *node.comparators]
    return any(isinstance(part, ast.Set | ast.SetComp) or _calls(part, "set", "frozenset") for part in parts)


def _fills_in(node: ast.BinOp) -> bool:
    if not isinstance(node.op, ast.Mod):
        return False
    return isinstance(node.left, ast.JoinedStr) or (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str))


def _keeps_defaults(node: ast.arguments) -> bool:
    return any(
        isinstance(value, _CHANGEABLE) or (value is not None and _calls(value, "list", "dict", "set"))
        for value in (*node.defaults, *node.kw_defaults)
    )


def _closes_late(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> bool:
    made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    names = {name for entry in node.generators for name in targets(entry.target)}
    return any(names & targets(part) for element in made for part in _closures(element))


def _closures(node: ast.expr) -> Iterator[ast.expr]:
    """Functions and generators that an element of a comprehension is, or holds."""
    if isinstance(node, ast.Lambda | ast.GeneratorExp):
        yield node
    elif isinstance(node, ast.Tuple | ast.List):
        for part in node.elts:
            yield from _closures(part)


def _reads_nothing(node: ast.Name) -> bool:
    return node.id == "_" and isinstance(node.ctx, ast.Load)


def _shows_ascii(node: ast.FormattedValue) -> bool:
    return node.conversion == ord("a")


_UNEVEN = ("*values have to be last, and beside names", _unpacks_unevenly)
_LATE = ("functions see the last value of a loop", _closes_late)
_RULES: dict[type[ast.AST], tuple[tuple[str, Callable[[Any], bool]], ...]] = {
    ast.Tuple: (_UNEVEN,),
    ast.List: (_UNEVEN,),
    ast.Compare: (
        ("what stands in the middle would be evaluated twice", _chains_calls),
        ("the order of sets is whether one holds the other", _orders_sets),
    ),
    ast.BinOp: (("a text is filled in", _fills_in),),
    ast.arguments: (("a default value that can be changed is one for all calls", _keeps_defaults),),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), (_LATE,)),
    ast.Name: (("what is called _ is not kept", _reads_nothing),),
    ast.FormattedValue: (("letters would be escaped", _shows_ascii),),
}
"""By the node that a rule is about: why it is refused, and whether it is."""
