"""The few operations that plain `+ - * /` cannot spell for every kind of number.

A formula of this project is written once and called with Python ints and floats, with NumPy arrays, or with SymPy
symbols. Arithmetic operators work on all of them; `max`, `min`, a ceiling division and an exact halving do not. They
live here, and nowhere else. NumPy is imported when an array is met; SymPy never: `roofline.formulas` registers the
symbolic backend when it is imported, so whoever holds symbols has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# int | float | numpy.ndarray | sympy.Expr. NB: spelled Any, because neither NumPy nor SymPy types arithmetic
# between the four, and a cast on every formula would hide the formulas.
Expr: TypeAlias = Any


class Backend(Protocol):
    """What another kind of number implements to be used in formulas."""

    def accepts(self, value: object) -> bool:
        """Whether `value` is a number of this kind."""

    def maximum(self, a: Expr, b: Expr) -> Expr:
        """The larger of two numbers."""

    def minimum(self, a: Expr, b: Expr) -> Expr:
        """The smaller of two numbers."""

    def ceil_div(self, a: Expr, b: Expr) -> Expr:
        """The smallest whole number that is at least a/b."""


_backends: list[Backend] = []
_NUMBERS = (int, float)


def register(backend: Backend) -> None:
    """Register a kind of number, so that `maximum`, `minimum` and `ceil_div` accept it."""
    _backends.append(backend)


def _backend(a: Expr, b: Expr) -> Backend | None:
    return next((backend for backend in _backends if backend.accepts(a) or backend.accepts(b)), None)


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the larger of two numbers, element by element for arrays.

    >>> maximum(3, 5)
    5
    """
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return max(a, b)
    if backend := _backend(a, b):
        return backend.maximum(a, b)
    import numpy as np

    return np.maximum(a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    """Return the smaller of two numbers, element by element for arrays.

    >>> minimum(3, 5)
    3
    """
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return min(a, b)
    if backend := _backend(a, b):
        return backend.minimum(a, b)
    import numpy as np

    return np.minimum(a, b)


def plus(a: Expr, b: Expr) -> Expr:
    """Return the sum of two numbers. A Python int 0 is left out, which saves a pass over an array.

    >>> plus(2, 3), plus(0, 3), plus(2.5, 0)
    (5, 3, 2.5)
    """
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return a + b


def ceil_div(a: Expr, b: Expr) -> Expr:
    """Return a/b rounded up to a whole number.

    Exact for whole numbers, also those held in floats and arrays: floor division rounds after dividing exactly.
    NB: never `ceiling(a / b)` in symbols: a code generator may turn the division into a product with a rounded reciprocal. On
    arrays of floats it is that, several times as fast: what is no whole number lies at least 1/b from one, and the rounding
    of a division is less as long as a < 2^53.

    Raises:
        ZeroDivisionError: b is 0 (plain numbers).

    >>> ceil_div(7, 2), ceil_div(525, 75)
    (4, 7)
    """
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return -(-a // b)
    if backend := _backend(a, b):
        return backend.ceil_div(a, b)
    import numpy as np

    if np.result_type(a, b).kind == "f":
        return np.ceil(a / b)
    return -(-a // b)


def floor_div(a: Expr, b: Expr) -> Expr:
    """Return a/b rounded down, for whole numbers: the same as (a - (b - 1))/b rounded up, which every backend has.

    >>> floor_div(7, 2), floor_div(525, 75), floor_div(0, 4)
    (3, 7, 0)
    """
    if isinstance(a, int) and a == 0:
        return 0  # whatever b is: no symbol of it remains
    return ceil_div(a - (b - 1), b)


def ratio(a: Expr, b: Expr) -> Expr:
    """Return a/b, as a Python int where both are ints and b divides a.

    >>> ratio(6, 3), ratio(1, 2)
    (2, 0.5)
    """
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def log2(value: Expr) -> Expr:
    """Return the logarithm to base 2 of a number or of each element of an array.

    >>> log2(8)
    3.0
    """
    if isinstance(value, (int, float)):
        return math.log2(value)
    import numpy as np

    return np.log2(value)


def triangle(n: Expr) -> Expr:
    """Return 1 + 2 + ... + n.

    >>> triangle(4)
    10
    """
    return ratio(n * (n + 1), 2)


def pareto_front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the points that no other dominates; smaller is better.

    A point dominates another if it is no larger in every coordinate and smaller in one. Equal points do not dominate each
    other: all of them are on the front.

    Args:
        points: n tuples of d coordinates each.

    >>> pareto_front([(1.0, 9.0), (2.0, 5.0), (2.0, 6.0), (1.0, 9.0)])
    [0, 1, 3]
    """
    return [
        index for index, mine in enumerate(points)
        if not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in points)
    ]  # fmt: skip


def pareto_front_of_rows(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the row indices of the Pareto front of an array; smaller is better. Meant for millions of rows.

    Sorted by their columns, first column first, rows are dominated by earlier ones only. With two columns a row is dominated
    unless its second value is below all before it; with more, rows are compared with those already on the front.

    Args:
        values: n rows by d columns, without NaN.

    Returns:
        Indices in the order of the first column; of equal rows only the first.

    >>> import numpy as np
    >>> pareto_front_of_rows(np.array([[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [3.0, 5.0], [4.0, 1.0], [1.0, 9.0]])).tolist()
    [0, 1, 4]
    """
    import numpy as np

    order = np.lexsort((np.arange(len(values)), *values.T[::-1]))
    ranked = values[order]
    if ranked.shape[1] == 1:
        return np.asarray(order[:1])
    if ranked.shape[1] == 2:
        second = ranked[:, 1]
        least = np.minimum.accumulate(second)
        return np.asarray(order[np.concatenate([[True], second[1:] < least[:-1]])])
    front: list[Any] = []
    left = np.arange(len(ranked))
    while left.size:
        first, left = left[0], left[1:]
        front.append(first)
        left = left[~np.all(ranked[left] >= ranked[first], axis=1)]
    return np.asarray(order[front])
