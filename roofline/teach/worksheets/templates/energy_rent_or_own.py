"""The utilization from which owning a device is cheaper than renting one by the hour."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.specs.price_file import parse_money
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")
_HOURS = 8760


def draw(rng: Rng) -> Problem | None:
    """A price to buy, one to rent, and what the power of an hour costs."""
    card, years, cost = rng.choice(_CARDS), rng.integer(3, 5), 1000 * rng.integer(8, 40)
    rent, pue, price = f"{rng.integer(10, 40) / 10:g} USD/h", rng.integer(110, 150, 5) / 100, rng.integer(10, 40) / 100
    power = watts(facts.hardware(card))
    if power is None:
        return None
    hour = parse_money(rent, "h").amount
    electricity = power / 1000 * pue * price
    fixed = cost / (years * _HOURS)
    right = fixed / (hour - electricity)
    if not 0.1 < right < 0.95:
        return None
    mistakes = (
        Mistake(
            name="electricity forgotten",
            value=fixed / hour,
            hint="An hour in use costs electricity too, if the device is yours. In the rent it is included.",
        ),
        Mistake(
            name="PUE forgotten",
            value=fixed / (hour - electricity / pue),
            hint="You paid for the machine's electricity. The building takes more than that.",
        ),
        Mistake(
            name="electricity added",
            value=fixed / (hour + electricity),
            hint="You added electricity to the rent. What an hour in use saves is the rent less the electricity.",
        ),
        Mistake(
            name="electricity all the time",
            value=(fixed + electricity) / hour,
            hint="You paid for electricity all the time. While the device is off it takes none here.",
        ),
    )
    return Problem(
        title="Rent or own",
        text=(
            f"An {facts.card(card)} with its share of a server costs ${number(cost)} to buy and is written off over {years} "
            f"years of {_HOURS:,} hours. In use it draws {formatting.quantity(power, 'W')}, times a PUE of {pue:g}, at "
            f"${price:g} for a kilowatt-hour; otherwise it is off. Rented, an hour costs {rent}, electricity included, and "
            "hours without use cost nothing. From which share of hours in use on is owning cheaper?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Owning costs for every hour, in use or not:",
                "c_buy / (n_years * t_year)",
                {"c_buy": (cost, "price [USD]"), "n_years": (years, "years"), "t_year": (_HOURS, "hours of a year")},
                "USD",
            ),
            worked.formula(
                "An hour in use takes electricity for:",
                "P_board / 1000 * p_pue * c_kwh",
                {
                    "P_board": (power, "power [W]"),
                    "p_pue": (pue, "PUE"),
                    "c_kwh": (price, "price of a kilowatt-hour [USD]"),
                },
                "USD",
            ),
            worked.formula(
                "It saves the rent less that; both are equal at the share:",
                "c_hour / (c_rent - c_power)",
                {
                    "c_hour": (fixed, "owning, an hour [USD]"),
                    "c_rent": (hour, "rent of an hour [USD]"),
                    "c_power": (electricity, "electricity of an hour [USD]"),
                },
                "1",
            ),
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-rent-or-own", topic="energy", minutes=6, draw=draw)
