"""Seconds of rounds of speculative decoding: the tables of `step_tables.py`, of a model and its draft.

A round of n sequences takes K steps of the draft and one of the model that verifies K + 1 tokens of each, as
`roofline.predict.speculation` has it. Prompts beside it add to the model's step what they add to one of as many tokens, and to
the draft's first step what they add to that: a draft has a cache of its own.

NB: of data-parallel ranks the experts of the model are those of all ranks' tokens; those of the draft are not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.graph.build import Graph, build
from roofline.predict.speculation import Speculation
from roofline.serving.simulation.step_tables import StepTables, at
from roofline.serving.simulation.step_time import Basis, Chunk, Resource, StepCosts, StepParts
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(kw_only=True)
class SpeculativeTables(StepTables):
    """Seconds of the rounds of one replica: a `StepTime`.

    Args:
        speculation: the model with its draft.
    """

    speculation: Speculation

    def __post_init__(self) -> None:
        self.num_step_tokens = 1 + self.speculation.options.tokens

    @cached_property
    def draft(self) -> StepTables | None:
        """Tables of the draft's steps; None: it costs nothing."""
        draft = self.speculation.draft
        if draft.request is None:
            return None
        return StepTables(draft.request, self.basis, self.max_model_len, self.max_num_seqs, draft.graph)

    @cached_property
    def _verifying(self) -> StepCosts:
        """Steps that verify drafts: logits of all positions, compared with the draft's."""
        speculation = self.speculation
        request = speculation.verifier

        def graph(step: Step) -> Graph:
            verified = build(request.model, request.deployment, request.precision, step)
            return {**verified, "rejection": (speculation.comparison(step[0].count), 1)}

        return StepCosts(request, self.basis, graph)

    def decode_seconds(self, batch: Array, contexts: Array, quantity: Basis | Resource) -> list[Array]:
        """Return the seconds of rounds, as `StepTables.decode_seconds` those of steps."""
        import numpy as np

        drafted = self.num_step_tokens - 1
        verify = Segment(batch * self.ranks, 1 + drafted, contexts, decode=True)
        (seconds,) = self._verifying.totals((verify,), quantity)
        if quantity == "estimate":  # as `Speculation.verifying`
            (plain,) = super().decode_seconds(batch, contexts, quantity)
            seconds = np.maximum(seconds, plain)
        if self.draft is not None:
            ends = [self.draft.decode_seconds(batch, contexts + ahead, quantity)[0] for ahead in (0, drafted - 1)]
            seconds = seconds + drafted * (ends[0] + ends[1]) / 2
        return [seconds]

    def utilization(self, step: Step) -> dict[str, list[StepParts]]:
        """Return the seconds at their peaks of a step of prompts, through the model and the draft."""
        of_model = super().utilization(step)
        if self.draft is None:
            return of_model
        of_draft = self.draft.utilization(step)
        return {
            name: [
                StepParts(one.rest + other.rest, one.prompts + other.prompts, one.own + other.own, one.shared + other.shared)
                for one, other in zip(stages, of_draft[name], strict=True)
            ]
            for name, stages in of_model.items()
        }

    def mixed(self, num_sequences: int, num_cached_tokens: float, chunks: Sequence[Chunk]) -> float:
        """Return the seconds of a round with chunks of prompts."""
        seconds = at(self.cells(num_sequences), num_cached_tokens) if num_sequences else self._engine
        if not chunks:
            return seconds
        tokens, before = sum([new for new, _ in chunks]), num_sequences * self.num_step_tokens
        head, rest = self._head, self._rest
        seconds += rest(before + tokens) + head[before + len(chunks)] + self._per_sequence * len(chunks)
        if before:
            seconds -= rest(before) + head[before]
        if self._of_prompts is not None:
            seconds += self._of_prompts(tokens)
        for new, past in chunks:
            seconds += self._own(new) + (self._past(new, past) if past else 0.0)
        if (draft := self.draft) is not None:
            seconds += draft.mixed(num_sequences, num_cached_tokens, chunks)
            if num_sequences:
                seconds -= at(draft.cells(num_sequences), num_cached_tokens)
        return max(seconds, self._eager)
