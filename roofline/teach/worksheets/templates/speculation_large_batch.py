"""What verifying costs in a large batch."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_round_time import CARDS


def draw(rng: Rng) -> Problem | None:
    """A batch whose verification is bound by compute."""
    name, card = rng.choice(facts.DENSE), rng.choice(CARDS)
    batch, drafted = rng.choice((48, 64, 96, 128, 192, 256)), rng.integer(2, 7)
    hardware, weights = facts.hardware(card), facts.layer_weights(name)
    peak, bandwidth = hardware.peak("bf16"), hardware.bandwidth

    def work(tokens: int) -> float:
        """Seconds that the matrix units need for the linear layers of a number of tokens."""
        return facts.layer_flops(name, tokens) / peak

    read = 2 * weights / bandwidth
    plain, verify = max(read, work(batch)), max(read, work(batch * (1 + drafted)))
    right = verify / plain
    if right < 1.1 or plain > read:
        return None
    mistakes = (
        Mistake(
            name="for free",
            value=1,
            hint="At batch 1 it is nearly so. Here the tokens to verify are enough for the matrix units to take longest.",
        ),
        Mistake(
            name="as many times as tokens",
            value=1 + drafted,
            hint="You compared the products. The plain step waits for the memory bus, which hides a part of them.",
        ),
        Mistake(
            name="one sequence",
            value=max(read, work(1 + drafted)) / max(read, work(1)),
            hint=f"That is of one sequence. {batch} of them verify at the same time.",
        ),
        Mistake(
            name="drafted ones alone",
            value=max(read, work(batch * drafted)) / plain,
            hint="You verified the drafted tokens. The last token before them goes through the step too.",
        ),
        pitfalls.multiply_accumulates(max(read, work(batch * (1 + drafted)) / 2) / plain),
    )
    return Problem(
        title="Verifying a large batch",
        text=(
            f"The linear layers of {facts.title(name)} have {weights:,} weights in bf16. An {facts.card(card)} has "
            f"{facts.peak_and_bandwidth(card)}. {batch} sequences decode; with speculative decoding each has {drafted} drafted "
            "tokens to verify, and the one before them. Of the linear layers alone: how many times as long as a plain decode "
            "step does a step that verifies take at the least? Each takes what the bus or the matrix units need, whichever is "
            "longer."
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            (
                f"Both read the weights once: {formatting.quantity(read, 's')}. The products of the plain step take "
                f"{formatting.quantity(work(batch), 's')}, those of {1 + drafted} tokens per sequence "
                f"{formatting.quantity(work(batch * (1 + drafted)), 's')}. So the spare time of the matrix units that drafts "
                "live on is used up by the batch."
            ),
            worked.formula(
                "The longer of both, over the longer of both:",
                "max(b_w * N / beta, 2 * N * B * (K + 1) / P) / max(b_w * N / beta, 2 * N * B / P)",
                {
                    "b_w": (2, ""),
                    "N": (weights, "weights of the linear layers"),
                    "beta": (bandwidth, ""),
                    "B": (batch, ""),
                    "K": (drafted, "drafted tokens"),
                    "P": (peak, ""),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="speculation-large-batch", topic="speculation", minutes=6, draw=draw)
