"""What speculative decoding gives: frozen values, and their form as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import InputError
from roofline.predict.request import Request
from roofline.predict.result import Analysis, Duration
from roofline.predict.speculative.draft import scaled, total
from roofline.predict.speculative.rounds import accepted_share, break_even
from roofline.predict.speculative.speculation import Speculation
from roofline.specs.workload import prefill

_NONE = Duration(None, None)
_TPOT_POINTS = 9  # in the middle of equal parts of what is generated


@dataclass(frozen=True, slots=True)
class Speculative:
    """Rounds of a batch at a context. Times are None where the deployment does not fit; bytes are of one device, the batch
    and rates of the whole deployment."""

    method: str
    draft: str
    num_speculative_tokens: int
    acceptance: float
    tokens_per_round: float
    accepted_share: float | None
    """Of the drafted tokens, as engines log it; None where none is drafted."""
    batch: int
    context: int
    drafting: Duration
    verifying: Duration
    round: Duration
    tpot: Duration
    plain: Duration
    """A decode step without a draft."""
    break_even_acceptance: float | None
    """From which a round gives tokens as fast as plain decoding; None: even with every token accepted it does not."""
    draft_weights_bytes: float
    draft_kv_bytes_per_token: float

    @property
    def basis(self) -> str:
        """What the speedup and the break-even go by."""
        return "bound" if self.tpot.estimate is None else "estimate"

    def speedup(self, name: str) -> float | None:
        """TPOT without the draft over TPOT with it, at the bound or at the estimate."""
        before, after = getattr(self.plain, name), getattr(self.tpot, name)
        return before / after if before and after else None

    def rate(self, name: str) -> float | None:
        """Tokens a second of the whole batch, by one of the names of a duration."""
        seconds = getattr(self.tpot, name)
        return self.batch / seconds if seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        return {
            "method": self.method,
            "draft": self.draft,
            "num_speculative_tokens": self.num_speculative_tokens,
            "acceptance": self.acceptance,
            "tokens_per_round": self.tokens_per_round,
            "accepted_share": self.accepted_share,
            "batch": self.batch,
            "context": self.context,
            "round": {"draft": _span(self.drafting), "verify": _span(self.verifying), "total": _span(self.round)},
            "tpot_s": _span(self.tpot),
            "plain_tpot_s": _span(self.plain),
            # a slow round is a low rate
            "tokens_per_s": {
                "bound": self.rate("bound"),
                "estimate": self.rate("estimate"),
                "low": self.rate("high"),
                "high": self.rate("low"),
            },
            "speedup": {"bound": self.speedup("bound"), "estimate": self.speedup("estimate")},
            "break_even_acceptance": self.break_even_acceptance,
            "basis": self.basis,
            "memory": {
                "draft_weights_bytes": self.draft_weights_bytes,
                "draft_kv_bytes_per_token": self.draft_kv_bytes_per_token,
            },
        }


def _span(value: Duration) -> dict[str, float | None]:
    return {"bound": value.bound, "estimate": value.estimate, "low": value.low, "high": value.high}


def of(speculation: Speculation, request: Request, result: Analysis) -> Analysis:
    """An analysis with the rounds of the batch and the context that are asked about, in the place of plain decoding also in
    the times of a request."""
    if result.decode is None:
        raise InputError("speculative decoding has no part in prefill: leave out --phase prefill")
    timed = result.memory.fits or request.ignore_capacity
    found = _speculative(speculation, request.workload.batch, request.workload.context, timed=timed)
    served = of_request(speculation, request) if timed and result.request is not None else result.request
    return replace(result, speculative=found, request=served)


def _speculative(speculation: Speculation, batch: int, context: int, *, timed: bool) -> Speculative:
    """One batch at one context; without times where an analysis has none."""
    asked, draft, memory = speculation.asked, speculation.draft, speculation.draft.memory
    drafting = verifying = whole = tpot = plain = _NONE
    even = None
    if timed:
        drafting, verifying = speculation.drafting(batch, context), speculation.verifying(batch, context)
        whole, tpot = speculation.round(batch, context), speculation.tpot(batch, context)
        plain = speculation.plain(batch, context)
        name = "bound" if whole.estimate is None else "estimate"
        even = break_even(getattr(whole, name) / getattr(plain, name), asked.tokens)
    return Speculative(
        method=asked.method,
        draft=draft.name,
        num_speculative_tokens=asked.tokens,
        acceptance=asked.acceptance,
        tokens_per_round=speculation.tokens,
        accepted_share=accepted_share(asked.acceptance, asked.tokens),
        batch=batch,
        context=context,
        drafting=drafting,
        verifying=verifying,
        round=whole,
        tpot=tpot,
        plain=plain,
        break_even_acceptance=even,
        draft_weights_bytes=draft.weights_bytes,
        draft_kv_bytes_per_token=0.0 if memory is None else memory.fullest.kv_bytes_per_token,
    )


def of_request(speculation: Speculation, request: Request) -> dict[str, Duration]:
    """TTFT, TPOT and E2E of a request: prompts go through the draft too; TPOT is a mean over evenly spaced contexts."""
    workload = request.workload
    ttft = speculation.prefill(prefill(workload.batch, workload.input_len))
    steps = (workload.output_len or 1) - 1  # the first token comes out of prefill
    if not steps:
        return {"ttft_s": ttft, "tpot_s": _NONE, "e2e_s": ttft}
    count = min(steps, _TPOT_POINTS)
    contexts = [workload.input_len + round((index + 0.5) * steps / count - 0.5) for index in range(count)]
    tpot = scaled(total(*(speculation.tpot(workload.batch, context) for context in contexts)), 1 / count)
    return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": total(ttft, scaled(tpot, steps))}
