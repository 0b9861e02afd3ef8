"""Prompt tokens counted as if they were generated."""

from __future__ import annotations

from dataclasses import replace

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.mistakes.base import Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof

# More prompt tokens than this for each generated one, and nobody would call it generation.
_MOST = 64


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    """Input and output together pass at (p + o) / (p/P + o/D), with the ceilings P of prompts and D of generation."""
    value = case.claim.value
    if case.claim.phase != "decode" or value is None or roof.value is None or ratio <= SLACK:
        return None
    generated = value / ratio
    # prompts of one user arrive one at a time, as his tokens do
    prompts = replace(case, claim=replace(case.claim, phase="prefill")).read_as()
    if prompts is None or prompts.value is None or case.ratio(prompts.value) >= 1:
        return None
    prompt_rate = prompts.value * case.reached
    said = case.statement
    if said.input_len and said.output_len:
        share = said.input_len / said.output_len
        both = (1 + share) / (share / prompt_rate + 1 / generated)
        if value > both * SLACK:
            return None
        why = f"with {said.input_len:,} prompt tokens counted for each {said.output_len:,} generated the ceiling would be "
        why += case.claim.written(both)
        return LikelyMistake(name="prompt tokens counted", why=why, figure=both, closeness=value / both)
    share = (value / generated - 1) / (1 - value / prompt_rate)
    if share > _MOST:
        return None
    prompts_pass = replace(case.claim, phase="prefill").written(prompt_rate)
    why = f"possible if prompt tokens are counted too, {share:.2g} or more for each generated one: prompts pass at up to "
    why += prompts_pass
    return LikelyMistake(name="prompt tokens counted", why=why, figure=prompt_rate, closeness=value / prompt_rate)


MISTAKE = Mistake(name="prompt tokens counted", kinds=("tokens_per_s",), explain=_explain, order=30)
