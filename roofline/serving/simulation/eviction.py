"""What becomes of the cache of a request that is preempted: dropped and computed again, or moved to the host and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from roofline.specs.library import Input

Mode = Literal["recompute", "swap", "cheaper"]
MODES: tuple[Mode, ...] = ("recompute", "swap", "cheaper")


class Eviction(Protocol):
    """Seconds that a preemption costs."""

    def recompute_seconds(self, tokens: int) -> float:
        """To compute so many cached tokens again."""

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """To move so many cached tokens to the host, and back."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """Drops the cache always: nothing has to be known of the link to the host."""

    def recompute_seconds(self, tokens: int) -> float:
        """Paid in the steps that compute the tokens again."""
        return 0.0

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """There is no way to the host."""
        raise AssertionError(tokens)


@dataclass(frozen=True, slots=True)
class Linear:
    """Seconds by the token: of computing it again, and of moving it one way, beside those of each copy."""

    recompute: float
    move: float
    copy: float = 0.0

    def recompute_seconds(self, tokens: int) -> float:
        """In proportion to the tokens."""
        return self.recompute * tokens

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """As long out as in."""
        way = self.copy + self.move * tokens
        return way, way


@dataclass(slots=True)
class Preempting:
    """The choice, and the room that the host has.

    `swap`: always moved, as long as there is room on the host, else dropped. `cheaper`: whatever costs fewer seconds, out and
    in against computing again. A prompt that is not yet computed whole is always dropped.
    """

    mode: Mode = "recompute"
    costs: Eviction = Recompute()
    host_tokens: float = float("inf")
    """Cached tokens that the host holds."""
    inputs: tuple[Input, ...] = ()
    """Files that the costs are from."""

    def swaps(self, tokens: int, held: int) -> bool:
        """Whether a cache of so many tokens is moved, with so many on the host."""
        if self.mode == "recompute" or held + tokens > self.host_tokens:
            return False
        return self.mode == "swap" or sum(self.costs.swap_seconds(tokens)) < self.costs.recompute_seconds(tokens)
