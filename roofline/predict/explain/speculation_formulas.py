"""Formulas of speculative decoding: tokens of a round, the time per token, the acceptance from which on drafts pay."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import sympy

from roofline.errors import InputError
from roofline.formatting import plural
from roofline.formulas.symbolic import Values, quantity
from roofline.numeric import Expr
from roofline.predict.explain.explanation import Explanation, explanation
from roofline.predict.speculation import Speculation, break_even
from roofline.predict.timing import time_to_first_token
from roofline.specs.source import Assumption

_LEVIATHAN = "Leviathan et al. 2023, arXiv:2211.17192, eq. (1)"
_ACCEPTANCE = quantity("a", "a", "1", "probability that a drafted token is accepted")
_DRAFTED = quantity("K", "K", "tokens", "tokens drafted per round")
_TOKENS = quantity("N", "N", "tokens", "expected tokens of a sequence per round")
_DRAFTING = quantity("t_draft", r"t_{\mathrm{draft}}", "s", "time of the draft's steps in a round")
_VERIFYING = quantity("t_verify", r"t_{\mathrm{verify}}", "s", "time of the step that verifies the draft")
_PLAIN = quantity("t_decode", r"t_{\mathrm{decode}}", "s", "time of a decode step without a draft")


def _values(speculation: Speculation) -> Values:
    return {_ACCEPTANCE: speculation.options.acceptance, _DRAFTED: speculation.options.tokens}


def tokens_per_round(speculation: Speculation) -> Explanation:
    """The drafted tokens before the first that is refused, and one of the model's own."""
    acceptance = speculation.options.acceptance
    total: Expr = (1 - _ACCEPTANCE ** (_DRAFTED + 1)) / (1 - _ACCEPTANCE)
    if acceptance in (0, 1):  # where the sum 1 + a + ... + a^K has no such form
        total = 1 + _ACCEPTANCE * _DRAFTED
    return explanation("tokens_per_round", total, _values(speculation), unit="tokens", source=_LEVIATHAN)


def accepted_share(speculation: Speculation) -> Explanation:
    """The share of the drafted tokens that is accepted."""
    tokens = tokens_per_round(speculation)
    if not speculation.options.tokens:
        raise InputError("accepted_share: nothing is drafted with --num-speculative-tokens 0")
    values = {**_values(speculation), _TOKENS: tokens.value}
    return explanation(
        "accepted_share", (_TOKENS - 1) / _DRAFTED, values, unit="1", source="derived: what engines log", parts=(tokens,)
    )


def _times(speculation: Speculation) -> tuple[Values, Assumption]:
    """Times of the parts of a round, and whether they are estimates or bounds."""
    workload = speculation.request.workload
    at = (workload.batch, workload.context)
    spans = {
        _DRAFTING: speculation.drafting(*at), _VERIFYING: speculation.verifying(*at), _PLAIN: speculation.plain(*at),
    }  # fmt: skip
    basis = "bound" if speculation.round(*at).estimate is None else "estimate"
    note = Assumption("basis", basis, "default", f"of the steps of {at[0]:,} sequences after {at[1]:,} cached tokens")
    return {name: getattr(span, basis) for name, span in spans.items()}, note


def speculative_tpot(speculation: Speculation) -> Explanation:
    """A round over the tokens that it is expected to give."""
    times, note = _times(speculation)
    tokens = tokens_per_round(speculation)
    expr = (_DRAFTING + _VERIFYING) / _TOKENS
    source = "derived: a round gives N tokens to each sequence"
    values = {**times, _TOKENS: tokens.value}
    return explanation(
        "speculative_tpot", expr, values, unit="s", source=source, assumptions=(note,), parts=(tokens,)
    )  # fmt: skip


_STEPS = {
    "draft": "time of the draft's steps in a round", "verify": "time of the step that verifies the draft",
    "model": "prefill of the model", "prompts": "prefill of the draft, which has a cache of its own",
}  # fmt: skip


def _of_round(name: str, which: str) -> sympy.Symbol:
    """The symbol of the time of some steps, of its bound, or of its floor."""
    below = "" if which == "estimate" else f",{which}"
    latex = rf"t_{{\mathrm{{{name}{below}}}}}"
    return quantity(f"t_{name}{below.replace(',', '_')}", latex, "s", f"{_STEPS[name]}, {which}")


def request_time(speculation: Speculation, name: str, which: str) -> Explanation | None:
    """Explain TTFT or TPOT of a request whose tokens are drafted, in seconds.

    Args:
        speculation: the model and its draft.
        name: "ttft" or "tpot".
        which: "estimate", "bound" or "floor".

    Returns:
        The explanation; None where there is no estimate.
    """
    workload = speculation.request.workload
    batch, given = workload.batch, workload.output_len is not None
    parts: tuple[Explanation, ...] = ()
    if name == "ttft":
        step = workload.prompts
        whole, alone = speculation.prefill(step), time_to_first_token(speculation.request, step)
        if (value := getattr(whole, which)) is None:
            return None
        model, draft = (_of_round(name, which) for name in ("model", "prompts"))
        own = getattr(alone, which)
        values, expr = {model: own, draft: value - own}, model + draft
        about = f"time to first token: the prompts pass the model and its draft; {which} of both"
    else:
        if given and workload.output_len == 1:
            raise InputError("tpot: a request with one output token has no further ones")
        at = speculation.contexts
        whole = speculation.request_times()["tpot_s"] if given else speculation.tpot(batch, workload.context)
        if (value := getattr(whole, which)) is None:
            return None
        tokens = tokens_per_round(speculation)
        parts = (tokens,)
        drafting, verifying = (_of_round(name, which) for name in ("draft", "verify"))
        values = {
            drafting: sum(getattr(speculation.drafting(batch, context), which) for context in at) / len(at),
            verifying: sum(getattr(speculation.verifying(batch, context), which) for context in at) / len(at),
            _TOKENS: tokens.value,
        }
        expr = (drafting + verifying) / _TOKENS
        about = f"time per output token: a round over its tokens, mean of {plural(len(at), 'context')}; {which} of the steps"
    source = "derived: a round gives N tokens to each sequence" if name == "tpot" else "derived: one after the other"
    made = explanation(f"{name} {which}", expr, values, unit="s", source=source, about=about, value=value, parts=parts)
    return replace(made, low=whole.low, high=whole.high) if which == "estimate" else made


def break_even_acceptance(speculation: Speculation) -> Explanation:
    """The acceptance at which a round gives as many tokens as plain steps of the same time.

    The equation has no closed form beyond a few drafted tokens: it is written as one, and its value is its solution.
    """
    times, note = _times(speculation)
    ratio = explanation(
        "plain steps per round", (_DRAFTING + _VERIFYING) / _PLAIN, times, unit="steps", source="derived", assumptions=(note,)
    )
    value = break_even((times[_DRAFTING] + times[_VERIFYING]) / times[_PLAIN], speculation.options.tokens)
    gained = sympy.Add(1, *(_ACCEPTANCE**power for power in range(1, speculation.options.tokens + 1)))
    values = {**times, _ACCEPTANCE: 1.0 if value is None else value}
    tokens = explanation("tokens of the round", gained, values, unit="tokens", source=_LEVIATHAN)
    notes, sign = [note], "="
    if value is None:
        why = "a round takes longer than as many plain steps as it can give tokens"
        notes.append(Assumption("break_even_acceptance", None, "default", why))
        sign = "<"
    return replace(
        tokens, subject="break_even_acceptance", value=value, unit="1", parts=(ratio,), assumptions=tuple(notes),
        formula=f"{tokens.formula} = {ratio.formula}",
        latex=f"{tokens.latex} = {ratio.latex}",
        substituted=f"{tokens.substituted} {sign} {ratio.substituted}",
        substituted_latex=f"{tokens.substituted_latex} {sign} {ratio.substituted_latex}",
        mathml=_related(tokens.mathml, "=", ratio.mathml),
        substituted_mathml=_related(tokens.substituted_mathml, sign, ratio.substituted_mathml),
        legend=tuple(dict.fromkeys((*(entry for entry in tokens.legend if value is not None), *ratio.legend))),
    )  # fmt: skip


def _related(left: str, sign: str, right: str) -> str:
    """An equation of two formulas in MathML, or what it is where it has no solution."""
    return f"{left.removesuffix('</math>')}<mo>{escape(sign)}</mo>{right[right.index('>') + 1 :]}"
