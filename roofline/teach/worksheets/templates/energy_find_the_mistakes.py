"""Find the mistakes: one board of several, and joules taken for watt-hours."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A server and its tokens, in a post with two mistakes."""
    card, devices, rate = rng.choice(_CARDS), rng.choice((2, 4, 8)), rng.integer(1000, 12000, 250)
    power = watts(facts.hardware(card))
    if power is None:
        return None
    right = devices * power / rate * 1e6
    stated = power / rate * 1e6 * 3600
    mistakes = (
        Mistake(
            name="both mistakes",
            value=stated,
            hint="That is the number of the post. How many boards are there, and what is a watt over a rate per second?",
        ),
        Mistake(
            name="watt-hours for joules",
            value=right * 3600,
            hint="The boards are right now. The unit is not: watts over tokens per second are joules.",
        ),
        Mistake(
            name="one board",
            value=right / devices,
            hint=f"The unit is right now. The power is not: {devices} boards draw it.",
        ),
        Mistake(
            name="a thousand tokens",
            value=right / 1000,
            hint="That is the energy of a thousand tokens. The question is a million.",
        ),
    )
    return Problem(
        title="Find the mistakes",
        text=(
            f"A server with {devices} {facts.card(card)}, {formatting.quantity(power, 'W')} each, gives {number(rate)} output "
            "tokens/s in all. A post works out the energy of a million output tokens at full power:\n\n"
            f"> {power:g} W / {number(rate)} tokens/s x 1,000,000 tokens = {formatting.quantity(power / rate * 1e6, 'Wh')}\n\n"
            "Find both mistakes. How much energy does a million tokens really take at most?"
        ),
        answer=Answer(value=right, kind="joules"),
        mistakes=mistakes,
        solution=(
            f"The post takes one board of {devices}, and watt-hours for joules: a watt is a joule per second.",
            worked.formula(
                "Put right:",
                "n * P_board / r * N",
                {
                    "n": (devices, "devices"),
                    "P_board": (power, "power of a board [W]"),
                    "r": (rate, "tokens per second"),
                    "N": (1_000_000, "tokens"),
                },
                "J",
            ),
            f"A watt-hour is 3,600 joules: {formatting.quantity(right / 3600, 'Wh')}.",
        ),
    )


TEMPLATE = Template(id="energy-find-the-mistakes", topic="energy", minutes=4, draw=draw)
