"""What a name stands for while translating, and which method writes a node."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Self

from roofline.formulas.javascript.scope import Scope
from roofline.formulas.javascript.sources import described

if TYPE_CHECKING:
    from roofline.formulas.javascript.program import Program

_NAME = re.compile(r"[A-Za-z_]\w*")
UNKNOWN = object()
"""What stands for a value that only the running program knows."""


class Names:
    """The inside of one function. `names` are what its module and its closure bind; `where` is the function, for refusals.

    Subclasses write the nodes of the syntax tree, each in a method called like the node: `_call` writes `ast.Call`. Nodes
    without a method are not part of what is translated.
    """

    def __init__(self, program: Program, where: str, names: Mapping[str, object], scope: Scope) -> None:
        self.program, self.where, self.names, self.scope = program, where, names, scope

    def within(self, names: set[str]) -> Self:
        """The inside of a function or comprehension in this one, with names of its own."""
        return type(self)(self.program, self.where, self.names, Scope(names, self.scope))

    def expression(self, node: ast.expr) -> str:
        """An expression."""
        return self._written(node)

    def statements(self, body: list[ast.stmt]) -> str:
        """A block, without braces."""
        return " ".join(filter(None, map(self._written, body)))

    def static(self, node: ast.expr) -> object:
        """What a name or an attribute of a module or class is while translating; `UNKNOWN` of everything else."""
        if isinstance(node, ast.Name):
            return self._bound(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.static(node.value)
            if isinstance(owner, ModuleType | type):
                return getattr(owner, node.attr, UNKNOWN)
        return UNKNOWN

    def refer(self, value: object) -> str:
        """An expression for something outside the function, which no name of the function may hide."""
        try:
            text = self.program.refer(value)
        except TypeError as error:
            raise TypeError(f"{self.where}: {error}") from error
        found = _NAME.match(text)
        if found is not None and self.scope.owner(found[0]) is not None:
            msg = f"{self.where}: cannot translate `{found[0]}`: in JavaScript it hides {described(value)}"
            raise TypeError(msg)
        return text

    def refused(self, node: ast.AST, reason: str = "") -> TypeError:
        """What is raised about code that this translator does not know."""
        return TypeError(f"{self.where}: cannot translate `{ast.unparse(node)}`{reason and f': {reason}'}")

    def _bound(self, name: str) -> object:
        """What a name stands for: by an import inside the function, by its module, or as Python's own."""
        if (imported := self.scope.importing(name)) is not None:
            return imported.imported[name]
        if self.scope.owner(name) is not None:
            return UNKNOWN
        return self.names[name] if name in self.names else getattr(builtins, name, UNKNOWN)

    def _written(self, node: ast.AST) -> str:
        write = getattr(self, f"_{type(node).__name__.lower()}", None)
        if write is None:
            raise self.refused(node)
        text: str = write(node)
        return text
