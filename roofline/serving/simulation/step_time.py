"""Seconds of a step: what the simulator needs of a `StepTime`, and the predictor's own times, divided into parts.

Attention is computed for each segment of a step: its parts add up. Most else (products, norms, exchanges, the LM head) depends
on how many tokens, or how many sequences, a step has; some on the tokens of prompts alone (the expansion of latents). So a step
of any segments is a sum of parts that depend on two numbers each, at most, and can be tabulated once (`step_tables.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, stages
from roofline.predict.bounds import times
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.request import ResolvedRequest
from roofline.predict.tiles import Sum
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Basis = Literal["estimate", "bound"]

Cell = tuple[float, float, float]
"""Below which number of cached tokens, of all sequences together, it holds; seconds per step at 0, and per cached token."""

Chunk = tuple[int, int]
"""A chunk of a prompt: new tokens, and those computed before."""


class StepTime(Protocol):
    """Seconds of the steps of one replica. Both methods are called at every event: they have to be fast."""

    def cells(self, num_sequences: int) -> Sequence[Cell]:
        """Return a step that decodes one token per sequence, as pieces that are affine in the tokens that all have cached, in
        ascending order; the last holds up to infinity."""

    def mixed(self, num_sequences: int, num_cached_tokens: int, chunks: Sequence[Chunk]) -> float:
        """Return the seconds of a step that decodes one token per sequence (maybe of none), with `num_cached_tokens` cached
        together, beside chunks of prompts (maybe none)."""


@dataclass(frozen=True, slots=True)
class AffineStepTime:
    """A step as a sum of seconds: per step, per sequence that decodes, per token cached for those, per prompt token, and per
    pair of a prompt token with one before it in its prompt.

    >>> times = AffineStepTime(1.0, sequence=0.5, cached=0.25, token=0.125)
    >>> times.cells(2), times.mixed(2, 8, [(4, 0)])  # 1 + 2/2 + 8/4, and 4/8
    ([(inf, 2.0, 0.25)], 4.5)
    """

    base: float
    sequence: float = 0.0
    cached: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def cells(self, num_sequences: int) -> list[Cell]:
        """Return one cell."""
        return [(math.inf, self.base + self.sequence * num_sequences, self.cached)]

    def mixed(self, num_sequences: int, num_cached_tokens: int, chunks: Sequence[Chunk]) -> float:
        """Return the sum."""
        seconds = self.base + self.sequence * num_sequences + self.cached * num_cached_tokens
        for new, before in chunks:
            seconds += new * (self.token + self.pair * before)
        return seconds


_SEGMENT_NAMES = frozenset({"0", "1"})
"""Path components of the operators of a step's two segments, where lengths are arrays."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """Seconds of a step: what depends on all segments together, on all that are prompts, and on each segment alone."""

    rest: Array
    prompts: Array
    own: Array

    @property
    def total(self) -> Array:
        """The whole step."""
        return self.rest + self.prompts + self.own


@dataclass(frozen=True)
class StepCosts:
    """Steps of one replica by the predictor's formulas, without what the engine adds. Counts and lengths may be arrays."""

    request: ResolvedRequest
    basis: Basis

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Pipeline stages."""
        return stages(self.request.model, self.request.deployment.pipeline_parallel_size)

    def seconds(self, step: Step) -> list[StepParts]:
        """Return the parts of a step in each pipeline stage."""
        return [self._parts(stage, step, self.basis) for stage in self.stages]

    def utilization(self, step: Step) -> dict[str, list[StepParts]]:
        """Return, for each pipeline stage, for how long the matrix units and the memory of a device would be busy at their
        peaks: `matrix` and `memory`."""
        return {name: [self._parts(stage, step, name) for stage in self.stages] for name in ("matrix", "memory")}

    def _graph(self, stage: Stage, step: Step) -> Graph:
        request = self.request
        return build(request.model, request.deployment, request.precision, step, stage)

    def _parts(self, stage: Stage, step: Step, quantity: str) -> StepParts:
        sums = (Sum(), Sum(), Sum())
        graph = self._graph(stage, step)
        if quantity == "estimate":
            for kernel in kernels(graph):
                sums[self._part(kernel.paths[0])].add(self.request.estimator.terms(kernel)["total"] * kernel.repeat)
        else:
            for path, (operator, repeat) in graph.items():
                bounds = times(operator, operator.cost(), self.request.hardware)
                sums[self._part(path)].add(getattr(bounds, quantity) * repeat)
        return StepParts(*(each.total() for each in sums))

    def _part(self, path: str) -> int:
        """Index of the part that an operator counts in."""
        return 2 if path in self._of_segments else 1 if path in self._of_prompts else 0

    @cached_property
    def _of_segments(self) -> frozenset[str]:
        """Paths of operators that a step of one segment has of that segment."""
        import numpy as np

        one = np.ones(1)
        step = (Segment(one, 1, 1 * one, decode=True), Segment(one, 2 * one, one))
        paths = set()
        for stage in self.stages:
            for path in self._graph(stage, step):
                names = path.split("/")
                if not _SEGMENT_NAMES.isdisjoint(names):
                    paths.add("/".join(name for name in names if name not in _SEGMENT_NAMES))
        return frozenset(paths)

    @cached_property
    def _of_prompts(self) -> frozenset[str]:
        """Paths of operators that a step without prompts does not have."""
        paths: set[str] = set()
        for stage in self.stages:
            prompts, decodes = (self._graph(stage, (one,)) for one in (Segment(1, 2, 0), Segment(1, 1, 1, decode=True)))
            paths |= prompts.keys() - decodes.keys()
        return frozenset(paths - self._of_segments)
