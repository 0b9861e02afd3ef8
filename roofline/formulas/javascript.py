"""The operators' costs as JavaScript: one function an operator kind; models and hardware are data.

Each function is generated from the operator's own `cost`, called with symbols for its dimensions and for the sizes of
elements. Structure (a flag, a mask, an absent window) selects one of several formulas at run time. The result is a
classic script, because ES modules do not load from `file://`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import sympy
from sympy.printing.jscode import JavascriptCodePrinter

from roofline.cost import FIELDS
from roofline.dtypes import Dtypes, Format, Shape
from roofline.errors import InputError
from roofline.formulas import symbolic
from roofline.numeric import Expr
from roofline.operators import registry
from roofline.operators.base import Operator

assert symbolic  # noqa: S101 - imported for the backend that it registers

_SIZES = {"weight": "b_w", "activation": "b_a", "kv": "b_kv", "state": "b_s", "bias": "b_b"}
_RESERVED = frozenset(
    {"new", "var", "let", "const", "function", "class", "return", "default", "in", "of", "delete", "void", "with"}
)

_PRELUDE = """\
"use strict";
// Costs of operators (FLOP, bytes) from their dimensions, their structure and the sizes of elements b_w, b_a, b_kv, b_s, b_b;
// s_w are the bytes beside the elements of weights that are read at once (scales, zero points).
// Generated from the operators' Python; `roofline.<kind>(arguments)` returns the fields of the cost that are not 0.
const roofline = (() => {
  // The smallest whole number that is at least a/b: the remainder is exact, a product with 1/b would not be.
  const ceilDiv = (a, b) => (a - (a % b)) / b + (a % b > 0 ? 1 : 0);
  const choose = (kind, key, variants) => {
    const formulas = new Map(variants.flatMap(([names, formula]) => names.map((name) => [name, formula])));
    return (d) => {
      const formula = formulas.get(key(d));
      if (!formula) throw new Error(`roofline.${kind}: no formula for ${key(d)}`);
      return formula(d);
    };
  };
  return {
    ceilDiv,
"""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A field that selects among formulas: the values it is tried with, and the key of each in JavaScript."""

    name: str
    values: tuple[Any, ...]
    keys: tuple[str, ...]
    script: str
    """JavaScript that makes the key from the arguments `d`."""


def module_source() -> str:
    """The whole script: `const roofline = {gemm: d => cost, attention: ..., ...}`."""
    functions = "".join(_function(kind) for kind in registry())
    return f"{_PRELUDE}{functions}  }};\n}})();\n"


def operator_call(operator: Operator) -> dict[str, Any]:
    """What evaluates an operator on a page: `{"function": kind, "arguments": {...}}`, plain JSON.

    >>> from roofline.operators.sampling import Sampling
    >>> operator_call(Sampling(rows=2, choices=100))["arguments"]
    {'rows': 2, 'choices': 100, 'b_w': 2, 'b_a': 2, 'b_kv': 2, 'b_s': 4, 'b_b': 2, 's_w': 0}
    """
    for name, hint in _structure(type(operator)).items():
        if hint is float and getattr(operator, name):
            msg = f"JavaScript knows {operator.kind} with {name} = 0 only, not {getattr(operator, name)}"
            raise InputError(msg)
    arguments = {name: getattr(operator, name) for name in _named(type(operator)) if name != "skew"}
    dtypes = replace(operator.dtypes, bias=operator.dtypes.bias or operator.dtypes.weight)
    sizes = {size: getattr(dtypes, role).bytes for role, size in _SIZES.items()}
    return {"function": operator.kind, "arguments": {**arguments, **sizes, "s_w": operator.beside_bytes}}


@dataclass(frozen=True, slots=True)
class _Stored(Format):
    """Weights with something beside them, however much: its bytes are an argument, worked out where the blocks are known."""

    def beside_bytes(self, matrices: Iterable[Shape], count: Expr = 1) -> Expr:
        """The argument."""
        return _symbol("s_w")


def _named(cls: type[Operator]) -> list[str]:
    return [field.name for field in fields(cls) if field.name not in ("dtypes", "stored")]


def _structure(cls: type[Operator]) -> dict[str, Any]:
    """Fields that are no dimensions, and their types."""
    hints = get_type_hints(cls)
    return {name: hints[name] for name in _named(cls) if name not in cls.dimensions()}


def _choices(cls: type[Operator]) -> list[_Choice]:
    found = []
    for field in fields(cls):
        if field.type == "Expr | None":
            keys, script = ("none", "given"), f'(d.{field.name} == null ? "none" : "given")'
            found.append(_Choice(field.name, (None, _symbol(field.name)), keys, script))
    for name, hint in _structure(cls).items():
        if hint is bool:
            found.append(_Choice(name, (False, True), ("false", "true"), f"d.{name}"))
        elif get_origin(hint) is Literal:
            found.append(_Choice(name, get_args(hint), get_args(hint), f"d.{name}"))
        elif hint is int:  # a count that formulas compare with 0 at most
            found.append(_Choice(name, (0, _symbol(name)), ("0", "n"), f'(d.{name} === 0 ? "0" : "n")'))
        elif hint is not float:
            msg = f"{cls.kind}.{name}: JavaScript cannot choose by a {hint}"
            raise TypeError(msg)
    return found


@cache
def _symbol(name: str) -> sympy.Symbol:
    # NB: not positive: nothing may be simplified that does not hold at 0 (an empty cache).
    return sympy.Symbol(f"{name}_" if name in _RESERVED else name, nonnegative=True)


Formulas = dict[tuple[int, ...], tuple[Any, ...]]
"""Expressions of all fields of the cost, by the index of each choice's value."""


@cache
def _function(kind: str) -> str:
    cls = registry()[kind]
    choices = _choices(cls)
    formulas: Formulas = {
        picked: _expressions(cls, {choice.name: choice.values[at] for choice, at in zip(choices, picked, strict=True)})
        for picked in itertools.product(*(range(len(choice.values)) for choice in choices))
    }
    kept, formulas = _needed(choices, formulas)
    if not kept:
        return f"    {kind}: {_formula(formulas[()])},\n"
    key = " + ',' + ".join(choice.script for choice in kept)
    key = f"`${{{kept[0].script}}}`" if len(kept) == 1 else key
    names: dict[tuple[Any, ...], list[str]] = {}
    for picked, expressions in formulas.items():
        name = ",".join(choice.keys[at] for choice, at in zip(kept, picked, strict=True))
        names.setdefault(expressions, []).append(f'"{name}"')
    # Variants with one formula share it: those that differ in a choice that makes no difference to them.
    variants = "".join(f"      [[{', '.join(same)}], {_formula(found)}],\n" for found, same in names.items())
    return f'    {kind}: choose("{kind}", (d) => {key}, [\n{variants}    ]),\n'


def _expressions(cls: type[Operator], structure: dict[str, Any]) -> tuple[Any, ...]:
    dimensions = {name: _symbol(name) for name in cls.dimensions() if name not in structure}
    formats = {role: Format(role, _symbol(size)) for role, size in _SIZES.items()}
    dtypes = Dtypes(**{**formats, "weight": _Stored("weight", _symbol("b_w"))})
    cost = cls(**dimensions, **structure, dtypes=dtypes).cost()
    return tuple(sympy.sympify(getattr(cost, name)) for name in FIELDS)


def _needed(choices: list[_Choice], formulas: Formulas) -> tuple[list[_Choice], Formulas]:
    """Without the choices that make no difference: the last value's formulas are then those of all."""
    kept = list(choices)
    for choice in choices:
        at = kept.index(choice)
        last = len(choice.values) - 1
        general = {picked: found for picked, found in formulas.items() if picked[at] == last}
        same = all(
            _at_value(general[(*picked[:at], last, *picked[at + 1 :])], choice, picked[at]) == found
            for picked, found in formulas.items()
        )
        if same:
            kept.remove(choice)
            formulas = {(*picked[:at], *picked[at + 1 :]): found for picked, found in general.items()}
    return kept, formulas


def _at_value(general: tuple[Any, ...], choice: _Choice, index: int) -> tuple[Any, ...]:
    """The last value's formulas, with the number of another in the place of its symbol."""
    value, last = choice.values[index], choice.values[-1]
    if isinstance(last, sympy.Symbol) and isinstance(value, int):
        return tuple(expression.subs(last, value) for expression in general)
    return general


def _formula(expressions: tuple[Any, ...]) -> str:
    printer = JavascriptCodePrinter()
    named = [(name, found) for name, found in zip(FIELDS, expressions, strict=True) if found != 0]
    # NB: no `optimizations`: only what stands there twice is named, and nothing is rewritten.
    steps, results = sympy.cse([found for _, found in named], symbols=sympy.numbered_symbols("t"), order="none")
    used = {found for _, expression in named for found in expression.free_symbols}
    arguments = ", ".join(_argument(str(found)) for found in sorted(used, key=str))
    lines = "".join(f"const {name} = {printer.doprint(value)}; " for name, value in steps)
    fields_out = ", ".join(f"{name}: {printer.doprint(value)}" for (name, _), value in zip(named, results, strict=True))
    return f"({{{arguments}}}) => {{ {lines}return {{{fields_out}}}; }}"


def _argument(name: str) -> str:
    plain = name.removesuffix("_")
    return f"{plain}: {name}" if plain != name else name
