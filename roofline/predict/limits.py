"""Batches: from which on compute binds, and up to which memory holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roofline.graph import build
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype, times
from roofline.predict.memory import MemoryModel
from roofline.specs.hardware import Hardware
from roofline.specs.workload import decode

# Batches beyond this are no deployment's; it ends a search whose answer may be that there is none.
_LAST_BATCH = 2**20


def critical_batch_linear(memory: MemoryModel, hardware: Hardware) -> float | None:
    """The batch at which the linear operators of a decode step, weight traffic alone, take as long to compute as to read.

    With dense weights of b bytes, 2BP/peak = bP/bandwidth gives B = b/2 * ridge. A mixture of experts reads more experts
    as the batch grows, so the batch is found by bisection on the real numbers. None: even 2^20 sequences do not reach it.
    """

    def surplus(batch: float) -> float:
        graph = build(memory.model, memory.deployment, memory.precision, decode(batch, 0.0), memory.stage)
        total = 0.0
        for operator, repeat in graph.values():
            if isinstance(operator, (Gemm, GroupedGemm)):
                cost = operator.cost()
                compute = cost.matrix_flops / hardware.peak(matrix_dtype(operator, hardware))
                total += (compute - cost.weight_bytes / hardware.bandwidth) * repeat
        return total

    dp = memory.deployment.data_parallel_size
    if surplus(float(dp)) >= 0:
        return float(dp)
    low, high = float(dp), 2.0 * dp
    while surplus(high) < 0:
        low, high = high, 2 * high
        if high > _LAST_BATCH * dp:
            return None
    # NB: sequences are dealt to replicas whole; the real-valued batch is a replica's, times the replicas.
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if surplus(middle) < 0 else (low, middle)
    return high


def critical_batch_step(memory: MemoryModel, hardware: Hardware, context: int) -> int | None:
    """The smallest batch at which a decode step at `context` spends more time bound by compute than by memory.

    Operators turn from memory-bound to compute-bound one at a time as the batch grows, and between two such turns the
    surplus of compute over memory time is a straight line (nearly, where experts are still being added). So the turns
    are found first, each by bisection, and then the first batch with a surplus: at the start of an interval, or inside
    one where the line rises through zero.
    """
    dp = memory.deployment.data_parallel_size

    def operators(replica: int) -> Iterable[tuple[Operator, float]]:
        return build(memory.model, memory.deployment, memory.precision, decode(replica * dp, context), memory.stage).values()

    def surplus(replica: int) -> float:
        total = 0.0
        for operator, repeat in operators(replica):
            busy = times(operator, operator.cost(), hardware)
            total += {"compute": 1, "memory": -1, "link": 0}[busy.bound_by] * busy.bound * repeat
        return total

    def turned(replica: int) -> list[bool]:
        return [times(op, op.cost(), hardware).bound_by == "compute" for op, _ in operators(replica)]

    turns = {1, _LAST_BATCH}
    first, last = turned(1), turned(_LAST_BATCH)
    for position, (before, after) in enumerate(zip(first, last, strict=True)):
        if before != after:
            turns.add(_first(lambda batch, at=position, goal=after: turned(batch)[at] == goal, 1, _LAST_BATCH))  # type: ignore[misc]
    ordered = sorted(turns)
    for start, end in zip(ordered, [*ordered[1:], _LAST_BATCH + 1], strict=True):
        if surplus(start) > 0:
            return start * dp
        if end - 1 > start and surplus(end - 1) > 0:
            return _first(lambda batch: surplus(batch) > 0, start, end - 1) * dp
    return None


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first whole number after `low`, to `high`, from which on a condition holds (it does at `high`)."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def max_batch_by_context(memory: MemoryModel, contexts: Iterable[int]) -> list[tuple[int, int]]:
    """The largest batch whose decode step fits, for each context."""
    return [(context, memory.max_batch(context)) for context in sorted(set(contexts))]


def standard_contexts(longest: int) -> list[int]:
    """1k, 2k, 4k, ... up to the longest context of a model, itself included.

    >>> standard_contexts(5000)
    [1024, 2048, 4096, 5000]
    """
    found = []
    context = 1024
    while context < longest:
        found.append(context)
        context *= 2
    return [*found, longest]
