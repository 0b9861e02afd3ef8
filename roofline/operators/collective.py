"""What the collectives share: a tensor, a group of devices, and the ring."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Expr, ratio
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Operator):
    """A collective over `world` devices; `elements` are those of the whole tensor, of which a ring sends pieces of
    elements/world.

    Source of all the ring formulas: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations
    in MPICH", IJHPCA 19(1), 2005, sections 3 and 4; Patarasuk and Yuan, JPDC 69(2), 2009 (bandwidth-optimal).
    """

    elements: Expr
    world: Expr
    stride: int = 1
    """Members are every so-many-th device: between them are those of another group."""

    @property
    def span(self) -> Expr:
        """Devices that the link has to join."""
        return self.world * self.stride

    def members(self, together: int) -> int:
        """Members of the group among so many neighbouring devices."""
        return max(together // self.stride, 1)

    def crossing(self, together: int) -> Expr:
        """A ring enters and leaves a node once. With one ring for each member in the node (NCCL's channels), of which each
        crosses at another one, a member sends one of so many pieces to another node."""
        return 1 / self.members(together)

    def peers(self, together: int) -> int:
        """The members in a node; without others there, nothing is sent inside it."""
        return max(self.members(together), 2)

    @property
    def piece(self) -> Expr:
        """Elements of one n-th of the tensor."""
        return ratio(self.elements, self.world)

    @property
    def piece_bytes(self) -> Expr:
        """Bytes of one n-th of the tensor."""
        return self.piece * self.dtypes.activation.bytes
