"""How many devices a rate takes."""

from __future__ import annotations

from roofline.formatting import number, percent
from roofline.numeric import ceil_div
from roofline.serving.planning.sizing import UTILISATION
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")


def draw(rng: Rng) -> Problem:
    """A replica that saturates at some rate, and a peak that takes several of them."""
    card, devices = rng.choice(_CARDS), rng.choice((2, 4, 8))
    tenths, mean, factor = rng.integer(15, 90), rng.integer(10, 60), rng.choice((15, 20, 25, 30))  # of requests/s; of one
    most = tenths / 10
    # rounded up exactly: in whole tenths, and thousandths of what a replica may be busy
    replicas = ceil_div(mean * factor * 1000, round(UTILISATION * 1000) * tenths)
    right = replicas * devices
    plain = ceil_div(mean * factor, tenths)
    exact = mean * factor / 10 / (UTILISATION * most)
    mistakes = (
        Mistake(
            name="up to saturation",
            value=plain * devices,
            hint=f"You let replicas run up to where they saturate. They are planned with {percent(UTILISATION, 0)} of that.",
        ),
        Mistake(
            name="mean rate",
            value=ceil_div(mean * 10 * 1000, round(UTILISATION * 1000) * tenths) * devices,
            hint="That is enough for the mean rate. The peak has to be served as well.",
        ),
        Mistake(
            name="replicas",
            value=replicas,
            hint=f"Those are replicas. Each of them is {devices} devices.",
        ),
        Mistake(
            name="rounded down",
            value=int(exact) * devices,
            hint="Rounded down, the replicas are busier than they should be.",
        ),
        Mistake(
            name="parts of a replica",
            value=ceil_div(mean * factor * 1000 * devices, round(UTILISATION * 1000) * tenths),
            hint="A replica is whole or not there: round up replicas, and then count their devices.",
        ),
    )
    return Problem(
        title="Devices for a rate",
        text=(
            f"A service gets {mean} requests/s on average, and {factor / 10:g} times as many at its peak. One replica, "
            f"on {devices} {facts.card(card)}, saturates at {most:g} requests/s; no replica shall be busier than "
            f"{percent(UTILISATION, 0)} of that. How many devices does the peak take?"
        ),
        answer=Answer(value=right, kind="devices", tolerance=0),
        # without the first two there is nothing to ask; the others may come to the right number
        mistakes=tuple(one for one in mistakes if one.value != right or one.name in ("up to saturation", "rounded down")),
        solution=(
            f"At the peak there are {mean} x {factor / 10:g} = {number(mean * factor / 10)} requests/s.",
            f"A replica may have {UTILISATION:g} x {most:g} = {number(UTILISATION * most)} of them.",
            (
                f"That is {number(exact)} replicas, rounded up {replicas}, of {devices} devices each: "
                f"{format_answer(right, 'devices')}."
            ),
        ),
        source="docs/capacity.md",
    )


TEMPLATE = Template(id="serving-replicas", topic="serving", minutes=3, draw=draw)
