"""The inside of one Python function as JavaScript: a method for each kind of node that is translated."""

from __future__ import annotations

import ast
import builtins
import collections
import dataclasses
import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FunctionType, MethodType, ModuleType, UnionType
from typing import TYPE_CHECKING, Self

from roofline.formulas.javascript.python_source import (
    Scope,
    assigned,
    defaults,
    described,
    generates,
    parameters,
    parameters_of,
    rest,
    spelled,
    targets,
    unwrapped,
    without_first,
)
from roofline.formulas.javascript.values import FUNCTIONS, METHODS, OTHERS, TYPES, fields, literal, looked_up

if TYPE_CHECKING:
    from roofline.formulas.javascript.program import Program

_NAME = re.compile(r"[A-Za-z_]\w*")
_UNKNOWN = object()
"""What stands for a value that only the running program knows."""
_ORDER: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}
_BOOLEAN_FUNCTIONS = ("isinstance", "any", "all", "bool")
_OPERATORS: dict[type[ast.operator], str] = {
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
_IN_PLACE: dict[type[ast.operator], str] = {**_OPERATORS, ast.BitOr: "ior", ast.Add: "iadd"}


_TAKERS = (sum, min, max, sorted, list, tuple, set, frozenset, dict, collections.Counter)
_EXHAUSTING: dict[object, bool] = dict.fromkeys(_TAKERS, True)
"""Functions that take all that an iterable has."""


class Translator:
    """The inside of one function. `names` are what its module and its closure bind; `where` is the function, for refusals.

    Each node of the syntax tree is written by a method called like the node: `_call` writes `ast.Call`. Nodes without a
    method are not part of what is translated.
    """

    # Names

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
        """What a name or an attribute of a module or class is while translating; `_UNKNOWN` of everything else."""
        if isinstance(node, ast.Name):
            return self._bound(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.static(node.value)
            if isinstance(owner, ModuleType | type):
                return getattr(owner, node.attr, _UNKNOWN)
        return _UNKNOWN

    def refer(self, value: object) -> str:
        """An expression for something outside the function, which no name of the function may hide."""
        try:
            text = self.program.refer(value)
        except TypeError as error:
            raise TypeError(f"{self.where}: {error}") from error
        name = _NAME.match(text)
        if name is not None and self.scope.owner(name[0]) is not None:
            msg = f"{self.where}: cannot translate `{name[0]}`: in JavaScript it hides {described(value)}"
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
            return _UNKNOWN
        return self.names[name] if name in self.names else getattr(builtins, name, _UNKNOWN)

    def _written(self, node: ast.AST) -> str:
        write = getattr(self, f"_{type(node).__name__.lower()}", None)
        if write is None:
            raise self.refused(node)
        text: str = write(node)
        return text

    # Conditions

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
        pairs = zip(node.ops, parts, parts[1:], strict=False)
        return f"({' && '.join([self._compared(*pair) for pair in pairs])})"

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

    # Constants, arithmetic, containers, strings

    def item(self, node: ast.expr) -> str:
        """An item of a display or of a call's arguments."""
        return f"...$.iter({self.expression(node.value)})" if isinstance(node, ast.Starred) else self.expression(node)

    def _constant(self, node: ast.Constant) -> str:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return literal(node.value)
        raise self.refused(node)

    def _name(self, node: ast.Name) -> str:
        value = self.static(node)
        if value is not _UNKNOWN:
            return self.refer(value)
        if self.scope.owner(node.id) is None:
            raise self.refused(node, "nothing has this name")
        return spelled(node.id)

    def _attribute(self, node: ast.Attribute) -> str:
        if node.attr == "model_fields":  # a dict whose keys alone are looked at
            return f"$.fromkeys({self.expression(node.value)}.$fields)"
        value, reads = self.static(node), isinstance(node.ctx, ast.Load)
        if value is not _UNKNOWN and not reads:
            raise self.refused(node, "it is not the function's own")
        if value is not _UNKNOWN and not isinstance(value, MethodType):
            return self.refer(value)
        if node.attr.startswith("__"):
            raise self.refused(node)
        if reads and self.program.methods(node.attr):  # maybe a method, handed over as it is
            return f'$.bound({self.expression(node.value)}, "{node.attr}")'
        return f"{self.expression(node.value)}.{node.attr}"

    def _binop(self, node: ast.BinOp) -> str:
        if (name := _OPERATORS.get(type(node.op))) is None:
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

    # Arguments of calls, in the order of the called function's parameters

    def positional(self, node: ast.Call) -> str:
        """Arguments by position alone."""
        if node.keywords:
            raise self.refused(node)
        return ", ".join(map(self.item, node.args))

    def pairs(self, node: ast.Call) -> str:
        """Keyword arguments as the pairs of a dict."""
        return ", ".join(
            f"...{self.expression(word.value)}.pairs()"
            if word.arg is None
            else f"[{json.dumps(word.arg)}, {self.expression(word.value)}]"
            for word in node.keywords
        )

    def ordered(self, node: ast.Call, order: Sequence[str]) -> str:
        """Arguments in the order of parameters; `undefined` stands for those in between that are not given."""
        uncounted = any(isinstance(part, ast.Starred) for part in node.args)
        if (uncounted and node.keywords) or not (uncounted or _takes(order, node)):
            raise self.refused(node)
        given = list(map(self.item, node.args))
        words = {str(word.arg): self.expression(word.value) for word in node.keywords}
        last = max((order.index(name) for name in words), default=-1)
        return ", ".join([*given, *(words.get(name, "undefined") for name in order[len(given) : last + 1])])

    def bound(self, node: ast.Call, arguments: ast.arguments) -> str:
        """Arguments in the order of a function's parameters."""
        if rest(arguments) is not None:
            return self.positional(node)
        if _collects(arguments):
            return self._collected(node, arguments)
        return self.ordered(node, [entry.arg for entry in parameters(arguments)])

    def by_method(self, node: ast.Call, name: str) -> str:
        """Arguments of a method whose class is not known: of all methods of that name that take them, which have to agree."""
        known = [entry for entry in map(without_first, self.program.methods(name)) if _takes_all(entry, node)]
        own = METHODS.get(name)
        taken = own is not None and _takes(own, node)
        if not known and not taken and (own is not None or name in OTHERS):
            self.program.miss(self.refused(node, "it is not what JavaScript has"))
        if not node.keywords and not any(map(_collects, known)):
            return self.positional(node)
        texts = {self.bound(node, entry) for entry in known} | ({self.ordered(node, own)} if own and taken else set())
        if len(texts) > 1:
            raise self.refused(node, "methods of this name differ")
        # what has no such method yet may have it in the next round; what has none in the end is never there
        return texts.pop() if texts else "undefined"

    def _collected(self, node: ast.Call, arguments: ast.arguments) -> str:
        """Arguments with a list of the rest, a dict of the rest, or both."""
        plain = len(arguments.posonlyargs) + len(arguments.args)
        given = list(map(self.item, node.args))
        values = given[:plain]
        if arguments.vararg is not None:
            values += ["undefined"] * (plain - len(values))
            values.append(f"[{', '.join(given[plain:])}]")
        words = {word.arg: self.expression(word.value) for word in node.keywords if word.arg is not None}
        order = [entry.arg for entry in parameters(arguments) if entry is not arguments.kwarg]
        values += [words.pop(name, "undefined") for name in order[len(values) :]]
        if arguments.kwarg is not None:
            others = [  # in the order in which they are given
                f"...{self.expression(word.value)}.pairs()"
                if word.arg is None
                else f"[{json.dumps(word.arg)}, {words[word.arg]}]"
                for word in node.keywords
                if word.arg is None or word.arg in words
            ]
            values.append(f"$.dict([{', '.join(others)}])")
        return ", ".join(values)

    # Calls

    def _call(self, node: ast.Call) -> str:
        function = self.static(node.func)
        if function is not _UNKNOWN:
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
            any: lambda call: self._quantified(call, "any"),
            all: lambda call: self._quantified(call, "all"),
            dict: self._dict_of,
            dataclasses.replace: lambda call: f"$.replace({self.expression(call.args[0])}, $.dict([{self.pairs(call)}]))",
            dataclasses.fields: lambda call: f"$.fieldsOf({self.positional(call)})",
        }
        if looked_up(_EXHAUSTING, function) is not None:
            node = _listed(node)
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
        given = self.by_method(_listed(node) if name in ("join", "extend", "update") else node, name)
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

    def _quantified(self, node: ast.Call, name: str) -> str:
        """`any` and `all`, of a generator as a loop that ends at the first that decides."""
        match node.args:
            case [ast.GeneratorExp(elt=element, generators=generators)]:
                decides = name == "any"

                def ends(inner: Self) -> str:
                    return f"if ({'' if decides else '!'}{inner.test(element)}) return {str(decides).lower()};"

                return f"(() => {{ {self.loops(generators, ends)} return {str(not decides).lower()}; }})()"
        return f"$.{name}({self.positional(node)})"

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

    # Comprehensions, as loops inside a function

    def _listcomp(self, node: ast.ListComp) -> str:
        return self._array(node.generators, lambda inner: inner.expression(node.elt))

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"$.set({self._array(node.generators, lambda inner: inner.expression(node.elt))})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        def pair(inner: Self) -> str:
            return f"[{inner.expression(node.key)}, {inner.expression(node.value)}]"

        return f"$.dict({self._array(node.generators, pair)})"

    def _generatorexp(self, node: ast.GeneratorExp) -> str:
        inside = self.loops(node.generators, lambda inner: f"yield {inner.expression(node.elt)};")
        return f"(function* () {{ {inside} }})()"

    def _array(self, generators: list[ast.comprehension], made: Callable[[Self], str]) -> str:
        return f"(() => {{ const $r = []; {self.loops(generators, lambda inner: f'$r.push({made(inner)});')} return $r; }})()"

    def loops(self, generators: list[ast.comprehension], made: Callable[[Self], str]) -> str:
        """Loops and conditions of a comprehension, round what is made in the innermost."""
        first, *rest = generators
        if first.is_async:
            raise self.refused(first.iter)
        values = self.expression(first.iter)
        inner = self.within(targets(first.target))
        conditions = "".join(f"if ({inner.test(condition)}) " for condition in first.ifs)
        text = inner.loops(rest, made) if rest else made(inner)
        # the values have a name of their own: a target may be called like what it is taken from
        return f"const $s = $.iter({values}); for (const {self.target(first.target)} of $s) {conditions}{{ {text} }}"

    # Assignments

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
        fresh = value.startswith("[") and "..." not in value
        return f"{text} = {f'$.list({value})' if text.startswith('[') and not fresh else value};"

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
        if all(isinstance(target, ast.Name) for target in node.targets):
            return ""  # of an argument that is not used
        raise self.refused(node)

    # Statements

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
        tests = []
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            kind = self.static(part)
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise self.refused(node)
            tests.append(self._is_of(kind))
        return " || ".join(tests)

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

    # Functions

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
        names = [
            ("..." if entry is last else "") + spelled(entry.arg) + (f" = {values[entry.arg]}" if entry.arg in values else "")
            for entry in (listed[1:] if skip_first else listed)
        ]
        hoisted = sorted(own - taken)
        start = f"let {', '.join(map(spelled, hoisted))}; " if hoisted else ""
        return ", ".join(names), start + inner.statements(body)

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


def _listed(node: ast.Call) -> ast.Call:
    """A call with lists instead of generators, which are slower: of what takes all that they have."""

    def listed(part: ast.expr) -> ast.expr:
        if not isinstance(part, ast.GeneratorExp):
            return part
        return ast.copy_location(ast.ListComp(elt=part.elt, generators=part.generators), part)

    given = list(map(listed, node.args))
    return ast.copy_location(ast.Call(func=node.func, args=given, keywords=node.keywords), node)


def _is_boolean(node: ast.expr) -> bool:
    """Whether the translation of an expression is true or false."""
    match node:
        case ast.BoolOp(values=parts):
            return all(_is_boolean(part) for part in parts)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _BOOLEAN_FUNCTIONS
    return False


def _takes(order: Sequence[str], node: ast.Call) -> bool:
    """Whether parameters are as many as the arguments of a call, and have the names of its keywords."""
    return len(node.args) <= len(order) and {word.arg for word in node.keywords} <= set(order)


def _takes_all(arguments: ast.arguments, node: ast.Call) -> bool:
    if arguments.vararg is not None or arguments.kwarg is not None:
        return True
    return _takes([entry.arg for entry in parameters(arguments)], node)


def _collects(arguments: ast.arguments) -> bool:
    """Whether a function takes the rest of its arguments in a list or a dict that calls have to make."""
    return rest(arguments) is None and (arguments.vararg is not None or arguments.kwarg is not None)


def _is_nothing(node: ast.expr) -> bool:
    """Whether a target is called `_`."""
    return isinstance(node, ast.Name) and node.id == "_"


def _top(module: ModuleType) -> ModuleType:
    """The package that a module is in."""
    return import_module(module.__name__.partition(".")[0])


def returning(node: ast.Lambda) -> ast.stmt:
    """The body of a lambda as a statement."""
    return ast.copy_location(ast.Return(value=node.body), node.body)
