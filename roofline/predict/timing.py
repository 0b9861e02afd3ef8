"""Times of a step and of a request: the bound and, where kernels were measured, the estimate with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from roofline.graph import Graph, build, stages
from roofline.numeric import Expr, maximum, minimum
from roofline.predict.bounds import times
from roofline.predict.duration import NO_TIMES, Duration, weighted_sum
from roofline.predict.efficiency.estimate import Interval, at_least, together
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import Request
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


def stage_estimate(request: Request, graph: Graph) -> tuple[Interval | None, Parts]:
    """What a stage takes, and each of its operators. In a kernel of several each operator has its own bound, and of what the
    kernel takes beyond these bounds a share by the sum of its times."""
    estimator = request.estimator
    if not estimator.applies:
        return None, dict.fromkeys(graph)
    launched = kernels(graph)
    whole, found = estimator.step(launched)
    parts: Parts = {}
    for kernel in launched:
        time = found[kernel.paths]
        parts |= {kernel.paths[0]: time} if len(kernel.paths) == 1 else _shared(time, kernel, request)
    return whole, parts


def _shared(time: Interval, kernel: Kernel, request: Request) -> Parts:
    """The part of each operator in the time of a kernel of several (all its repeats)."""
    busy = [times(operator, operator.cost(), request.hardware) for operator in kernel.operators.values()]
    bounds = [each.bound * kernel.repeat for each in busy]
    least, total = sum(bounds), sum(each.sum for each in busy)
    parts: Parts = {}
    for path, bound, each in zip(kernel.paths, bounds, busy, strict=True):
        ends = [bound + (end - least) * each.sum / total for end in (time.seconds, time.low, time.high)]
        parts[path] = Interval(ends[0], ends[1], ends[2])
    return parts


def per_stage(request: Request, step: Step) -> list[tuple[float, Interval | None]]:
    """Bound and estimate of a step in each pipeline stage, with its message to the next."""
    found = []
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, step, stage)
        bound = float(sum(times(op, op.cost() * repeat, request.hardware).bound for op, repeat in graph.values()))
        found.append((bound, stage_estimate(request, graph)[0]))
    return found


def pipeline(request: Request, step: Step) -> Duration:
    """Seconds of a step from the first stage to the end of the last."""
    found = per_stage(request, step)
    bound = sum(bound for bound, _ in found)
    known = [estimate for _, estimate in found if estimate is not None]
    whole = with_engine(request, together(known), replica(request, step)) if known else None
    return with_estimate(bound, None, whole)


def with_engine(request: Request, kernels: Interval, sequences: Expr) -> Interval:
    """The kernels of a step and what the engine adds, within the wider of the kernels' interval and the engine's band.
    Numbers, or arrays."""
    if request.steps is None:
        return kernels
    added, (low, high) = request.engine_seconds(sequences), request.engine_band
    seconds = kernels.seconds + added
    return Interval(seconds, minimum(kernels.low + added, seconds * low), maximum(kernels.high + added, seconds * high))


def replica(request: Request, step: Step) -> int:
    """Sequences of a step in one replica."""
    return int(-(-sequences(step) // request.deployment.data_parallel_size))


def of_request(request: Request, *, timed: bool) -> dict[str, Duration] | None:
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


def _mean_decode(request: Request, batch: int, first: int, steps: int) -> Duration:
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
