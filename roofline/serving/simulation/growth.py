"""Blocks of sequences that all grow by a token a step.

Sequences that need another block at the same step need the next one as many steps later as a block has tokens: `grow[r]` is
how many need one at steps of residue r.
"""

from __future__ import annotations

from collections.abc import Sequence


def needed(grow: Sequence[int], first: int, many: int, steps: int) -> int:
    """Blocks that so many steps take, from a step on; `many`: sequences in all.

    >>> needed([1, 0, 2, 0], 1, 3, 6)  # residues 1 2 3 0 1 2: a whole round, and one and two more
    5
    """
    size = len(grow)
    rounds, rest = divmod(steps, size)
    found = rounds * many
    if rest:
        begin = first % size
        end = begin + rest
        found += sum(grow[begin:end])
        if end > size:
            found += sum(grow[: end - size])
    return found


def lasting(grow: Sequence[int], at: int, free: int, many: int, steps: int) -> int:
    """Steps, of so many from `at` on, until a block is missing; those of the first are taken already.

    >>> lasting([1, 0, 2, 0], 0, 2, 3, 9)  # residues 1 2 3 take two blocks; residue 0 wants one more
    4
    """
    size = len(grow)
    rounds, free = divmod(free, many)  # in as many steps as a block has tokens everybody needs one
    found = 1 + rounds * size
    while found < steps and (short := grow[(at + found) % size]) <= free:
        free -= short
        found += 1
    return min(steps, found)
