"""A ceiling division that every tongue prints as one, never as a product with a rounded reciprocal."""

from __future__ import annotations

from typing import Any

import sympy


class CeilDiv(sympy.Function):  # type: ignore[misc, unused-ignore] # SymPy is not typed
    """The smallest whole number that is at least a/b.

    >>> CeilDiv(525, 75), CeilDiv(7, 2), CeilDiv(sympy.Symbol("n"), 2)
    (7, 4, CeilDiv(n, 2))
    """

    nargs = 2

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        """A number where both are known, a itself where it is whole and divided by 1; None: stays as it is."""
        if a.is_Rational and b.is_Rational:
            return sympy.ceiling(a / b)  # exact: these are fractions of integers
        return a if b is sympy.S.One and a.is_integer else None

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_positive else None

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = rf"\left\lceil \frac{{{printer._print(self.args[0])}}}{{{printer._print(self.args[1])}}} \right\rceil"  # noqa: SLF001
        return body if exp is None else f"{body}^{{{exp}}}"

    def _numpycode(self, printer: Any) -> str:
        # Floor division rounds after dividing exactly.
        a, b = (printer._print(arg) for arg in self.args)  # noqa: SLF001
        return f"(-(-({a}) // ({b})))"

    _pythoncode = _numpycode

    def _javascript(self, printer: Any) -> str:
        a, b = (printer._print(arg) for arg in self.args)  # noqa: SLF001
        return f"ceilDiv({a}, {b})"
