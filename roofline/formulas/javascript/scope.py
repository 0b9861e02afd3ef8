"""Which names of a function are its own, and how they are spelled in JavaScript."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

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
