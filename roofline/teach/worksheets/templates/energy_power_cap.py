"""What a power cap saves."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A board, a cap, and what the cap takes of the throughput."""
    card, cap, loss = rng.choice(_CARDS), rng.integer(50, 85, 5) / 100, rng.integer(3, 18) / 100
    power = watts(facts.hardware(card))
    if power is None:
        return None
    right = 1 - cap / (1 - loss)
    if right < 0.08:
        return None
    mistakes = (
        Mistake(
            name="power alone",
            value=1 - cap,
            hint="That is the power. With the cap a token takes longer, and draws power for longer.",
        ),
        Mistake(
            name="what is left",
            value=1 - right,
            hint="That is what a token still takes. The question is what it saves.",
        ),
        Mistake(
            name="difference of both",
            value=1 - cap - loss,
            hint="You took one share from the other. Energy is power over rate: divide.",
        ),
        Mistake(
            name="slower means less",
            value=1 - cap * (1 - loss),
            hint="You multiplied. A lower rate makes a token dearer, not cheaper.",
        ),
    )
    return Problem(
        title="A power cap",
        text=(
            f"The board of an {facts.card(card)} draws {formatting.quantity(power, 'W')} under a decode load. Capped at "
            f"{formatting.quantity(cap * power, 'W')}, which it then draws, it produces {percent(loss, 0)} fewer tokens/s, "
            "since decoding waits for memory more than for clocks. Which share of the energy of a token does the cap save?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The energy of a token is power over rate. With the cap, over that without:",
                "(P_cap / P_board) / (1 - x)",
                {
                    "P_cap": (cap * power, "cap [W]"),
                    "P_board": (power, "power without it [W]"),
                    "x": (loss, "share of the rate lost"),
                },
                "1",
            ),
            worked.formula("It saves:", "1 - e_ratio", {"e_ratio": (1 - right, "energy with the cap, over without")}, "1"),
        ),
        source="the power of the hardware's file",
    )


TEMPLATE = Template(id="energy-power-cap", topic="energy", minutes=3, draw=draw)
