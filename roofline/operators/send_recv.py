"""Send and receive: hand a tensor to the next pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecv(Operator):
    """One message of `elements`, read from memory and sent. NB: the receiver's write is the receiver's cost.

    >>> SendRecv(elements=16).cost()  # 2 B*16 read and sent
    Cost(activation_bytes=32, link_bytes=32, messages=1)

    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2 (pipeline parallelism).
    """

    kind: ClassVar[str] = "send_recv"
    elements: Expr
    span: int = 2
    """Devices that the link has to join: neighbouring stages may be a whole tensor-parallel group apart."""

    def peers(self, together: int) -> int:
        """Two: without a switch a message has the lanes to one device alone."""
        return min(2, together)

    @property
    def measured_as(self) -> str:
        """As records call it."""
        return "p2p"

    def cost(self) -> Cost:
        """The tensor once over memory and once over the link."""
        size = self.elements * self.dtypes.activation.bytes
        return Cost(activation_bytes=size, link_bytes=size, messages=1)
