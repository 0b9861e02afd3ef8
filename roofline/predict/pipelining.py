"""Microbatches in a pipeline: how long they take, and how long its stages stand idle.

A stage works on one microbatch at a time. Microbatch i can enter stage j when stage j has finished microbatch i - 1 and stage
j - 1 has finished i. Where each stage takes the same time t_j for every microbatch, the last of m leaves the last stage after

    sum_j t_j + (m - 1) max_j t_j

which is GPipe's picture of a forward pass: with p equal stages (m + p - 1) t, of which every stage is idle for (p - 1) t, the
bubble. Decode goes round: the next token of a sequence enters the first stage when its last one has left the last. Then m
microbatches in flight come by again every

    max(sum_j t_j, m max_j t_j)

seconds: a microbatch cannot be faster than its own way through all stages, nor the slowest stage than all m. (Stages and
microbatches make a cyclic schedule; its period is the largest mean over its circuits, which are those two: Baccelli, Cohen,
Olsder, Quadrat, "Synchronization and Linearity", 1992.) A message between two stages can pass while both work on
other microbatches, and is a stage of its own then.

Sources: Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3; Narayanan et al. 2021, arXiv:2104.04473, section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline.errors import InputError
from roofline.numeric import Expr, ceil_div, maximum
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import Interval
from roofline.predict.request import Request
from roofline.predict.timing import per_stage, replica, with_engine, with_estimate
from roofline.specs.workload import Step


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages that microbatches pass one after another: seconds of one microbatch in each, and of a message between two that
    overlaps with their work (0 where it is part of the stages' own time). Numbers, or arrays.

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
        found = self.stages[0] if len(self.stages) == 1 else maximum(self.stages[0], self.hop)
        for stage in self.stages[1:]:
            found = maximum(found, stage)
        return found

    @property
    def fewest(self) -> Expr:
        """The fewest microbatches that keep the slowest stage busy in decode."""
        return ceil_div(self.alone, self.slowest)

    def filled(self, microbatches: Expr) -> Expr:
        """Seconds from the first of so many microbatches in the first stage to the end of the last in the last."""
        return self.alone + (microbatches - 1) * self.slowest

    def bubble(self, microbatches: Expr) -> Expr:
        """Share of that in which the slowest stage is idle: (p - 1)/(m + p - 1) with p equal stages and no messages."""
        return 1 - microbatches * self.slowest / self.filled(microbatches)

    def interval(self, microbatches: Expr) -> Expr:
        """Seconds from one token of a sequence to its next, with so many microbatches in flight."""
        return maximum(self.alone, microbatches * self.slowest)

    def idle(self, microbatches: Expr) -> Expr:
        """Share of that in which the slowest stage is idle."""
        return 1 - microbatches * self.slowest / self.interval(microbatches)


def of_step(request: Request, step: Step, microbatches: int) -> Duration:
    """Seconds of a step whose sequences are dealt to microbatches: of decode, from one token of each sequence to the next; with
    prompts, until the last microbatch has passed. Messages are part of the stages' time, as in `analyze`.

    A step of one microbatch is that of `roofline.predict.timing.pipeline`. NB: what an engine adds to a step passes with each
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
    found = per_stage(request, part)
    bound = _took([bound for bound, _ in found], microbatches, rounds=rounds)
    known = [estimate for _, estimate in found if estimate is not None]
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
