"""Where recomputing and swapping cost the same: over tokens, and over the size of a block.

Of N tokens a prompt alone takes about c + alpha N + gamma N^2 seconds: the weights are read once and kernels are launched (c),
every token is multiplied by every parameter (alpha), attention sees N^2/2 pairs (gamma). A swap takes tau + sigma N: a call or
two, and the bytes and calls of a token out and in. Both are equal at the roots of

    gamma N^2 + (alpha - sigma) N + (c - tau) = 0

With c > tau and alpha > sigma there is none: swapping is always the cheaper. With sigma > alpha, more to copy a token than to
compute it, recomputing is the cheaper between two roots: of a short sequence, whose prompt costs a reading of the weights, and
of a long one, whose attention outgrows every copy; where the discriminant is negative there is none. With tau > c, or where the
longest sequence lies between them, there is one.

With b tokens in a block swapping N tokens takes 2 (ceil(N/b) m a + N k/B), m copies a block, a seconds a call: less with larger
blocks, and equal to recomputing at about

    b* = 2 N m a/(T - 2 N k/B)

The roots that are given are those of the times themselves, with their steps; ripples of tiles and blocks about one count once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def quadratic(c: float, alpha: float, gamma: float, tau: float, sigma: float) -> list[float]:
    """Positive roots of gamma N^2 + (alpha - sigma) N + (c - tau), in order.

    >>> quadratic(c=9.0, alpha=1.0, gamma=0.01, tau=0.0, sigma=2.0)  # 0.01 N^2 - N + 9 = 0: N = 50 -+ sqrt(2500 - 900)
    [10.0, 90.0]
    >>> quadratic(8.0, 2.0, 0.01, 0.0, 1.0), quadratic(0.0, 1.0, 0.0, 4.0, 0.5)
    ([], [8.0])
    """
    slope, rest = alpha - sigma, c - tau
    if gamma == 0:
        roots = [-rest / slope] if slope else []
    else:
        under = slope * slope - 4 * gamma * rest
        roots = [] if under < 0 else [(-slope + sign * math.sqrt(under)) / (2 * gamma) for sign in (-1, 1)]
    return sorted({root for root in roots if root > 0})


_RIPPLES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def crossings(numbers: Sequence[int], first: Sequence[float], second: Sequence[float]) -> list[int]:
    """Numbers from which on the other of two times is the longer one: none, one or two.

    Where there are more changes than two, those count as one between which the times differ by less than so many per cent, as
    many per cent as it takes; it is the middle one of them.

    >>> crossings([1, 2, 3, 4], [1, 2, 4, 8], [2, 3, 3, 3])
    [3]
    >>> crossings([1, 2, 3, 4, 5, 6, 7], [5, 5, 5, 5, 5, 5, 9], [1, 4.98, 5.02, 4.99, 8, 8, 8])  # ripples from 3 to 5
    [4, 7]
    """
    rows = list(zip(numbers, first, second, strict=True))
    found: list[int] = []
    for ripple in (0.0, *_RIPPLES):
        found = _changes(rows, ripple)
        if len(found) <= 2:
            return found
    return [found[0], found[-1]] if len(found) % 2 == 0 else [found[0]]


def _changes(rows: Sequence[tuple[int, float, float]], ripple: float) -> list[int]:
    """Changes between places where the times differ by more than a share of the longer one."""
    found: list[int] = []
    since: list[int] = []  # every change since the last such place
    settled = last = 0
    for number, one, other in rows:
        sign = (one > other) - (one < other)
        if last and sign and sign != last:
            since.append(number)
        last = sign or last
        if sign and abs(one - other) > ripple * max(one, other):
            if settled and sign != settled:
                found.append(since[len(since) // 2])
            settled, since = sign, []
    return found


def smallest_block(seconds: Callable[[int], float], limit: float, most: int) -> int | None:
    """The smallest block, in tokens, whose swap takes at most `limit` seconds; None where blocks of one token or none do.

    >>> smallest_block(lambda block: 2.0 + 100 / block, 7.0, 4096)
    20
    >>> smallest_block(lambda block: 2.0, 7.0, 4096), smallest_block(lambda block: 8.0, 7.0, 4096)
    (None, None)
    """
    if most < 2 or seconds(1) <= limit or seconds(most) > limit:
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(middle) <= limit else (middle, high)
    return high
