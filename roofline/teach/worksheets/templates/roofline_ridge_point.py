"""The ridge point of an accelerator."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = (*facts.CARDS, "mi300x", "h20", "h100-pcie", "l4", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """An accelerator, and a format that it multiplies."""
    name = rng.choice(_CARDS)
    hardware = facts.hardware(name)
    dtype = rng.choice([dtype for dtype in ("bf16", "fp8") if dtype in hardware.peaks])
    peak, bandwidth, vector = hardware.peak(dtype), hardware.bandwidth, hardware.vector_peak
    ridge = peak / bandwidth
    sparse = formatting.quantity(2 * peak, "FLOP/s")
    mistakes = [
        pitfalls.sparse_peak(2 * ridge, formatting.quantity(peak, "FLOP/s")),
        Mistake(
            name="binary bandwidth",
            value=peak / (bandwidth * 1.024**4),
            hint="You took 1 TB/s for 2^40 bytes per second. Rates and bandwidths are decimal: 10^12.",
        ),
        Mistake(
            name="upside down",
            value=1 / ridge,
            hint="That is bytes a FLOP. The ridge point is an intensity: FLOP for each byte.",
        ),
    ]
    if vector is not None:
        mistakes.append(
            Mistake(
                name="vector peak",
                value=vector / bandwidth,
                hint="That is with the fp32 peak outside the matrix units. Products of matrices run on the matrix units.",
            )
        )
    return Problem(
        title="The ridge point",
        text=(
            f"The datasheet of the {facts.card(name)} says for {dtype}: {sparse} with sparsity, "
            f"{formatting.quantity(peak, 'FLOP/s')} without"
            + (f"; fp32 outside the matrix units: {formatting.quantity(vector, 'FLOP/s')}" if vector is not None else "")
            + f"; memory: {formatting.quantity(bandwidth, 'B/s')}. Up to which arithmetic intensity is an ordinary (dense) "
            f"product of "
            f"{dtype} matrices bound by memory?"
        ),
        answer=Answer(value=ridge, kind="flop/byte"),
        mistakes=tuple(mistakes),
        solution=(
            (
                "Below the ridge point bytes take longer than FLOP, above it FLOP take longer. Only the dense peak counts: no "
                "ordinary weights have the zeros that the sparse one asks for."
            ),
            worked.formula(
                "Where both take equally long:", "P / beta", {"P": (peak, ""), "beta": (bandwidth, "")}, "FLOP/byte"
            ),
        ),
        source="F08 of docs/published-figures.md" if name == "a100-sxm-80gb" else "",
    )


TEMPLATE = Template(id="roofline-ridge-point", topic="roofline", minutes=3, draw=draw)
