"""How many tokens to draft per round."""

from __future__ import annotations

from roofline.formatting import number
from roofline.predict.speculation import tokens_per_round
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MOST = 8
_CLEAR = 1.004  # how much better the best is than its neighbours: less than that is no matter of arithmetic


def draw(rng: Rng) -> Problem | None:
    """An acceptance, and what a step of the draft costs."""
    acceptance, step = rng.integer(45, 90, 5) / 100, rng.integer(4, 30, 2) / 100
    gains = {count: tokens_per_round(acceptance, count) / (1 + count * step) for count in range(1, _MOST + 1)}
    right = max(gains, key=lambda count: gains[count])
    if right == _MOST or gains[right] < 1.02:
        return None
    if any(gains[right] < _CLEAR * gains[other] for other in (right - 1, right + 1) if other in gains):
        return None
    by_tokens = next((count for count in gains if acceptance**count < 0.5), _MOST)
    mistakes = (
        Mistake(
            name="the most tokens",
            value=_MOST,
            hint="More drafted tokens always give more tokens per round. But the round takes longer too.",
        ),
        Mistake(
            name="one more",
            value=right + 1,
            hint="The last one costs more than it gains: compare with one fewer.",
        ),
        Mistake(
            name="one fewer",
            value=right - 1,
            hint="One more still gains: compare tokens over time for both.",
        ),
        Mistake(
            name="as likely as not",
            value=by_tokens,
            hint="You stopped where all are accepted with a probability of a half. What counts is tokens over time.",
        ),
    )
    table = ", ".join(f"{count}: {gains[count]:.4g}" for count in gains if abs(count - right) <= 2)
    return Problem(
        title="How many to draft",
        text=(
            f"A drafted token is accepted with a probability of {acceptance * 100:g} %, independently of the others. A step of "
            f"the draft takes {number(step)} times as long as a step of the model, and verifying takes as long as a plain step "
            f"of the model, however many tokens are drafted. Which number of drafted tokens per round, from 1 to {_MOST}, is "
            "the fastest?"
        ),
        answer=Answer(value=right, kind="tokens", tolerance=0),
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            "Tokens of a round over its time, in plain steps, are how many times faster it is. Compute it for each number.",
            f"Near the best one: {table}. So {right} {'token' if right == 1 else 'tokens'}.",
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, section 3.5",
    )


TEMPLATE = Template(id="speculation-best-k", topic="speculation", minutes=6, draw=draw)
