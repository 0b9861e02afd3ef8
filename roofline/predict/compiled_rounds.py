"""Rounds of speculative decoding evaluated at many points at once: what `Compiled` is for steps of the model alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.graph.build import Graph
from roofline.graph.sharding import Stage
from roofline.numeric import maximum
from roofline.predict.compiled import Compiled, StepTimes
from roofline.predict.speculation import Speculation
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _CompiledGraph(Compiled):
    """Steps whose operators are not those of the request's model."""

    graph: Callable[[Step], Graph]

    def _graph(self, step: Step, stage: Stage) -> Graph:
        return self.graph(step)


@dataclass(frozen=True, slots=True)
class CompiledRounds(Compiled):
    """A model with a draft on hardware. Segments that decode are rounds: the draft's steps and the verification.

    Args:
        speculation: the model with its draft.
    """

    speculation: Speculation

    def times(self, step: Step) -> StepTimes:
        """Return the seconds of a round, beside which prompts pass the model and the draft.

        Prompts add what they add to a step of the model with as many tokens, and to a step of the draft.

        Args:
            step: segments of any kind, counts of the whole deployment; those that decode have one new token.
        """
        decodes = tuple(segment for segment in step if segment.decode)
        if not decodes:
            return _sum(self._model.times(step), self._draft_times(step))
        seconds = self._round(decodes)
        if len(decodes) == len(step):
            return seconds
        prompts = tuple(segment for segment in step if not segment.decode)
        verifying = self._verifying(decodes)
        model = _difference(self._model.times((*verifying, *prompts)), self._model.times(verifying))
        draft = _difference(self._draft_times(step), self._draft_times(decodes))
        return _sum(seconds, model, draft)

    @property
    def _model(self) -> Compiled:
        return Compiled(self.request, self.phase)

    def _verifying(self, decodes: Step) -> Step:
        drafted = self.speculation.options.tokens
        return tuple(replace(segment, new=segment.new + drafted) for segment in decodes)

    def _round(self, decodes: Step) -> StepTimes:
        """The verification, whose estimate is at least that of a plain step (`Speculation.verifying`), and K steps of the
        draft, at the mean of the first and the last."""
        speculation, drafted = self.speculation, self.speculation.options.tokens
        count = sum(segment.count for segment in decodes)
        compared = _CompiledGraph(self.request, self.phase, lambda _: {"rejection": (speculation.comparison(count), 1)})
        verifying = self._verifying(decodes)
        verified = _sum(Compiled(speculation.verifier, self.phase).times(verifying), compared.times(verifying))
        plain = self._model.times(decodes)
        verified = verified._replace(
            kernels=maximum(verified.kernels, plain.kernels), alone=maximum(verified.alone, plain.alone)
        )
        ends = [self._draft_times(_after(decodes, ahead)) for ahead in (0, drafted - 1)]
        return _sum(verified, StepTimes(*(drafted / 2 * (first + last) for first, last in zip(*ends, strict=True))))

    def _draft_times(self, step: Step) -> StepTimes:
        """One step of the draft; nothing where that costs nothing."""
        import numpy as np

        draft = self.speculation.draft
        if draft.request is None or draft.graph is None:
            return StepTimes(*(np.zeros(()) for _ in range(4)))
        return _CompiledGraph(draft.request, self.phase, draft.graph).times(step)


def _after(decodes: Step, ahead: int) -> tuple[Segment, ...]:
    return tuple(replace(segment, cached=segment.cached + ahead) for segment in decodes)


def _sum(*times: StepTimes) -> StepTimes:
    return StepTimes(*(sum(each[1:], start=each[0]) for each in zip(*times, strict=True)))


def _difference(one: StepTimes, other: StepTimes) -> StepTimes:
    return StepTimes(*(left - right for left, right in zip(one, other, strict=True)))
