"""What a million tokens cost."""

from __future__ import annotations

from roofline.specs.price_file import parse_money
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")


def draw(rng: Rng) -> Problem:
    """A price, some devices, and what they serve."""
    card, devices = rng.choice(_CARDS), rng.choice((2, 4, 8, 16))
    price = f"{rng.integer(12, 60) / 10:g} USD/h"
    hour = parse_money(price, "h").amount
    output = devices * rng.integer(200, 1500, 50)
    prompts = output * rng.integer(2, 6)
    right = devices * hour / 3600 / output * 1e6
    mistakes = (
        Mistake(
            name="one device",
            value=right / devices,
            hint=f"You paid for one device. All {devices} of them are paid for.",
        ),
        Mistake(
            name="minutes for seconds",
            value=right * 60,
            hint="An hour has 3,600 seconds. You seem to have divided by 60.",
        ),
        Mistake(
            name="a thousand tokens",
            value=right / 1000,
            hint="That is what a thousand tokens cost. The answer is a million.",
        ),
        Mistake(
            name="prompts too",
            value=devices * hour / 3600 / (output + prompts) * 1e6,
            hint="You divided by all tokens, prompts too. Here the output has to pay for everything.",
        ),
        Mistake(
            name="an hour for a second",
            value=right * 3600,
            hint="The tokens are those of a second, the price is that of an hour.",
        ),
    )
    return Problem(
        title="What a million tokens cost",
        text=(
            f"A service runs on {devices} {facts.card(card)}, each rented for {price}. On average they compute "
            f"{prompts:,} prompt tokens and {output:,} output tokens per second, all of them together. What does a "
            "million **output** tokens cost, if these have to pay for everything?"
        ),
        answer=Answer(value=right, kind="usd"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A second of all devices costs:",
                "n * c / t_hour",
                {
                    "n": (devices, "devices"),
                    "c": (hour, "price of a device and hour [USD]"),
                    "t_hour": (3600, "seconds of an hour"),
                },
                "USD",
            ),
            worked.formula(
                "The price of an hour, divided by its output tokens, times a million:",
                "N * c_second / r",
                {
                    "N": (1_000_000, "tokens"),
                    "c_second": (devices * hour / 3600, "price of a second [USD]"),
                    "r": (output, "tokens per second"),
                },
                "USD",
            ),
        ),
        source="docs/capacity.md",
    )


TEMPLATE = Template(id="serving-cost", topic="serving", minutes=3, draw=draw)
