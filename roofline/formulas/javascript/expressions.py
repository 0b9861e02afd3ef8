"""Constants, names, arithmetic, containers and texts."""

from __future__ import annotations

import ast
from types import MethodType

from roofline.formulas.javascript.conditions import Conditions
from roofline.formulas.javascript.data import literal
from roofline.formulas.javascript.names import UNKNOWN
from roofline.formulas.javascript.scope import spelled

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Mod: "mod",
    ast.FloorDiv: "floordiv",
    ast.Pow: "pow",
    ast.BitOr: "bitor",
    ast.BitAnd: "bitand",
}
"""Operators with two operands, by their function in the runtime."""


class Expressions(Conditions):
    """Writes expressions without calls, comprehensions and functions."""

    def item(self, node: ast.expr) -> str:
        """An item of a display or of a call's arguments."""
        return f"...$.iter({self.expression(node.value)})" if isinstance(node, ast.Starred) else self.expression(node)

    def _constant(self, node: ast.Constant) -> str:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return literal(node.value)
        raise self.refused(node)

    def _name(self, node: ast.Name) -> str:
        value = self.static(node)
        if value is not UNKNOWN:
            return self.refer(value)
        if self.scope.owner(node.id) is None:
            raise self.refused(node, "nothing has this name")
        return spelled(node.id)

    def _attribute(self, node: ast.Attribute) -> str:
        if node.attr == "model_fields":  # a dict whose keys alone are looked at
            return f"$.fromkeys({self.expression(node.value)}.$fields)"
        value, reads = self.static(node), isinstance(node.ctx, ast.Load)
        if value is not UNKNOWN and not reads:
            raise self.refused(node, "it is not the function's own")
        if value is not UNKNOWN and not isinstance(value, MethodType):
            return self.refer(value)
        if node.attr.startswith("__"):
            raise self.refused(node)
        if reads and self.program.methods(node.attr):  # maybe a method, handed over as it is
            return f'$.bound({self.expression(node.value)}, "{node.attr}")'
        return f"{self.expression(node.value)}.{node.attr}"

    def _binop(self, node: ast.BinOp) -> str:
        if (name := OPERATORS.get(type(node.op))) is None:
            raise self.refused(node)
        return f"$.{name}({self.expression(node.left)}, {self.expression(node.right)})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return self.test(node)
        if isinstance(node.op, ast.USub):
            return f"-({self.expression(node.operand)})"
        raise self.refused(node)

    def _tuple(self, node: ast.Tuple | ast.List) -> str:
        return f"[{', '.join(map(self.item, node.elts))}]"

    _list = _tuple

    def _set(self, node: ast.Set) -> str:
        return f"$.set([{', '.join(map(self.item, node.elts))}])"

    def _dict(self, node: ast.Dict) -> str:
        pairs = [
            f"...{self.expression(value)}.pairs()" if key is None else f"[{self.expression(key)}, {self.expression(value)}]"
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return f"$.dict([{', '.join(pairs)}])"

    def _subscript(self, node: ast.Subscript) -> str:
        value = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            if node.slice.step is not None:
                raise self.refused(node)
            ends = (self.expression(end) if end else "null" for end in (node.slice.lower, node.slice.upper))
            return f"$.slice({value}, {', '.join(ends)})"
        return f"$.at({value}, {self.expression(node.slice)})"

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        return f"({' + '.join(map(self.expression, node.values))})" if node.values else '""'

    def _formattedvalue(self, node: ast.FormattedValue) -> str:
        value = self.expression(node.value)
        if node.conversion != -1:
            value = f"$.{'repr' if node.conversion == ord('r') else 'str'}({value})"
        return f"$.format({value}, {self.expression(node.format_spec)})" if node.format_spec else f"$.str({value})"

    def _yield(self, node: ast.Yield) -> str:
        return f"yield {self.expression(node.value)}" if node.value else "yield null"

    def _yieldfrom(self, node: ast.YieldFrom) -> str:
        return f"yield* $.iter({self.expression(node.value)})"
