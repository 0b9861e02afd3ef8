"""The batch from which linear layers are bound by compute."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.predict.batch_limits import critical_batch_linear
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_NAME = "llama-3.1-8b"


@cache
def _critical(card: str, dtype: str) -> float:
    """Where the time of the bus is that of the matrix units, by the toolkit."""
    batch = critical_batch_linear(facts.request(_NAME, card, dtype=dtype).memory, facts.hardware(card))
    assert batch is not None  # noqa: S101 - narrows the type: weights are read at every batch
    return batch


def draw(rng: Rng) -> Problem:
    """An accelerator, and the format of the weights."""
    card, dtype = rng.choice(facts.CARDS), rng.choice(("bf16", "fp8"))
    hardware, right = facts.hardware(card), _critical(card, dtype)
    native = dtype in hardware.peaks
    multiplied = dtype if native else "bf16"
    peak, size = hardware.peak(multiplied), facts.element_bytes(dtype)
    mistakes = [
        pitfalls.sparse_peak(2 * right, formatting.quantity(peak, "FLOP/s")),
        Mistake(
            name="bits for bytes",
            value=8 * right,
            hint=f"A weight in {dtype} has {size * 8:g} bits: {size:g} {'byte' if size == 1 else 'bytes'}.",
        ),
    ]
    if dtype == "fp8":
        mistakes.append(
            Mistake(
                name="ridge point",
                value=peak / hardware.bandwidth,
                hint=(
                    "That is the ridge point in FLOP/byte. It is the batch only where a weight takes two bytes; here it "
                    "takes one."
                ),
            )
        )
        if native:
            mistakes.append(
                Mistake(
                    name="bf16 peak",
                    value=hardware.peak("bf16") / (2 * hardware.bandwidth),
                    hint="That is with the bf16 peak. This card multiplies fp8, at twice the rate.",
                )
            )
    how = (
        ""
        if dtype == "bf16"
        else " natively"
        if native
        else ", which it does not multiply: they are converted to bf16 on the chip"
    )
    return Problem(
        title="The critical batch",
        text=(
            f"The weights of {facts.title(_NAME)} are in {dtype}. The {facts.card(card)} has "
            f"{facts.peak_and_bandwidth(card, multiplied)}"
            f"{'' if dtype == 'bf16' else f'; it takes fp8 weights{how}'}. From which batch on do the linear layers of "
            f"a decode step take "
            "longer to multiply than their weights take to be read? Leave activations and the cache out."
        ),
        answer=Answer(value=right, kind="sequences"),
        mistakes=tuple(mistakes),
        solution=(
            "A weight of $b_w$ bytes is read once a step and gives 2 FLOP for each sequence.",
            worked.explained("Where both take equally long:", _NAME, "critical_batch", card, dtype=dtype),
        ),
        source="F12 of docs/published-figures.md" if card == "a100-sxm-80gb" and dtype == "bf16" else "",
    )


TEMPLATE = Template(id="batching-critical-batch", topic="batching", minutes=4, draw=draw)
