"""All-reduce: sum a tensor over devices, each of which gets the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.operators.collective import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce(Collective):
    """Ring all-reduce: a reduce-scatter and an all-gather, each of n - 1 steps that send S/n bytes: 2(n-1)/n S in all.

    Device memory: the tensor is read once and the sum written once. NB: what passes through memory between the steps
    of the ring is not compulsory, and some engines keep it in registers.

    >>> AllReduce(elements=16, world=4).cost()  # 12 sums of a device's share; 2 B*(16 in + 16 out); 2*3/4*32 B sent
    Cost(vector_flops=12, activation_bytes=64, link_bytes=48, messages=6)

    Source: Thakur et al. 2005, section 4.4 (reduce-scatter followed by all-gather).
    """

    kind: ClassVar[str] = "all_reduce"

    @property
    def measured_as(self) -> str:
        """As records call it."""
        return "all_reduce"

    def cost(self) -> Cost:
        """2(n-1)/n of the tensor over the link; in and out once."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=2 * self.elements * self.dtypes.activation.bytes,
            link_bytes=2 * steps * self.piece_bytes,
            messages=2 * steps,
        )
