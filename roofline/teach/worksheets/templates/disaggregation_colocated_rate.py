"""The rate up to which a colocated replica keeps its TPOT, and no decode pool has to."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """Steps and prompts of a model on a card, and an objective above the step."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, prompt = rng.choice((16, 32, 64)), 1024 * rng.choice((1, 2, 4))
    if facts.max_batch(name, card, prompt) < batch:
        return None
    step = float(f"{facts.floor(name, card, batch, 1, prompt).seconds / 0.7:.2g}")
    fill = float(f"{facts.floor(name, card, 1, prompt, 0).seconds / 0.55:.2g}")
    limit = float(f"{step * rng.choice((1.3, 1.5, 2.0, 2.5)):.2g}")
    right = (1 - step / limit) / fill
    if len(number(right)) < 5:  # a rounder one might stand in the text by chance
        return None
    mistakes = (
        Mistake(
            name="share of decoding",
            value=step / limit / fill,
            hint="That is the share of time that decoding needs. Prompts can have the rest.",
        ),
        Mistake(
            name="share added",
            value=(limit / step - 1) / fill,
            hint=(
                "You took prompts to add their share to a step. A longer step meets more of them: it grows by 1 / (1 - share)."
            ),
        ),
        Mistake(
            name="all the time",
            value=1 / fill,
            hint="At that rate prompts take all the time, and no token is decoded.",
        ),
        Mistake(
            name="one prompt in a step",
            value=1 / limit,
            hint="That is a prompt in each step. What matters is how much of the time prompts take.",
        ),
    )
    return Problem(
        title="Prompts in the way",
        text=(
            f"A colocated replica of {facts.title(name)} on an {facts.card(card)} decodes a full batch in steps of "
            f"{formatting.quantity(step, 's')}; each prompt makes the step that it is computed in "
            f"{formatting.quantity(fill, 's')} longer. A decode pool has no prompts in the way: its TPOT is that of the step. "
            f"The objective for mean TPOT is {formatting.quantity(limit, 's')}. Up to which rate of requests does the "
            "colocated replica keep to it?"
        ),
        answer=Answer(value=right, kind="requests/s"),
        mistakes=mistakes,
        solution=(
            (
                "If prompts take a share of the time, decoding has the rest: a step takes t / (1 - share) on average. At the "
                "limit this is the objective, so that the share is 1 - t / limit."
            ),
            worked.formula(
                "Each request takes its prompt's time of it:",
                "(1 - t_step / t_limit) / t_prompt",
                {
                    "t_step": (step, "step without prompts [s]"),
                    "t_limit": (limit, "objective [s]"),
                    "t_prompt": (fill, "what a prompt adds [s]"),
                },
                "requests/s",
            ),
        ),
        source="docs/capacity.md, the queueing model",
    )


TEMPLATE = Template(id="disaggregation-colocated-rate", topic="disaggregation", minutes=5, draw=draw)
