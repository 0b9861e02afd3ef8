"""All-gather: each device holds a piece of a tensor and gets the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.operators.collective import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGather(Collective):
    """Ring all-gather of a tensor of `elements`: n - 1 steps that send S/n bytes.

    Device memory: the own piece is read, the whole written.

    >>> AllGather(elements=16, world=4).cost()  # 2 B*(4 in + 16 out); 3/4*32 B sent
    Cost(activation_bytes=40, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.1 (ring).
    """

    kind: ClassVar[str] = "all_gather"

    @property
    def measured_as(self) -> str:
        """As records call it."""
        return "all_gather"

    def cost(self) -> Cost:
        """(n-1)/n of the tensor over the link; a piece in, the whole out."""
        steps = self.world - 1
        return Cost(
            activation_bytes=self.piece_bytes + self.elements * self.dtypes.activation.bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )
