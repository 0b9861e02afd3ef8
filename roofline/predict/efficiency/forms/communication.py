"""Communication: collectives, messages to a neighbour, copies to and from the host.

A collective has one algorithm for short messages, another for long ones, and a switch between them.

Short messages are sent at once, with flags beside the data, at a fraction of the link's bandwidth (`near`). Pieces that fill
more than one block of threads cost a further share of the latency (`grow`). An all-reduce has one phase, in which every device
reads all the others' tensors, or two, between which they wait for each other (`phase`), whichever is faster. Long messages go
round in chunks: with chunks of the best size a pipeline with the latency a (`setup`) and the transfer time x takes
a + x + 2 (a x)^0.5, for the longer a message, the larger the chunks, and the less often their latency is paid.

Between nodes no kernel was measured but DeepEP's, of which there are tables: those of low latency, by which engines send tokens
to experts in decode, take a latency and the bytes of a copy for each expert; normal ones, for prompts, begin later, and send a
token once to a node. All-reduces take what NCCL's own tuning gives the fastest of its trees and rings, other collectives at
least the latency of its rings, and no tensor is sent to all at once, which engines do over NVLink alone.

What the world enters by: messages of a ring, their bytes, sums in the switch, and on PCIe the devices that share the way
through the host (`shared`). Sums in the switch take fewer bytes the more devices there are, and a longer pipeline where tensors
are copied to memory that the switch sees (`sums`): a ring is as fast up to four devices, and for shorter messages beyond.
Kernels that read from their peers need NVLink between all, so that `phase` says nothing on PCIe, `shared` nothing elsewhere;
the tensor up to which engines use them (`switch`) does not depend on the world.

Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (rings, bytes and messages); Sanders, Speck, Träff, Parallel Computing
35(12), 2009, section 2 (pipelines with the best chunk); `csrc/custom_all_reduce.cuh` of vLLM (one and two phases);
`src/graph/tuning.cc` of NCCL (sums in the switch, latencies between nodes); DeepEP, `docs/legacy.md` (low latency).
"""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InputError
from roofline.numeric import Expr, ceil_div, log2, maximum, minimum
from roofline.operators.collectives import AllReduce, AllToAll, Collective, SendRecv
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Operators, Parameter, Values
from roofline.specs.hardware import Connection

# How fast a switch that adds what passes it is beside plain links, by the chips that it joins (NCCL's nvlsEfficiency).
SUMS = {"hopper": 0.85, "blackwell": 0.74}
# Bytes of a piece that one block of threads sends at once: 512 threads of 8 (NCCL's low-latency protocol).
SLOT = 4096
# NCCL's latencies of short messages (LL protocol), s: of a call, of a hop over NVLink beside a network, of a hop over that.
TREE, RING = (4.4e-6, 1.8 * 0.52e-6, 5.0e-6), (3.6e-6, 1.8 * 0.47e-6, 2.7e-6)
# Its trees with 120 of 128 bytes for data (LL128), and its rings for long tensors, likewise; rings over nodes keep a plateau of
# 1.4 times their latency. What trees carry of a tensor over two nodes, and over more, in bytes/s: half of their bus bandwidth,
# of which 0.6 as it corrects medium sizes.
TREE_WIDE, RING_LONG, PLATEAU = (4.4e-6, 1.2e-6, 8.5e-6), (8.4e-6, 3.4e-6, 9.6e-6), 1.4
TREE_RATE = (0.5 * 0.6 * 110e9, 0.5 * 0.6 * 80e9)
NARROW, WIDE = 1 / 3.8, 0.915
# Where nothing is summed twice, the piece that a device itself is to have: read, put beside or added to what arrives, which is
# read too, and written.
PASSES = 3
# DeepEP's normal kernels over the network, with which ranks tell each other first what they will send: of a call, and of each
# doubling of nodes (s), beside the rest. With it calls of one token on H100 take 73 us over two nodes, 106 over four, 140 over
# eight; AIConfigurator measured 58 and 84 (dispatch and combine), 88 and 124, 136 and 140.
NORMAL = (30e-6, 31e-6)
# DeepEP's low-latency kernels over the network: of a call (s), and the share of the network's bandwidth. They give the
# latencies of its table (128 tokens, EP16 to EP256, both ways) within 7 %.
LOW_LATENCY, STRAIGHT = 32e-6, 0.88


def _in_switch(operator: AllReduce, chip: Chip, joined: Connection) -> Expr:
    """Transfer time of an all-reduce whose sums a switch makes, as a share of a ring's.

    Each device sends its tensor once and gets its piece of the sum, which it sends to all: S + S/n instead of 2 (n-1)/n S. Of
    floats, inside a node, as soon as that is faster; else 1.

    >>> from roofline.specs.library import load_hardware
    >>> from roofline.predict.efficiency.form import chip
    >>> h100 = chip(load_hardware("h100-sxm")[0])
    >>> shares = [_in_switch(AllReduce(elements=8, world=n), h100, h100.link(n)) for n in (2, 4, 5, 6, 7, 8)]
    >>> [round(1 / share, 3) for share in shares]  # 2*0.85*(n-1)/(n+1)
    [1.0, 1.02, 1.133, 1.214, 1.275, 1.322]

    Measured on 8 H100: 1.0, 1.0, 1.14, 1.20, 1.25, 1.30 times the bus bandwidth of rings (https://github.com/NVIDIA/nccl/issues/1455).
    """
    inside = joined.inside
    if chip.architecture not in SUMS or operator.dtypes.activation.name == "int8":
        return 1
    if joined.network is not None or inside is None or inside.per_peer is not None or not inside.name.startswith("NVLink"):
        return 1
    return minimum(1, (operator.world + 1) / (2 * (operator.world - 1)) / SUMS[chip.architecture])


def network_latency(operator: Collective, joined: Connection) -> Expr:
    """Seconds of a collective without bytes over nodes: up and down a chain in each node and a tree of nodes, or once round.

    An all-to-all, whose messages do not wait for each other, has no more than was measured.

    >>> from roofline.specs.hardware import Connection, Link
    >>> two = Connection(inside=None, together=8, network=Link.__new__(Link))
    >>> round(network_latency(AllReduce(elements=1, world=16), two) * 1e6, 1)  # 4.4 + 2*(7*1.8*0.52 + 5)
    27.5

    Source: NCCL, src/graph/tuning.cc, ncclTopoTuneModel (commit 01afd20).
    """
    if isinstance(operator, AllToAll):
        return 0.0
    members = operator.members(joined.together)
    nodes = ceil_div(operator.world, members)
    if isinstance(operator, AllReduce):
        return TREE[0] + 2 * ((members - 1) * TREE[1] + log2(nodes) * TREE[2])
    return RING[0] + (operator.world - nodes) * RING[1] + (nodes - 1) * RING[2]


def tree_seconds(operator: AllReduce, joined: Connection) -> Expr:
    """Seconds of an all-reduce over nodes by the faster of NCCL's two trees for short and medium tensors.

    A tree's latency, and the tensor at a share of its rate: 1/3.8 with flags beside each word (LL), 0.915 with 120 of 128 bytes
    for data (LL128), of at most 0.9 of what the nodes' networks give together.

    >>> from roofline.specs.library import load_hardware
    >>> two = load_hardware("dgx-h100")[0].connection(16)
    >>> sizes = (7168, 8 * 7168, 64 * 7168)  # 27.5 + 14 kB/8.7 GB/s; 27.5 + 115 kB/8.7 GB/s; 38.2 + 918 kB/30.2 GB/s
    >>> [round(tree_seconds(AllReduce(elements=size, world=16), two) * 1e6, 1) for size in sizes]
    [29.2, 40.7, 68.6]

    Source: NCCL, src/graph/tuning.cc, ncclTopoTuneModel and treeCorrectionFactor (commit 01afd20).
    """
    assert joined.network is not None  # noqa: S101 - narrows the type
    members = operator.members(joined.together)
    nodes = ceil_div(operator.world, members)
    size = operator.elements * operator.dtypes.activation.bytes
    most = TREE_RATE[0] + (TREE_RATE[1] - TREE_RATE[0]) * (nodes > 2)
    rate = minimum(most, 0.5 * 0.6 * 0.9 * members * joined.network.per_direction.value)
    wide = TREE_WIDE[0] + 2 * ((members - 1) * TREE_WIDE[1] + log2(nodes) * TREE_WIDE[2])
    return minimum(network_latency(operator, joined) + size / (NARROW * rate), wide + size / (WIDE * rate))


def _long_ring(operator: AllReduce, joined: Connection) -> Expr:
    """Seconds of latency of a long all-reduce over nodes: NCCL's rings (Simple)."""
    nodes = ceil_div(operator.world, operator.members(joined.together))
    return PLATEAU * (RING_LONG[0] + 2 * (operator.world - nodes) * RING_LONG[1] + 2 * (nodes - 1) * RING_LONG[2])


def _announced(operator: Collective, joined: Connection) -> Expr:
    """Seconds in which ranks of several nodes tell each other what tokens they will send to experts."""
    if joined.network is None or not isinstance(operator, AllToAll) or operator.routing is None:
        return 0.0
    return NORMAL[0] + NORMAL[1] * log2(ceil_div(operator.world, operator.members(joined.together)))


def _pipeline(latency: Expr, transfer: Expr) -> Expr:
    """Seconds of a tensor that is sent in chunks of the best size."""
    return latency + transfer + 2 * (latency * transfer) ** 0.5


def _usual(operator: Collective) -> Collective:
    """The exchange as if no expert had copies: a bound takes the nearest copy, engines deal tokens to all of them."""
    if isinstance(operator, AllToAll) and operator.routing is not None and operator.routing.redundant:
        return replace(operator, routing=replace(operator.routing, redundant=0))
    return operator


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (operator,) = operators.values()
    if not isinstance(operator, Collective):
        msg = f"{operator.kind} is no collective"
        raise InputError(msg)
    cost = operator.cost()
    joined = chip.link(operator.span)
    if joined is None:
        return {"total": 0.0}
    crossing = cost.link_bytes * _usual(operator).crossing(joined.together)
    link = joined.seconds(cost.link_bytes, crossing, operator.peers(joined.together))
    if joined.over_host:
        link = link * (1 + values["shared"] * (joined.together - 2))
    piece = operator.piece_bytes
    if isinstance(operator, AllToAll) and operator.low_latency and joined.network is not None:
        straight = operator.sent_straight(joined.together) / (STRAIGHT * joined.network.per_direction.value)
        return {"latency": LOW_LATENCY, "link": straight, "total": LOW_LATENCY + straight}
    latency = (values["base"] + values["step"] * cost.messages) * (1 + values["grow"] * piece / (piece + SLOT))
    if joined.network is not None:
        latency = maximum(latency, network_latency(operator, joined))
    short = latency + link / values["near"]
    transfer = link / values["far"]
    size = cost.link_bytes
    if isinstance(operator, AllReduce):
        size = operator.elements * operator.dtypes.activation.bytes
        if joined.network is None and not joined.over_host:
            direct = link * operator.world / 2  # (n-1) S instead of 2 (n-1)/n S
            short = minimum(latency + direct / values["near"], short + values["phase"])
        if joined.network is not None:
            short = maximum(short, tree_seconds(operator, joined))
            long = _long_ring(operator, joined) + transfer
            return {"latency": latency, "link": link, "short": short, "long": long, "total": minimum(short, long)}
    else:
        transfer = transfer + PASSES * piece / chip.bandwidth
    setup = values["setup"] if joined.network is None else maximum(values["setup"], network_latency(operator, joined))
    long = _pipeline(setup, transfer)
    if isinstance(operator, AllReduce):
        long = minimum(long, _pipeline(values["sums"] * setup, transfer * _in_switch(operator, chip, joined)))
    at = size / values["switch"]
    share = 1 - 1 / (1 + at * at * at * at)
    announced = _announced(operator, joined)
    return {
        "latency": latency + announced,
        "link": link,
        "short": short,
        "long": long,
        "total": short * (1 - share) + long * share + announced,
    }


_BASE = Parameter("base", "s", "time of an empty call", 4e-6, 1e-7, 1e-3)
_STEP = Parameter("step", "s", "of a message of the ring, short", 3e-7, 1e-8, 1e-4, neutral=0)
_GROW = Parameter("grow", "1", "more latency of large pieces", 0.2, 1e-3, 2.0, neutral=0)
_PHASE = Parameter("phase", "s", "synchronisation of two phases", 4e-6, 1e-8, 1e-3, neutral=0)
_NEAR = Parameter("near", "1", "fraction of the link's bandwidth, short", 0.6, 0.01, 1.0)
_SETUP = Parameter("setup", "s", "latency of a pipeline of chunks", 1e-5, 1e-7, 1e-3, neutral=0)
_FAR = Parameter("far", "1", "fraction of the link's bandwidth, long", 0.75, 0.01, 1.0)
_SENT = tuple(2.5e5 * 2**doublings for doublings in range(10))
_SWITCH = Parameter("switch", "byte", "sent bytes above which messages are long", 4e6, 2.5e5, 1.28e8, choices=_SENT)
_SIZES = tuple(2**0.5 * 2**18 * 2**doublings for doublings in range(10))  # engines' limits are powers of two: between them
_LIMIT = Parameter("switch", "byte", "bytes of the tensor above which messages are long", _SIZES[3], 2.5e5, 3e8, choices=_SIZES)
_SUMS = Parameter(
    "sums", "1", "latency of a pipeline through the switch that adds, of a ring's", 2, 0.9, 4, (1, 2, 3), neutral=1
)
_SHARED = Parameter("shared", "1", "of the host's link, by each device beyond two", 0.5, 1e-3, 10.0, neutral=0)

ALL_REDUCE = KernelForm(
    name="all_reduce",
    ops=("all_reduce",),
    about="an all-reduce: one or two phases for short messages, for long ones a pipeline of chunks, or sums in the switch",
    parameters=(_BASE, _STEP, _GROW, _PHASE, _NEAR, _SETUP, _SUMS, _FAR, _LIMIT, _SHARED),
    terms=_terms,
    overlapping=("latency", "link", "short", "long"),
)

COLLECTIVE = KernelForm(
    name="collective",
    ops=("all_gather", "reduce_scatter", "all_to_all"),
    about="a collective of one phase: at once for short messages, a pipeline of chunks for long ones",
    parameters=(_BASE, _STEP, _GROW, _NEAR, _SETUP, _FAR, _SWITCH, _SHARED),
    terms=_terms,
    overlapping=("latency", "link", "short", "long"),
)


def _message_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    """One message to a neighbour: a launch, and its bytes at a fraction of the link's rate."""
    (operator,) = operators.values()
    if not isinstance(operator, SendRecv):
        msg = f"{operator.kind} is no message to a neighbour"
        raise InputError(msg)
    joined = chip.link(operator.span)
    if joined is None:
        return {"total": 0.0}
    size = operator.cost().link_bytes
    crossing = size * operator.crossing(joined.together)
    link = joined.seconds(size, crossing, operator.peers(joined.together)) / values["link"]
    return {"launch": values["launch"], "link": link, "total": values["launch"] + link}


P2P = KernelForm(
    name="p2p",
    ops=("p2p",),
    about="one message to a neighbour: a launch, and its bytes",
    parameters=(
        Parameter("launch", "s", "time of an empty message", 8e-6, 1e-7, 1e-3),
        Parameter("link", "1", "fraction of the link's bandwidth", 0.7, 0.01, 1.0),
    ),
    terms=_message_terms,
)


def _copy_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    """Copies between device memory and the host: a latency a call, and the link at a fraction of its rate.

    Memory of the host that is not page-locked takes a detour through a buffer that is: a family of its own, with a lower
    fraction.
    """
    (operator,) = operators.values()
    cost = operator.cost()
    calls = values["call"] * cost.messages
    link = chip.hardware.to_host().seconds(cost.link_bytes, 0, 2) / values["link"]
    return {"calls": calls, "link": link, "total": calls + link}


HOST_COPY = KernelForm(
    name="host_copy",
    ops=("copy_h2d", "copy_d2h"),
    about="a copy over the link to the host: a latency for each of its calls, and its bytes",
    parameters=(
        Parameter("call", "s", "latency of a call", 8e-6, 1e-7, 1e-3),
        Parameter("link", "1", "fraction of the link's bandwidth", 0.8, 0.01, 1.0),
    ),
    terms=_copy_terms,
)
