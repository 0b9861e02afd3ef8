"""How many times faster drafts make decoding, where both models are bound by memory."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.speculation import tokens_per_round
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_round_time import CARDS, PAIRS
from roofline.teach.worksheets.templates.speculation_tokens_per_round import geometric


def draw(rng: Rng) -> Problem | None:
    """A model and a draft, at batch 1 with short contexts."""
    (name, draft), card = rng.choice(PAIRS), rng.choice(CARDS)
    acceptance, drafted = rng.integer(50, 90, 5) / 100, rng.integer(2, 6)
    weights, small = (facts.floor(one, card, 1, 1, 0).weight_bytes for one in (name, draft))
    tokens = tokens_per_round(acceptance, drafted)
    right = tokens / (1 + drafted * small / weights)
    if right < 1.05:
        return None
    mistakes = (
        Mistake(name="draft for free", value=tokens, hint="You left out the draft's steps: it reads its weights in each."),
        Mistake(
            name="one draft step",
            value=tokens / (1 + small / weights),
            hint=f"You let the draft read its weights once. It takes {drafted} steps per round.",
        ),
        Mistake(
            name="all independent",
            value=(1 + acceptance * drafted) / (1 + drafted * small / weights),
            hint="You counted accepted tokens after a rejection. These are discarded.",
        ),
        Mistake(
            name="all accepted",
            value=(1 + drafted) / (1 + drafted * small / weights),
            hint="You counted all drafted tokens. Some are rejected.",
        ),
        Mistake(
            name="none of the model's own",
            value=(tokens - 1) / (1 + drafted * small / weights),
            hint="A round also gives one token of the model's own.",
        ),
    )
    return Problem(
        title="How much faster",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(weights, 'B')} of weights, one of its draft "
            f"{facts.title(draft)} {formatting.quantity(small, 'B')}. Both are bound by the memory bus of the "
            f"{facts.card(card)}, at batch 1 with short contexts, and verifying takes as long as a plain step. {drafted} "
            f"tokens are drafted per round, each of which is accepted with a probability of {acceptance * 100:g} "
            "%. How many times "
            "faster is that than plain decoding?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "Times are as bytes. In plain steps of the model, a round takes one, and the draft's bytes over its own.",
            worked.formula(
                "The tokens of a round over that:",
                f"({geometric(drafted)}) / (1 + K * W_draft / W)",
                {
                    "a": (acceptance, "probability that a drafted token is accepted"),
                    "K": (drafted, "tokens drafted per round"),
                    "W_draft": (small, "weights of the draft [bytes]"),
                    "W": (weights, "weights of the model [bytes]"),
                },
                "1",
            ),
        ),
        source="Leviathan et al. 2023, arXiv:2211.17192, section 3",
    )


TEMPLATE = Template(id="speculation-speed-up", topic="speculation", minutes=5, draw=draw)
