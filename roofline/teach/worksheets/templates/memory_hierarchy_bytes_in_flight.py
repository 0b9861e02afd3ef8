"""Bytes in flight, by Little's law."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "rtx-4090", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """An accelerator, the latency of its memory, and the share of the bandwidth to reach."""
    card, latency, share = rng.choice(_CARDS), rng.integer(400, 900, 20) * 1e-9, rng.integer(80, 95, 5) / 100
    hardware = facts.hardware(card)
    units = hardware.accelerator.compute_units
    if units is None:
        return None
    bandwidth, count = hardware.bandwidth, units.value
    right = share * bandwidth * latency / count
    mistakes = (
        Mistake(
            name="whole chip",
            value=right * count,
            hint=f"That is the whole chip. The question is one of its {count:g} SMs.",
        ),
        Mistake(
            name="full bandwidth",
            value=right / share,
            hint=f"That is at the full bandwidth. The question is {formatting.percent(share, 0)} of it.",
        ),
        Mistake(
            name="there and back",
            value=2 * right,
            hint="The latency is from the request to the data: both ways are in it.",
        ),
        Mistake(
            name="bits",
            value=8 * right,
            hint="That is a number of bits. The bandwidth is in bytes per second, and so is what is in flight.",
        ),
    )
    return Problem(
        title="Bytes in flight",
        text=(
            f"On an {facts.card(card)} a load takes {latency * 1e9:.0f} ns from device memory, and its memory delivers "
            f"{formatting.quantity(bandwidth, 'B/s')}. It has {count:g} SMs. How many bytes does **each SM** have to have "
            f"requested and not yet received, at any time, for a kernel to reach {formatting.percent(share, 0)} of the "
            "bandwidth?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            "Little's law: what is in flight is the rate times the time that each takes.",
            worked.formula(
                "The whole chip:",
                "u * beta * t_load",
                {"u": (share, "share of the bandwidth"), "beta": (bandwidth, ""), "t_load": (latency, "latency [s]")},
                "bytes",
            ),
            worked.formula(
                "Each SM:",
                "q / n_sm",
                {"q": (right * count, "bytes in flight [bytes]"), "n_sm": (count, "SMs")},
                "bytes",
            ),
        ),
        source="Little 1961; the hardware's file",
    )


TEMPLATE = Template(id="memory-hierarchy-bytes-in-flight", topic="memory-hierarchy", minutes=4, draw=draw)
