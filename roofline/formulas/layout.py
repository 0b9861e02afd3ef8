"""An expression as a reader would write it, before it is in any tongue: what stands over what, and in which order.

SymPy's own printers order factors by the alphabet and cannot leave a product of numbers unevaluated. Here factors stand in
the order of the nomenclature, numbers first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import sympy

from roofline.formulas.ceil_div import CeilDiv
from roofline.formulas.symbolic import described
from roofline.numeric import Expr


@dataclass(frozen=True, slots=True)
class Named:
    """A symbol, which is shown by its name or by a number."""

    symbol: sympy.Symbol


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the formula itself."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms, each with whether it is subtracted; a single subtracted one is a negative."""

    terms: tuple[tuple[bool, Node], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors; nothing stands under a bar."""

    factors: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """A base, raised."""

    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Root:
    """A square root."""

    inside: Node


@dataclass(frozen=True, slots=True)
class Fraction:
    """One thing over another."""

    above: Node
    below: Node


@dataclass(frozen=True, slots=True)
class Rounded:
    """What is inside, rounded to a whole number."""

    way: Literal["up", "down"]
    inside: Node


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest or the smallest of several."""

    way: Literal["max", "min"]
    args: tuple[Node, ...]


_WAYS: dict[Any, Literal["max", "min"]] = {sympy.Max: "max", sympy.Min: "min"}
Node = Named | Number | Sum | Product | Power | Root | Fraction | Rounded | Extreme


@lru_cache(maxsize=256)  # every tongue asks for the same one in turn
def layout(expr: Expr) -> Node:
    """How an expression is written.

    >>> from roofline.formulas.symbolic import symbol
    >>> layout(symbol("P") / symbol("beta"))
    Fraction(above=Named(symbol=P), below=Named(symbol=beta))
    """
    return _node(sympy.sympify(expr))


def _node(expr: Any) -> Node:
    if expr.is_Symbol:
        return Named(expr)
    if expr.is_Float:
        return Number(float(expr))
    if expr.is_Add:
        return _sum(expr)
    if expr.is_Mul or expr.is_Pow or expr.is_Rational:
        return _product(expr)
    if isinstance(expr, CeilDiv):
        above, below = expr.args
        whole = above + below - 1
        if below.is_Symbol and below not in whole.free_symbols:  # (n - (b - 1)) / b rounded up is n / b rounded down
            return Rounded("down", Fraction(_node(whole), _node(below)))
        return Rounded("up", Fraction(_node(above), _node(below)))
    if isinstance(expr, sympy.floor):
        return Rounded("down", _node(expr.args[0]))
    return Extreme(_WAYS[expr.func], tuple(_node(arg) for arg in sorted(expr.args, key=_term_order)))


def _sum(expr: Any) -> Sum:
    terms = [(term.could_extract_minus_sign(), term) for term in sorted(expr.args, key=_term_order)]
    return Sum(tuple((negative, _node(-term if negative else term)) for negative, term in terms))


def _product(expr: Any) -> Node:
    if expr.could_extract_minus_sign():
        return Sum(((True, _node(-expr)),))
    above, below = expr.as_numer_denom() if expr.is_Rational else _numerator_denominator(expr)
    if below != 1:
        return Fraction(_node(above), _node(below))
    if above.is_Integer:
        return Number(int(above))
    if above.is_Mul:
        return Product(tuple(_node(factor) for factor in sorted(above.args, key=_order)))
    if above.is_Pow:
        base, exponent = above.args
        return Root(_node(base)) if exponent == sympy.S.Half else Power(_node(base), _node(exponent))
    return _node(above)


def _numerator_denominator(expr: Any) -> tuple[Any, Any]:
    """Of a product or a power, without multiplying anything out."""
    above, below = [], []
    for factor in sympy.Mul.make_args(expr):
        if factor.is_Rational:
            above.append(sympy.Integer(factor.p))
            below.append(sympy.Integer(factor.q))
        elif factor.is_Pow and factor.exp.could_extract_minus_sign():
            below.append(sympy.Pow(factor.base, -factor.exp))
        else:
            above.append(factor)
    # NB: unevaluated, or 2*(a + b) would be multiplied out
    return _plain_product(above), _plain_product(below)


def _plain_product(factors: list[Any]) -> Any:
    kept = [factor for factor in factors if factor != 1]
    return kept[0] if len(kept) == 1 else sympy.Mul(*kept, evaluate=False) if kept else sympy.Integer(1)


def _order(expr: Any) -> tuple[Any, ...]:
    """Where a factor stands among others: numbers first, then the nomenclature's order; a sum stands after its last symbol."""
    if expr.is_number:
        return (-1,)
    places = sorted((described(found).order for found in expr.free_symbols), reverse=not (expr.is_Mul or expr.is_Pow))
    return (places[0], expr.is_Add, tuple(places[1:]), sympy.default_sort_key(expr))


def _term_order(expr: Any) -> tuple[Any, ...]:
    """Where a term stands in a sum: what is subtracted last, numbers after symbols."""
    return (expr.could_extract_minus_sign(), expr.is_number, _order(expr))
