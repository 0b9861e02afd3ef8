"""Which shapes are held out: a fit never sees them, and every error that is stated is of them.

Whole shapes are held out, never single rows: neighbours of a row on the same curve would tell a fit what it will be asked.
What a shape is, each op says (`Rule.shape`): (n, k) of a product, a configuration of heads, of experts, a width, a size.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

EVERY = 3


def held_out(shapes: Iterable[str]) -> set[str]:
    """Every third of the shapes in the order of their CRC-32, the second of them first; of one shape none.

    The order does not depend on who measured them, nor on how many rows there are.

    >>> sorted(held_out(["a", "b", "c", "d"]))
    ['b']
    """
    ordered = sorted(set(shapes), key=lambda shape: (zlib.crc32(shape.encode()), shape))
    return set(ordered[1::EVERY])


def folds(shapes: Iterable[str], count: int) -> list[set[str]]:
    """The shapes dealt to `count` parts in the same order, to predict each part by a fit of the others.

    >>> [sorted(fold) for fold in folds(["a", "b", "c"], 2)]
    [['a', 'c'], ['b']]
    """
    ordered = sorted(set(shapes), key=lambda shape: (zlib.crc32(shape.encode()), shape))
    return [set(ordered[part::count]) for part in range(count)]
