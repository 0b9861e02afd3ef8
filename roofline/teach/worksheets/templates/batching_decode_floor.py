"""The least time of a decode step of one sequence."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "a100-pcie-40gb", "mi300x")


def draw(rng: Rng) -> Problem | None:
    """A model that fits on an accelerator."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    hardware, counted = facts.hardware(card), facts.parameters(name)
    floor = facts.floor(name, card, 1, 1, 0)
    if 2 * counted.total > 0.9 * hardware.memory_bytes or floor.retained_bytes:
        return None
    right = floor.weight_bytes / floor.bandwidth
    mistakes = (
        Mistake(
            name="the whole embedding",
            value=2 * counted.total / hardware.bandwidth,
            hint="You read every parameter. Of the embedding a step reads one row; the rest of the table is not touched.",
        ),
        Mistake(
            name="both tables left out",
            value=2 * (counted.total - 2 * counted.embedding) / hardware.bandwidth,
            hint="You left both tables out. The LM head is a matrix that is multiplied by: all of it is read.",
        ),
        Mistake(
            name="a byte a weight",
            value=right / 2,
            hint="That many parameters there are. In bf16 each is two bytes.",
        ),
        pitfalls.bits_for_bytes(8 * right, 16),
        Mistake(
            name="the matrix units",
            value=floor.compute_s,
            hint="That is how long the matrix units take. At batch 1 the weights take far longer to be read.",
        ),
        Mistake(
            name="binary bandwidth",
            value=right / 1.024**4,
            hint="You took 1 TB/s for 2^40 bytes per second. Bandwidths are decimal: 10^12.",
        ),
    )
    return Problem(
        title="A token, at the least",
        text=(
            f"{facts.title(name)} has {counted.total:,} parameters in bf16; {counted.embedding:,} of them are the "
            f"embedding, and "
            f"as many are the LM head. The {facts.card(card)} has {facts.peak_and_bandwidth(card)}. One sequence is "
            f"decoded, with a "
            "short context. How long does a token take at the least? Mind what a step really reads."
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            f"All weights are read but the embedding, of which one row is: {formatting.quantity(floor.weight_bytes, 'B')}.",
            worked.explained("Over the bandwidth:", name, "decode_floor", card),
        ),
        source="F27 of docs/published-figures.md" if name == "llama-3.1-8b" and card == "a100-sxm-80gb" else "",
    )


TEMPLATE = Template(id="batching-decode-floor", topic="batching", minutes=5, draw=draw)
