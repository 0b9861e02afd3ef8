"""An expression as a reader would write it, in LaTeX and in one line of text, with symbols or with numbers.

SymPy's own printers order factors by the alphabet and cannot leave a product of numbers unevaluated. Both tongues here
come from one walk over the expression: factors stand in the order of the nomenclature, numbers first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from roofline.formulas.ceil_div import CeilDiv
from roofline.formulas.symbolic import described
from roofline.numeric import Expr

_SUM, _PRODUCT, _POWER, _ATOM = range(4)  # how tightly a piece of text holds together


@dataclass(frozen=True, slots=True)
class _Style:
    """The signs of one tongue."""

    times: str
    group: tuple[str, str]
    fraction: Callable[[str, str], str]
    power: Callable[[str, str], str]
    ceil_div: Callable[[str, str], str]
    floor: tuple[str, str]
    functions: tuple[str, str, str, str]
    """What opens a maximum, opens a minimum, closes either, and stands between arguments."""


_GREEK = {"beta": "β"}
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _raised(base: str, exponent: str) -> str:
    return base + exponent.translate(_SUPERSCRIPTS) if exponent.isdigit() else f"{base}^{exponent}"


_TEXT = _Style(
    times="·",
    group=("(", ")"),
    fraction=lambda above, below: f"{above} / {below}",
    power=_raised,
    ceil_div=lambda above, below: f"⌈{above} / {below}⌉",
    floor=("⌊", "⌋"),
    functions=("max(", "min(", ")", ", "),
)
_LATEX = _Style(
    times=r" \, ",
    group=(r"\left(", r"\right)"),
    fraction=lambda above, below: rf"\frac{{{above}}}{{{below}}}",
    power=lambda base, exponent: f"{base}^{{{exponent}}}",
    ceil_div=lambda above, below: rf"\left\lceil \frac{{{above}}}{{{below}}} \right\rceil",
    floor=(r"\left\lfloor ", r" \right\rfloor"),
    functions=(r"\max\left(", r"\min\left(", r"\right)", r", "),
)


def text(expr: Expr) -> str:
    """One line of text.

    >>> from roofline.formulas.symbolic import symbol
    >>> text(2 * symbol("b_kv") * symbol("n_kv") * symbol("L") * symbol("d_head"))
    '2·L·n_kv·d_head·b_kv'
    """
    return _Writer(_TEXT, name).write(expr)


def name(found: sympy.Symbol) -> str:
    """A symbol in text: as the nomenclature has it, Greek letters as such."""
    return _GREEK.get(str(found.name), str(found.name))


def latex(expr: Expr) -> str:
    r"""LaTeX, with the names of the nomenclature.

    >>> from roofline.formulas.symbolic import symbol
    >>> latex(symbol("P") / symbol("beta"))
    '\\frac{P}{\\beta}'
    """
    return _Writer(_LATEX, lambda found: described(found).latex).write(expr)


def substituted(expr: Expr, values: Mapping[sympy.Symbol, Any], *, as_latex: bool = False) -> str:
    """The formula with numbers in the place of symbols, nothing worked out.

    >>> from roofline.formulas.symbolic import symbol
    >>> substituted(2 * symbol("n_kv") * symbol("d_head"), {symbol("n_kv"): 8, symbol("d_head"): 128})
    '2·8·128'
    """
    style = _LATEX if as_latex else _TEXT
    times = r" \cdot " if as_latex else "·"  # between digits a thin space would read as one number
    return _Writer(style, lambda found: number(values[found], as_latex=as_latex), times).write(expr)


def number(value: Any, *, as_latex: bool = False) -> str:
    """A plain number: whole ones in full, others to six digits, or to one decimal place where those would not reach it.

    >>> number(14336), number(2.039e12), number(0.53125), number(123456789.125), number(2.5e-7)
    ('14336', '2039000000000', '0.53125', '123456789.1', '2.5e-07')
    """
    if isinstance(value, int) or float(value).is_integer():
        return str(int(value))
    if abs(value) >= 1e5:
        return f"{float(value):.1f}"
    shown = f"{float(value):.6g}"
    if as_latex and "e" in shown:
        mantissa, _, exponent = shown.partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return shown


@dataclass(frozen=True, slots=True)
class _Writer:
    """Walks an expression; each step returns a piece of text and how tightly it holds together."""

    style: _Style
    name: Callable[[sympy.Symbol], str]
    times: str = ""

    def write(self, expr: Expr) -> str:
        return self._piece(sympy.sympify(expr))[0]

    def _piece(self, expr: Any) -> tuple[str, int]:
        if expr.is_Symbol:
            shown = self.name(expr)
            return shown, _PRODUCT if r"\cdot" in shown else _ATOM
        if expr.is_Add:
            return self._sum(expr), _SUM
        if expr.is_Mul or expr.is_Pow or expr.is_Rational:
            return self._product(expr)
        if expr.is_Float:
            return number(float(expr)), _ATOM
        if isinstance(expr, CeilDiv):
            above, below = expr.args
            whole = above + below - 1
            if below.is_Symbol and below not in whole.free_symbols:  # (n - (b - 1)) / b rounded up is n / b rounded down
                opening, closing = self.style.floor
                return opening + self.style.fraction(*self._over(whole, below)) + closing, _ATOM
            return self.style.ceil_div(*self._over(*expr.args)), _ATOM
        if isinstance(expr, sympy.floor):
            opening, closing = self.style.floor
            return opening + self.write(expr.args[0]) + closing, _ATOM
        largest, smallest, closing, between = self.style.functions
        opening = {sympy.Max: largest, sympy.Min: smallest}[expr.func]
        return opening + between.join(self.write(arg) for arg in sorted(expr.args, key=_term_order)) + closing, _ATOM

    def _sum(self, expr: Any) -> str:
        shown = ""
        for term in sorted(expr.args, key=_term_order):
            negative = term.could_extract_minus_sign()
            piece, hold = self._piece(-term if negative else term)
            piece = self._grouped(piece) if negative and hold == _SUM else piece
            sign = "-" if negative else "+"
            shown = f"{shown} {sign} {piece}" if shown else (f"-{piece}" if negative else piece)
        return shown

    def _product(self, expr: Any) -> tuple[str, int]:
        if expr.could_extract_minus_sign():
            return "-" + self._hold(-expr, _PRODUCT), _SUM
        above, below = expr.as_numer_denom() if expr.is_Rational else _numerator_denominator(expr)
        if below == 1:
            if above.is_Pow:
                base, exponent = above.args
                return self.style.power(self._hold(base, _ATOM), self._raised(exponent)), _POWER
            if not above.is_Mul:
                return (str(above), _ATOM) if above.is_Integer else self._piece(above)
            factors = sorted(above.args, key=_order)
            return (self.times or self.style.times).join(self._hold(factor, _PRODUCT) for factor in factors), _PRODUCT
        return self.style.fraction(*self._over(above, below)), _ATOM if self.style is _LATEX else _PRODUCT

    def _over(self, above: Any, below: Any) -> tuple[str, str]:
        """Both halves of a fraction, in brackets where the tongue has no bar to hold them together."""
        if self.style is _LATEX:
            return self.write(above), self.write(below)
        return self._hold(above, _PRODUCT), self._hold(below, _POWER)

    def _raised(self, exponent: Any) -> str:
        return self.write(exponent) if self.style is _LATEX else self._hold(exponent, _ATOM)

    def _hold(self, expr: Any, at_least: int) -> str:
        piece, hold = self._piece(expr)
        return piece if hold >= at_least else self._grouped(piece)

    def _grouped(self, piece: str) -> str:
        opening, closing = self.style.group
        return opening + piece + closing


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
