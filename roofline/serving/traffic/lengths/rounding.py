"""Real lengths made whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TRIFLE = 1e-9


def kept_in_order(values: Sequence[float]) -> NDArray[np.int64]:
    """Ascending numbers, each rounded down or up so that they still ascend and their sum is off by at most a half; int64, each
    at least 1.

    >>> kept_in_order([1.5, 1.5, 1.5, 1.5]).tolist(), kept_in_order([2.2, 2.9, 7.0]).tolist()
    ([1, 1, 2, 2], [2, 3, 7])
    """
    import numpy as np

    found: list[int] = []
    owed = 0.0
    # floors ascend; among equal ones the last go up, and none passes the next floor
    for whole, group in groupby(values, key=_floor):
        equal = list(group)
        owed += sum(value - whole for value in equal)
        broken = sum(value - whole > _TRIFLE * max(value, 1.0) for value in equal)  # what is whole stays as it is
        up = min(max(math.floor(owed + 0.5), 0), broken)
        owed -= up
        found += [max(whole, 1)] * (len(equal) - up) + [whole + 1] * up
    return np.array(found, dtype=np.int64)


def _floor(value: float) -> int:
    # differences of sums are off in the last digits: 7 minus a trifle is 7
    return math.floor(value + _TRIFLE * max(value, 1.0))


def at_random(values: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Each number rounded up with the probability of its fraction, else down, which keeps the mean; what is below 1 is 1."""
    import numpy as np

    floored = np.maximum(values, 1.0)
    down = np.floor(floored)
    whole: NDArray[np.int64] = (down + (rng.random(len(floored)) < floored - down)).astype(np.int64)
    return whole
