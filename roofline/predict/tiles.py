"""Grids a tile at a time.

What depends on every axis of a grid is evaluated on pieces that stay in a processor's cache; what depends on fewer is
evaluated once, on its own axes. Both give the numbers of a single evaluation of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.predict.efficiency.kernels import Kernel
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Shape = tuple[int, ...]
Tile = tuple[Any, ...]
"""A box of a grid, a slice for each axis; or points of it, an array of indices for each axis, all of one length."""
Item = TypeVar("Item")

_ALL = slice(None)
FEW_POINTS = 2**10
"""Of a list: fewer are evaluated as they are."""
POINTS = 2**19
"""Of a tile, times the columns that are wanted: that many float64 and what they are made of stay in the caches."""


def tiles(shape: Shape, most: int) -> Iterator[Tile]:
    """Return slices that cover an array, in its order, each of at most `most` points.

    >>> [tuple((part.start, part.stop) for part in tile) for tile in tiles((3, 4), 8)]
    [((0, 2), (0, 4)), ((2, 3), (0, 4))]
    >>> len(list(tiles((2, 5), 2))), list(tiles((), 1)), len(list(tiles((7, 1, 3), 100)))
    (6, [()], 1)
    """
    whole = next((axis for axis in range(len(shape)) if prod(shape[axis:]) <= most), len(shape))
    # axes before `whole` are walked one by one, the last of them in strides
    stride = max(most // prod(shape[whole:]), 1) if whole else 0
    ranges = [[slice(at, at + 1) for at in range(size)] for size in shape[: max(whole - 1, 0)]]
    if whole:
        size = shape[whole - 1]
        ranges.append([slice(at, min(at + stride, size)) for at in range(0, size, stride)])
    rest = [slice(0, size) for size in shape[whole:]]
    return ((*first, *rest) for first in product(*ranges))


def listed(*axes: Array) -> tuple[list[Array], tuple[Array, ...]] | None:
    """Return points of a list as points of a grid of their distinct values.

    What depends on one axis alone is then evaluated at its distinct values. Where that saves nothing, the result is None: with
    few points, or if most values of every axis are distinct.

    Args:
        *axes: float64 arrays of shape (n,), one for each axis, that hold whole numbers from 0.

    Returns:
        The distinct values of each axis, shaped to broadcast on an axis of their own; and for each axis the indices of the n
        points.

    >>> import numpy as np
    >>> values, points = listed(np.tile([8.0, 2.0, 8.0, 4.0], 500), np.full(2000, 5.0))
    >>> [value.tolist() for value in values], [index[:4].tolist() for index in points]
    ([[[2.0], [4.0], [8.0]], [[5.0]]], [[2, 0, 2, 1], [0, 0, 0, 0]])
    """
    import numpy as np

    size = axes[0].size
    if size < FEW_POINTS:
        return None
    distinct = []
    for axis in axes:
        last = float(np.max(axis))
        if last < 4 * size:  # a table finds them in one pass; sorting would take longer than what is saved
            whole = axis.astype(np.int64)
            present = np.zeros(int(last) + 1, dtype=bool)
            present[whole] = True
            values = np.flatnonzero(present)
            index = np.empty(present.size, dtype=np.int64)
            index[values] = np.arange(values.size)
            distinct.append((values.astype(np.float64), index[whole]))
        else:
            distinct.append((axis, np.arange(size)))
    if min(values.size for values, _ in distinct) > size / 4:
        return None
    count = len(axes)
    shaped = [values.reshape([-1 if at == own else 1 for at in range(count)]) for own, (values, _) in enumerate(distinct)]
    return shaped, tuple(index for _, index in distinct)


def cut(value: Any, tile: Tile) -> Any:
    """Return the part of a value in a tile.

    Args:
        value: an array with as many axes as the tile (axes of length 1 stay), or an operator, kernel, segment or tuple
            with such
            arrays inside; anything else is returned as it is.
        tile: a slice, or an array of indices, for each axis.
    """
    import numpy as np

    if isinstance(value, np.ndarray):
        if not value.ndim:
            return value
        if tile and isinstance(tile[0], np.ndarray):
            return value[tuple([part if size > 1 else 0 for size, part in zip(value.shape, tile, strict=True)])]
        return value[tuple([part if size > 1 else _ALL for size, part in zip(value.shape, tile, strict=True)])]
    if isinstance(value, Operator):
        arrays = {name: cut(its, tile) for name, its in value.dims().items() if isinstance(its, np.ndarray)}
        return replace(value, **arrays) if arrays else value
    if isinstance(value, Kernel):
        operators = {name: cut(operator, tile) for name, operator in value.operators.items()}
        return replace(value, operators=operators, repeat=cut(value.repeat, tile))
    if isinstance(value, Segment):
        return Segment(cut(value.count, tile), cut(value.new, tile), cut(value.cached, tile), value.decode)
    if isinstance(value, tuple):
        return tuple(cut(part, tile) for part in value)
    return value


@dataclass(slots=True)
class Totals:
    """Quantities by name, summed over items (or combined in another way), each of which has some of them.

    An item of which every axis moves some quantity waits for its tiles, and is added after all others: the order of a sum,
    and with it its last digit, do not depend on the size of tiles.
    """

    measure: Callable[[Any], dict[str, Expr]]
    combine: Callable[[Expr, Expr], Expr]
    names: tuple[str, ...]
    waiting: list[Any] = field(default_factory=list)
    known: dict[str, dict[Shape, Array]] = field(default_factory=dict)
    """Of each quantity the combination of arrays of each shape, so that small ones stay small."""

    @classmethod
    def of(
        cls,
        items: Iterable[Item],
        measure: Callable[[Item], dict[str, Expr]],
        names: Iterable[str],
        shape: Shape,
        combine: Callable[[Expr, Expr], Expr] = lambda a, b: a + b,
    ) -> Totals:
        """Return the totals of items over a grid.

        Items that some axis of the grid does not affect are measured at once; a corner of the grid shows which.

        Args:
            items: what is summed.
            measure: quantities of an item by name.
            names: of the quantities.
            shape: of the grid.
            combine: what is done with two values; addition by default.
        """
        import numpy as np

        made = cls(measure, combine, tuple(names))
        corner = tuple(slice(0, 2) for _ in shape)
        every = tuple(min(size, 2) for size in shape)
        for item in items:
            if np.broadcast_shapes(*(np.shape(value) for value in measure(cut(item, corner)).values())) == every:
                made.waiting.append(item)
            else:
                made._add(measure(item))
        return made

    def _add(self, quantities: dict[str, Expr]) -> None:
        import numpy as np

        for name in self.names:
            array = np.asarray(quantities.get(name, 0.0), dtype=np.float64)
            by_shape = self.known.setdefault(name, {})
            by_shape[array.shape] = self.combine(by_shape[array.shape], array) if array.shape in by_shape else array

    def at(self, tile: Tile) -> dict[str, Expr]:
        """Return the quantities in a tile by name, arrays that broadcast to its shape."""
        totals: dict[str, Expr] = {}
        for name in self.names:
            parts = [cut(array, tile) for array in self.known.get(name, {}).values()]
            totals[name] = _combined(parts, self.combine)
        for item in self.waiting:
            quantities = self.measure(cut(item, tile))
            for name in self.names:
                totals[name] = self.combine(totals[name], quantities.get(name, 0.0))
        return totals


def _combined(parts: list[Array], combine: Callable[[Expr, Expr], Expr]) -> Expr:
    total: Expr = 0.0
    for part in sorted(parts, key=lambda part: part.size):
        total = combine(total, part)
    return total


@dataclass(slots=True)
class Sum:
    """A sum of arrays that adds arrays of equal shapes first, so that small ones stay small."""

    parts: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def add(self, value: Expr) -> None:
        """Add a term: a number or an array."""
        import numpy as np

        array = np.asarray(value, dtype=np.float64)
        if array.shape in self.parts:
            self.parts[array.shape] = self.parts[array.shape] + array
        else:
            self.parts[array.shape] = array

    def total(self) -> Array:
        """Return the sum of all terms, broadcast against each other."""
        import numpy as np

        return sum(self.parts.values(), start=np.zeros(()))
