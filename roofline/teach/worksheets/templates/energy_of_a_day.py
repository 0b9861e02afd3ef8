"""Energy of a day's traffic."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A rate of requests, their responses, and what a device produces."""
    card, rate, out = rng.choice(_CARDS), rng.integer(4, 80) / 2, rng.integer(100, 800, 25)
    power = watts(facts.hardware(card))
    if power is None:
        return None
    each = rng.integer(300, 3000, 50)
    right = rate * out * power / each * 86400
    mistakes = (
        Mistake(
            name="an hour",
            value=right / 24,
            hint="That is an hour. A day has 24 of them.",
        ),
        Mistake(
            name="one token for each request",
            value=right / out,
            hint="You counted a token for each request. Each response has all its output tokens.",
        ),
        Mistake(
            name="one device all day",
            value=power * 86400,
            hint="That is one device that runs all day. How many tokens does the day have, and what does each take?",
        ),
        Mistake(
            name="joules for watt-hours",
            value=right * 3600,
            hint="You took joules for watt-hours: an hour has 3,600 seconds.",
        ),
    )
    return Problem(
        title="A day of traffic",
        text=(
            f"{rate:g} requests per second arrive on average, day and night, with {out} output tokens each. A replica on one "
            f"{facts.card(card)} ({formatting.quantity(power, 'W')}) produces {number(each)} output tokens/s, and replicas "
            "that are not needed are off. How much energy do the boards take in a day at most?"
        ),
        answer=Answer(value=right, kind="joules"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The tokens of a day:",
                "r * n_out * t_day",
                {"r": (rate, "requests per second"), "n_out": (out, "output tokens"), "t_day": (86400, "seconds of a day [s]")},
                "tokens",
            ),
            worked.formula(
                "Each takes power over rate:",
                "n_day * P_board / r_replica",
                {
                    "n_day": (rate * out * 86400, "tokens of a day"),
                    "P_board": (power, "power of a board [W]"),
                    "r_replica": (each, "rate of a replica [tokens/s]"),
                },
                "J",
            ),
            f"A kilowatt-hour is 3.6 million joules: {formatting.quantity(right / 3600, 'Wh')}.",
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-of-a-day", topic="energy", minutes=4, draw=draw)
