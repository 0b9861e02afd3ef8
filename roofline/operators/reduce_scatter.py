"""Reduce-scatter: sum a tensor over devices, each of which gets a piece of the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.operators.collective import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceScatter(Collective):
    """Ring reduce-scatter of a tensor of `elements`: n - 1 steps that send S/n bytes and add what arrives.

    Device memory: the whole is read, the own piece of the sum written.

    >>> ReduceScatter(elements=16, world=4).cost()  # 3 sums of 4; 2 B*(16 in + 4 out); 3/4*32 B sent
    Cost(vector_flops=12, activation_bytes=40, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.3.
    """

    kind: ClassVar[str] = "reduce_scatter"

    @property
    def measured_as(self) -> str:
        """As records call it."""
        return "reduce_scatter"

    def cost(self) -> Cost:
        """(n-1)/n of the tensor over the link; the whole in, a piece out."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=self.elements * self.dtypes.activation.bytes + self.piece_bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )
