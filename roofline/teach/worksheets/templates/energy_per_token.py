"""Energy of a token, at most, from the boards' power and the throughput."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """Some devices and what they serve."""
    card, devices = rng.choice(_CARDS), rng.choice((2, 4, 8, 16))
    power = watts(facts.hardware(card), devices)
    if power is None:
        return None
    each, out = rng.integer(300, 3000, 50), rng.integer(100, 800, 50)
    rate = devices * each
    right = power / rate
    mistakes = (
        Mistake(
            name="one device",
            value=right / devices,
            hint=f"That is the power of one device over the tokens of all. All {devices} draw power.",
        ),
        Mistake(
            name="a request",
            value=right * out,
            hint="That is a request with all its output tokens.",
        ),
        Mistake(
            name="watt-hours",
            value=right / 3600,
            hint="You divided by 3,600. Watts over tokens per second are joules already: a watt is a joule per second.",
        ),
        Mistake(
            name="upside down",
            value=1 / right,
            hint="Those are the tokens of a joule. The question is the joules of a token.",
        ),
    )
    return Problem(
        title="Energy of a token",
        text=(
            f"{devices} {facts.card(card)} with a board power of {formatting.quantity(power / devices, 'W')} each serve "
            f"{number(rate)} output tokens/s, all of them together; a response has {out} tokens. How much energy does an "
            "output "
            "token take at most, if every board draws its full power? Prompts are paid for by the output; hosts are left out."
        ),
        answer=Answer(value=right, kind="joules"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "All boards:",
                "n * P_board",
                {"n": (devices, "devices"), "P_board": (power / devices, "power of a board [W]")},
                "W",
            ),
            worked.formula(
                "A watt is a joule per second:",
                "P_all / r",
                {"P_all": (power, "power of all boards [W]"), "r": (rate, "output tokens per second")},
                "J",
            ),
            "It is an upper bound: decoding waits for memory, and boards then draw less than their limit.",
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-per-token", topic="energy", minutes=3, draw=draw)
