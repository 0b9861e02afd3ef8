"""Collectives: one algorithm for short messages, another for long ones, and a switch between them.

Short messages are sent at once, with flags beside the data, at a fraction of the link's bandwidth (`near`). Pieces that fill
more than one block of threads cost a further share of the latency (`grow`). An all-reduce has one phase, in which every device
reads all the others' tensors, or two, between which they wait for each other (`phase`), whichever is faster. Long messages go
round in chunks: with chunks of the best size a pipeline with the latency a (`setup`) and the transfer time x takes
a + x + 2 (a x)^0.5, for the longer a message, the larger the chunks, and the less often their latency is paid.

What the world enters by: messages of a ring, their bytes, and on PCIe the devices that share the way through the host
(`shared`). Kernels of engines that read from their peers need NVLink between all, so that `phase` says nothing on PCIe, and
`shared` nothing elsewhere.

Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (rings, bytes and messages); Sanders, Speck, Träff, Parallel Computing
35(12), 2009, section 2 (pipelines with the best chunk); `csrc/custom_all_reduce.cuh` of vLLM (one and two phases);
`src/graph/tuning.cc` of NCCL (sums in the switch).
"""

from __future__ import annotations

from roofline.errors import InputError
from roofline.numeric import Expr, minimum
from roofline.operators.all_reduce import AllReduce
from roofline.operators.collective import Collective
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values
from roofline.specs.hardware import Connection

# How fast a switch that adds what passes it is beside plain links, by the chips that it joins (NCCL's nvlsEfficiency).
SUMS = {"hopper": 0.85, "blackwell": 0.74}
# Bytes of a piece that one block of threads sends at once: 512 threads of 8 (NCCL's low-latency protocol).
SLOT = 4096
# Where nothing is summed twice, the piece that a device itself is to have: read, put beside or added to what arrives, which is
# read too, and written.
PASSES = 3


def _over_host(joined: Connection) -> bool:
    return joined.inside is not None and joined.inside.name.startswith("PCIe")


def _in_switch(operator: AllReduce, chip: Chip, joined: Connection) -> Expr:
    """Time of an all-reduce whose sums a switch makes, of that of a ring: each device sends its tensor once and gets its piece
    of the sum, which it sends to all: S + S/n instead of 2 (n-1)/n S. Of floats, inside a node, as soon as that is faster."""
    inside = joined.inside
    if chip.architecture not in SUMS or operator.dtypes.activation.name == "int8":
        return 1
    if joined.network is not None or inside is None or inside.per_peer is not None or not inside.name.startswith("NVLink"):
        return 1
    return minimum(1, (operator.world + 1) / (2 * (operator.world - 1)) / SUMS[chip.architecture])


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (operator,) = operators.values()
    if not isinstance(operator, Collective):
        msg = f"{operator.kind} is no collective"
        raise InputError(msg)
    cost = operator.cost()
    joined = chip.link(operator.span)
    if joined is None:
        return {"total": 0.0}
    crossing = cost.link_bytes * operator.crossing(joined.together)
    link = joined.seconds(cost.link_bytes, crossing, operator.peers(joined.together))
    if _over_host(joined):
        link = link * (1 + values["shared"] * (joined.together - 2))
    piece = operator.piece_bytes
    latency = (values["base"] + values["step"] * cost.messages) * (1 + values["grow"] * piece / (piece + SLOT))
    short = latency + link / values["near"]
    transfer = link / values["far"]
    if isinstance(operator, AllReduce):
        if not _over_host(joined):
            direct = link * operator.world / 2  # (n-1) S instead of 2 (n-1)/n S
            short = minimum(latency + direct / values["near"], short + values["phase"])
        transfer = transfer * _in_switch(operator, chip, joined)
    else:
        transfer = transfer + PASSES * piece / chip.bandwidth
    long = values["setup"] + transfer + 2 * (values["setup"] * transfer) ** 0.5
    at = cost.link_bytes / values["switch"]
    share = 1 - 1 / (1 + at * at * at * at)
    return {
        "latency": latency,
        "link": link,
        "short": short,
        "long": long,
        "total": short * (1 - share) + long * share,
    }


_BASE = Parameter(name="base", unit="s", meaning="time of an empty call", start=4e-6, low=1e-7, high=1e-3)
_STEP = Parameter(name="step", unit="s", meaning="of a message of the ring, short", start=3e-7, low=1e-8, high=1e-4, neutral=0)
_GROW = Parameter(name="grow", unit="1", meaning="more latency of large pieces", start=0.2, low=1e-3, high=2.0, neutral=0)
_PHASE = Parameter(name="phase", unit="s", meaning="synchronisation of two phases", start=2e-7, low=1e-8, high=1e-3, neutral=0)
_NEAR = Parameter(name="near", unit="1", meaning="fraction of the link's bandwidth, short", start=0.6, low=0.01, high=1.0)
_SETUP = Parameter(
    name="setup", unit="s", meaning="latency of a pipeline of chunks", start=1e-5, low=1e-7, high=1e-3, neutral=0
)
_FAR = Parameter(name="far", unit="1", meaning="fraction of the link's bandwidth, long", start=0.75, low=0.01, high=1.0)
_SWITCH = Parameter(
    name="switch",
    unit="byte",
    meaning="sent bytes above which messages are long",
    start=4e6,
    low=2.5e5,
    high=1.28e8,
    choices=tuple(2.5e5 * 2**doublings for doublings in range(10)),
)
_SHARED = Parameter(
    name="shared", unit="1", meaning="of the host's link, by each device beyond two", start=0.5, low=1e-3, high=10.0, neutral=0
)

ALL_REDUCE = Form(
    name="all_reduce",
    ops=("all_reduce",),
    about="an all-reduce: one or two phases for short messages, for long ones a pipeline of chunks, or sums in the switch",
    parameters=(_BASE, _STEP, _GROW, _PHASE, _NEAR, _SETUP, _FAR, _SWITCH, _SHARED),
    terms=_terms,
)

COLLECTIVE = Form(
    name="collective",
    ops=("all_gather", "reduce_scatter", "all_to_all"),
    about="a collective of one phase: at once for short messages, a pipeline of chunks for long ones",
    parameters=(_BASE, _STEP, _GROW, _NEAR, _SETUP, _FAR, _SWITCH, _SHARED),
    terms=_terms,
)
