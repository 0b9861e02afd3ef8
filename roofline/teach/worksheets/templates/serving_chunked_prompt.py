"""How many steps a prompt takes next to sequences that decode."""

from __future__ import annotations

from functools import cache

from roofline.serving.preemption.recompute import Recompute
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODEL, _CARD = "llama-3.1-8b", "h100-sxm"


@cache
def _steps(budget: int, running: int, tokens: int) -> int:
    """Steps that a prompt takes with a token budget, next to a number of sequences that decode."""
    return Recompute(facts.request(_MODEL, _CARD, max_num_batched_tokens=budget), batch=running, context=1024).steps(tokens)


def draw(rng: Rng) -> Problem | None:
    """A budget of tokens, a batch that decodes, and a prompt of about a whole number of budgets."""
    budget, running, full = rng.choice((256, 512, 1024, 2048)), rng.integer(16, 128, 8), rng.integer(2, 12)
    tokens = budget * full - rng.choice((0, 0, 0, running // 2))
    each = rng.integer(12, 80) / 1000
    steps = _steps(budget, running, tokens)
    right = steps * each
    alone = -(-tokens // budget)
    if running > budget // 4:
        return None
    mistakes = (
        Mistake(
            name="budget alone",
            value=alone * each,
            hint="The sequences that decode take a token each from the budget, and the prompt gets what is left.",
        ),
        Mistake(
            name="parts of a step",
            value=tokens / (budget - running) * each,
            hint="The last chunk is not full, but it is a step like the others: round up.",
        ),
        Mistake(
            name="rounded down",
            value=tokens // (budget - running) * each,
            hint="The first token comes when the last chunk is computed, full or not: round up.",
        ),
        Mistake(name="one step", value=each, hint="The prompt does not fit into one step: how many tokens of it do?"),
    )
    return Problem(
        title="A prompt in chunks",
        text=(
            f"An engine computes at most {budget:,} tokens per step (`--max-num-batched-tokens`), first one for each of the "
            f"{running} sequences that decode, and with what is left a chunk of a prompt. Every such step takes "
            f"{each * 1000:g} ms. A prompt of {tokens:,} tokens arrives just as a step begins, and no other prompt waits. How "
            "long is it until its first token, at the end of the step of its last chunk?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            f"A chunk has {budget:,} - {running} = {budget - running:,} tokens.",
            f"The prompt takes {tokens:,} / {budget - running:,}, rounded up {steps} steps.",
            f"They take {steps} x {each * 1000:g} ms = {format_answer(right, 's')}.",
        ),
        source="Agrawal et al. 2024 (Sarathi-Serve), arXiv:2403.02310, section 4",
    )


TEMPLATE = Template(id="serving-chunked-prompt", topic="serving", minutes=3, draw=draw)
