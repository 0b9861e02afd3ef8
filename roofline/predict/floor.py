"""The floor of a step: the least time in which it can be done at all, however good the kernels are.

The roofline bound adds up operators that follow one another. The floor overlaps everything: each resource of a device is busy
for what the whole step asks of it, intermediate results never leave the chip, and the busiest resource decides. What is left
has to happen in every step: products on the matrix units; weights, caches and states through the memory bus; what devices
send each other over the links of a node and over the network. Vector units, launches and latencies of links take no time.

It is the only time that is called "no less than". NB: which experts the tokens choose is not known; their weights are those
that the routing in use reads on average (`routing_skew`), so that the floor of a mixture of experts is an expectation.

Source: Williams et al., "Roofline", CACM 52(4), 2009, applied to the step as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, stages
from roofline.numeric import Expr, maximum, minimum
from roofline.operators.base import Operator
from roofline.operators.embedding import Embedding
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.request import ResolvedRequest
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment, Step

# A last-level cache may keep weights from one step to the next. Below this share of the bytes it is left out.
CACHE_SHARE = 0.005
LINKS = ("node", "network", "host")
"""Links of a device that work at the same time: inside its node, to other nodes, to its host."""
PARTS = ("weights", "kv_write", "kv_read", "state", "matrix", *LINKS)
"""What a floor is made of: bytes by what they hold, and seconds of the matrix units and of each link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Assumptions of another reading of a claim: factors on the right numbers, and what a step is taken to do."""

    cache: float = 1
    bandwidth: float = 1
    peak: float = 1
    tokens_per_step: int = 1
    """Of one sequence in a decode step."""
    active_experts: bool = False
    """Whether a step reads the experts of one token, however large the batch is."""
    reuse: bool = False
    """Whether a prompt's tokens are cached already, all but the last."""


NO_OVERRIDES = Overrides()
NO_PRODUCTS: Mapping[str, tuple[Expr, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What one device has to do in a step. Numbers, or arrays.

    Bytes are those that cross the memory bus, by what they hold; `retained_bytes` of them could stay in the last-level cache
    from one step to the next. `link_s` has the seconds of each link.
    """

    weight_bytes: Expr
    cache_bytes: Expr
    state_bytes: Expr
    retained_bytes: Expr
    bandwidth: float
    compute_s: Expr
    link_s: Mapping[str, Expr]
    products: Mapping[str, tuple[Expr, float]]
    """FLOP and peak (FLOP/s) by dtype."""

    @property
    def memory_s(self) -> Expr:
        """Seconds of the memory bus."""
        streamed = self.weight_bytes + self.cache_bytes + self.state_bytes - self.retained_bytes
        return maximum(streamed, 0.0) / self.bandwidth

    @property
    def seconds(self) -> Expr:
        """The least time of the step on this device."""
        longest = maximum(self.memory_s, self.compute_s)
        for seconds in self.link_s.values():
            if not (isinstance(seconds, float) and seconds == 0):
                longest = maximum(longest, seconds)
        return longest

    @property
    def bound_by(self) -> str:
        """What takes longest, for plain numbers: `memory`, `compute` or `link`."""
        by = {"memory": self.memory_s, "compute": self.compute_s, "link": max(self.link_s.values())}
        return max(by, key=lambda name: by[name])


def together(steps: Sequence[tuple[float, Floor]]) -> Floor:
    """The floor of several steps of one device, each done a number of times, which overlap as the operators of one step do."""

    def total(field: Callable[[Floor], Expr]) -> Expr:
        return sum(times * field(one) for times, one in steps)

    products: dict[str, tuple[Expr, float]] = {}
    for times, one in steps:
        for dtype, (flops, peak) in one.products.items():
            products[dtype] = (products.get(dtype, (0.0, 0.0))[0] + times * flops, peak)
    return Floor(
        weight_bytes=total(lambda one: one.weight_bytes),
        cache_bytes=total(lambda one: one.cache_bytes),
        state_bytes=total(lambda one: one.state_bytes),
        retained_bytes=total(lambda one: one.retained_bytes),
        bandwidth=steps[0][1].bandwidth,
        compute_s=total(lambda one: one.compute_s),
        link_s={name: sum(times * one.link_s[name] for times, one in steps) for name in LINKS},
        products=products,
    )


def floors(request: ResolvedRequest, step: Step, overrides: Overrides = NO_OVERRIDES) -> list[Floor]:
    """The floor of each pipeline stage, for one of its devices.

    Args:
        request: model, hardware and deployment.
        step: the segments of the step, of the whole deployment.
        overrides: assumptions of another reading, for a likely mistake.
    """
    pipeline = stages(request.model, request.deployment.pipeline_parallel_size)
    return [stage_floor(request, step, stage, overrides) for stage in pipeline]


def latency(pipeline: Iterable[Floor]) -> Expr:
    """Seconds in which one token passes all pipeline stages, one after another."""
    return sum(stage.seconds for stage in pipeline)


def interval(pipeline: Iterable[Floor]) -> float:
    """Seconds in which every pipeline stage has done its part for the whole batch, all of them at the same time."""
    return float(max(stage.seconds for stage in pipeline))


def stage_floor(request: ResolvedRequest, step: Step, stage: Stage, overrides: Overrides = NO_OVERRIDES) -> Floor:
    """The floor of a pipeline stage, for one of its devices."""
    graph = build(request.model, request.deployment, request.precision, step, stage)
    if not overrides.active_experts:
        return graph_floor(graph, step, request.hardware, overrides)
    alone = tuple(Segment(1, 1, segment.cached, decode=segment.decode) for segment in step)
    one = build(request.model, request.deployment, request.precision, alone, stage)
    return graph_floor(graph, step, request.hardware, overrides, experts_of=one)


def graph_floor(
    graph: Graph, step: Step, hardware: Hardware, overrides: Overrides = NO_OVERRIDES, *, experts_of: Graph | None = None
) -> Floor:
    """The floor of operators of one device.

    Args:
        graph: the operators and their repeats, by path. Dimensions may be arrays.
        step: the segments that they work on.
        hardware: that of the device.
        overrides: assumptions of another reading.
        experts_of: another graph, whose experts are those that are read.
    """
    totals: dict[str, Expr] = dict.fromkeys(PARTS, 0.0)
    products: dict[str, tuple[Expr, float]] = {}
    for path, (operator, repeat) in graph.items():
        parts = floor_parts(operator, hardware)
        if experts_of is not None and isinstance(operator, GroupedGemm) and path in experts_of:
            parts["weights"] = weights_read(experts_of[path][0])
        for name, value in parts.items():
            totals[name] = totals[name] + value * repeat
        if "matrix" in parts:
            dtype, peak = _peak(operator, hardware)
            flops = products.get(dtype, (0.0, 0.0))[0] + operator.cost().matrix_flops * repeat
            products[dtype] = (flops, peak * overrides.peak)
    return step_floor(totals, step, hardware, overrides, products)


def step_floor(
    parts: Mapping[str, Expr],
    step: Step,
    hardware: Hardware,
    overrides: Overrides = NO_OVERRIDES,
    products: Mapping[str, tuple[Expr, float]] = NO_PRODUCTS,
) -> Floor:
    """The floor of what a step's operators have to do together.

    Args:
        parts: the sum over operators of each of `PARTS`, as `floor_parts` gives them, in bytes and seconds.
        step: the segments of the step.
        hardware: its bandwidth and last-level cache.
        overrides: assumptions of another reading.
        products: FLOP and peak by dtype, for a derivation.
    """
    cache = (parts["kv_write"] + _earlier(parts, step)) * overrides.cache
    streamed, last = parts["weights"] + cache + parts["state"], hardware.accelerator.l2
    # NB: figures of a package of several devices are those of all together, and so is its cache
    retained = minimum(last.value if last else 0.0, streamed)
    return Floor(
        weight_bytes=parts["weights"],
        cache_bytes=cache,
        state_bytes=parts["state"],
        retained_bytes=retained * (retained > CACHE_SHARE * streamed),
        bandwidth=hardware.bandwidth * overrides.bandwidth,
        compute_s=parts["matrix"] / overrides.peak,
        link_s={name: parts[name] for name in LINKS},
        products=products,
    )


def floor_parts(operator: Operator, hardware: Hardware) -> dict[str, Expr]:
    """What one call of an operator asks of each resource: those of `PARTS` that are not zero. Dimensions may be arrays."""
    cost = operator.cost()
    parts: dict[str, Expr] = {"weights": weights_read(operator)}
    moved = {
        "kv_write": cost.kv_write_bytes,
        "kv_read": cost.kv_read_bytes,
        "state": cost.state_read_bytes + cost.state_write_bytes,
    }
    parts |= {name: amount for name, amount in moved.items() if not (isinstance(amount, int) and amount == 0)}
    if not (isinstance(cost.matrix_flops, int) and cost.matrix_flops == 0):
        parts["matrix"] = cost.matrix_flops / _peak(operator, hardware)[1]
    if not (isinstance(cost.link_bytes, int) and cost.link_bytes == 0):
        parts |= _link_seconds(operator, cost.link_bytes * operator.least_link_share, hardware)
    return parts


def weights_read(operator: Operator) -> Expr:
    """Bytes of weights that one call has to read: a row of an embedding that many tokens look up is read once."""
    read = operator.cost().weight_bytes
    return minimum(read, operator.held_bytes) if isinstance(operator, Embedding) else read


def _link_seconds(operator: Operator, sent: Expr, hardware: Hardware) -> dict[str, Expr]:
    """Seconds of each link that the bytes sent by a device take."""
    if operator.to_host:
        return {"host": hardware.to_host().seconds(sent, 0, 2)}
    joined = hardware.connection(getattr(operator, "span", 2))
    if joined is None:
        return {}
    crossing = sent * operator.least_crossing(joined.together)
    node, network = joined.by_tier(sent, crossing, operator.peers(joined.together))
    return {"node": node, "network": network}


def _earlier(parts: Mapping[str, Expr], step: Step) -> Expr:
    """Bytes of the cache that hold tokens of earlier steps: keys and values of the step itself need not come back from memory.

    The smaller of two counts: what is read less what the step writes, which is exact within a window too, and the share of
    earlier tokens in all, which is exact where layers read what another one wrote.
    """
    before: Expr = 0
    after: Expr = 0
    for segment in step:
        before = before + segment.count * segment.cached
        after = after + segment.count * (segment.cached + segment.new)
    beyond = maximum(parts["kv_read"] - parts["kv_write"], 0.0)
    return minimum(beyond, parts["kv_read"] * (before / after))


def _peak(operator: Operator, hardware: Hardware) -> tuple[str, float]:
    """The peak that products run at. Four-bit weights may be widened to eight bits as well as to sixteen, whatever the
    scheme does in most engines (QServe, arXiv:2405.04532, computes in int8). Not where activations are stated to have
    sixteen bits (W4A16, `--activation-dtype`): a product with them needs units of their format."""
    dtype = matrix_dtype(operator, hardware)
    weight = operator.dtypes.weight
    narrow = operator.multiplies_weights and weight.bytes < 1 and weight.multiply != operator.dtypes.activation.name
    choices = [dtype, *(name for name in ("int8", "fp8") if narrow and name in hardware.accelerator.peak_flops)]
    best = max(choices, key=hardware.peak)
    return best, hardware.peak(best)
