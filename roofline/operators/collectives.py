"""Collectives over a group of devices, as rings and pairwise exchanges, and the message between two pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr, ratio
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Operator):
    """What collectives share: work over `world` devices; `elements` are those of the whole tensor, of which a ring sends
    pieces of
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
        """Members of the group among `together` neighbouring devices."""
        return max(together // self.stride, 1)

    def crossing(self, together: int) -> Expr:
        """A ring enters and leaves a node once. With one ring for each member in the node (NCCL's channels), of which each
        crosses at another one, a member sends one of that many pieces to another node."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce(Collective):
    """All-reduce: sum a tensor over devices, each of which gets the sum.

    Ring all-reduce: a reduce-scatter and an all-gather, each of n - 1 steps that send S/n bytes: 2(n-1)/n S in all.

    Device memory: the tensor is read once and the sum written once. NB: what passes through memory between the steps
    of the ring is not compulsory, and some engines keep it in registers.

    >>> AllReduce(elements=16, world=4).cost()  # 12 sums of a device's share; 2 B*(16 in + 16 out); 2*3/4*32 B sent
    Cost(vector_flops=12, activation_bytes=64, link_bytes=48, messages=6)

    Source: Thakur et al. 2005, section 4.4 (reduce-scatter followed by all-gather).
    """

    kind: ClassVar[str] = "all_reduce"
    record_op: ClassVar[str] = "all_reduce"

    def cost(self) -> Cost:
        """2(n-1)/n of the tensor over the link; in and out once."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=2 * self.elements * self.dtypes.activation.bytes,
            link_bytes=2 * steps * self.piece_bytes,
            messages=2 * steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGather(Collective):
    """All-gather: each device holds a piece of a tensor and gets the whole.

    Ring all-gather of a tensor of `elements`: n - 1 steps that send S/n bytes.

    Device memory: the own piece is read, the whole written.

    >>> AllGather(elements=16, world=4).cost()  # 2 B*(4 in + 16 out); 3/4*32 B sent
    Cost(activation_bytes=40, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.1 (ring).
    """

    kind: ClassVar[str] = "all_gather"
    record_op: ClassVar[str] = "all_gather"

    def cost(self) -> Cost:
        """(n-1)/n of the tensor over the link; a piece in, the whole out."""
        steps = self.world - 1
        return Cost(
            activation_bytes=self.piece_bytes + self.elements * self.dtypes.activation.bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceScatter(Collective):
    """Reduce-scatter: sum a tensor over devices, each of which gets a piece of the sum.

    Ring reduce-scatter of a tensor of `elements`: n - 1 steps that send S/n bytes and add what arrives.

    Device memory: the whole is read, the own piece of the sum written.

    >>> ReduceScatter(elements=16, world=4).cost()  # 3 sums of 4; 2 B*(16 in + 4 out); 3/4*32 B sent
    Cost(vector_flops=12, activation_bytes=40, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.3.
    """

    kind: ClassVar[str] = "reduce_scatter"
    record_op: ClassVar[str] = "reduce_scatter"

    def cost(self) -> Cost:
        """(n-1)/n of the tensor over the link; the whole in, a piece out."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=self.elements * self.dtypes.activation.bytes + self.piece_bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAll(Collective):
    """All-to-all: each device sends a different piece of what it holds to every other.

    Pairwise exchange: of the `elements` that a device holds, (n-1)/n leave it in n - 1 messages.

    Device memory: what is held is read once, what arrives is written once. NB: even pieces; routing that is not even
    makes the busiest device slower.

    >>> AllToAll(elements=16, world=4).cost()  # 2 B*(16 in + 16 out); 3/4*32 B sent
    Cost(activation_bytes=64, link_bytes=24, messages=3)

    Source: Thakur et al. 2005, section 4.2 (pairwise exchange for long messages).
    """

    kind: ClassVar[str] = "all_to_all"
    record_op: ClassVar[str] = "all_to_all"

    def crossing(self, together: int) -> Expr:
        """Of the n - 1 others, all but the members of a node are in other nodes."""
        return (self.world - self.members(together)) / (self.world - 1)

    def cost(self) -> Cost:
        """(n-1)/n of what a device holds over the link; in and out once."""
        steps = self.world - 1
        return Cost(
            activation_bytes=2 * self.elements * self.dtypes.activation.bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecv(Operator):
    """Send and receive: hand a tensor to the next pipeline stage.

    One message of `elements`, read from memory and sent. NB: the receiver's write is the receiver's cost.

    >>> SendRecv(elements=16).cost()  # 2 B*16 read and sent
    Cost(activation_bytes=32, link_bytes=32, messages=1)

    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2 (pipeline parallelism).
    """

    kind: ClassVar[str] = "send_recv"
    record_op: ClassVar[str] = "p2p"
    elements: Expr
    span: int = 2
    """Devices that the link has to join: neighbouring stages may be a whole tensor-parallel group apart."""

    def peers(self, together: int) -> int:
        """Two: without a switch a message has the links to one device alone."""
        return min(2, together)

    def cost(self) -> Cost:
        """The tensor once over memory and once over the link."""
        size = self.elements * self.dtypes.activation.bytes
        return Cost(activation_bytes=size, link_bytes=size, messages=1)
