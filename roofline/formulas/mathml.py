"""Formulas in MathML Core, with symbols or with numbers: what browsers draw and screen readers read.

Every symbol is an `mi`, every number an `mn`, every sign an `mo`; between factors stands the invisible times, which is read.
How far factors stand apart is left to the style of the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from unicodedata import lookup

import sympy

from roofline import formatting
from roofline.formulas.latex import named, number, power_of_ten
from roofline.formulas.layout import Piece, Precedence, Style, Writer, layout
from roofline.formulas.symbolic import described, label
from roofline.numeric import Expr

_INVISIBLE_TIMES, _APPLY, _MINUS, _DOT, _THIN_SPACE = "\u2062", "\u2061", "\u2212", "\u22c5", "\u202f"


def _sign(text: str) -> str:
    return f"<mo>{text}</mo>"


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


def _fences(opening: str, closing: str) -> tuple[str, str]:
    """In a row of their own: a bracket is as high as what stands in its row."""
    return f"<mrow>{_sign(opening)}", f"{_sign(closing)}</mrow>"


def _function(name: str) -> tuple[str, str]:
    opening, closing = _fences("(", ")")
    return f"<mrow><mi>{name}</mi>{_sign(_APPLY)}{opening}", f"{closing}</mrow>"


def _number(value: float) -> Piece:
    if tens := power_of_ten(value):
        return f"<msup><mn>10</mn><mn>{tens}</mn></msup>", Precedence.POWER
    mantissa, _, exponent = spaced(abs(value)).partition("e")
    digits = f"<mn>{mantissa}</mn>"
    if exponent:
        digits += f"{_sign(_DOT)}<msup><mn>10</mn>{_row(_number(int(exponent))[0])}</msup>"
    if value < 0:
        digits = _sign(_MINUS) + digits
    return digits, Precedence.PRODUCT if value < 0 or exponent else Precedence.ATOM


def _substituted(value: float, unit: str) -> Piece:
    amount = formatting.in_formula(value, unit)
    if not amount:
        return _number(value)
    return f"<mn>{amount}</mn>", Precedence.ATOM if value >= 0 else Precedence.PRODUCT


def written(value: float, unit: str) -> str:
    """A number as it is in a formula, for a table or a sentence: with its unit where that has one, else spaced.

    >>> written(312e12, "FLOP/s"), written(14336, "elements").replace("\u202f", " ")
    ('312 TFLOP/s', '14 336')
    """
    amount = formatting.in_formula(value, unit)
    return spaced(value) if amount == "" else amount


def spaced(value: float) -> str:
    """A number as in the other formats, its digits before the point in threes where there are five or more.

    >>> [spaced(value).replace("\u202f", " ") for value in (4096, 14336, 123456789.125)]
    ['4096', '14 336', '123 456 789.1']
    """
    whole, point, part = number(value).partition(".")
    spread = f"{int(whole):,}".replace(",", _THIN_SPACE) if len(whole) > 4 and whole.isdigit() else whole
    return spread + point + part


_STYLE = Style(
    times=_sign(_INVISIBLE_TIMES),
    plus=_sign("+"),
    minus=_sign(_MINUS),
    negative=_sign(_MINUS),
    group=_fences("(", ")"),
    ceiling=_fences("⌈", "⌉"),
    floor=_fences("⌊", "⌋"),
    maximum=_function("max"),
    minimum=_function("min"),
    comma=_sign(","),
    fraction=lambda above, below: f"<mfrac>{above}{below}</mfrac>",
    power=lambda base, exponent: f"<msup>{base}{exponent}</msup>",
    root=lambda inside: f"<msqrt>{inside}</msqrt>",
    has_bars=True,
    row=_row,
    number=_number,
)


def mathml(expr: Expr) -> str:
    """Return a formula in symbols as a `math` element.

    >>> from roofline.formulas.symbolic import symbol
    >>> mathml(symbol("P") / symbol("beta"))
    '<math><mfrac><mi>P</mi><mi>β</mi></mfrac></math>'
    """
    return _math(Writer(_STYLE, lambda variable: (_named(described(variable).latex), Precedence.ATOM), _STYLE.times), expr)


def substituted_mathml(expr: Expr, values: Mapping[sympy.Symbol, Any]) -> str:
    """Return a formula with numbers instead of symbols, not evaluated, as a `math` element.

    Raises:
        KeyError: a symbol has no value.

    >>> from roofline.formulas.symbolic import symbol
    >>> substituted_mathml(2 * symbol("n_kv"), {symbol("n_kv"): 8})
    '<math><mn>2</mn><mo>⋅</mo><mn>8</mn></math>'
    """
    return _math(Writer(_STYLE, lambda variable: _substituted(values[variable], described(variable).unit), _sign(_DOT)), expr)


def symbol_mathml(text: str) -> str:
    """Return the `math` element of a symbol, by its name in text.

    >>> symbol_mathml("β"), symbol_mathml("n_q")
    ('<math><mi>β</mi></math>', '<math><msub><mi>n</mi><mi>q</mi></msub></math>')
    >>> symbol_mathml("t_step")  # not of the nomenclature
    '<math><msub><mi>t</mi><mi>step</mi></msub></math>'
    """
    variable = named(text)
    base, _, index = text.partition("_")
    if index.isalnum() and base.isalpha() and described(variable).latex == label(text):
        spelled = rf"{base}_{{\mathrm{{{index}}}}}"
        return f"<math>{_named(spelled)}</math>"
    return mathml(variable)


def _math(writer: Writer, expr: Expr) -> str:
    return f"<math>{writer.write(layout(expr))}</math>"


# The LaTeX of names: a letter, a word or a command, and perhaps an index, whose parts are set upright or not.
_NAME = re.compile(r"(?P<base>\\?[\w-]+?)(?:_(?P<index>\w|\{.+\}))?", re.ASCII)
_UPRIGHT = re.compile(r"\\(?:mathrm|text)\{([\w,-]+)\}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9-]+")


@cache
def _named(latex: str) -> str:
    r"""A name of the nomenclature.

    >>> _named(r"D_{\mathrm{weights}}"), _named(r"\beta")
    ('<msub><mi>D</mi><mi>weights</mi></msub>', '<mi>β</mi>')
    """
    match = _NAME.fullmatch(latex)
    if match is None:
        raise ValueError(f"no name of a symbol: {latex!r}")
    base, index = match["base"], match["index"]
    if base.startswith("\\"):
        base = lookup(f"GREEK SMALL LETTER {base[1:]}")
    if index is None:
        return f"<mi>{base}</mi>"
    return f"<msub><mi>{base}</mi>{_index(index.removeprefix('{').removesuffix('}'))}</msub>"


def _index(latex: str) -> str:
    """What stands below a symbol: words and letters with commas between them."""
    upright = {word for command in _UPRIGHT.findall(latex) for word in command.split(",")}
    words = _UPRIGHT.sub(r"\1", latex).split(",")
    if not all(map(_WORD.fullmatch, words)):
        raise ValueError(f"no index of a symbol: {latex!r}")
    # NB: a word is upright by itself, a single letter is not
    written = [
        f"<mn>{word}</mn>"
        if word.isdigit()
        else f'<mi mathvariant="normal">{word}</mi>'
        if len(word) == 1 and word in upright
        else f"<mi>{word}</mi>"
        for word in words
    ]
    return written[0] if len(written) == 1 else _row(_sign(",").join(written))
