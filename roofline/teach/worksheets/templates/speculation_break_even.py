"""The acceptance from which on drafting pays."""

from __future__ import annotations

from roofline.formatting import number
from roofline.predict.speculation import break_even
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """One or two drafted tokens, and the times of a draft's step and of verification as shares of a decode step."""
    drafted, step, verify = rng.choice((1, 2)), rng.integer(5, 35, 5) / 100, rng.integer(100, 140, 5) / 100
    ratio = drafted * step + verify
    right = break_even(ratio, drafted)
    if right is None or not 0.05 < right < 0.95:
        return None
    mistakes = [
        Mistake(
            name="draft forgotten",
            value=break_even(verify, drafted) or 0,
            hint="You left out the time of the draft. Its steps come before the verification.",
        ),
        Mistake(
            name="verification is a plain step",
            value=break_even(drafted * step + 1, drafted) or 0,
            hint="You took a plain step for the verification. It takes a little longer here.",
        ),
        Mistake(
            name="over all tokens",
            value=ratio / (drafted + 1),
            hint="You divided the time by the most tokens that a round can give. Their expected number has to reach it.",
        ),
    ]
    if drafted == 2:
        mistakes += [
            Mistake(
                name="all independent",
                value=(ratio - 1) / 2,
                hint="You let the second token count without the first. It counts only if the first is accepted too.",
            ),
            Mistake(
                name="one draft step",
                value=break_even(step + verify, drafted) or 0,
                hint="You counted one step of the draft. It takes one for each drafted token.",
            ),
        ]
    tokens = "1 + a" if drafted == 1 else "1 + a + a x a"
    return Problem(
        title="Where drafting pays",
        text=(
            f"A draft proposes {drafted} {'token' if drafted == 1 else 'tokens'} per round. One of its steps takes "
            f"{number(step)} times as long as a plain decode step of the model, the step that verifies {number(verify)} times. "
            "What acceptance does speculative decoding need to be as fast as plain decoding?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=tuple(mistakes),
        solution=(
            "A round has to give as many tokens as plain steps would in its time.",
            f"It takes as long as {drafted} x {number(step)} + {number(verify)} = {number(ratio)} plain steps.",
            f"With an acceptance a it gives {tokens} tokens. That is {number(ratio)} at {format_answer(right, 'share')}.",
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, eq. (1)",
    )


TEMPLATE = Template(id="speculation-break-even", topic="speculation", minutes=5, draw=draw)
