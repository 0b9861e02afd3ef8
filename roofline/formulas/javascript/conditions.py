"""Comparisons, and expressions of which the truth counts."""

from __future__ import annotations

import ast

from roofline.formulas.javascript.names import Names

_ORDER: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}
_TRUTHS = ("isinstance", "any", "all", "bool")


class Conditions(Names):
    """Writes comparisons, `and`, `or`, `not` and conditional expressions."""

    def test(self, node: ast.expr) -> str:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            word = " && " if isinstance(node.op, ast.And) else " || "
            return f"({word.join(self.test(part) for part in node.values)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"!{self.test(node.operand)}"
        text = self.expression(node)
        return text if _is_boolean(node) else f"$.truthy({text})"

    def _boolop(self, node: ast.BoolOp) -> str:
        if all(_is_boolean(part) for part in node.values):
            return self.test(node)
        *rest, last = node.values
        text = self.expression(last)
        for part in reversed(rest):
            ways = ("$t", text) if isinstance(node.op, ast.Or) else (text, "$t")
            text = f"(($t) => $.truthy($t) ? {ways[0]} : {ways[1]})({self.expression(part)})"
        return text

    def _compare(self, node: ast.Compare) -> str:
        parts = [node.left, *node.comparators]
        found = [self._compared(*pair) for pair in zip(node.ops, parts, parts[1:], strict=False)]
        return f"({' && '.join(found)})"

    def _compared(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> str:
        a, b = self.expression(left), self.expression(right)
        if (sign := _ORDER.get(type(op))) is not None:
            # NB: JavaScript compares arrays as texts
            several = isinstance(left, ast.Tuple | ast.List) or isinstance(right, ast.Tuple | ast.List)
            return f"$.compare({a}, {b}) {sign} 0" if several else f"{a} {sign} {b}"
        kind = _NEGATED.get(type(op), type(op))
        if kind is ast.Is:
            text = f"({a} ?? null) === ({b} ?? null)"
        else:
            text = f"$.eq({a}, {b})" if kind is ast.Eq else f"$.contains({b}, {a})"
        return text if kind is type(op) else f"!({text})"

    def _ifexp(self, node: ast.IfExp) -> str:
        return f"({self.test(node.test)} ? {self.expression(node.body)} : {self.expression(node.orelse)})"


def _is_boolean(node: ast.expr) -> bool:
    """Whether the translation of an expression is true or false."""
    match node:
        case ast.BoolOp(values=parts):
            return all(_is_boolean(part) for part in parts)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _TRUTHS
    return False
