"""What the electricity of a million tokens costs."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """Devices, their tokens, the building, and the price of a kilowatt-hour."""
    card, devices = rng.choice(_CARDS), rng.choice((1, 2, 4, 8))
    power = watts(facts.hardware(card), devices)
    if power is None:
        return None
    rate, pue, price = devices * rng.integer(200, 2000, 50), rng.integer(110, 160, 5) / 100, rng.integer(6, 35) / 100
    energy = power * pue / rate * 1e6
    right = energy / 3.6e6 * price
    mistakes = (
        Mistake(
            name="PUE forgotten",
            value=right / pue,
            hint="You paid for the machines alone. Cooling and losses of the building are on the bill too.",
        ),
        Mistake(
            name="joules for watt-hours",
            value=right * 3600,
            hint="You took joules for watt-hours: a kilowatt-hour is 3.6 million joules.",
        ),
        Mistake(
            name="an hour",
            value=power * pue / 1000 * price,
            hint="That is what an hour costs. How long do a million tokens take?",
        ),
        Mistake(
            name="a thousand tokens",
            value=right / 1000,
            hint="That is what a thousand tokens cost. The question is a million.",
        ),
        Mistake(
            name="divided by PUE",
            value=right / pue / pue,
            hint="You divided by the PUE. The building takes more than its machines, not less.",
        ),
    )
    return Problem(
        title="Electricity of a million tokens",
        text=(
            f"{devices} {facts.card(card)} ({formatting.quantity(power / devices, 'W')} each, drawn all the time) produce "
            f"{number(rate)} output tokens/s together. The building takes {pue:g} times the energy of its machines (PUE). "
            f"A kilowatt-hour costs ${price:g}. What does the electricity of a million output tokens cost?"
        ),
        answer=Answer(value=right, kind="usd"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A million tokens take, the building included:",
                "P_all * p_pue / r * N",
                {
                    "P_all": (power, "power of all boards [W]"),
                    "p_pue": (pue, "PUE"),
                    "r": (rate, "tokens per second"),
                    "N": (1_000_000, "tokens"),
                },
                "J",
            ),
            worked.formula(
                "A kilowatt-hour is 3.6 million joules:",
                "E_all / e_kwh * c_kwh",
                {
                    "E_all": (energy, "energy [J]"),
                    "e_kwh": (3_600_000, "joules of a kilowatt-hour [J]"),
                    "c_kwh": (price, "price of a kilowatt-hour [USD]"),
                },
                "USD",
            ),
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-million-tokens", topic="energy", minutes=5, draw=draw)
