"""Counting the keys of sparse and compressed attention: entries that stand for several tokens, and chosen ones."""

from __future__ import annotations

from roofline.numeric import Expr, floor_div, minimum, ratio
from roofline.operators.attention import Mask, pairs


def entries(tokens: Expr, group: Expr | None) -> Expr:
    """The number of cache entries that `tokens` tokens have made: one for each whole `group` of them; None: one per token.

    >>> entries(1025, 4), entries(127, 128), entries(7, None)
    (256, 0, 7)
    """
    none = isinstance(tokens, int) and tokens == 0
    return tokens if none or group is None else floor_div(tokens, group)


def _seen_by_first(tokens: Expr, group: Expr) -> Expr:
    """Sum of floor(v/group) over v from 1 to `tokens`: 0, 1, ..., q-1 `group` times each, and q for what is left.

    >>> _seen_by_first(9, 4)  # 0+0+0 + 1+1+1+1 + 2+2
    8
    """
    whole = entries(tokens, group)
    return group * ratio(whole * (whole - 1), 2) + whole * (tokens - group * whole + 1)


def entry_pairs(new: Expr, cached: Expr, group: Expr | None, chosen: Expr | None, mask: Mask) -> Expr:
    """The number of (query, entry) pairs of one sequence.

    Causal: after v tokens, its own included, a query sees floor(v/group) entries, and no more than `chosen` of them. The
    limit binds from v = group * chosen on; without groups it cuts as a window does. Full: every query sees every entry
    that the sequence then has, chosen or not.

    Args:
        new: new tokens (queries) of the sequence.
        cached: tokens before the step.
        group: tokens that one entry stands for; None: each token has its own.
        chosen: entries that a query attends to, at most; None: all.
        mask: "causal" or "full".

    >>> entry_pairs(4, 6, 4, None, "causal"), entry_pairs(4, 6, 4, 1, "causal")  # after 7, 8, 9, 10 tokens: 1+2+2+2; 1 each
    (7, 4)
    >>> entry_pairs(4, 6, None, 8, "causal"), entry_pairs(4, 6, 4, 1, "full")  # 7+8+8+8; 4 queries, 2 entries
    (31, 8)
    """
    if mask == "full":
        return new * entries(cached + new, group)
    if group is None:
        return pairs(new, cached, chosen, "causal")
    if isinstance(new, int) and new == 1:  # the sum below has one term; symbols should show it
        return entries_read(new, cached, group, chosen)
    first, last = cached, cached + new
    if chosen is None:
        return _seen_by_first(last, group) - _seen_by_first(first, group)
    free_first, free_last = minimum(first, group * chosen), minimum(last, group * chosen)
    free = _seen_by_first(free_last, group) - _seen_by_first(free_first, group)
    return free + chosen * ((last - free_last) - (first - free_first))


def entries_read(new: Expr, cached: Expr, group: Expr | None, chosen: Expr | None) -> Expr:
    """The number of entries of one sequence that are read: all, or those that its queries chose.

    NB: the queries of one sequence are taken to choose different entries, until all are chosen. Of one query (decode) the
    count is exact; of a prompt it is nearly always all of them. Arguments as in `entry_pairs`.

    >>> entries_read(1, 4095, None, 2048), entries_read(1, 100, None, 2048), entries_read(64, 4032, None, 2048)
    (2048, 101, 4096)
    """
    every = entries(cached + new, group)
    return every if chosen is None else minimum(every, new * chosen)
