"""Times of a step, of a request and of a pipeline of microbatches: the bound, and the estimate where kernels were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from roofline.errors import InputError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import stages
from roofline.graph.vision import encoder_graph
from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.operators.base import Operator
from roofline.operators.collectives import Collective
from roofline.predict.bounds import times
from roofline.predict.duration import NO_TIMES, Duration, total, weighted_sum
from roofline.predict.efficiency.estimate import Interval, at_least, together
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.floor import floors, graph_floor, latency
from roofline.predict.request import ResolvedRequest, Workload
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Step, decode, sequences

# TPOT is a mean over the decode steps of a request; the step's bound is piecewise linear in the context.
_TPOT_POINTS = 33

Parts = dict[str, Interval | None]
"""The estimate of each operator, by its path."""


def with_estimate(bound: float, total: float | None, estimate: Interval | None, floor: float | None = None) -> Duration:
    """Return a duration whose estimate is not below the bound, and whose interval does not start below the floor.

    Args:
        bound: seconds with the operators in sequence, each overlapped perfectly.
        total: seconds with no overlap; None: not known.
        estimate: seconds with an interval; None: there is none.
        floor: seconds that nothing beats; None (a part of a step): the interval starts at the bound or above.
    """
    if estimate is None:
        return Duration(bound, total, floor=floor)
    held = at_least(estimate, bound, bound if floor is None else floor)
    return Duration(bound, total, held.seconds, held.low, held.high, floor)


HIDDEN = 0.6
"""Share that two microbatches hide of the shorter of collectives and all else, as published: of DeepSeek-V3 with and without
overlap (SGLang on 72 and 32 H100), and with it (DeepSeek's profiles on 128 and 32 H800), with this 0.88 to 1.12 of each step.
Kernels of both share the SMs, and neither half of a layer is as long as the other."""


def overlapped(request: ResolvedRequest, step: Step, compute: Expr, links: Expr, hidden: float = 1.0) -> Expr:
    """Return the seconds of a step from those of its collectives (`links`) and of all else (`compute`).

    One after the other; with `microbatch_overlap` the larger of both, where a replica has two sequences to take turns.

    Args:
        request: gives the deployment.
        step: segments with counts of the whole deployment; numbers or arrays.
        compute: seconds; a number or an array.
        links: likewise.
        hidden: share of the shorter of both that passes behind the longer; 1 in bounds, `HIDDEN` in estimates.

    Source: DeepSeek-V3, arXiv:2412.19437, section 3.4 (two microbatches, the attention and experts of one overlap with dispatch
    and combine of the other).
    """
    if not request.deployment.microbatch_overlap:
        return compute + links
    pair = minimum(ceil_div(sequences(step), request.deployment.data_parallel_size), 2) - 1
    return compute + links - pair * hidden * minimum(compute, links)


def second_reading(operator: Operator, hardware: Hardware) -> Expr:
    """Return the seconds at the bound that one call takes longer if its weights are read twice, once for each microbatch."""
    cost = operator.cost()
    again = times(operator, replace(cost, weight_bytes=2 * cost.weight_bytes), hardware).bound
    return again - times(operator, cost, hardware).bound


def calls_bound(operator: Operator, repeat: Expr, hardware: Hardware) -> Expr:
    """Return the seconds at the bound of a number of calls."""
    return times(operator, operator.cost() * repeat, hardware).bound


def stage_bound(request: ResolvedRequest, step: Step, graph: Graph) -> float:
    """Return the roofline bound of a pipeline stage in seconds. With microbatches that overlap weights are read once."""
    if not request.deployment.microbatch_overlap:
        return float(sum(calls_bound(operator, repeat, request.hardware) for operator, repeat in graph.values()))
    compute, links = 0.0, 0.0
    for operator, repeat in graph.values():
        bound = calls_bound(operator, repeat, request.hardware)
        if isinstance(operator, Collective):
            links += bound
        else:
            compute += bound
    return float(overlapped(request, step, compute, links))


def stage_estimate(request: ResolvedRequest, step: Step, graph: Graph) -> tuple[Interval | None, Parts]:
    """Return the estimate of a pipeline stage, and of each of its operators by path (seconds, all repeats); None without fits.

    In a kernel of several operators each has its own bound, and a share of the rest of the kernel's time by the sum of its
    times. Where microbatches overlap, a share of the shorter of collectives and all else is hidden, with a second reading of
    weights; the interval begins where all of it is, and ends where nothing is.
    """
    estimator = request.estimator
    if not estimator.applies:
        return None, dict.fromkeys(graph)
    launched = kernels(graph)
    whole, by_kernel = estimator.step(launched)
    parts: Parts = {}
    for kernel in launched:
        time = by_kernel[kernel.paths]
        parts |= {kernel.paths[0]: time} if len(kernel.paths) == 1 else _shared(time, kernel, request)
    links = [kernel for kernel in launched if kernel.collective]
    if request.deployment.microbatch_overlap and links:
        others, _ = estimator.step([kernel for kernel in launched if not kernel.collective])
        sent, _ = estimator.step(links)
        again = sum(second_reading(operator, request.hardware) * repeat for operator, repeat in graph.values())
        whole = overlapped_interval(request, step, whole, others, sent, again)
    return whole, parts


def overlapped_interval(
    request: ResolvedRequest, step: Step, whole: Interval, compute: Interval, links: Interval, again: Expr
) -> Interval:
    """Return the estimate of a step whose microbatches overlap; numbers or arrays.

    Args:
        request: gives the deployment.
        step: segments with counts of the whole deployment.
        whole: seconds of all kernels, one after another.
        compute: of all but collectives.
        links: of the collectives.
        again: seconds of a second reading of weights.
    """
    pair = minimum(ceil_div(sequences(step), request.deployment.data_parallel_size), 2) - 1
    more = again * pair
    seconds = overlapped(request, step, compute.seconds + more, links.seconds, HIDDEN)
    low = minimum(overlapped(request, step, compute.low, links.low), seconds)
    return Interval(seconds, low, maximum(whole.high + more, seconds))


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
    """Return bound and estimate of a step in each pipeline stage, in seconds, with its message to the next stage."""
    by_stage = []
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, step, stage)
        by_stage.append((stage_bound(request, step, graph), stage_estimate(request, step, graph)[0]))
    return by_stage


def pipeline(request: ResolvedRequest, step: Step) -> Duration:
    """Return the time of a step from the start of the first pipeline stage to the end of the last.

    Args:
        request: the model on its deployment.
        step: the segments of the whole deployment's batch.

    Returns:
        Seconds: the floor, the bound and, where kernels were measured, the estimate with its interval, with the engine's part.
    """
    return deployed(replace(request, workload=_ANY, query=None, inputs=(), assumptions=()), step)


_ANY = Workload(1, 1, None, 1, ())


def deployed(request: ResolvedRequest, step: Step) -> Duration:
    """Return `pipeline` of a request without a workload of its own: what a page remembers when its workload changes."""
    by_stage = per_stage(request, step)
    bound = sum(bound for bound, _ in by_stage)
    known = [estimate for _, estimate in by_stage if estimate is not None]
    whole = with_engine(request, together(known), replica(request, step)) if known else None
    return with_estimate(bound, None, whole, latency(floors(request, step)))


def timed(request: ResolvedRequest, graph: Graph, step: Step) -> Duration:
    """Return the time of some operators of a step: their floor, their bound one after another, and the estimate of their
    kernels.
    """
    bound = stage_bound(request, step, graph)
    estimate = stage_estimate(request, step, graph)[0]
    return with_estimate(bound, None, estimate, graph_floor(graph, step, request.hardware).seconds)


def encoder(request: ResolvedRequest, step: Step) -> Graph:
    """Return the operators of the vision tower for the images of a step's prompts, on one device of the replica with most of
    them; none where prompts have no images.
    """
    tower, images = request.model.vision, request.workload.images * replica(request, step)
    if tower is None or not images:
        return {}
    return encoder_graph(tower, images, request.model.dtype, request.deployment.tensor_parallel_size)


def time_to_first_token(request: ResolvedRequest, step: Step) -> Duration:
    """Return TTFT of the prompts of a step: the encoder of their images, if they have any, then the prefill.

    Args:
        request: its workload has the number of images in each prompt.
        step: the prompts of the whole deployment's batch.
    """
    graph, prompts = encoder(request, step), pipeline(request, step)
    return total(timed(request, graph, step), prompts) if graph else prompts


def with_engine(request: ResolvedRequest, kernels: Interval, sequences: Expr, stages: int | None = None) -> Interval:
    """Return the seconds of a step: its kernels and what the engine adds, in the wider of the kernels' interval and the
    engine's band.

    Args:
        request: gives what was measured of the engine; without that the kernels alone are returned.
        kernels: seconds of the kernels; numbers or arrays.
        sequences: of one replica; a number or an array.
        stages: pipeline stages that the kernels are of; None: all.
    """
    if request.steps is None:
        return kernels
    added, (low, high) = request.engine_seconds(sequences, stages), request.engine_band
    seconds = kernels.seconds + added
    return Interval(seconds, minimum(kernels.low + added, seconds * low), maximum(kernels.high + added, seconds * high))


def replica(request: ResolvedRequest, step: Step) -> int:
    """Return the sequences of a step in the replica that has most."""
    return int(-(-sequences(step) // request.deployment.data_parallel_size))


def request_times(request: ResolvedRequest, *, timed: bool) -> dict[str, Duration] | None:
    """Return `ttft_s`, `tpot_s` and `e2e_s` of a request served at this batch from its prompt to its last token; None without
    output.

    Args:
        request: its workload has the prompt and output lengths.
        timed: whether times are computed; otherwise they are `NO_TIMES`.
    """
    workload = request.workload
    if workload.output_len is None:
        return None
    if not timed:
        return dict.fromkeys(("ttft_s", "tpot_s", "e2e_s"), NO_TIMES)
    ttft = time_to_first_token(request, workload.prompts)
    steps = workload.output_len - 1  # the first token comes out of prefill
    if not steps:
        return {"ttft_s": ttft, "tpot_s": NO_TIMES, "e2e_s": ttft}
    tpot = _mean_decode(request, workload.batch, workload.input_len, steps)
    return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": weighted_sum([(1, ttft), (steps, tpot)])}


def decode_contexts(first: int, steps: int) -> list[tuple[int, float]]:
    """Return contexts of decode steps with their weights, whose weighted sum stands for the mean over all steps: every step
    when they are few, else the trapezoidal rule between evenly spaced ones.

    Args:
        first: tokens cached before the first step; each step adds one.
        steps: number of steps, at least 1.

    >>> decode_contexts(100, 2)
    [(100, 0.5), (101, 0.5)]
    >>> sum(context * weight for context, weight in decode_contexts(1000, 201))
    1100.0
    """
    if steps <= _TPOT_POINTS:
        return [(context, 1 / steps) for context in range(first, first + steps)]
    contexts = [first + round(index * (steps - 1) / (_TPOT_POINTS - 1)) for index in range(_TPOT_POINTS)]
    # sum over whole contexts between two points of a straight line: the trapezoid, and half of each end once more
    weights = [0.5 / steps if end in (0, len(contexts) - 1) else 0.0 for end in range(len(contexts))]
    for left, (start, end) in enumerate(pairwise(contexts)):
        weights[left] += (end - start) / 2 / steps
        weights[left + 1] += (end - start) / 2 / steps
    return list(zip(contexts, weights, strict=True))


def _mean_decode(request: ResolvedRequest, batch: int, first: int, steps: int) -> Duration:
    """Mean time of `steps` decode steps whose contexts start at `first` and grow by one."""
    points = decode_contexts(first, steps)
    return weighted_sum((weight, pipeline(request, decode(batch, context))) for context, weight in points)


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
    >>> Pipeline((3.0, 1.0), hop=0.5).slowest, Pipeline((3.0, 1.0), hop=4.0).slowest
    (3.0, 4.0)
    """

    stages: Sequence[Expr]
    hop: Expr = 0

    @property
    def alone(self) -> Expr:
        """Return the seconds in which one microbatch passes all stages."""
        return sum(self.stages[1:], self.stages[0]) + (len(self.stages) - 1) * self.hop

    @property
    def slowest(self) -> Expr:
        """Return the seconds of the slowest stage, or of the message if it takes longer."""
        seconds = self.stages[0] if len(self.stages) == 1 else maximum(self.stages[0], self.hop)
        for stage in self.stages[1:]:
            seconds = maximum(seconds, stage)
        return seconds

    @property
    def fewest(self) -> Expr:
        """Return the fewest microbatches that keep the slowest stage busy in decode."""
        return ceil_div(self.alone, self.slowest)

    def filled(self, microbatches: Expr) -> Expr:
        """Return the seconds from the start of the first of m microbatches to the end of the last."""
        return self.alone + (microbatches - 1) * self.slowest

    def bubble(self, microbatches: Expr) -> Expr:
        """Return the share of `filled` in which the slowest stage is idle: (p - 1)/(m + p - 1) with p equal stages, no
        messages.
        """
        return 1 - microbatches * self.slowest / self.filled(microbatches)

    def interval(self, microbatches: Expr) -> Expr:
        """Return the seconds between tokens of a sequence, with m microbatches in flight."""
        return maximum(self.alone, microbatches * self.slowest)

    def idle(self, microbatches: Expr) -> Expr:
        """Return the share of `interval` in which the slowest stage is idle."""
        return 1 - microbatches * self.slowest / self.interval(microbatches)


def pipelined_step(request: ResolvedRequest, step: Step, microbatches: int) -> Duration:
    """Return the time of a step whose sequences are divided into microbatches: of decode the time between tokens of a
    sequence; with
    prompts, until the last microbatch has passed. Messages are part of the stages' time, as in `analyze`.

    A step of one microbatch is that of `pipeline`. What an engine adds to the work of a stage
    delays the stage; NB: the rest passes with each microbatch, at the same time as the stages' work on others.

    Args:
        request: the model on its deployment.
        step: the segments of the whole deployment's batch.
        microbatches: 1 to the sequences of a segment in a replica.

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
    floor = _took([stage.seconds for stage in floors(request, part)], microbatches, rounds=rounds)
    known = [estimate for _, estimate in by_stage if estimate is not None]
    if not known:
        return Duration(bound, None, floor=floor)
    ends = {name: [getattr(estimate, name) for estimate in known] for name in ("seconds", "low", "high")}
    through = with_engine(request, Interval(**{name: sum(ends[name]) for name in ends}), replica(request, part))
    host = request.stage_seconds(replica(request, part))
    took = {
        name: _took([end + host for end in ends[name]], microbatches, rounds=rounds, alone=getattr(through, name))
        for name in ends
    }
    return with_estimate(bound, None, Interval(**took), floor)


def _took(stages: list[float], microbatches: int, *, rounds: bool, alone: float | None = None) -> float:
    """Of decode (`rounds`) the interval, else until all have passed. `alone`: a microbatch's own way, where it is longer."""
    pipeline = Pipeline(stages)
    more = 0.0 if alone is None else alone - pipeline.alone
    if rounds:
        return float(max(pipeline.alone + more, microbatches * pipeline.slowest))
    return float(pipeline.filled(microbatches) + more)
