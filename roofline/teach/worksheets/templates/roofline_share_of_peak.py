"""The share of the peak that a linear layer can reach at decode."""

from __future__ import annotations

from roofline import formatting
from roofline.operators.gemm import Gemm
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """An accelerator and a batch below its ridge."""
    card, batch = rng.choice(facts.CARDS), rng.choice((1, 1, 2, 4, 8, 12, 16, 24, 32, 48))
    hardware = facts.hardware(card)
    peak, bandwidth = hardware.peak("bf16"), hardware.bandwidth
    cost = Gemm(m=batch, n=4096, k=4096).cost()
    intensity = cost.matrix_flops / cost.weight_bytes
    share = intensity * bandwidth / peak
    if share > 0.9:
        return None
    mistakes = [
        pitfalls.sparse_peak(share / 2, formatting.quantity(peak, "FLOP/s")),
        Mistake(
            name="everything",
            value=1.0,
            hint="That would be bound by compute. Compare the intensity with the ridge point first.",
        ),
        Mistake(
            name="twice the intensity",
            value=2 * share,
            hint="Two FLOP a weight, and two bytes a weight: the intensity is one for each token, not two.",
        ),
    ]
    if batch > 1:
        mistakes.append(
            Mistake(
                name="batch of one",
                value=share / batch,
                hint=f"That is for one sequence. A weight that was read is used for all {batch} of them.",
            )
        )
    return Problem(
        title="How busy can it be?",
        text=(
            f"A linear layer decodes one token for each of {batch} sequences ($B$), in bf16, on an {facts.card(card)} with "
            f"{facts.peak_and_bandwidth(card)}. Count the traffic of weights alone. Which share of the peak FLOP/s can "
            f"it reach?"
            if batch > 1
            else f"A linear layer decodes one token of one sequence, in bf16, on an {facts.card(card)} with "
            f"{facts.peak_and_bandwidth(card)}. Count the traffic of weights alone. Which share of the peak FLOP/s can "
            f"it reach?"
        ),
        answer=Answer(value=share, kind="share"),
        mistakes=tuple(mistakes),
        solution=(
            f"Each weight takes two bytes to read and gives 2 FLOP for each of {batch} tokens: {intensity:g} FLOP/byte.",
            worked.formula(
                "Below the ridge point the share is the intensity over it:",
                "I * beta / P",
                {"I": (intensity, ""), "beta": (bandwidth, ""), "P": (peak, "")},
                "1",
            ),
        ),
        source="F18 of docs/published-figures.md" if card == "a100-sxm-80gb" and batch == 1 else "",
    )


TEMPLATE = Template(id="roofline-share-of-peak", topic="roofline", minutes=4, draw=draw)
