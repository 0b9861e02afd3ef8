"""Both at once: some blocks come back over the link while the device computes the others again.

The order matters. A token's keys and values depend on all tokens before it, so that what is computed again after a swapped
part has to wait for it (layer by layer, where copies come layer by layer), and attends to it. What is computed again *first*
waits for nothing: the prefix of y tokens is recomputed while the last N - y are copied, and the sequence goes on when
both are there:

    max(T(y), in(N - y))                and out(N - y) before, unless that was copied beside other work

T grows with y, the copy falls: the least lies where both end together, or, where a token costs more to copy out than to
recompute, at an end. The other order, prefix swapped and suffix recomputed, takes max(in(x), T(N) - T(x)): attention of the
suffix sees the prefix too, and T(N) - T(x) is no less than T(N - x), so that it is never the better one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Order = Literal["recompute the first", "swap the first"]
Seconds = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Partial:
    """A way to split a sequence: tokens of each part, seconds of each, and of the whole."""

    order: Order
    recomputed: int
    swapped: int
    recompute_s: float
    out_s: float
    in_s: float

    @property
    def seconds(self) -> float:
        """Out, then the longer of both."""
        return self.out_s + max(self.recompute_s, self.in_s)


def best(
    order: Order, tokens: int, step: int, recompute: Seconds, out: Seconds, back: Seconds, *, hidden: bool = False
) -> Partial:
    """The best split in multiples of `step` tokens. Functions take the tokens that are *recomputed*; `hidden`: copies out are
    made beside other work, and cost nothing.

    >>> best("recompute the first", 100, 10, lambda y: y / 10, lambda y: 0.0, lambda y: (100 - y) / 30).recomputed
    20
    """

    def split(recomputed: int) -> Partial:
        given = 0.0 if hidden else out(recomputed)
        return Partial(order, recomputed, tokens - recomputed, recompute(recomputed), given, back(recomputed))

    low, high = 0, -(-tokens // step)  # multiples: computing ends before the copy, and not before it
    while high - low > 1:
        middle = (low + high) // 2
        part = split(min(middle * step, tokens))
        low, high = (low, middle) if part.recompute_s >= part.in_s else (middle, high)
    found = [split(min(number * step, tokens)) for number in (0, low, high, -(-tokens // step))]
    return min(found, key=lambda part: part.seconds)
