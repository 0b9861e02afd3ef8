"""Batch limits: the batch from which a step is compute-bound, and the largest that memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise

from roofline.graph.build import build
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype, times
from roofline.predict.memory import MemoryModel
from roofline.predict.result import CriticalBatch
from roofline.specs.hardware import Hardware
from roofline.specs.workload import decode

# Batches beyond this are no deployment's; it ends a search whose answer may be that there is none.
_LAST_BATCH = 2**20


def critical_batch_linear(memory: MemoryModel, hardware: Hardware) -> float | None:
    """Return the batch at which the linear operators of a decode step take as long to compute as their weights take to read.

    With dense weights of b bytes each, 2BP/peak = bP/bandwidth gives B = b/2 * ridge point. A mixture of experts reads more
    experts as the batch grows, so the batch is a root found on the real numbers.

    Args:
        memory: model and deployment; the fullest pipeline stage is looked at.
        hardware: its peaks and bandwidth.

    Returns:
        Sequences of the whole deployment, a real number; None if even 2^20 per replica do not reach it.
    """

    def surplus(replica: float) -> float:
        step = decode(replica, 0.0)  # a replica's share of the batch, which may be a fraction here
        graph = build(memory.model, memory.deployment, memory.precision, step, memory.stage, per_replica=True)
        total = 0.0
        for operator, repeat in graph.values():
            if isinstance(operator, (Gemm, GroupedGemm)):
                cost = operator.cost()
                compute = cost.matrix_flops / hardware.peak(matrix_dtype(operator, hardware))
                total += (compute - cost.weight_bytes / hardware.bandwidth) * repeat
        return total

    replicas = memory.deployment.data_parallel_size
    low, high = 0.0, 1.0
    while surplus(high) < 0:
        low, high = high, 2 * high
        if high > _LAST_BATCH:
            return None
    return replicas * _root(surplus, low, high)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is negative at `low` and not at `high` crosses zero: false position, Illinois variant.

    On a straight line the first step is the answer. Dowell and Jarratt 1971, BIT 11, 168-174.
    """
    left, right = function(low), function(high)
    for _ in range(100):
        if right == left or abs(high - low) <= 1e-14 * high:
            break
        middle = high - right * (high - low) / (right - left)
        value = function(middle)
        if value == 0:
            return middle
        if (value < 0) == (right < 0):
            left /= 2  # the same end moved twice: lean the line over to the other
        else:
            low, left = high, right
        high, right = middle, value
    return high


# By how much each operator's compute time exceeds its other times, and the compute-bound time of all less the memory-bound one.
_State = tuple[tuple[float, ...], float]


def critical_batch_step(memory: MemoryModel, hardware: Hardware, context: int) -> int | None:
    """Return the smallest batch at which a decode step spends more time compute-bound than memory-bound.

    Operators turn from memory-bound to compute-bound one at a time as the batch grows, and between two such turns the
    surplus of compute over memory time is a straight line (nearly, where experts are still being added). So the turns
    are found first, and then the first batch with a surplus: at the start of an interval between turns, or inside one
    where the line rises through zero.

    Args:
        memory: model and deployment; the fullest pipeline stage is looked at.
        hardware: its peaks, bandwidth and links.
        context: tokens cached per sequence before the step.

    Returns:
        Sequences of the whole deployment; None if there is none up to 2^20 per replica.
    """

    @cache
    def state(replica: int) -> _State:
        step = decode(replica, context)
        graph = build(memory.model, memory.deployment, memory.precision, step, memory.stage, per_replica=True)
        total, surpluses = 0.0, []
        for operator, repeat in graph.values():
            resources = times(operator, operator.cost(), hardware)
            surpluses.append(max(resources.matrix, resources.vector) - max(resources.memory, resources.link))
            if (kind := resources.bound_by) != "link":
                total += resources.bound * repeat * (1 if kind == "compute" else -1)
        return tuple(surpluses), total

    for first, last in _intervals(state):
        if (batch := _first_surplus(state, first, last)) is not None:
            # dealt round, the fullest replica has that many from the first batch on that leaves one over
            return (batch - 1) * memory.deployment.data_parallel_size + 1
    return None


def _intervals(state: Callable[[int], _State]) -> Iterator[tuple[int, int]]:
    """First and last batch of each interval in which no operator turns, by rising batch, one at a time."""
    first = 1
    for turn in _turns(state, 1, _LAST_BATCH, 0):
        yield first, turn - 1
        first = turn
    yield first, _LAST_BATCH


def _turns(state: Callable[[int], _State], low: int, high: int, tried: int) -> Iterator[int]:
    """Batches above `low`, to `high`, at which some operator turns: every interval whose ends differ is split.

    It is split around the first turn that there would be if all surpluses were straight lines. Where that parted none of the
    `tried` operators that turn, it is split in halves.
    """
    before, after = state(low)[0], state(high)[0]
    turning = [(start, end) for start, end in zip(before, after, strict=True) if (start > 0) != (end > 0)]
    if not turning:
        return
    if high - low == 1:
        yield high
        return
    if len(turning) == tried:
        points = [low, (low + high) // 2, high]
        tried = 0
    else:
        before_turn = low + int(min(start / (start - end) for start, end in turning) * (high - low))
        points = sorted({low, min(before_turn, high - 1), min(before_turn + 1, high), high})
        tried = len(turning)
    for start, end in pairwise(points):
        yield from _turns(state, start, end, tried)


def _first_surplus(state: Callable[[int], _State], low: int, high: int) -> int | None:
    """The first batch from `low` to `high` with a surplus, which grows or falls throughout; None where there is none."""
    if state(low)[1] > 0:
        return low
    if state(high)[1] <= 0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if state(middle)[1] > 0 else (middle, high)
    return high


def critical_batch_why(memory: MemoryModel, hardware: Hardware, linear: float | None, step: int | None, context: int) -> str:
    """Return why a decode step has no critical batch, or that it does not fit in memory; "" where neither is so.

    Args:
        memory: model and deployment.
        hardware: its peaks and bandwidth.
        linear: result of `critical_batch_linear`.
        step: result of `critical_batch_step` at `context`.
        context: tokens cached per sequence before the step.
    """
    if step is not None:
        fits = memory.max_batch(context)
        return f"from {step} sequences on compute takes the larger share; {fits} fit in memory" if fits < step else ""
    if linear is None:
        return "the linear operators never reach the ridge point"
    states = ", recurrent state" if memory.fullest_stage.state_bytes(allocated=True) else ""
    reads = f"reads of its KV cache{states} and activations"
    return f"at a context of {context:,} tokens, each added sequence takes more time for {reads} than for compute"


def max_batch_by_context(memory: MemoryModel, contexts: Iterable[int]) -> list[tuple[int, int]]:
    """Return pairs of a context (tokens cached before the step) and the largest batch whose decode step fits, by rising
    context.
    """
    return [(context, memory.max_batch(context)) for context in sorted(set(contexts))]


def standard_contexts(longest: int) -> list[int]:
    """Return 1024, 2048, 4096, ... tokens, up to and including the longest context of a model.

    >>> standard_contexts(5000)
    [1024, 2048, 4096, 5000]
    """
    contexts = []
    context = 1024
    while context < longest:
        contexts.append(context)
        context *= 2
    return [*contexts, longest]


@dataclass(frozen=True)
class Limits:
    """Where batches stop being useful, and where they stop fitting: sequences of the whole deployment by tokens cached.

    Each is a search over many steps, done when it is first read.
    """

    memory: MemoryModel = field(repr=False)
    hardware: Hardware = field(repr=False)
    context: int
    """Tokens cached per sequence before the decode step."""

    @cached_property
    def critical_batch_linear(self) -> float | None:
        """Return the batch from which the linear operators of a decode step are bound by compute; None: there is none."""
        return critical_batch_linear(self.memory, self.hardware)

    @cached_property
    def critical_batch_step(self) -> int | None:
        """Return the smallest batch whose decode step is bound by compute for most of its time; None: there is none."""
        return critical_batch_step(self.memory, self.hardware, self.context)

    @cached_property
    def critical_batch_why(self) -> str:
        """Return why there is no critical batch, or that it does not fit in memory; "" where neither is so."""
        return critical_batch_why(
            self.memory, self.hardware, self.critical_batch_linear, self.critical_batch_step, self.context
        )

    @cached_property
    def max_batch_by_context(self) -> tuple[tuple[int, int], ...]:
        """Return the largest batch that fits at the request's context and at usual ones, by rising context."""
        contexts = [*standard_contexts(self.memory.model.max_position_embeddings), self.context]
        return tuple(max_batch_by_context(self.memory, contexts))

    @property
    def critical_batch(self) -> CriticalBatch:
        """Return the critical batches together."""
        return CriticalBatch(self.critical_batch_linear, self.critical_batch_step, self.critical_batch_why)
