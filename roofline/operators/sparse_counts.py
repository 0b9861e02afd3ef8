"""Counting the keys of sparse and compressed attention: entries that stand for several tokens, and chosen ones."""

from __future__ import annotations

from roofline.numeric import Expr, floor_div, maximum, minimum, ratio
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


def _blocks_seen_by_first(tokens: Expr, block: Expr) -> Expr:
    """Sum of ceil(v/block) over v from 1 to `tokens`: that of floor((v - 1)/block) + 1.

    >>> _blocks_seen_by_first(9, 4)  # 1+1+1+1 + 2+2+2+2 + 3
    15
    """
    return tokens + _seen_by_first(tokens, block) - entries(tokens, block)


def blocks_seen(new: Expr, cached: Expr, block: Expr) -> Expr:
    """The number of (query, block) pairs of one sequence: after v tokens a query sees ceil(v/block) blocks.

    Args:
        new: new tokens (queries) of the sequence.
        cached: tokens before the step.
        block: tokens of a block; the last one of a sequence may have fewer.

    >>> blocks_seen(1, 9, 4), blocks_seen(4, 6, 4)  # after 10 tokens 3; after 7, 8, 9, 10: 2+2+3+3
    (3, 10)
    """
    return _blocks_seen_by_first(cached + new, block) - _blocks_seen_by_first(cached, block)


def block_pairs(new: Expr, cached: Expr, block: Expr, chosen: Expr, mask: Mask) -> Expr:
    """The number of (query, key) pairs of one sequence whose queries see at most `chosen` blocks, their own among them.

    Causal: after v tokens a query would see v keys in ceil(v/block) blocks; of what is more than `chosen` blocks, none of which
    is its own, each hides `block` keys. Full: every query sees every key that the sequence then has, chosen or not.

    Args:
        new: new tokens (queries) of the sequence.
        cached: tokens before the step.
        block: tokens of a block.
        chosen: blocks that a query sees, at most.
        mask: "causal" or "full".

    >>> block_pairs(1, 9, 4, 2, "causal"), block_pairs(4, 6, 4, 2, "causal")  # 4+2; after 7, 8, 9, 10: 7+8+5+6
    (6, 26)
    """
    if mask == "full":
        return new * (cached + new)
    free = block * chosen
    first, last = maximum(cached - free, 0), maximum(cached + new - free, 0)
    hidden = _blocks_seen_by_first(last, block) - _blocks_seen_by_first(first, block)
    return pairs(new, cached, None, "causal") - block * hidden


def block_keys_read(new: Expr, cached: Expr, block: Expr, chosen: Expr) -> Expr:
    """The number of keys of one sequence that are read where queries choose blocks, as in `block_pairs`.

    NB: the queries of one sequence are taken to choose different blocks, until all are chosen. Of one query (decode) the
    count is exact; of a prompt it is nearly always all of them.

    >>> block_keys_read(1, 9, 4, 2), block_keys_read(4, 6, 4, 2)
    (6, 10)
    """
    return minimum(cached + new, block_pairs(new, cached, block, chosen, "causal"))


def pool_pairs(new: Expr, cached: Expr, pool: Expr, chosen: Expr, mask: Mask) -> Expr:
    """The number of (query, key) pairs of one sequence whose queries see `chosen` keys in whole pools, and what follows these.

    Causal: after v tokens, its own included, there are floor(v/pool) whole pools; of what is more than chosen/pool of them each
    hides `pool` keys, and the keys that no whole pool has yet are seen. Full: every query sees every key.

    Args:
        new: new tokens (queries) of the sequence.
        cached: tokens before the step.
        pool: tokens of a pool.
        chosen: keys in the pools that a query sees, at most; a multiple of `pool`.
        mask: "causal" or "full".

    >>> pool_pairs(1, 9, 4, 4, "causal"), pool_pairs(4, 6, 4, 4, "causal")  # 4+2; after 7, 8, 9, 10: 4+3, 4, 4+1, 4+2
    (6, 22)
    """
    if mask == "full":
        return new * (cached + new)
    hidden = _seen_by_first(maximum(cached + new - chosen, 0), pool) - _seen_by_first(maximum(cached - chosen, 0), pool)
    return pairs(new, cached, None, "causal") - pool * hidden


def pool_keys_read(new: Expr, cached: Expr, pool: Expr, chosen: Expr) -> Expr:
    """The number of keys of one sequence that are read where queries choose pools, as in `pool_pairs`.

    NB: the queries of one sequence are taken to choose different pools, as in `block_keys_read`.

    >>> pool_keys_read(1, 9, 4, 4), pool_keys_read(4, 6, 4, 4)
    (6, 10)
    """
    return minimum(cached + new, pool_pairs(new, cached, pool, chosen, "causal"))
