"""What looks the same in both languages and is not: refused, so that a page never answers otherwise than Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from roofline.formulas.javascript.scope import targets

_ORDER = ast.Lt | ast.LtE | ast.Gt | ast.GtE
_CHANGEABLE = ast.List | ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def unlike(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Parts of a function that would mean something else in JavaScript, with the reason."""
    for part in ast.walk(node):
        yield from ((part, reason) for reason, found in _RULES.items() if found(part))


def _calls(node: ast.AST, *names: str) -> bool:
    """Whether an expression is a call of one of these functions."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _unpacks_unevenly(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store)):
        return False
    starred = [isinstance(part, ast.Starred) for part in node.elts]
    return any(starred[:-1]) or (any(starred) and any(isinstance(part, ast.Subscript) for part in node.elts))


def _chains_calls(node: ast.AST) -> bool:
    middle = node.comparators[:-1] if isinstance(node, ast.Compare) else []
    return any(
        isinstance(part, ast.Call | ast.NamedExpr) and not _calls(part, "abs", "len")
        for entry in middle
        for part in ast.walk(entry)
    )


def _orders_sets(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Compare) and any(isinstance(op, _ORDER) for op in node.ops)):
        return False
    parts = [node.left, *node.comparators]
    return any(isinstance(part, ast.Set | ast.SetComp) or _calls(part, "set", "frozenset") for part in parts)


def _fills_in(node: ast.AST) -> bool:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
        return False
    return isinstance(node.left, ast.JoinedStr) or (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str))


def _keeps_defaults(node: ast.AST) -> bool:
    values = [*node.defaults, *node.kw_defaults] if isinstance(node, ast.arguments) else []
    return any(
        isinstance(value, _CHANGEABLE) or (value is not None and _calls(value, "list", "dict", "set")) for value in values
    )


def _closes_late(node: ast.AST) -> bool:
    if not isinstance(node, _COMPREHENSIONS):
        return False
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


def _reads_nothing(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "_" and isinstance(node.ctx, ast.Load)


def _shows_ascii(node: ast.AST) -> bool:
    return isinstance(node, ast.FormattedValue) and node.conversion == ord("a")


_RULES: dict[str, Callable[[ast.AST], bool]] = {
    "*values have to be last, and beside names": _unpacks_unevenly,
    "what stands in the middle would be evaluated twice": _chains_calls,
    "the order of sets is whether one holds the other": _orders_sets,
    "a text is filled in": _fills_in,
    "a default value that can be changed is one for all calls": _keeps_defaults,
    "functions see the last value of a loop": _closes_late,
    "what is called _ is not kept": _reads_nothing,
    "letters would be escaped": _shows_ascii,
}
