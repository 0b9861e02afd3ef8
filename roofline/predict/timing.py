"""Times of a step, of a request and of a pipeline of microbatches: the bound, and the estimate where kernels were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from roofline.errors import InputError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import stages
from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.predict.bounds import times
from roofline.predict.duration import NO_TIMES, Duration, weighted_sum
from roofline.predict.efficiency.estimate import Interval, at_least, together
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import ResolvedRequest
from roofline.specs.workload import Step, decode, prefill, sequences

# TPOT is a mean over the decode steps of a request; the step's bound is piecewise linear in the context.
_TPOT_POINTS = 33

Parts = dict[str, Interval | None]
"""The estimate of each operator, by its path."""


def with_estimate(bound: float, total: float | None, estimate: Interval | None) -> Duration:
    """A bound with an estimate, if there is one, no part of which is below the bound."""
    if estimate is None:
        return Duration(bound, total)
    held = at_least(estimate, bound)
    return Duration(bound, total, held.seconds, held.low, held.high)


def stage_estimate(request: ResolvedRequest, graph: Graph) -> tuple[Interval | None, Parts]:
    """What a stage takes, and each of its operators. In a kernel of several each operator has its own bound, and of what the
    kernel takes beyond these bounds a share by the sum of its times."""
    estimator = request.estimator
    if not estimator.applies:
        return None, dict.fromkeys(graph)
    launched = kernels(graph)
    whole, by_kernel = estimator.step(launched)
    parts: Parts = {}
    for kernel in launched:
        time = by_kernel[kernel.paths]
        parts |= {kernel.paths[0]: time} if len(kernel.paths) == 1 else _shared(time, kernel, request)
    return whole, parts


def _shared(time: Interval, kernel: Kernel, request: ResolvedRequest) -> Parts:
    """The part of each operator in the time of a kernel of several (all its repeats)."""
    resources = [times(operator, operator.cost(), request.hardware) for operator in kernel.operators.values()]
    bounds = [each.bound * kernel.repeat for each in resources]
    least, total = sum(bounds), sum(each.sum for each in resources)
    parts: Parts = {}
    for path, bound, each in zip(kernel.paths, bounds, resources, strict=True):
        ends = [bound + (end - least) * each.sum / total for end in (time.seconds, time.low, time.high)]
        parts[path] = Interval(ends[0], ends[1], ends[2])
    return parts


def per_stage(request: ResolvedRequest, step: Step) -> list[tuple[float, Interval | None]]:
    """Bound and estimate of a step in each pipeline stage, with its message to the next."""
    by_stage = []
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, step, stage)
        bound = float(sum(times(op, op.cost() * repeat, request.hardware).bound for op, repeat in graph.values()))
        by_stage.append((bound, stage_estimate(request, graph)[0]))
    return by_stage


def pipeline(request: ResolvedRequest, step: Step) -> Duration:
    """The time of a step from the start of the first pipeline stage to the end of the last.

    Args:
        request: the model on its deployment.
        step: the segments of the whole deployment's batch.

    Returns:
        Seconds: the bound and, where kernels were measured, the estimate with its interval, the engine's part included.
    """
    by_stage = per_stage(request, step)
    bound = sum(bound for bound, _ in by_stage)
    known = [estimate for _, estimate in by_stage if estimate is not None]
    whole = with_engine(request, together(known), replica(request, step)) if known else None
    return with_estimate(bound, None, whole)


def with_engine(request: ResolvedRequest, kernels: Interval, sequences: Expr) -> Interval:
    """The kernels of a step and what the engine adds, within the wider of the kernels' interval and the engine's band.
    Numbers, or arrays."""
    if request.steps is None:
        return kernels
    added, (low, high) = request.engine_seconds(sequences), request.engine_band
    seconds = kernels.seconds + added
    return Interval(seconds, minimum(kernels.low + added, seconds * low), maximum(kernels.high + added, seconds * high))


def replica(request: ResolvedRequest, step: Step) -> int:
    """Sequences of a step in one replica."""
    return int(-(-sequences(step) // request.deployment.data_parallel_size))


def request_times(request: ResolvedRequest, *, timed: bool) -> dict[str, Duration] | None:
    """TTFT, TPOT and E2E of a request that is served from its prompt to its last token at this batch."""
    workload = request.workload
    if workload.output_len is None:
        return None
    if not timed:
        return dict.fromkeys(("ttft_s", "tpot_s", "e2e_s"), NO_TIMES)
    ttft = pipeline(request, prefill(workload.batch, workload.input_len))
    steps = workload.output_len - 1  # the first token comes out of prefill
    if not steps:
        return {"ttft_s": ttft, "tpot_s": NO_TIMES, "e2e_s": ttft}
    tpot = _mean_decode(request, workload.batch, workload.input_len, steps)
    return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": weighted_sum([(1, ttft), (steps, tpot)])}


def _mean_decode(request: ResolvedRequest, batch: int, first: int, steps: int) -> Duration:
    """Mean time of `steps` decode steps whose contexts start at `first` and grow by one: all of them when they are few,
    else by the trapezoidal rule between evenly spaced ones."""
    last = first + steps - 1
    contexts: Sequence[int] = range(first, last + 1)
    if steps > _TPOT_POINTS:
        contexts = [first + round(index * (steps - 1) / (_TPOT_POINTS - 1)) for index in range(_TPOT_POINTS)]
    took = [pipeline(request, decode(batch, context)) for context in contexts]
    if steps <= _TPOT_POINTS:
        return weighted_sum((1 / steps, time) for time in took)
    # sum over whole contexts between two points of a straight line: the trapezoid, and half of each end once more
    weights = [0.5 / steps if end in (0, len(contexts) - 1) else 0.0 for end in range(len(contexts))]
    for left, (start, end) in enumerate(pairwise(contexts)):
        weights[left] += (end - start) / 2 / steps
        weights[left + 1] += (end - start) / 2 / steps
    return weighted_sum(zip(weights, took, strict=True))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages that microbatches pass one after another: seconds of one microbatch in each, and of a message between two that
    overlaps with their work (0 where it is part of the stages' own time). Numbers, or arrays.

    A stage works on one microbatch at a time. Microbatch i can enter stage j when stage j has finished microbatch i - 1 and
    stage j - 1 has finished i. Where each stage takes the same time t_j for every microbatch, the last of m leaves the last
    stage after

        sum_j t_j + (m - 1) max_j t_j

    which is GPipe's picture of a forward pass: with p equal stages (m + p - 1) t, of which every stage is idle for (p - 1) t,
    the bubble. Decode goes round: the next token of a sequence enters the first stage when its last one has left the last. Then
    m microbatches in flight come by again every

        max(sum_j t_j, m max_j t_j)

    seconds: a microbatch cannot be faster than its own way through all stages, nor the slowest stage than all m. (Stages and
    microbatches make a cyclic schedule; its period is the largest mean over its circuits, which are those two: Baccelli, Cohen,
    Olsder, Quadrat, "Synchronization and Linearity", 1992.) A message between two stages can pass while both work on
    other microbatches, and is a stage of its own then.

    Sources: Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3; Narayanan et al. 2021, arXiv:2104.04473, section 2.2.

    >>> even = Pipeline((2.0, 2.0, 2.0, 2.0))
    >>> even.alone, even.filled(4), even.bubble(4)  # 8 + 3*2; 3 of 4 + 4 - 1 times idle
    (8.0, 14.0, 0.4285714285714286)
    >>> even.interval(1), even.interval(4), even.interval(8)
    (8.0, 8.0, 16.0)
    >>> even.idle(1), even.idle(4), even.fewest
    (0.75, 0.0, 4.0)
    >>> Pipeline((1.0, 3.0, 2.0), hop=0.5).interval(2)  # 1 + 3 + 2 + 2*0.5
    7.0
    """

    stages: Sequence[Expr]
    hop: Expr = 0

    @property
    def alone(self) -> Expr:
        """Seconds in which one microbatch passes all stages."""
        return sum(self.stages[1:], self.stages[0]) + (len(self.stages) - 1) * self.hop

    @property
    def slowest(self) -> Expr:
        """Seconds of the slowest stage, or of the message if it takes longer."""
        seconds = self.stages[0] if len(self.stages) == 1 else maximum(self.stages[0], self.hop)
        for stage in self.stages[1:]:
            seconds = maximum(seconds, stage)
        return seconds

    @property
    def fewest(self) -> Expr:
        """The fewest microbatches that keep the slowest stage busy in decode."""
        return ceil_div(self.alone, self.slowest)

    def filled(self, microbatches: Expr) -> Expr:
        """Seconds from the first of a number of microbatches in the first stage to the end of the last in the last."""
        return self.alone + (microbatches - 1) * self.slowest

    def bubble(self, microbatches: Expr) -> Expr:
        """Share of that in which the slowest stage is idle: (p - 1)/(m + p - 1) with p equal stages and no messages."""
        return 1 - microbatches * self.slowest / self.filled(microbatches)

    def interval(self, microbatches: Expr) -> Expr:
        """Seconds from one token of a sequence to its next, with a number of microbatches in flight."""
        return maximum(self.alone, microbatches * self.slowest)

    def idle(self, microbatches: Expr) -> Expr:
        """Share of that in which the slowest stage is idle."""
        return 1 - microbatches * self.slowest / self.interval(microbatches)


def pipelined_step(request: ResolvedRequest, step: Step, microbatches: int) -> Duration:
    """Seconds of a step whose sequences are dealt to microbatches: of decode, from one token of each sequence to the next; with
    prompts, until the last microbatch has passed. Messages are part of the stages' time, as in `analyze`.

    A step of one microbatch is that of `pipeline`. NB: what an engine adds to a step passes with each
    microbatch, beside the stages' work on others.

    Raises:
        InputError: fewer sequences in a replica than microbatches.
    """
    most = min(replica(request, (segment,)) for segment in step)
    if not 1 <= microbatches <= most:
        msg = f"{microbatches} microbatches of {most} sequences in a replica: allowed are 1 to {most}"
        raise InputError(msg)
    part = tuple(replace(segment, count=ceil_div(segment.count, microbatches)) for segment in step)
    rounds = all(segment.decode for segment in step)
    by_stage = per_stage(request, part)
    bound = _took([bound for bound, _ in by_stage], microbatches, rounds=rounds)
    known = [estimate for _, estimate in by_stage if estimate is not None]
    if not known:
        return Duration(bound, None)
    ends = {name: [getattr(estimate, name) for estimate in known] for name in ("seconds", "low", "high")}
    through = with_engine(request, Interval(**{name: sum(ends[name]) for name in ends}), replica(request, part))
    took = {name: _took(ends[name], microbatches, rounds=rounds, alone=getattr(through, name)) for name in ends}
    return with_estimate(bound, None, Interval(**took))


def _took(stages: list[float], microbatches: int, *, rounds: bool, alone: float | None = None) -> float:
    """Of decode (`rounds`) the interval, else until all have passed. `alone`: a microbatch's own way, where it is longer."""
    pipeline = Pipeline(stages)
    more = 0.0 if alone is None else alone - pipeline.alone
    if rounds:
        return float(max(pipeline.alone + more, microbatches * pipeline.slowest))
    return float(pipeline.filled(microbatches) + more)
