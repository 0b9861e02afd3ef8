"""Swap: blocks to the host when the sequence is evicted, and back when it goes on.

One direction takes n a + D/B on each device (`copies.py`), all devices at the same time; the slowest stage decides. Blocks that
are gathered first (`coalesced`) cross in one call, after a pass over device memory that reads and writes them once.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Expr, maximum
from roofline.serving.preemption.copies import Copies, Curve, Ways
from roofline.serving.preemption.kept import Kept


@dataclass(frozen=True, slots=True)
class Swap:
    """Copies of a sequence out of the devices of a replica, and back.

    `stages` are what a device of each (differing) pipeline stage holds; `bandwidth` is that of device memory, bytes/s.
    """

    stages: tuple[Kept, ...]
    copies: Copies
    coalesced: bool
    bandwidth: float
    share: int = 1
    """Devices that copy over one link at the same time; the curves are those that each of them has."""

    def seconds(self, tokens: Expr, prefix: int = 0, ways: Ways | None = None) -> tuple[Expr, Expr]:
        """Out and back, of `tokens` tokens after `prefix` ones that stay; `ways`: by other curves. Counts may be arrays."""
        used = ways or self.copies.ways
        return self._way(used.out, tokens, prefix), self._way(used.back, tokens, prefix)

    def both(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Out and back, one after the other."""
        out, back = self.seconds(tokens, prefix)
        return out + back

    def bound(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Out and back at the link's own rate, without calls: no copy is faster."""
        return 2 * self.bytes(tokens, prefix) / self.copies.peak

    def bytes(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Bytes of the fullest device, one way."""
        found = self.stages[0].bytes(tokens, prefix)
        for stage in self.stages[1:]:
            found = maximum(found, stage.bytes(tokens, prefix))
        return found

    def calls(self, stage: Kept, tokens: Expr, prefix: int = 0) -> Expr:
        """Calls of a device, one way."""
        calls = stage.calls(tokens, prefix)
        return calls / maximum(calls, 1) if self.coalesced else calls  # one, or none where there is nothing

    def gather(self, size: Expr) -> Expr:
        """Seconds in which blocks are brought together, or put back, one way."""
        return 2 * size / self.bandwidth if self.coalesced else 0.0

    def beside(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Seconds of device memory that copies take from kernels beside which they run: every byte crosses it once a way,
        and twice more where blocks are gathered."""
        size = self.bytes(tokens, prefix)
        return 2 * (size / self.bandwidth + self.gather(size))

    def _way(self, curve: Curve, tokens: Expr, prefix: int) -> Expr:
        found: Expr | None = None
        for stage in self.stages:
            size = stage.bytes(tokens, prefix)
            took = curve.seconds(size, self.calls(stage, tokens, prefix)) + self.gather(size)
            found = took if found is None else maximum(found, took)
        return found
