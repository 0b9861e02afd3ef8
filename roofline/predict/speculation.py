"""Rounds of one deployment: K steps of the draft, and a step of the model that verifies K + 1 tokens of each sequence.

The deployment holds the draft too: its weights, its caches, and blocks for the tokens that are being verified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.sharding import stages
from roofline.numeric import Expr, ceil_div, maximum
from roofline.operators.sampling import Sampling
from roofline.predict.allocation import Allocation
from roofline.predict.drafts import METHODS, Draft, SpeculativeOptions
from roofline.predict.duration import NO_TIMES, ZERO_TIME, Duration, scaled, total
from roofline.predict.memory import MemoryModel, Setting, StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.predict.result import Analysis, RequestTimes, Speculative
from roofline.predict.timing import pipeline, time_to_first_token, timed
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment, Step, decode

_MEAN_POINTS = 9  # in the middle of equal parts of what is generated


def tokens_per_round(acceptance: float, drafted: int) -> float:
    """Return the expected tokens per round: those drafted that are accepted before the first rejection, and one of the
    model's own.

    With each of K drafted tokens accepted with probability a, independently of the others: 1 + a + ... + a^K =
    (1 - a^(K+1))/(1 - a). Leviathan et al. 2023, arXiv:2211.17192, eq. (1).

    Args:
        acceptance: a, from 0 to 1.
        drafted: K.

    >>> round(tokens_per_round(0.8, 5), 2), tokens_per_round(1.0, 5), tokens_per_round(0.0, 5), tokens_per_round(0.5, 0)
    (3.69, 6.0, 1.0, 1.0)
    """
    if acceptance in (0, 1):
        return 1.0 + acceptance * drafted
    return -math.expm1((drafted + 1) * math.log(acceptance)) / (1 - acceptance)


def accepted_share(acceptance: float, drafted: int) -> float | None:
    """Return the share of drafted tokens that is accepted, as engines log it; None where none is drafted.

    It is less than `acceptance`, for tokens after the first rejection are discarded.

    Args:
        acceptance: probability that a drafted token is accepted, 0 to 1.
        drafted: tokens drafted per round.

    >>> round(accepted_share(0.5, 2), 12)  # (0.5 + 0.25)/2
    0.375
    """
    return (tokens_per_round(acceptance, drafted) - 1) / drafted if drafted else None


def break_even(ratio: float, drafted: int) -> float | None:
    """Return the acceptance at which speculative decoding is as fast as plain decoding; None if it never is.

    Args:
        ratio: time of a round over that of a plain decode step.
        drafted: tokens drafted per round.

    >>> break_even(1.0, 3), break_even(4.5, 3)
    (0.0, None)
    >>> round(break_even(1.75, 2), 9)  # 1 + 1/2 + 1/4
    0.5
    """
    if ratio > drafted + 1:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_round(middle, drafted) < ratio else (low, middle)
    return high if ratio > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class _WithDraft(Setting):
    """The draft that is held with the model."""

    draft: MemoryModel | None
    draft_weights_bytes: float
    ahead: int
    """Tokens drafted per round: a sequence has blocks for as many more."""


@dataclass(frozen=True, kw_only=True)
class SpeculativeStage(_WithDraft, StageMemory):
    """What a device needs and has, in the step that verifies a draft."""

    def _verifying(self, step: Step) -> Step:
        """A decode step with the drafted tokens in it; prompts are as they are."""
        return tuple(replace(segment, new=segment.new + self.ahead) if segment.decode else segment for segment in step)

    def needed_bytes(self, step: Step) -> Expr:
        """The model's caches and states, and the draft's."""
        verifying = self._verifying(step)
        needed = super().needed_bytes(verifying)
        return needed if self.draft is None else needed + self.draft.fullest_stage.needed_bytes(verifying)

    def activation_bytes(self, step: Step) -> Expr:
        """Of the verification, which has logits of all of its tokens, or of the draft's step if that is more."""
        verifies = any(segment.decode for segment in step)
        peak = self._verifier.activation_bytes(self._verifying(step)) if verifies else super().activation_bytes(step)
        return peak if self.draft is None else maximum(peak, self.draft.fullest_stage.activation_bytes(step))

    @cached_property
    def _verifier(self) -> StageMemory:
        """The model's stage alone, with logits of every position."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(StageMemory)}
        conventions = self.deployment.conventions.model_copy(update={"logits": "all"})
        return StageMemory(**{**own, "deployment": self.deployment.model_copy(update={"conventions": conventions})})

    @property
    def loaded_bytes(self) -> float:
        """The model's weights and the draft's."""
        return super().loaded_bytes + self.draft_weights_bytes

    @property
    def layouts(self) -> tuple[Allocation, ...]:
        """Layouts of the model's caches and of the draft's."""
        return (self.layout,) if self.draft is None else (self.layout, self.draft.fullest_stage.layout)

    def own_cache_share(self, length: int) -> float:
        """The draft keeps the tokens too."""
        own = self.layout.bytes(length - 1, 1)
        both = own if self.draft is None else own + self.draft.fullest_stage.layout.bytes(length - 1, 1)
        return own / both if both else 0.0

    def kv_capacity_tokens(self, step: Step) -> int:
        """Tokens that fit in the model's caches and in the draft's."""
        length = max(segment.cached + segment.new for segment in step)
        return int(super().kv_capacity_tokens(step) * self.own_cache_share(length))


@dataclass(frozen=True, kw_only=True)
class SpeculativeMemory(_WithDraft, MemoryModel):
    """The memory of a deployment whose tokens are drafted; of one pipeline stage."""

    @cached_property
    def stages(self) -> tuple[StageMemory, ...]:
        """Return the one stage."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return (SpeculativeStage(stage=stages(self.model, 1)[0], **own),)

    def alone(self) -> MemoryModel:
        """Return the memory of the model without a draft."""
        return MemoryModel(**{setting.name: getattr(self, setting.name) for setting in fields(MemoryModel)})


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding of the model of a request."""

    options: SpeculativeOptions
    request: ResolvedRequest
    draft: Draft
    _plain: dict[tuple[int, int], Duration] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, request: ResolvedRequest, speculative: SpeculativeOptions, options: dict[str, Any]) -> Speculation:
        """Return the speculative decoding of a resolved request, whose memory then holds the draft too.

        Args:
            request: the request without speculative decoding.
            speculative: the method and its options.
            options: the other options of the request; a draft model shares those that hold for it.

        Raises:
            roofline.errors.RooflineError: a draft that does not go with the model, or a deployment that is not modelled.
        """
        if request.deployment.pipeline_parallel_size > 1:
            raise InputError("speculative decoding over pipeline stages is not modelled: use --pipeline-parallel-size 1")
        if request.workload.segmented:
            raise InputError("--segments describes one step, not rounds of drafts: leave it out, or speculative decoding")
        draft = METHODS[speculative.method](request, speculative, options)
        memory = request.memory
        if speculative.tokens:
            own = {setting.name: getattr(memory, setting.name) for setting in fields(MemoryModel)}
            memory = SpeculativeMemory(
                **own, draft=draft.memory, draft_weights_bytes=draft.weights_bytes, ahead=speculative.tokens
            )
        query = request.query
        if query is not None:
            given = {**query["options"], **speculative.given}
            query = None if isinstance(speculative.model, Model) else {**query, "options": given}
        request = replace(
            request,
            memory=memory,
            inputs=(*request.inputs, *draft.inputs),
            assumptions=(*request.assumptions, *_notes(speculative), *draft.notes),
            query=query,
        )
        return cls(speculative, request, draft)

    @property
    def tokens(self) -> float:
        """Return the expected tokens per round and sequence."""
        return tokens_per_round(self.options.acceptance, self.options.tokens)

    def plain(self, batch: int, context: int) -> Duration:
        """Return the time of a plain decode step: `batch` sequences of the whole deployment after `context` tokens each."""
        at = (batch, context)
        if at not in self._plain:
            self._plain[at] = pipeline(self.request, decode(batch, context))
        return self._plain[at]

    def drafting(self, batch: int, context: int) -> Duration:
        """Return the time of K draft steps whose contexts grow by one: K times the mean of the first and the last; same
        arguments.
        """
        count = self.options.tokens
        if not count or self.draft.step is None:
            return ZERO_TIME
        ends = [self.draft.step(decode(batch, context + ahead)) for ahead in dict.fromkeys((0, count - 1))]
        return scaled(total(*ends), count / len(ends))

    @cached_property
    def verifier(self) -> ResolvedRequest:
        """The model with logits of every position, of which a step verifies a draft."""
        deployment = self.request.deployment
        conventions = deployment.conventions.model_copy(update={"logits": "all"})
        return replace(self.request, deployment=deployment.model_copy(update={"conventions": conventions}))

    def comparison(self, batch: Expr) -> Sampling:
        """Return the operator that compares drafted tokens with the model's, of `batch` sequences of the whole deployment."""
        request = self.request
        rows = ceil_div(batch, request.deployment.data_parallel_size) * self.options.tokens
        return Sampling(rows=rows, choices=request.model.vocab_size, dtypes=request.precision.dtypes("norm"))

    def verifying(self, batch: int, context: int) -> Duration:
        """Return the time of the model's step over K + 1 tokens per sequence with logits of all, and of comparing them with
        the draft.

        Its estimate is at least that of a decode step: attention over several new tokens is estimated by the form that was
        fitted to prompts, which is a little faster over a long cache than the one for a single token.
        """
        plain = self.plain(batch, context)
        if not (drafted := self.options.tokens):
            return plain
        segments = (Segment(batch, 1 + drafted, context, decode=True),)
        step = pipeline(self.verifier, segments)
        verified = total(step, timed(self.request, {"rejection": (self.comparison(batch), 1)}, segments))
        if verified.estimate is None or plain.estimate is None:
            return verified
        ends = {name: max(getattr(verified, name), getattr(plain, name)) for name in ("estimate", "low", "high")}
        return replace(verified, **ends)

    def round(self, batch: int, context: int) -> Duration:
        """Return the time of a round: the draft and its verification."""
        return total(self.drafting(batch, context), self.verifying(batch, context))

    def tpot(self, batch: int, context: int) -> Duration:
        """Return the time per token of each sequence: that of a round over its expected tokens."""
        return scaled(self.round(batch, context), 1 / self.tokens)

    def prefill(self, step: Step) -> Duration:
        """Return TTFT of the prompts of a step: through the model, and through the draft, which has a cache of its own."""
        drafted = ZERO_TIME if self.draft.step is None else self.draft.step(step)
        return total(time_to_first_token(self.request, step), drafted)

    def by_batch(self, context: int) -> Callable[[int], Duration]:
        """Return a function from the batch to the TPOT at a context. Each batch is computed once."""
        times: dict[int, Duration] = {}

        def tpot(batch: int) -> Duration:
            if batch not in times:
                times[batch] = self.tpot(batch, context)
            return times[batch]

        return tpot

    def added_to(self, result: Analysis) -> Analysis:
        """Return an analysis with the rounds of its batch and context, which replace plain decoding in the times of a request.

        Raises:
            InputError: the analysis has no decode step.
        """
        if result.decode is None:
            raise InputError("speculative decoding has no part in prefill: leave out --phase prefill")
        request = self.request
        timed = result.memory.fits or request.ignore_capacity
        rounds = self._rounds(request.workload.batch, request.workload.context, timed=timed)
        if not timed or result.request is None:
            return replace(result, speculative=rounds)
        served = self.request_times()
        times = RequestTimes(served["ttft_s"], served["tpot_s"], served["e2e_s"])
        return replace(result, speculative=rounds, request=times)

    def _rounds(self, batch: int, context: int, *, timed: bool) -> Speculative:
        """One batch at one context; without times where an analysis has none."""
        options, draft = self.options, self.draft
        drafting = verifying = whole = tpot = plain = NO_TIMES
        even = None
        if timed:
            drafting, verifying = self.drafting(batch, context), self.verifying(batch, context)
            whole, tpot = self.round(batch, context), self.tpot(batch, context)
            plain = self.plain(batch, context)
            name = "bound" if whole.estimate is None else "estimate"
            even = break_even(getattr(whole, name) / getattr(plain, name), options.tokens)
        return Speculative(
            method=options.method,
            draft=draft.name,
            num_speculative_tokens=options.tokens,
            acceptance=options.acceptance,
            tokens_per_round=self.tokens,
            accepted_share=accepted_share(options.acceptance, options.tokens),
            batch=batch,
            context=context,
            drafting=drafting,
            verifying=verifying,
            round=whole,
            tpot=tpot,
            plain=plain,
            break_even_acceptance=even,
            draft_weights_bytes=draft.weights_bytes,
            draft_kv_bytes_per_token=0.0 if draft.memory is None else draft.memory.fullest_stage.kv_bytes_per_token,
        )

    @property
    def contexts(self) -> list[int]:
        """Return the cached tokens of the rounds whose mean TPOT is: evenly spaced in the output, or those of one step."""
        workload = self.request.workload
        steps = (workload.output_len or 1) - 1
        if not steps:
            return [workload.context]
        count = min(steps, _MEAN_POINTS)
        return [workload.input_len + round((index + 0.5) * steps / count - 0.5) for index in range(count)]

    def request_times(self) -> dict[str, Duration]:
        """Return TTFT, TPOT and E2E of a request: prompts go through the draft too; TPOT is a mean over `contexts`."""
        workload = self.request.workload
        ttft = self.prefill(workload.prompts)
        steps = (workload.output_len or 1) - 1  # the first token comes out of prefill
        if not steps:
            return {"ttft_s": ttft, "tpot_s": NO_TIMES, "e2e_s": ttft}
        contexts = self.contexts
        tpot = scaled(total(*(self.tpot(workload.batch, context) for context in contexts)), 1 / len(contexts))
        return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": total(ttft, scaled(tpot, steps))}


def _notes(options: SpeculativeOptions) -> list[Assumption]:
    """What speculative decoding is taken to be."""
    each = "each drafted token is accepted with this probability, wherever it stands and whatever came before it"
    notes = [
        Assumption("speculative_method", options.method, "given", "a round is the steps of the draft and one that verifies"),
        Assumption("num_speculative_tokens", options.tokens, "given", "drafted per round"),
        Assumption("acceptance", options.acceptance, "given", each),
    ]
    why = "what the engine adds to a step is counted once per round"
    return [*notes, Assumption("speculative_engine", "one step per round", "assumed", why)]
