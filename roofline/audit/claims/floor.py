"""The floor: the least time in which a step can be done at all, however good the kernels are.

`analyze` adds up bounds of operators that follow one another. A claim is judged against less than that: all operators
overlap with all others, intermediate results never leave the chip, vector units and links take no time. What is left has
to happen in every step: the products on the matrix units, and the weights, caches and states through the memory bus.

Source: Williams et al., "Roofline", CACM 52(4), 2009, applied to the step as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from roofline.graph.build import build
from roofline.graph.sharding import Stage, stages
from roofline.operators.base import Operator
from roofline.operators.embedding import Embedding
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.request import ResolvedRequest
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment, Step

# A last-level cache may keep weights from one step to the next. Below this share of the bytes it is left out.
CACHE_SHARE = 0.005


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What one device has to do in a step: bytes read and written by what they hold, products by dtype."""

    weight_bytes: float
    cache_bytes: float
    state_bytes: float
    retained_bytes: float
    """Of these, what the last-level cache could retain from one step to the next."""
    bandwidth: float
    products: dict[str, tuple[float, float]]
    """FLOP and peak (FLOP/s) by dtype."""

    @property
    def memory_s(self) -> float:
        """Seconds of the memory bus."""
        streamed = self.weight_bytes + self.cache_bytes + self.state_bytes - self.retained_bytes
        return max(streamed, 0.0) / self.bandwidth

    @property
    def compute_s(self) -> float:
        """Seconds of the matrix units."""
        return sum(flops / peak for flops, peak in self.products.values())

    @property
    def seconds(self) -> float:
        """The least time."""
        return max(self.memory_s, self.compute_s)

    @property
    def bound_by(self) -> str:
        """What takes longer: `memory` or `compute`."""
        return "memory" if self.memory_s >= self.compute_s else "compute"


def floors(request: ResolvedRequest, step: Step, overrides: Overrides = NO_OVERRIDES) -> list[Floor]:
    """The floor of each pipeline stage, for one of its devices.

    Args:
        request: model, hardware and deployment.
        step: the segments of the step, of the whole deployment.
        overrides: assumptions of another reading, for a likely mistake.
    """
    pipeline = stages(request.model, request.deployment.pipeline_parallel_size)
    return [_floor(request, step, stage, overrides) for stage in pipeline]


def _floor(request: ResolvedRequest, step: Step, stage: Stage, overrides: Overrides) -> Floor:
    hardware = request.hardware
    weights = cache = earlier = state = 0.0
    products: dict[str, tuple[float, float]] = {}
    for operator, repeat, weight_bytes in _operators(request, step, stage, overrides):
        cost = operator.cost() * repeat
        weights += weight_bytes
        cache += cost.kv_write_bytes * overrides.cache
        earlier += cost.kv_read_bytes * _cached_share(step)
        state += cost.state_read_bytes + cost.state_write_bytes
        if cost.matrix_flops:
            dtype, peak = _peak(operator, hardware)
            products[dtype] = (products.get(dtype, (0.0, 0.0))[0] + cost.matrix_flops, peak * overrides.peak)
    # NB: keys and values of the step itself need not come back from memory: only those of the tokens before it
    cache += earlier * overrides.cache
    streamed, last = weights + cache + state, hardware.accelerator.l2
    # NB: figures of a package of several devices are those of all together, and so is its cache
    retained = min(last.value if last else 0.0, streamed)
    return Floor(
        weight_bytes=weights,
        cache_bytes=cache,
        state_bytes=state,
        retained_bytes=retained if retained > CACHE_SHARE * streamed else 0.0,
        bandwidth=hardware.bandwidth * overrides.bandwidth,
        products=products,
    )


def _cached_share(step: Step) -> float:
    """The share of a step's keys that were in the cache before it."""
    before = sum(segment.count * segment.cached for segment in step)
    after = sum(segment.count * (segment.cached + segment.new) for segment in step)
    return float(before / after)


def _operators(
    request: ResolvedRequest, step: Step, stage: Stage, overrides: Overrides
) -> Iterator[tuple[Operator, float, float]]:
    graph = build(request.model, request.deployment, request.precision, step, stage)
    one = graph
    if overrides.active_experts:
        alone = tuple(Segment(1, 1, segment.cached, decode=segment.decode) for segment in step)
        one = build(request.model, request.deployment, request.precision, alone, stage)
    for path, (operator, repeat) in graph.items():
        reads = one[path][0] if isinstance(operator, GroupedGemm) and path in one else operator
        read = reads.cost().weight_bytes
        if isinstance(operator, Embedding):
            read = min(read, operator.held_bytes)  # a row that many tokens look up has to be read once
        yield operator, float(repeat), float(read * repeat)


def _peak(operator: Operator, hardware: Hardware) -> tuple[str, float]:
    """The peak that products run at. Four-bit weights may be widened to eight bits as well as to sixteen, whatever the
    scheme does in most engines (QServe, arXiv:2405.04532, computes in int8)."""
    dtype = matrix_dtype(operator, hardware)
    narrow = operator.multiplies_weights and Fraction(operator.dtypes.weight.bytes) < 1
    choices = [dtype, *(name for name in ("int8", "fp8") if narrow and name in hardware.accelerator.peak_flops)]
    best = max(choices, key=hardware.peak)
    return best, hardware.peak(best)
