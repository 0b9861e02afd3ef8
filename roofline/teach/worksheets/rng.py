"""Random choices that are the same for ever: on every machine, and with every version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

Item = TypeVar("Item")


class Rng:
    """Choices from SHA-256 of a key and a counter. `random.Random` promises the same numbers for its `random()` alone, and not
    for choices made of them.

    >>> Rng("a", 7).below(100)  # `printf a/7#0 | sha256sum`, modulo 100
    35
    """

    def __init__(self, *key: object) -> None:
        """`key` is whatever the choices depend on."""
        self._key = "/".join(map(str, key))
        self._drawn = 0

    def below(self, end: int) -> int:
        """A whole number from 0 to `end` - 1, all equally likely (to one in 2^200)."""
        digest = sha256(f"{self._key}#{self._drawn}".encode()).digest()
        self._drawn += 1
        return int.from_bytes(digest, "big") % end

    def choice(self, items: Sequence[Item]) -> Item:
        """One of several."""
        return items[self.below(len(items))]

    def whole(self, low: int, high: int, step: int = 1) -> int:
        """One of low, low + step, ... up to `high`."""
        return low + step * self.below((high - low) // step + 1)

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """All of them in some order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]
