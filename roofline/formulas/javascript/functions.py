"""Functions: parameters with their default values, and statements in a scope of their own."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping

from roofline.formulas.javascript.names import Names
from roofline.formulas.javascript.parameters import defaults, parameters, rest
from roofline.formulas.javascript.scope import assigned, generates, spelled


class Functions(Names):
    """Writes functions inside functions, and the inside of every function."""

    def inside(
        self,
        arguments: ast.arguments,
        body: list[ast.stmt],
        *,
        skip_first: bool = False,
        given: Mapping[str, str] | None = None,
    ) -> tuple[str, str]:
        """Parameters and statements of a function. `given`: default values that have a name already."""
        listed = parameters(arguments)
        own, taken = assigned(body), {entry.arg for entry in listed}
        inner = self.within(own | taken)
        values = {name: self.expression(value) for name, value in defaults(arguments).items()} | dict(given or {})
        last = rest(arguments)
        shown = [
            ("..." if entry is last else "") + spelled(entry.arg) + (f" = {values[entry.arg]}" if entry.arg in values else "")
            for entry in (listed[1:] if skip_first else listed)
        ]
        hoisted = sorted(own - taken)
        start = f"let {', '.join(map(spelled, hoisted))}; " if hoisted else ""
        return ", ".join(shown), start + inner.statements(body)

    def _functiondef(self, node: ast.FunctionDef) -> str:
        self.scope.functions[node.name] = node.args
        made = self._closure(node.args, node.body)
        cached = [self.static(decorator) is functools.cache for decorator in node.decorator_list]
        if not all(cached):
            raise self.refused(node, "of decorators, functions have cache alone")
        return f"{spelled(node.name)} = {f'$.memo({made})' if cached else made};"

    def _lambda(self, node: ast.Lambda) -> str:
        return f"({self._closure(node.args, [returning(node)])})"

    def _closure(self, arguments: ast.arguments, body: list[ast.stmt]) -> str:
        """A function inside a function, as an expression. Its default values are those of its definition, so they get names."""
        values = {name: value for name, value in defaults(arguments).items() if not isinstance(value, ast.Constant)}
        captured = {f"$d{index}": self.expression(value) for index, value in enumerate(values.values())}
        given, inside = self.inside(arguments, body, given=dict(zip(values, captured, strict=True)))
        made = f"function* ({given}) {{ {inside} }}" if generates(body) else f"({given}) => {{ {inside} }}"
        return f"(({', '.join(captured)}) => {made})({', '.join(captured.values())})" if captured else made


def returning(node: ast.Lambda) -> ast.stmt:
    """The body of a lambda as a statement."""
    return ast.copy_location(ast.Return(value=node.body), node.body)
