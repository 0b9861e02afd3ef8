"""The share of drafted tokens that an engine logs as accepted."""

from __future__ import annotations

from roofline.predict.speculation import accepted_share
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_tokens_per_round import geometric


def draw(rng: Rng) -> Problem | None:
    """An acceptance and a few drafted tokens."""
    acceptance, drafted = rng.integer(40, 90, 5) / 100, rng.integer(2, 6)
    right = accepted_share(acceptance, drafted)
    if right is None:
        return None
    mistakes = (
        Mistake(
            name="the probability",
            value=acceptance,
            hint="That holds for a token whose predecessors were accepted. After a rejection the rest counts as rejected too.",
        ),
        Mistake(
            name="all accepted",
            value=acceptance**drafted,
            hint="That is the probability that all of them are accepted.",
        ),
        Mistake(
            name="with the model's own",
            value=(1 + right * drafted) / (drafted + 1),
            hint="You counted the model's own token. The log counts drafted ones.",
        ),
        Mistake(
            name="tokens",
            value=right * drafted,
            hint="That is how many are accepted in a round. What share of the drafted ones is it?",
        ),
    )
    return Problem(
        title="What the log says",
        text=(
            f"Each drafted token is accepted with a probability of {acceptance * 100:g} % if all before it were; {drafted} are "
            "drafted per round. The engine logs accepted tokens over drafted ones. What does its log say?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            "A round has its tokens, of which one is the model's own; the others were drafted.",
            worked.formula(
                "Without it, over the drafted ones:",
                f"({geometric(drafted)} - 1) / K",
                {
                    "a": (acceptance, "probability that a drafted token is accepted"),
                    "K": (drafted, "tokens drafted per round"),
                },
                "1",
            ),
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, eq. (1)",
    )


TEMPLATE = Template(id="speculation-accepted-share", topic="speculation", minutes=4, draw=draw)
