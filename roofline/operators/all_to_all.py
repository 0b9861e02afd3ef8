"""All-to-all: each device sends a different piece of what it holds to every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.collective import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAll(Collective):
    """Pairwise exchange: of the `elements` that a device holds, (n-1)/n leave it in n - 1 messages.

    Device memory: what is held is read once, what arrives is written once. NB: even pieces; routing that is not even
    makes the busiest device slower.

    >>> AllToAll(elements=16, world=4).cost()  # 2 B*(16 in + 16 out); 3/4*32 B sent
    Cost(activation_bytes=64, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.2 (pairwise exchange for long messages).
    """

    kind: ClassVar[str] = "all_to_all"

    def crossing(self, together: int) -> Expr:
        """Of the n - 1 others, all but the members of a node are in other nodes."""
        return (self.world - self.members(together)) / (self.world - 1)

    @property
    def measured_as(self) -> str:
        """As records call it."""
        return "all_to_all"

    def cost(self) -> Cost:
        """(n-1)/n of what a device holds over the link; in and out once."""
        steps = self.world - 1
        return Cost(
            activation_bytes=2 * self.elements * self.dtypes.activation.bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )
