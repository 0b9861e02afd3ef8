"""A formula that is laid out, put into signs: brackets where they are needed, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import sympy

from roofline.formulas.layout import Extreme, Fraction, Named, Node, Number, Power, Product, Root, Rounded, Sum


class Hold(IntEnum):
    """How tightly something written holds together."""

    SUM = 0
    PRODUCT = 1
    POWER = 2
    ATOM = 3


Piece = tuple[str, Hold]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The signs of one tongue. Pairs open and close."""

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
        """A whole formula."""
        return self._piece(node)[0]

    def _piece(self, node: Node) -> Piece:
        style = self.style
        match node:
            case Named(symbol):
                return self.name(symbol)
            case Number(value):
                return style.number(value)
            case Sum(terms):
                return self._sum(terms), Hold.SUM
            case Product(factors):
                return self.times.join(self._hold(factor, Hold.PRODUCT) for factor in factors), Hold.PRODUCT
            case Power(base, exponent):
                return style.power(self._hold(base, Hold.ATOM), self._apart(exponent, Hold.ATOM)), Hold.POWER
            case Root(inside):
                return style.root(self._apart(inside, Hold.ATOM)), Hold.POWER
            case Fraction(above, below):
                written = style.fraction(self._apart(above, Hold.PRODUCT), self._apart(below, Hold.POWER))
                return written, Hold.POWER if style.has_bars else Hold.PRODUCT
            case Rounded(way, inside):
                return self._between(style.ceiling if way == "up" else style.floor, (inside,))
            case Extreme(way, args):
                return self._between(style.maximum if way == "max" else style.minimum, args)

    def _sum(self, terms: tuple[tuple[bool, Node], ...]) -> str:
        written = ""
        for negative, term in terms:
            piece = self._hold(term, Hold.PRODUCT) if negative else self.write(term)
            sign = self.style.minus if negative else self.style.plus
            written = f"{written}{sign}{piece}" if written else f"{self.style.negative if negative else ''}{piece}"
        return written

    def _between(self, signs: tuple[str, str], inside: tuple[Node, ...]) -> Piece:
        opening, closing = signs
        return opening + self.style.comma.join(map(self.write, inside)) + closing, Hold.ATOM

    def _apart(self, node: Node, at_least: Hold) -> str:
        """What a bar, a roof or a place of its own sets apart: in brackets where the tongue has none of these."""
        if not self.style.has_bars:
            return self._hold(node, at_least)
        piece, hold = self._piece(node)
        return piece if hold >= Hold.POWER else self.style.row(piece)

    def _hold(self, node: Node, at_least: Hold) -> str:
        piece, hold = self._piece(node)
        opening, closing = self.style.group
        return piece if hold >= at_least else opening + piece + closing
