"""Statements that decide what is done next: conditions, loops, errors, imports."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from types import ModuleType

from roofline.formulas.javascript.assignments import Assignments
from roofline.formulas.javascript.scope import spelled


class Statements(Assignments):
    """Writes statements, assignments and definitions apart."""

    def _return(self, node: ast.Return) -> str:
        return f"return {self.expression(node.value)};" if node.value else "return null;"

    def _expr(self, node: ast.Expr) -> str:
        # a constant is a docstring
        return "" if isinstance(node.value, ast.Constant) else f"{self.expression(node.value)};"

    def _if(self, node: ast.If) -> str:
        text = f"if ({self.test(node.test)}) {{ {self.statements(node.body)} }}"
        return text + (f" else {{ {self.statements(node.orelse)} }}" if node.orelse else "")

    def _for(self, node: ast.For) -> str:
        if node.orelse:
            raise self.refused(node)
        return f"for ({self.target(node.target)} of $.iter({self.expression(node.iter)})) {{ {self.statements(node.body)} }}"

    def _while(self, node: ast.While) -> str:
        if node.orelse:
            raise self.refused(node)
        return f"while ({self.test(node.test)}) {{ {self.statements(node.body)} }}"

    def _break(self, _: ast.Break) -> str:
        return "break;"

    def _continue(self, _: ast.Continue) -> str:
        return "continue;"

    def _pass(self, _: ast.Pass) -> str:
        return ""

    def _assert(self, _: ast.Assert) -> str:
        return ""

    def _raise(self, node: ast.Raise) -> str:
        if node.exc is None:
            return "throw $e;"
        kind = self.static(node.exc)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return f"throw new Error({json.dumps(kind.__name__)});"
        return f"throw {self.expression(node.exc)};"

    def _try(self, node: ast.Try) -> str:
        if node.orelse or node.finalbody:
            raise self.refused(node)
        handlers = "".join(map(self._handler, node.handlers))
        return f"try {{ {self.statements(node.body)} }} catch ($e) {{ {handlers}{{ throw $e; }} }}"

    def _handler(self, handler: ast.ExceptHandler) -> str:
        """What is done about errors of some types."""
        kinds = "$e instanceof Error" if handler.type is None else self._caught(handler.type)
        named = f"{spelled(handler.name)} = $e; " if handler.name else ""
        return f"if ({kinds}) {{ {named}{self.statements(handler.body)} }} else "

    def _caught(self, node: ast.expr) -> str:
        """Whether `$e` is of a type, or of one of several."""
        found = []
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            kind = self.static(part)
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise self.refused(node)
            found.append(self._is_of(kind))
        return " || ".join(found)

    def _is_of(self, kind: type[BaseException]) -> str:
        """Whether `$e` is of a type. Python's own errors are the runtime's, which have no types."""
        if kind in (Exception, BaseException):
            return "true"
        return f"$e instanceof {self.refer(kind)}" if self.program.ours(kind) else "!($e instanceof $.Exception)"

    def _import(self, node: ast.Import) -> str:
        """An import inside a function binds what it names while translating."""
        for alias in node.names:
            module = import_module(alias.name)
            self.scope.imported[alias.asname or _top(module).__name__] = module if alias.asname else _top(module)
        return ""

    def _importfrom(self, node: ast.ImportFrom) -> str:
        if node.level or node.module is None:
            raise self.refused(node)
        module = import_module(node.module)
        self.scope.imported |= {alias.asname or alias.name: getattr(module, alias.name) for alias in node.names}
        return ""


def _top(module: ModuleType) -> ModuleType:
    """The package that a module is in."""
    return import_module(module.__name__.partition(".")[0])
