"""Formulas in LaTeX and in one line of text, with symbols or with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from roofline import formatting
from roofline.formulas.layout import Piece, Precedence, Style, Writer, layout
from roofline.formulas.symbolic import described, symbol
from roofline.numeric import Expr
from roofline.symbols import BY_NAME

_GROUPED = 5
"""Digits of a whole number beyond which text has them in groups."""
_GREEK = {"beta": "β"}
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _raised(base: str, exponent: str) -> str:
    return base + exponent.translate(_SUPERSCRIPTS) if exponent.isdigit() else f"{base}^{exponent}"


def power_of_ten(value: float) -> int:
    """Return the exponent of a whole power of ten from 100,000 on; 0 for other numbers.

    >>> power_of_ten(10**6), power_of_ten(3 * 10**6), power_of_ten(1000)
    (6, 0, 0)
    """
    digits = number(value)
    return len(digits) - 1 if len(digits) > 5 and digits == "1" + "0" * (len(digits) - 1) else 0


def _in_text(value: float) -> Piece:
    if exponent := power_of_ten(value):
        return _raised("10", str(exponent)), Precedence.POWER
    written = number(value)
    if len(written) > _GROUPED and written.isdigit():
        written = f"{int(written):,}"
    return written, Precedence.PRODUCT if value < 0 else Precedence.ATOM


def _in_latex(value: float) -> Piece:
    if exponent := power_of_ten(value):
        return f"10^{{{exponent}}}", Precedence.POWER
    text = number(value, as_latex=True)
    return text, Precedence.PRODUCT if value < 0 or r"\cdot" in text else Precedence.ATOM


_TEXT = Style(
    times="·",
    plus=" + ",
    minus=" - ",
    negative="-",
    group=("(", ")"),
    ceiling=("⌈", "⌉"),
    floor=("⌊", "⌋"),
    maximum=("max(", ")"),
    minimum=("min(", ")"),
    comma=", ",
    fraction=lambda above, below: f"{above} / {below}",
    power=_raised,
    root=lambda inside: f"√{inside}",
    has_bars=False,
    row=str,
    number=_in_text,
)
_LATEX = Style(
    times=r" \, ",
    plus=" + ",
    minus=" - ",
    negative="-",
    group=(r"\left(", r"\right)"),
    ceiling=(r"\left\lceil ", r" \right\rceil"),
    floor=(r"\left\lfloor ", r" \right\rfloor"),
    maximum=(r"\max\left(", r"\right)"),
    minimum=(r"\min\left(", r"\right)"),
    comma=", ",
    fraction=lambda above, below: rf"\frac{{{above}}}{{{below}}}",
    power=lambda base, exponent: f"{base}^{{{exponent}}}",
    root=lambda inside: rf"\sqrt{{{inside}}}",
    has_bars=True,
    row=str,
    number=_in_latex,
)


def text(expr: Expr) -> str:
    """Return a formula as one line of text.

    >>> from roofline.formulas.symbolic import symbol
    >>> text(2 * symbol("b_kv") * symbol("n_kv") * symbol("L") * symbol("d_head"))
    '2·L·n_kv·d_head·b_kv'
    """
    return Writer(_TEXT, lambda variable: (name(variable), Precedence.ATOM), _TEXT.times).write(layout(expr))


def name(variable: sympy.Symbol) -> str:
    """Return the name of a symbol in text: that of the nomenclature, with Greek letters as such."""
    return _GREEK.get(str(variable.name), str(variable.name))


def named(text: str) -> sympy.Symbol:
    """Return the symbol of a name in text, to be written in another format."""
    spelled = next((spelled for spelled, sign in _GREEK.items() if sign == text), text)
    return symbol(spelled) if spelled in BY_NAME else sympy.Symbol(spelled)


def latex(expr: Expr) -> str:
    r"""LaTeX, with the names of the nomenclature.

    >>> from roofline.formulas.symbolic import symbol
    >>> latex(symbol("P") / symbol("beta"))
    '\\frac{P}{\\beta}'
    """
    return Writer(_LATEX, lambda variable: (described(variable).latex, Precedence.ATOM), _LATEX.times).write(layout(expr))


def substituted(expr: Expr, values: Mapping[sympy.Symbol, Any], *, as_latex: bool = False) -> str:
    """Return a formula with numbers instead of symbols, not evaluated.

    Args:
        expr: the formula.
        values: the number of each symbol of it.
        as_latex: LaTeX instead of text.

    Raises:
        KeyError: a symbol has no value.

    >>> from roofline.formulas.symbolic import symbol
    >>> substituted(2 * symbol("n_kv") * symbol("d_head"), {symbol("n_kv"): 8, symbol("d_head"): 128})
    '2·8·128'
    >>> substituted(symbol("P") / symbol("beta"), {symbol("P"): 312e12, symbol("beta"): 2039e9})
    '312 TFLOP/s / 2.039 TB/s'
    """
    style = _LATEX if as_latex else _TEXT
    times = r" \cdot " if as_latex else "·"  # between digits a thin space would read as one number

    def written(variable: sympy.Symbol) -> Piece:
        amount = formatting.in_formula(values[variable], described(variable).unit)
        if not amount:
            return style.number(values[variable])
        return with_units(amount) if as_latex else amount, Precedence.ATOM if values[variable] >= 0 else Precedence.PRODUCT

    return Writer(style, written, times).write(layout(expr))


def with_units(amount: str) -> str:
    r"""Return an amount in LaTeX, its unit upright.

    >>> with_units("312 TFLOP/s"), with_units("3.5 µs")
    ('312\\,\\mathrm{TFLOP/s}', '3.5\\,\\mathrm{\\mu s}')
    """
    digits, _, unit = amount.replace(",", "{,}").replace("µ", r"\mu ").partition(" ")
    return rf"{digits}\,\mathrm{{{unit}}}"


def number(value: Any, *, as_latex: bool = False) -> str:
    """Return a plain number as text: whole ones in full, others to six digits, or to one decimal place from 100,000 on.

    >>> number(14336), number(2.039e12), number(0.53125), number(123456789.125), number(2.5e-7)
    ('14336', '2039000000000', '0.53125', '123456789.1', '2.5e-07')
    """
    if isinstance(value, int) or float(value).is_integer():
        return str(int(value))
    if abs(value) >= 1e5:
        return f"{float(value):.1f}"
    text = f"{float(value):.6g}"
    if as_latex and "e" in text:
        mantissa, _, exponent = text.partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return text
