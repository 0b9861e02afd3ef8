"""Rounds of one deployment: K steps of the draft, and a step of the model that verifies K + 1 tokens of each sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.operators.sampling import Sampling
from roofline.predict.memory import MemoryModel
from roofline.predict.request import Request, prepare
from roofline.predict.result import Duration
from roofline.predict.speculative.asked import Asked, take
from roofline.predict.speculative.draft import NO_TIME, Draft, scaled, timed, total
from roofline.predict.speculative.memory import SpeculativeMemory
from roofline.predict.speculative.methods import methods
from roofline.predict.speculative.rounds import tokens_per_round
from roofline.predict.timing import pipeline
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment, Step, decode


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding of the model of a request."""

    asked: Asked
    request: Request
    draft: Draft
    _plain: dict[tuple[int, int], Duration] = field(default_factory=dict, repr=False)

    @property
    def tokens(self) -> float:
        """Expected tokens of a sequence a round."""
        return tokens_per_round(self.asked.acceptance, self.asked.tokens)

    def plain(self, batch: int, context: int) -> Duration:
        """A decode step without a draft."""
        at = (batch, context)
        if at not in self._plain:
            self._plain[at] = pipeline(self.request, decode(batch, context))
        return self._plain[at]

    def drafting(self, batch: int, context: int) -> Duration:
        """K steps of the draft, whose contexts grow by one: as many as the mean of the first and the last."""
        count = self.asked.tokens
        if not count or self.draft.step is None:
            return NO_TIME
        ends = [self.draft.step(decode(batch, context + ahead)) for ahead in dict.fromkeys((0, count - 1))]
        return scaled(total(*ends), count / len(ends))

    def verifying(self, batch: int, context: int) -> Duration:
        """One step of K + 1 tokens a sequence with logits of all of them, and the comparison of those with the draft.

        Its estimate is at least that of a decode step: attention over several new tokens is estimated by the form that was
        fitted to prompts, which is a little quicker over a long cache than the one for a single token.
        """
        plain = self.plain(batch, context)
        if not (drafted := self.asked.tokens):
            return plain
        request = self.request
        conventions = request.deployment.conventions.model_copy(update={"logits": "all"})
        all_logits = replace(request, deployment=request.deployment.model_copy(update={"conventions": conventions}))
        step = pipeline(all_logits, (Segment(batch, 1 + drafted, context, decode=True),))
        rows = -(-batch // request.deployment.data_parallel_size) * drafted
        compared = Sampling(rows=rows, choices=request.model.vocab_size, dtypes=request.precision.dtypes("norm"))
        found = total(step, timed(request, {"rejection": (compared, 1)}))
        if found.estimate is None or plain.estimate is None:
            return found
        ends = [max(getattr(found, name), getattr(plain, name)) for name in ("estimate", "low", "high")]
        return Duration(found.bound, None, *ends)

    def round(self, batch: int, context: int) -> Duration:
        """The draft and its verification."""
        return total(self.drafting(batch, context), self.verifying(batch, context))

    def tpot(self, batch: int, context: int) -> Duration:
        """Seconds a token of each sequence: of a round, over the tokens that it is expected to give."""
        return scaled(self.round(batch, context), 1 / self.tokens)

    def prefill(self, step: Step) -> Duration:
        """Prompts through the model, and through the draft, which has caches of its own."""
        drafted = NO_TIME if self.draft.step is None else self.draft.step(step)
        return total(pipeline(self.request, step), drafted)

    def by_batch(self, context: int) -> Callable[[int], Duration]:
        """TPOT at a context, by the batch. Each is computed once."""
        found: dict[int, Duration] = {}

        def tpot(batch: int) -> Duration:
            if batch not in found:
                found[batch] = self.tpot(batch, context)
            return found[batch]

        return tpot


def prepared(
    model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, options: dict[str, Any]
) -> tuple[Request, Speculation | None]:
    """A request, and the speculative decoding that its options ask for, whose memory the request then has.

    Raises:
        roofline.errors.RooflineError: as `roofline.predict.request.prepare`; an option of speculative decoding that is
            missing or wrong, or a deployment for which it is not modelled.
    """
    asked, rest = take(options, methods())
    request = prepare(model, hardware, **rest)
    if asked is None:
        return request, None
    if request.deployment.pipeline_parallel_size > 1:
        raise InputError("speculative decoding over pipeline stages is not modelled: use --pipeline-parallel-size 1")
    if request.workload.segmented:
        raise InputError("--segments describes one step, not rounds of drafts: leave it out, or speculative decoding")
    draft: Draft = methods()[asked.method].draft(request, asked, rest)
    own = {setting.name: getattr(request.memory, setting.name) for setting in fields(MemoryModel)}
    request = replace(
        request,
        memory=SpeculativeMemory(
            **own, draft=draft.memory, draft_weights_bytes=draft.weights_bytes if asked.tokens else 0.0, ahead=asked.tokens
        )
        if asked.tokens
        else request.memory,
        inputs=(*request.inputs, *draft.inputs),
        assumptions=(*request.assumptions, *_notes(asked), *draft.notes),
        asked=None
        if request.asked is None or isinstance(asked.model, Model)
        else {**request.asked, "options": _given(options)},
    )
    return request, Speculation(asked, request, draft)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value is not False}


def _notes(asked: Asked) -> list[Assumption]:
    """What speculative decoding is taken to be."""
    each = "each drafted token is accepted with this probability, wherever it stands and whatever came before it"
    found = [
        Assumption("speculative_method", asked.method, "given", "a round is the steps of the draft and one that verifies"),
        Assumption("num_speculative_tokens", asked.tokens, "given", "drafted a round"),
        Assumption("acceptance", asked.acceptance, "given", each),
    ]
    why = "what the engine adds to a step is counted once a round"
    return [*found, Assumption("speculative_engine", "one step a round", "assumed", why)]
