"""How long it takes to read all of device memory once."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "a100-pcie-40gb", "l40s", "rtx-4090", "b200-sxm", "mi300x")


def draw(rng: Rng) -> Problem:
    """An accelerator, the share of its memory that is in use, and of its bandwidth that is reached."""
    card, filled, reached = rng.choice(_CARDS), rng.integer(50, 95, 5) / 100, rng.integer(70, 92, 2) / 100
    hardware = facts.hardware(card)
    memory, bandwidth = hardware.memory_bytes, hardware.bandwidth
    right = filled * memory / (reached * bandwidth)
    mistakes = (
        Mistake(
            name="all of memory",
            value=right / filled,
            hint=f"You read all of it. {formatting.percent(filled, 0)} is in use.",
        ),
        Mistake(
            name="peak bandwidth",
            value=right * reached,
            hint=f"That is at the full bandwidth. {formatting.percent(reached, 0)} of it is reached.",
        ),
        Mistake(
            name="GB for GiB",
            value=right / 2**30 * 1e9,
            hint="You took 1 GiB for 10^9 bytes: it is 1024^3 bytes, 7 % more.",
        ),
        Mistake(
            name="over the host's link",
            value=filled * memory / hardware.to_host().within(2),
            hint="That is the link to the host. Device memory has a bus of its own.",
        ),
    )
    return Problem(
        title="All of memory, once",
        text=(
            f"Weights and caches fill {formatting.percent(filled, 0)} of the {memory / 2**30:.4g} GiB of an "
            f"{facts.card(card)}. A decode step reads all of them once, at {formatting.percent(reached, 0)} of the bandwidth "
            "of "
            f"{formatting.quantity(bandwidth, 'B/s')}; its link to the host carries "
            f"{formatting.quantity(hardware.to_host().within(2), 'B/s')}. How long is the step?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The bytes that are read, over the rate:",
                "u * C / (v * beta)",
                {
                    "u": (filled, "share of memory in use"),
                    "C": (memory, "device memory [bytes]"),
                    "v": (reached, "share of the bandwidth reached"),
                    "beta": (bandwidth, ""),
                },
                "s",
            ),
            "No decode step with a full memory is shorter: capacity over bandwidth is a property of the card.",
        ),
        source="the hardware's file",
    )


TEMPLATE = Template(id="memory-hierarchy-all-of-memory", topic="memory-hierarchy", minutes=3, draw=draw)
