"""Seconds of a step, as the simulator asks for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Cell = tuple[float, float, float]
"""Cached tokens of all sequences together below which it holds; seconds a step, and more of them for each such token."""

Chunk = tuple[int, int]
"""Part of a prompt: new tokens, and those before them."""


class StepTime(Protocol):
    """Seconds of the steps of one replica. Both are called at every event: they have to be quick."""

    def cells(self, sequences: int) -> Sequence[Cell]:
        """Of a step that decodes a token of so many sequences: pieces that are affine in the tokens that all have cached, in
        ascending order; the last holds up to infinity."""

    def mixed(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        """Seconds of a step that decodes a token of so many sequences (maybe none), which have so many tokens cached together,
        beside parts of prompts (maybe none)."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A step as a sum: for itself, for each sequence that decodes, each token that is cached for those, each token of a prompt,
    and each pair of such a token with one before it in the prompt.

    >>> times = Affine(1.0, each=0.5, cached=0.25, token=0.125)
    >>> times.cells(2), times.mixed(2, 8, [(4, 0)])  # 1 + 2/2 + 8/4, and 4/8
    ([(inf, 2.0, 0.25)], 4.5)
    """

    base: float
    each: float = 0.0
    cached: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def cells(self, sequences: int) -> list[Cell]:
        """One cell."""
        return [(math.inf, self.base + self.each * sequences, self.cached)]

    def mixed(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        """The sum."""
        found = self.base + self.each * sequences + self.cached * cached
        for new, before in chunks:
            found += new * (self.token + self.pair * before)
        return found
