"""Find the mistakes: a post that multiplies acceptance by drafted tokens and forgets the draft."""

from __future__ import annotations

from roofline.formatting import number
from roofline.predict.speculation import tokens_per_round
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_tokens_per_round import geometric


def draw(rng: Rng) -> Problem | None:
    """Acceptance, drafted tokens, and what a step of the draft takes."""
    acceptance, drafted, step = rng.integer(50, 85, 5) / 100, rng.integer(3, 7), rng.integer(5, 25, 5) / 100
    tokens, time = tokens_per_round(acceptance, drafted), 1 + drafted * step
    stated, right = 1 + acceptance * drafted, tokens / time
    mistakes = (
        Mistake(
            name="both mistakes",
            value=stated,
            hint="That is the number of the post. Look at which accepted tokens count, and at what a round takes.",
        ),
        Mistake(
            name="draft for free",
            value=tokens,
            hint="The tokens are right now. The steps of the draft take time, too.",
        ),
        Mistake(
            name="all independent",
            value=stated / time,
            hint="The time is right now. An accepted token counts only if all before it were accepted.",
        ),
        Mistake(
            name="one draft step",
            value=tokens / (1 + step),
            hint=f"The draft takes a step for each token, {drafted} per round.",
        ),
    )
    return Problem(
        title="Find the mistakes",
        text=(
            f'A post says: "With an acceptance of {acceptance * 100:g} % and {drafted} drafted tokens a round gives '
            f"{number(acceptance)} x {drafted} + 1 = {number(stated)} tokens. Verifying them takes as long as one step, so "
            f'decoding is {number(stated)} times as fast." Verifying does take as long as one step; a step of the draft takes '
            f"{number(step)} times as long, and drafted tokens are accepted independently of each other. Find both mistakes. "
            "How many times as fast is it really?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "Tokens after the first rejection are discarded, and the draft takes a step for each token that it proposes.",
            worked.formula(
                "Put right, tokens over the time in plain steps:",
                f"({geometric(drafted)}) / (1 + K * c)",
                {
                    "a": (acceptance, "probability that a drafted token is accepted"),
                    "K": (drafted, "tokens drafted per round"),
                    "c": (step, "time of a draft's step in plain steps"),
                },
                "1",
            ),
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, eq. (1)",
    )


TEMPLATE = Template(id="speculation-find-the-mistakes", topic="speculation", minutes=5, draw=draw)
