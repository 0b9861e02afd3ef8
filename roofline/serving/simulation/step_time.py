"""Seconds of a step: what the simulator needs of a `StepTime`, and the predictor's own times, divided into parts.

Attention is computed for each segment of a step: its parts add up. Most else (products, norms, exchanges, the LM head) depends
on how many tokens, or how many sequences, a step has; some on the tokens of prompts alone (the expansion of latents). So a step
of any segments is a sum of parts that depend on two numbers each, at most, and can be tabulated once (`step_tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from roofline.errors import InputError
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
Resource = Literal["matrix", "memory"]
RESOURCES: tuple[Resource, ...] = ("matrix", "memory")

Cell = tuple[float, float, float]
"""Below which number of cached tokens, of all sequences together, it holds; seconds per step at 0, and per cached token."""

Chunk = tuple[int, int]
"""A chunk of a prompt: new tokens, and those computed before."""


class StepTime(Protocol):
    """Seconds of the steps of one replica. Both methods are called at every event: they have to be fast."""

    def cells(self, num_sequences: int) -> Sequence[Cell]:
        """Return the seconds of a step that decodes each sequence, as pieces that are affine in the tokens that
        all of them have cached together, ascending; the last holds up to infinity."""

    def mixed(self, num_sequences: int, num_cached_tokens: float, chunks: Sequence[Chunk]) -> float:
        """Return the seconds of a step with chunks of prompts (maybe none).

        Args:
            num_sequences: sequences that decode one token each; may be 0.
            num_cached_tokens: tokens that those have cached together.
            chunks: of prompts, each as its new tokens and those computed before.
        """


_SEGMENT_NAMES = frozenset({"0", "1"})
"""Path components of the operators of a step's two segments, where lengths are arrays."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """Seconds of a step: what depends on all segments together, on all that are prompts, and on each segment alone; and of the
    first what depends on the tokens of all data-parallel ranks (the experts)."""

    rest: Array
    prompts: Array
    own: Array
    shared: Array

    @property
    def total(self) -> Array:
        """Seconds of the whole step."""
        return self.rest + self.prompts + self.own


@dataclass(frozen=True)
class StepCosts:
    """Steps of one replica by the predictor's formulas, without what the engine adds. Counts and lengths may be arrays."""

    request: ResolvedRequest
    basis: Basis
    graph: Callable[[Step], Graph] | None = None
    """The operators of a step; None: those of the request's model."""

    def __post_init__(self) -> None:
        if self.request.deployment.microbatch_overlap:
            msg = "microbatches that overlap are not simulated: steps add up their parts. Leave out --microbatch-overlap"
            raise InputError(msg)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The pipeline stages, each with its layers."""
        return stages(self.request.model, self.request.deployment.pipeline_parallel_size)

    def seconds(self, step: Step) -> list[StepParts]:
        """Return the seconds of a step in each pipeline stage, by the basis, without what the engine adds."""
        return [self._parts(stage, step, self.basis) for stage in self.stages]

    def utilization(self, step: Step) -> dict[str, list[StepParts]]:
        """Return the seconds for which the matrix units (`matrix`) and the memory (`memory`) of a device would work at their
        peaks in a step, for each pipeline stage."""
        return {name: [self._parts(stage, step, name) for stage in self.stages] for name in RESOURCES}

    def totals(self, step: Step, quantity: Basis | Resource) -> list[Array]:
        """Return the seconds of a step in each pipeline stage, without what the engine adds: by a basis, or for which a
        resource would work at its peak."""
        return [self._parts(stage, step, quantity).total for stage in self.stages]

    def _graph(self, stage: Stage, step: Step) -> Graph:
        request = self.request
        if self.graph is not None:
            return self.graph(step)
        return build(request.model, request.deployment, request.precision, step, stage)

    def _parts(self, stage: Stage, step: Step, quantity: str) -> StepParts:
        sums = (Sum(), Sum(), Sum(), Sum())
        graph = self._graph(stage, step)
        if quantity == "estimate":
            for kernel in kernels(graph):
                seconds = self.request.estimator.terms(kernel)["total"] * kernel.repeat
                sums[self._part(kernel.paths[0])].add(seconds)
                if kernel.paths[0] in self._of_ranks:
                    sums[3].add(seconds)
        else:
            for path, (operator, repeat) in graph.items():
                bounds = times(operator, operator.cost(), self.request.hardware)
                sums[self._part(path)].add(getattr(bounds, quantity) * repeat)
                if path in self._of_ranks:
                    sums[3].add(getattr(bounds, quantity) * repeat)
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

    @cached_property
    def _of_ranks(self) -> frozenset[str]:
        """Paths of operators that the tokens of other data-parallel ranks change."""
        ranks = self.request.deployment.data_parallel_size
        paths: set[str] = set()
        for stage in self.stages if ranks > 1 else ():
            one, each = (self._graph(stage, (Segment(count, 8, 0),)) for count in (1, ranks))
            paths |= {path for path, (operator, _) in each.items() if one[path][0] != operator}
        return frozenset(paths)
