"""A round of speculative decoding: how many tokens it gives, and from which acceptance on it pays."""

from __future__ import annotations

import math


def tokens_per_round(acceptance: float, drafted: int) -> float:
    """Expected tokens of a round: those drafted that are accepted before the first that is not, and one of the model's own.

    With each of K drafted tokens accepted with probability a, independently of the others: 1 + a + ... + a^K =
    (1 - a^(K+1))/(1 - a). Leviathan et al. 2023, arXiv:2211.17192, eq. (1).

    >>> round(tokens_per_round(0.8, 5), 2), tokens_per_round(1.0, 5), tokens_per_round(0.0, 5), tokens_per_round(0.5, 0)
    (3.69, 6.0, 1.0, 1.0)
    """
    if acceptance in (0, 1):
        return 1.0 + acceptance * drafted
    return -math.expm1((drafted + 1) * math.log(acceptance)) / (1 - acceptance)


def accepted_share(acceptance: float, drafted: int) -> float | None:
    """The share of drafted tokens that is accepted, which is what engines log: less than `acceptance`, for what comes after
    the first refusal is thrown away. None where nothing is drafted.

    >>> round(accepted_share(0.5, 2), 12)  # (0.5 + 0.25)/2
    0.375
    """
    return (tokens_per_round(acceptance, drafted) - 1) / drafted if drafted else None


def break_even(ratio: float, drafted: int) -> float | None:
    """The acceptance at which a round that takes `ratio` plain steps gives as many tokens as these; None: it never does.

    >>> break_even(1.0, 3), break_even(4.5, 3)
    (0.0, None)
    >>> round(break_even(1.75, 2), 9)  # 1 + 1/2 + 1/4
    0.5
    """
    if ratio > drafted + 1:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_round(middle, drafted) < ratio else (low, middle)
    return high if ratio > 1 else 0.0
