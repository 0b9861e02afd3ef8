"""Tokens per joule of two accelerators, at the bound of a decode step."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "b200-sxm", "rtx-4090")
_MODELS = ("llama-3.1-8b", "qwen3-8b", "qwen2.5-7b")


def draw(rng: Rng) -> Problem | None:
    """A model that both cards hold, a batch bound by memory, and boards of different power."""
    name, batch, context = rng.choice(_MODELS), rng.choice((1, 4, 8)), 1024 * rng.choice((1, 2))
    first, second = rng.shuffled(_CARDS)[:2]
    if min(facts.max_batch(name, card, context) for card in (first, second)) < batch:
        return None
    powers = [watts(facts.hardware(card)) for card in (first, second)]
    bounds = [facts.floor(name, card, batch, 1, context) for card in (first, second)]
    if None in powers or any(bound.compute_s > bound.memory_s or bound.retained_bytes for bound in bounds):
        return None
    one, other = (float(power) for power in powers if power is not None)
    rates = [float(f"{batch / bound.seconds:.3g}") for bound in bounds]
    right = (rates[0] / one) / (rates[1] / other)
    if len(number(right)) < 5 or abs(one / other - 1) < 0.05 or abs(right - 1) < 0.03:
        return None
    mistakes = (
        Mistake(
            name="rates alone",
            value=rates[0] / rates[1],
            hint="You compared tokens per second. Divide each by the board's power.",
        ),
        Mistake(
            name="power upside down",
            value=rates[0] / rates[1] * one / other,
            hint="You multiplied by the power. More power for the same tokens is fewer tokens per joule.",
        ),
        Mistake(
            name="upside down",
            value=1 / right,
            hint="That is the second card over the first. The question is the first over the second.",
        ),
        Mistake(name="power alone", value=other / one, hint="You compared the power alone. The cards are not equally fast."),
    )
    return Problem(
        title="Tokens per joule",
        text=(
            f"At the bound of a decode step with {batch} {'sequence' if batch == 1 else 'sequences'} of {context:,} tokens an "
            f"{facts.card(first)} ({formatting.quantity(one, 'W')}) gives {number(rates[0])} tokens/s of {facts.title(name)} "
            f"in bf16, an {facts.card(second)} ({formatting.quantity(other, 'W')}) {number(rates[1])}. Both draw their full "
            "power. How many times the tokens per joule of the second does the first have?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The first card has, in tokens per joule:",
                "r_first / P_first",
                {"r_first": (rates[0], "rate of the first card [tokens/s]"), "P_first": (one, "its power [W]")},
                "tokens/J",
            ),
            worked.formula(
                "Over those of the second:",
                "g_first * P_second / r_second",
                {
                    "g_first": (rates[0] / one, "tokens per joule of the first card"),
                    "r_second": (rates[1], "rate of the second card [tokens/s]"),
                    "P_second": (other, "its power [W]"),
                },
                "1",
            ),
        ),
        source="the hardware's files",
    )


TEMPLATE = Template(id="energy-two-cards", topic="energy", minutes=4, draw=draw)
