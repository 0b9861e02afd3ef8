"""Calls: of Python's own functions, of what is translated too, and of methods."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections.abc import Callable
from types import FunctionType, MethodType, UnionType

from roofline.formulas.javascript.arguments import Arguments
from roofline.formulas.javascript.builtins import FUNCTIONS, METHODS, TYPES, looked_up
from roofline.formulas.javascript.fields import fields
from roofline.formulas.javascript.names import UNKNOWN
from roofline.formulas.javascript.parameters import without_first
from roofline.formulas.javascript.scope import spelled
from roofline.formulas.javascript.sources import parameters_of, unwrapped


class Calls(Arguments):
    """Writes calls."""

    def _call(self, node: ast.Call) -> str:
        function = self.static(node.func)
        if function is not UNKNOWN:
            return self._call_of(node, typing.get_origin(function) or function)  # dict[str, int]() is dict()
        if isinstance(node.func, ast.Attribute):
            return self._method_call(node, node.func)
        if isinstance(node.func, ast.Name):
            scope = self.scope.owner(node.func.id)
            if scope and node.func.id in scope.functions:
                return f"{spelled(node.func.id)}({self.bound(node, scope.functions[node.func.id])})"
            if node.func.id == "cls":  # of a class method
                return f"new cls({self.positional(node)})"
        return f"{self.expression(node.func)}({self.positional(node)})"

    def _call_of(self, node: ast.Call, function: object) -> str:
        """A call of something that is known while translating."""
        forms: dict[object, Callable[[ast.Call], str]] = {
            super: lambda _: "super",
            typing.cast: lambda call: self.expression(call.args[1]),
            isinstance: self._isinstance,
            zip: lambda call: f"$.zip({', '.join(map(self.item, call.args))})",
            max: lambda call: self._best(call, "max"),
            min: lambda call: self._best(call, "min"),
            next: self._next,
            dict: self._dict_of,
            dataclasses.replace: lambda call: f"$.replace({self.expression(call.args[0])}, $.dict([{self.pairs(call)}]))",
            dataclasses.fields: lambda call: f"$.fieldsOf({self.positional(call)})",
        }
        if (form := looked_up(forms, function)) is not None:
            return form(node)
        if (entry := looked_up(FUNCTIONS, function)) is not None:
            name, order = entry
            return f"$.{name}({self.positional(node) if order is None else self.ordered(node, order)})"
        return self._call_of_ours(node, function)

    def _call_of_ours(self, node: ast.Call, function: object) -> str:
        """A call of something that is translated too."""
        if isinstance(function, MethodType):  # a class method by the name of its class
            written = unwrapped(function.__func__)
            given = self.positional(node) if written is None else self.bound(node, without_first(parameters_of(written)))
            return f"{self.refer(function.__self__)}.{function.__name__}({given})"
        if isinstance(function, type):
            return self._construction(node, function)
        name, plain = self.refer(function), unwrapped(function)
        return f"{name}({self.positional(node) if plain is None else self.bound(node, parameters_of(plain))})"

    def _construction(self, node: ast.Call, cls: type) -> str:
        """A new object of a class."""
        if issubclass(cls, BaseException) and not self.program.ours(cls):
            return f"new Error({self.positional(node)})"
        name, known = self.refer(cls), fields(cls)
        if self.program.is_native(cls):
            return f"{name}({self.positional(node)})"
        if any(word.arg is None for word in node.keywords):
            if node.args:
                raise self.refused(node)
            return f"$.construct({name}, $.dict([{self.pairs(node)}]))"
        if known is not None:
            return f"new {name}({self.ordered(node, list(known))})"
        start = inspect.getattr_static(cls, "__init__", None)
        if isinstance(start, FunctionType):
            return f"new {name}({self.bound(node, without_first(parameters_of(start)))})"
        return f"new {name}({self.positional(node)})"

    def _method_call(self, node: ast.Call, func: ast.Attribute) -> str:
        name = func.attr
        match func.value:
            case ast.Call(func=ast.Name(id="super")):
                return f"super.{name}({self.by_method(node, name)})"
        receiver = self.expression(func.value)
        given = self.by_method(node, name)
        if name in METHODS:
            return f"$.method.{name}({', '.join(filter(None, [receiver, given]))})"
        return f"{receiver}.{name}({given})"

    def _next(self, node: ast.Call) -> str:
        """`next(values)`; an iterator that is begun at once is the runtime's `next` itself."""
        first, *rest = node.args
        if isinstance(first, ast.Call) and self.static(first.func) is iter:
            first = first.args[0]
            return f"$.next({', '.join([f'$.iter({self.expression(first)})', *map(self.item, rest)])})"
        return f"$.next({self.positional(node)})"

    def _dict_of(self, node: ast.Call) -> str:
        pairs = [f"...$.dict({self.expression(part)}).pairs()" for part in node.args]
        return f"$.dict([{', '.join(filter(None, [*pairs, self.pairs(node)]))}])"

    def _best(self, node: ast.Call, name: str) -> str:
        """`max` and `min`, of one iterable or of several values."""
        single = len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
        values = self.expression(node.args[0]) if single else f"[{', '.join(map(self.item, node.args))}]"
        words = {word.arg: self.expression(word.value) for word in node.keywords}
        rest = [words.get("key", "undefined"), *([words["default"]] if "default" in words else [])]
        return f"$.{name}({', '.join([values, *rest] if words else [values])})"

    def _isinstance(self, node: ast.Call) -> str:
        value, kinds = node.args
        return f"$.isinstance({self.expression(value)}, {', '.join(self._types(kinds))})"

    def _types(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Tuple(elts=parts):
                return [name for part in parts for name in self._types(part)]
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._types(left) + self._types(right)
            case ast.Constant(value=None):
                return ["null"]
        return self._kinds(self.static(node), node)

    def _kinds(self, kind: object, node: ast.expr) -> list[str]:
        if isinstance(kind, UnionType):
            return [name for part in typing.get_args(kind) for name in self._kinds(part, node)]
        if (name := looked_up(TYPES, kind)) is not None:
            return [name]
        if isinstance(kind, type):
            return [self.refer(kind)] if self.program.ours(kind) else []
        raise self.refused(node)
