"""Values into names, attributes and items."""

from __future__ import annotations

import ast

from roofline.formulas.javascript.expressions import OPERATORS, Expressions
from roofline.formulas.javascript.scope import spelled

_IN_PLACE: dict[type[ast.operator], str] = {**OPERATORS, ast.BitOr: "ior", ast.Add: "iadd"}


class Assignments(Expressions):
    """Writes everything that assigns, by statement or in an expression."""

    def target(self, node: ast.expr) -> str:
        """What is assigned to."""
        match node:
            case ast.Name(id=name):
                return spelled(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                # NB: what is called `_` is passed over, and may stand there several times
                return f"[{', '.join('' if _is_nothing(part) else self.target(part) for part in parts)}]"
            case ast.Starred(value=value):
                return f"...{self.target(value)}"
            case ast.Attribute():
                return self.expression(node)
        raise self.refused(node)

    def _into(self, target: ast.expr, value: str) -> str:
        """A statement that assigns to a name, an attribute, an item, or several of them."""
        if isinstance(target, ast.Subscript):
            return f"$.put({self.expression(target.value)}, {self.expression(target.slice)}, {value});"
        if isinstance(target, ast.Tuple) and any(isinstance(part, ast.Subscript) for part in target.elts):
            parts = " ".join(self._into(part, f"$.at($v, {index})") for index, part in enumerate(target.elts))
            return f"{{ const $v = $.list({value}); {parts} }}"
        text = self.target(target)
        # NB: a line that begins with a bracket would go on with the one before; statements end in semicolons here.
        return f"{text} = {f'$.list({value})' if text.startswith('[') else value};"

    def _assign(self, node: ast.Assign) -> str:
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return self._into(node.targets[0], value)
        return f"{{ const $v = {value}; {' '.join(self._into(target, '$v') for target in node.targets)} }}"

    def _annassign(self, node: ast.AnnAssign) -> str:
        return self._into(node.target, self.expression(node.value)) if node.value else ""

    def _augassign(self, node: ast.AugAssign) -> str:
        if (name := _IN_PLACE.get(type(node.op))) is None:
            raise self.refused(node)
        return self._into(node.target, f"$.{name}({self.expression(node.target)}, {self.expression(node.value)})")

    def _namedexpr(self, node: ast.NamedExpr) -> str:
        return f"({self.target(node.target)} = {self.expression(node.value)})"

    def _delete(self, node: ast.Delete) -> str:
        match node.targets:
            case [ast.Subscript(value=value, slice=index)]:
                return f"$.remove({self.expression(value)}, {self.expression(index)});"
        raise self.refused(node)


def _is_nothing(node: ast.expr) -> bool:
    """Whether a target is called `_`."""
    return isinstance(node, ast.Name) and node.id == "_"
