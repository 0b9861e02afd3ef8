"""What a step takes, taken apart: what belongs to one of its segments alone, and what depends on all tokens together.

Attention is computed for each segment: its parts add up. Most else (products, norms, exchanges, the LM head) depends on how
many tokens, or how many sequences, a step has; some on the tokens of prompts alone (the expansion of latents). So a step of
any segments is a sum of parts that each depend on two numbers at most, and can be tabulated once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, stages
from roofline.predict.bounds import times
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.request import Request
from roofline.predict.tiles import Sum
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Basis = Literal["estimate", "bound"]
_NUMBERED = frozenset({"0", "1"})
"""What the operators of a step's two segments are called by, where lengths are arrays."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of a step: what depends on all segments together, on all that are prompts, and on each segment alone."""

    rest: Array
    prompts: Array
    own: Array

    @property
    def whole(self) -> Array:
        """All three."""
        return self.rest + self.prompts + self.own


@dataclass(frozen=True)
class Parts:
    """The steps of one replica. Counts and lengths may be arrays."""

    request: Request
    basis: Basis

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Pipeline stages."""
        return stages(self.request.model, self.request.deployment.pipeline_parallel_size)

    def seconds(self, step: Step) -> list[Part]:
        """Seconds in each pipeline stage, without what the engine adds."""
        return [self._sum(stage, step, self.basis) for stage in self.stages]

    def work(self, step: Step) -> dict[str, list[Part]]:
        """Seconds in each pipeline stage for which the matrix units, and the memory, of a device would be busy at their
        peaks."""
        return {name: [self._sum(stage, step, name) for stage in self.stages] for name in ("matrix", "memory")}

    def _graph(self, stage: Stage, step: Step) -> Graph:
        request = self.request
        return build(request.model, request.deployment, request.precision, step, stage)

    def _sum(self, stage: Stage, step: Step, what: str) -> Part:
        request = self.request
        sums = (Sum(), Sum(), Sum())
        graph = self._graph(stage, step)
        if what == "estimate":
            for kernel in kernels(graph):
                sums[self._kind(kernel.paths[0])].add(request.estimator.terms(kernel)["total"] * kernel.repeat)
        else:
            for path, (operator, repeat) in graph.items():
                busy = times(operator, operator.cost(), request.hardware)
                sums[self._kind(path)].add(getattr(busy, what) * repeat)
        return Part(*(each.total() for each in sums))

    def _kind(self, path: str) -> int:
        """Which of the three an operator counts in."""
        return 2 if path in self._of_segments else 1 if path in self._of_prompts else 0

    @cached_property
    def _of_segments(self) -> frozenset[str]:
        """Paths of operators that a step of one segment has of that segment."""
        import numpy as np

        one = np.ones(1)
        step = (Segment(one, 1, 1 * one, decode=True), Segment(one, 2 * one, one))
        found = set()
        for stage in self.stages:
            for path in self._graph(stage, step):
                parts = path.split("/")
                if not _NUMBERED.isdisjoint(parts):
                    found.add("/".join(part for part in parts if part not in _NUMBERED))
        return frozenset(found)

    @cached_property
    def _of_prompts(self) -> frozenset[str]:
        """Paths of operators that a step without prompts does not have."""
        found: set[str] = set()
        for stage in self.stages:
            prompts, decodes = (self._graph(stage, (one,)) for one in (Segment(1, 2, 0), Segment(1, 1, 1, decode=True)))
            found |= prompts.keys() - decodes.keys()
        return frozenset(found - self._of_segments)
