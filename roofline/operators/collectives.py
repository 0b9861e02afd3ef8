"""Collectives over a group of devices, as rings and pairwise exchanges, and the message between two pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr, ceil_div, ratio
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRouting:
    """Where the experts of one token are: `top_k` of them, on equal parts (devices, nodes) of a group that shares the experts.

    With `n_group` groups of experts, whole ones to a part or whole parts to one, a token's experts are in `topk_group` of them.
    `redundant` slots have copies of some of the `experts`. Every choice is as likely as another.
    """

    top_k: Expr
    n_group: int = 1
    topk_group: int = 1
    experts: Expr = 1
    redundant: int = 0

    @property
    def limited(self) -> bool:
        """Whether a token's experts are in some of the groups only."""
        return self.topk_group < self.n_group

    def destinations(self, parts: Expr) -> Expr:
        """The expected number of different parts that have one of a token's experts, if there are `parts`.

        Of D parts a token whose k experts are anywhere meets D (1 - (1 - 1/D)^k). Where a group is on several parts, the
        topk_group chosen ones are on D' = D topk_group/n_group, of which it meets D' (1 - (1 - 1/D')^k). Where q groups are on
        a part, j of them are chosen with the chances of the hypergeometric distribution, and an expert is on another part with
        probability 1 - j/topk_group.

        NB: k choices with replacement: a few percent fewer than of k different experts. Parts that do not divide the groups
        evenly count as the next fewer that do. Copies of experts are not counted: one of them is enough.

        >>> ExpertRouting(top_k=2).destinations(2)  # 2(1 - 1/4)
        1.5
        >>> limited = ExpertRouting(top_k=8, n_group=8, topk_group=4)  # DeepSeek-V3
        >>> [round(limited.destinations(nodes), 3) for nodes in (1, 2, 4, 8, 16)]  # of 8: 4(1 - (3/4)^8), at most 4
        [1.0, 1.922, 2.911, 3.6, 5.251]
        """
        if isinstance(parts, int) and parts == 1:
            return 1.0
        if self.redundant and isinstance(self.experts, int):
            parts = max(parts * self.experts // (self.experts + self.redundant), 1)
        if not self.limited:
            return parts * (1 - (1 - 1 / parts) ** self.top_k)
        if parts >= self.n_group:
            met = parts // self.n_group * self.topk_group
            return met * (1 - (1 - 1 / met) ** self.top_k)
        while self.n_group % parts:
            parts -= 1
        inside = self.n_group // parts
        missed: Expr = 0.0
        for chosen in range(min(inside, self.topk_group) + 1):
            ways = _choose(inside, chosen) * _choose(self.n_group - inside, self.topk_group - chosen)
            missed = missed + ways * (1 - chosen / self.topk_group) ** self.top_k
        return parts * (1 - missed / _choose(self.n_group, self.topk_group))


def _choose(n: int, k: int) -> int:
    """The number of ways to choose k of n."""
    ways = 1
    for index in range(k):
        ways = ways * (n - index) // (index + 1)
    return ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Operator):
    """A collective over `world` devices. `elements` are those of the whole tensor; a ring sends pieces of elements/world.

    Source of all the ring formulas: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations
    in MPICH", IJHPCA 19(1), 2005, sections 3 and 4; Patarasuk and Yuan, JPDC 69(2), 2009 (bandwidth-optimal).
    """

    elements: Expr
    world: Expr
    stride: int = 1
    """Members are every so-many-th device: between them are those of another group."""

    @property
    def span(self) -> Expr:
        """Devices that the link has to join: members of the group, and those between them."""
        return self.world * self.stride

    def members(self, together: int) -> int:
        """The number of the group's members among `together` neighbouring devices, at least 1."""
        return max(together // self.stride, 1)

    def crossing(self, together: int) -> Expr:
        """The share of a member's link bytes that leave the node: one over the members in the node.

        A ring enters and leaves a node once. With one ring for each member in the node (NCCL's channels), of which each
        crosses at another one, a member sends one of that many pieces to another node.
        """
        return 1 / self.members(together)

    def peers(self, together: int) -> int:
        """The members in a node, at least 2: without others there, nothing is sent inside it."""
        return max(self.members(together), 2)

    @property
    def piece(self) -> Expr:
        """Elements of one piece: the tensor over the number of devices."""
        return ratio(self.elements, self.world)

    @property
    def piece_bytes(self) -> Expr:
        """Bytes of one piece, in the format of activations."""
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

    @property
    def least_link_share(self) -> Expr:
        """n/(2(n-1)): where switches add (NVLink SHARP), a device sends its tensor once and receives the sum.

        Source: Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016.
        """
        return ratio(self.world, 2 * (self.world - 1))

    def cost(self) -> Cost:
        """2(n-1)/n of the tensor over the link in 2(n-1) messages; the tensor in and out of memory once."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=2 * self.elements * self.dtypes.activation.bytes,
            link_bytes=2 * steps * self.piece_bytes,
            messages=2 * steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange(Collective):
    """A collective that may move tokens to their experts, or back (`routing`: where these are)."""

    routing: ExpertRouting | None = None

    def _across(self, together: int) -> Expr:
        """Other nodes that have one of a token's experts."""
        members = self.members(together)
        if members >= self.world or self.routing is None:
            return 0.0
        return self.routing.destinations(ceil_div(self.world, members)) * (1 - members / self.world)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WholeTensor(_Exchange):
    """A collective that moves a whole tensor, also where it is of tokens (`routing`) of which a device needs those alone that
    it has experts for: these a floor has, once for each such device, and between nodes once for each such node."""

    @property
    def least_link_share(self) -> Expr:
        """Devices that have one of a token's experts, of all."""
        return 1 if self.routing is None else self.routing.destinations(self.world) / self.world

    def least_crossing(self, together: int) -> Expr:
        """The share that leaves the node where a token is sent once to each device, and between nodes once to each node."""
        if self.routing is None:
            return self.crossing(together)
        return self._across(together) / (self.routing.destinations(self.world) * (self.world - 1) / self.world)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGather(_WholeTensor):
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
        """(n-1)/n of the tensor over the link in n-1 messages; a piece in, the whole out."""
        steps = self.world - 1
        return Cost(
            activation_bytes=self.piece_bytes + self.elements * self.dtypes.activation.bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceScatter(_WholeTensor):
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
        """(n-1)/n of the tensor over the link in n-1 messages; the whole in, a piece out."""
        steps = self.world - 1
        return Cost(
            vector_flops=steps * self.piece,
            activation_bytes=self.elements * self.dtypes.activation.bytes + self.piece_bytes,
            link_bytes=steps * self.piece_bytes,
            messages=steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAll(_Exchange):
    """All-to-all: each device sends a different piece of what it holds to every other.

    Pairwise exchange: of the `elements` that a device holds, (n-1)/n leave it in n - 1 messages.

    Device memory: what is held is read once, what arrives is written once. NB: even pieces; routing that is not even
    makes the busiest device slower.

    Tokens on the way to their experts, or back (`routing`): the elements are those of `copies` copies of each token. Where
    routing is limited to groups of experts, a token crosses to another node once, for all devices there that have one of its
    experts; else each copy goes to its device. A floor has the first of both, and no device is sent a token twice.

    >>> AllToAll(elements=16, world=4).cost()  # 2 B*(16 in + 16 out); 3/4*32 B sent
    Cost(activation_bytes=64, link_bytes=24, messages=3)
    >>> eight = AllToAll(elements=16, world=16, copies=2, routing=ExpertRouting(top_k=2))
    >>> eight.crossing(8), round(eight.least_crossing(8), 3)  # 8 of 15; 1.5/2 nodes of 15/16*1.94 devices
    (0.5333333333333333, 0.413)

    Source: Thakur et al. 2005, section 4.2 (pairwise exchange for long messages); once per node: DeepSeek-V3, arXiv:2412.19437,
    section 3.2.2, and DeepEP, https://github.com/deepseek-ai/DeepEP.
    """

    kind: ClassVar[str] = "all_to_all"
    record_op: ClassVar[str] = "all_to_all"
    copies: Expr | None = None
    """Copies of each token among the elements; None where they are not tokens on the way to experts."""
    low_latency: bool = False
    """Whether engines send tokens with kernels of low latency, as in decode: a copy for each expert, straight to its device.
    Cost and bounds are those of the fewest copies all the same."""

    def crossing(self, together: int) -> Expr:
        """The share of the n - 1 other members that are in other nodes, or that of tokens that are sent once to a node."""
        if self.routing is not None and self.routing.limited:
            return self._across(together) / self._leaving(self.copies)
        return (self.world - self.members(together)) / (self.world - 1)

    @property
    def least_link_share(self) -> Expr:
        """Different devices that have one of a token's experts, of the copies."""
        return 1 if self.routing is None else self.routing.destinations(self.world) / self.copies

    def sent_straight(self, together: int) -> Expr:
        """Bytes that leave a device's node where each of its tokens is sent once for each of its experts.

        NB: scales of fp8 tokens, 3 % more, are not counted.

        >>> routing = ExpertRouting(top_k=8, n_group=8, topk_group=4)
        >>> AllToAll(elements=128 * 6 * 7168, world=16, copies=6, routing=routing).sent_straight(8)  # 128*8*7168*2 B, half
        7340032.0

        Source: DeepEP, https://github.com/deepseek-ai/DeepEP, docs/legacy.md, "Low-latency kernels with pure RDMA".
        """
        top_k = self.copies if self.routing is None else self.routing.top_k
        each = self.elements * self.dtypes.activation.bytes * (1 if self.copies is None else top_k / self.copies)
        return each * (1 - self.members(together) / self.world)

    def least_crossing(self, together: int) -> Expr:
        """The share that leaves the node where a token is sent once to each device, and between nodes once to each node."""
        if self.routing is None:
            return self.crossing(together)
        return self._across(together) / self._leaving(self.routing.destinations(self.world))

    def _leaving(self, copies: Expr) -> Expr:
        """Of copies those that leave the device."""
        return copies * (self.world - 1) / self.world

    def cost(self) -> Cost:
        """(n-1)/n of what a device holds over the link in n-1 messages; in and out of memory once."""
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
        """At most 2: without a switch a message has only the links to one device."""
        return min(2, together)

    def cost(self) -> Cost:
        """The tensor read from memory and sent over the link once, as one message."""
        size = self.elements * self.dtypes.activation.bytes
        return Cost(activation_bytes=size, link_bytes=size, messages=1)
