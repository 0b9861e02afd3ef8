"""An expression as a reader would write it, before it is written in any format: fractions, powers and the order of terms; and
how that becomes text.

SymPy's own printers order factors by the alphabet and cannot leave a product of numbers unevaluated. Here factors stand in
the order of the nomenclature, numbers first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal

import sympy

from roofline.formulas.symbolic import CeilDiv, described
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


@lru_cache(maxsize=256)  # every format lays out the same one in turn
def layout(expr: Expr) -> Node:
    """Return the tree of an expression as it is written: fractions, powers and the order of terms settled.

    >>> from roofline.formulas.symbolic import symbol
    >>> layout(symbol("P") / symbol("beta"))
    Fraction(above=Named(symbol=P), below=Named(symbol=beta))
    """
    return _node(sympy.sympify(expr, strict=True))


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
    rest = [factor for factor in factors if factor != 1]
    return rest[0] if len(rest) == 1 else sympy.Mul(*rest, evaluate=False) if rest else sympy.Integer(1)


def _order(expr: Any) -> tuple[Any, ...]:
    """Where a factor stands among others: numbers first, then the nomenclature's order; a sum stands after its last symbol."""
    if expr.is_number:
        return (-1,)
    places = sorted((described(variable).order for variable in expr.free_symbols), reverse=not (expr.is_Mul or expr.is_Pow))
    return (places[0], expr.is_Add, tuple(places[1:]), sympy.default_sort_key(expr))


def _term_order(expr: Any) -> tuple[Any, ...]:
    """Where a term stands in a sum: what is subtracted last, numbers after symbols."""
    return (expr.could_extract_minus_sign(), expr.is_number, _order(expr))


# Writing: a formula that is laid out becomes text, with brackets where they are needed and nowhere else


class Precedence(IntEnum):
    """How tightly something written holds together."""

    SUM = 0
    PRODUCT = 1
    POWER = 2
    ATOM = 3


Piece = tuple[str, Precedence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The signs of one output format. Pairs open and close."""

    times: str
    plus: str
    minus: str
    negative: str
    group: tuple[str, str]
    ceiling: tuple[str, str]
    floor: tuple[str, str]
    maximum: tuple[str, str]
    minimum: tuple[str, str]
    comma: str
    fraction: Callable[[str, str], str]
    power: Callable[[str, str], str]
    root: Callable[[str], str]
    has_bars: bool
    """Whether a fraction has a bar, a root a roof, and an exponent is raised, so that none needs brackets."""
    row: Callable[[str], str]
    """Makes one element of several, for a place that takes one."""
    number: Callable[[int | float], Piece]


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes in one style."""

    style: Style
    name: Callable[[sympy.Symbol], Piece]
    """What stands for a symbol: its name, or a number."""
    times: str
    """What stands between factors: the style's sign, or one for numbers alone."""

    def write(self, node: Node) -> str:
        """Return a formula as text of the style."""
        return self._piece(node)[0]

    def _piece(self, node: Node) -> Piece:
        style = self.style
        match node:
            case Named(symbol):
                return self.name(symbol)
            case Number(value):
                return style.number(value)
            case Sum(terms):
                return self._sum(terms), Precedence.SUM
            case Product(factors):
                return self.times.join(self._hold(factor, Precedence.PRODUCT) for factor in factors), Precedence.PRODUCT
            case Power(base, exponent):
                return style.power(
                    self._hold(base, Precedence.ATOM), self._delimited(exponent, Precedence.ATOM)
                ), Precedence.POWER
            case Root(inside):
                return style.root(self._delimited(inside, Precedence.ATOM)), Precedence.POWER
            case Fraction(above, below):
                written = style.fraction(self._delimited(above, Precedence.PRODUCT), self._delimited(below, Precedence.POWER))
                return written, Precedence.POWER if style.has_bars else Precedence.PRODUCT
            case Rounded(way, inside):
                return self._between(style.ceiling if way == "up" else style.floor, (inside,))
            case Extreme(way, args):
                return self._between(style.maximum if way == "max" else style.minimum, args)

    def _sum(self, terms: tuple[tuple[bool, Node], ...]) -> str:
        written = ""
        for negative, term in terms:
            piece = self._hold(term, Precedence.PRODUCT) if negative else self.write(term)
            sign = self.style.minus if negative else self.style.plus
            written = f"{written}{sign}{piece}" if written else f"{self.style.negative if negative else ''}{piece}"
        return written

    def _between(self, signs: tuple[str, str], inside: tuple[Node, ...]) -> Piece:
        opening, closing = signs
        return opening + self.style.comma.join(map(self.write, inside)) + closing, Precedence.ATOM

    def _delimited(self, node: Node, at_least: Precedence) -> str:
        """What a fraction bar, a root or an exponent delimits: in brackets where the format has none of these."""
        if not self.style.has_bars:
            return self._hold(node, at_least)
        piece, hold = self._piece(node)
        return piece if hold >= Precedence.POWER else self.style.row(piece)

    def _hold(self, node: Node, at_least: Precedence) -> str:
        piece, hold = self._piece(node)
        opening, closing = self.style.group
        return piece if hold >= at_least else opening + piece + closing
