"""Expected tokens of a round, from the acceptance and the number of drafted tokens."""

from __future__ import annotations

from roofline.predict.speculation import tokens_per_round
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def geometric(drafted: int) -> str:
    """The formula of the expected tokens of a round, written out."""
    return " + ".join(["1", *("*".join(["a"] * power) for power in range(1, drafted + 1))])


def draw(rng: Rng) -> Problem:
    """An acceptance and a few drafted tokens."""
    acceptance, drafted = rng.integer(40, 90, 5) / 100, rng.integer(2, 7)
    right = tokens_per_round(acceptance, drafted)
    mistakes = (
        Mistake(
            name="all independent",
            value=1 + acceptance * drafted,
            hint="You counted every accepted token. After the first rejection the rest is discarded, accepted or not.",
        ),
        Mistake(
            name="none of the model's own",
            value=right - 1,
            hint="Those are the drafted tokens that are accepted. The step that verifies gives one token of the model's own.",
        ),
        Mistake(
            name="one power too few",
            value=tokens_per_round(acceptance, drafted - 1),
            hint=f"You left out the last drafted token. All {drafted} may be accepted.",
        ),
        Mistake(
            name="all or nothing",
            value=1 + drafted * acceptance**drafted,
            hint="You let all drafted tokens be accepted or none. Those before the first rejection count.",
        ),
        Mistake(
            name="until it is rejected",
            value=1 / (1 - acceptance),
            hint=f"That is for a draft without an end. Here it ends after {drafted} tokens.",
        ),
    )
    return Problem(
        title="Tokens per round",
        text=(
            f"A draft proposes {drafted} tokens in each round, and the model verifies them in one step. Each drafted token is "
            f"accepted with a probability of {acceptance * 100:g} %, independently of the others; those after the first "
            "rejection are discarded. How many tokens does a round give on average, with the one that the model adds itself?"
        ),
        answer=Answer(value=right, kind="tokens"),
        mistakes=mistakes,
        solution=(
            "Drafted token i counts if it and all before it are accepted: with a probability of the power i of the acceptance.",
            worked.formula(
                "With the model's own token:",
                geometric(drafted),
                {"a": (acceptance, "probability that a drafted token is accepted")},
                "tokens",
            ),
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, eq. (1)",
    )


TEMPLATE = Template(id="speculation-tokens-per-round", topic="speculation", minutes=4, draw=draw)
