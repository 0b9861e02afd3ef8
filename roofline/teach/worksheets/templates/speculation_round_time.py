"""The time per token of rounds: draft steps and a verification, over the tokens that they give."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.speculation import tokens_per_round
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_tokens_per_round import geometric

PAIRS = (
    ("llama-3.1-70b", "llama-3.1-8b"),
    ("llama-3.1-70b", "llama-3.2-1b"),
    ("llama-3.1-8b", "llama-3.2-1b"),
    ("qwen3-32b", "qwen3-1.7b"),
    ("qwen3-8b", "qwen3-0.6b"),
    ("qwen3-32b", "qwen3-0.6b"),
    ("qwen2.5-7b", "qwen2.5-0.5b"),
)
"""Models and drafts with the same vocabulary of tokens."""
CARDS = ("h100-sxm", "h200-sxm", "a100-sxm-80gb")


def draw(rng: Rng) -> Problem:
    """A model and its draft on an accelerator, both at their least times."""
    (name, draft), card = rng.choice(PAIRS), rng.choice(CARDS)
    acceptance, drafted, context = rng.integer(50, 90, 5) / 100, rng.integer(2, 6), 1024 * rng.choice((1, 2, 4))
    # of weights and cache over the bus: what could stay in a last-level cache is no matter of this problem
    small, plain = (facts.streamed_seconds(one, card, 1, 1, context) for one in (draft, name))
    verify = facts.streamed_seconds(name, card, 1, 1 + drafted, context)
    tokens = tokens_per_round(acceptance, drafted)
    right = (drafted * small + verify) / tokens
    mistakes = (
        Mistake(
            name="one draft step",
            value=(small + verify) / tokens,
            hint=f"The draft takes a step for each token: {drafted} of them, one after the other.",
        ),
        Mistake(
            name="the whole round",
            value=right * tokens,
            hint="That is the time of a round. It gives more than one token on average.",
        ),
        Mistake(
            name="all accepted",
            value=right * tokens / (drafted + 1),
            hint="You divided by the most tokens that a round can give. Some are rejected.",
        ),
        Mistake(
            name="all independent",
            value=right * tokens / (1 + acceptance * drafted),
            hint="You counted accepted tokens after a rejection. These are discarded.",
        ),
        Mistake(name="draft for free", value=verify / tokens, hint="You left out the steps of the draft."),
        Mistake(
            name="verified one by one",
            value=(drafted * small + (drafted + 1) * plain) / tokens,
            hint="You let the model take a step for each token. It verifies all of them in one.",
        ),
    )
    return Problem(
        title="The time of a token",
        text=(
            f"{facts.title(name)} decodes one sequence on an {facts.card(card)}, with drafts by {facts.title(draft)}. A step "
            f"of the draft takes {formatting.quantity(small, 's')} at the least, a step of the model that verifies {drafted} "
            f"drafted tokens {formatting.quantity(verify, 's')}. A drafted token is accepted with a probability of "
            f"{acceptance * 100:g} %, independently of the others. How long does a token take on average?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            "A round is a step of the draft for each drafted token, and one step of the model.",
            worked.formula(
                "It gives on average:",
                geometric(drafted),
                {"a": (acceptance, "probability that a drafted token is accepted")},
                "tokens",
            ),
            worked.formula(
                "The time of the round over its tokens:",
                "(K * t_draft + t_verify) / N",
                {
                    "K": (drafted, "tokens drafted per round"),
                    "t_draft": (small, "step of the draft [s]"),
                    "t_verify": (verify, "step that verifies [s]"),
                    "N": (tokens, "tokens of a round"),
                },
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="speculation-round-time", topic="speculation", minutes=5, draw=draw)
