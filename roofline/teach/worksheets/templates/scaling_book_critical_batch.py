"""The critical batch of quantized weights and wider products, after "How to Scale Your Model"."""

from __future__ import annotations

from functools import cache

from roofline.predict.batch_limits import critical_batch_linear
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("tpu-v5e", "int8", "bf16"), ("tpu-v5e", "bf16", "bf16"), ("tpu-v5e", "int8", "int8"), ("tpu-v5e", "int4", "bf16"))
_NAME = "llama-3.1-8b"
_CARDS = (*facts.TPUS, "h100-sxm", "a100-sxm-80gb")


@cache
def _critical(card: str, weights: str, products: str) -> float:
    """Where reading the weights takes as long as multiplying by them, by the toolkit."""
    wider = {} if products == weights else {"activation_dtype": products}
    request = facts.request(_NAME, card, dtype=weights, **wider)
    batch = critical_batch_linear(request.memory, facts.hardware(card))
    assert batch is not None  # noqa: S101 - narrows the type: weights are read at every batch
    return batch


def problem(card: str, weights: str, products: str) -> Problem:
    """The problem of an accelerator, the format of the weights, and that of the products."""
    hardware, size = facts.hardware(card), facts.element_bytes(weights)
    peak, right = hardware.peak(products), _critical(card, weights, products)
    intensity = peak / hardware.bandwidth
    mistakes = [
        Mistake(
            name="FLOP of a weight",
            value=2 * right,
            hint="A weight gives each sequence two FLOP: a multiply and an add.",
        ),
        Mistake(
            name="bits for bytes",
            value=8 * right,
            hint=f"A weight in {weights} has {8 * size:g} bits: {size:g} byte{'s' * (size != 1)}.",
        ),
    ]
    if weights != products:
        mistakes.append(
            Mistake(
                name="weights as wide as products",
                value=intensity * facts.element_bytes(products) / 2,
                hint=f"That is with weights in {products}. They are read in {weights}, which is fewer bytes for the same FLOP.",
            )
        )
        if "int8" in hardware.peaks and weights == "int8":
            mistakes.append(
                Mistake(
                    name="peak of int8",
                    value=hardware.peak("int8") / hardware.bandwidth / 2,
                    hint=f"You took the peak of int8. The products are in {products}.",
                )
            )
    elif products == "int8":
        mistakes.append(
            Mistake(
                name="peak of bf16",
                value=hardware.peak("bf16") / hardware.bandwidth / 2,
                hint="You took the peak of bf16. The products are in int8, which is faster here.",
            )
        )
    else:
        mistakes.append(
            Mistake(
                name="a byte a weight",
                value=right / 2,
                hint=f"A weight in {weights} takes {size:g} bytes.",
            )
        )
    return Problem(
        title="The critical batch, two formats",
        text=(
            f"Weights are stored in {weights} and multiplied in {products}, on the {facts.card(card)}: "
            f"{facts.peak_and_bandwidth(card, products)}. From which batch on is a wide linear layer bound by compute? Leave "
            "activations out."
        ),
        answer=Answer(value=right, kind="sequences"),
        mistakes=tuple(mistakes),
        solution=(
            "A weight of $b_w$ bytes is read once a step, and gives 2 FLOP for each sequence.",
            worked.formula(
                "Both take equally long at:",
                "P * b_w / (2 * beta)",
                {"P": (peak, ""), "b_w": (size, ""), "beta": (hardware.bandwidth, "")},
                "sequences",
            ),
        ),
        source=facts.scaling_book(
            "applied-inference" if weights == "int4" else "roofline",
            "the batch for being compute-bound" if weights == "int4" else "questions 1 and 2 of A Few Problems to Work",
            own=(card, weights, products) in BOOK,
        ),
    )


def draw(rng: Rng) -> Problem | None:
    """An accelerator and two formats."""
    card, (weights, products) = (
        rng.choice(_CARDS),
        rng.choice((("int8", "bf16"), ("int4", "bf16"), ("bf16", "bf16"), ("int8", "int8"))),
    )
    # where int8 is no faster the two peaks are one, and there is nothing to ask
    if "int8" in (weights, products) and facts.hardware(card).peak("int8") == facts.hardware(card).peak("bf16"):
        return None
    return problem(card, weights, products)


TEMPLATE = Template(id="scaling-book-critical-batch", topic="scaling-book", minutes=4, draw=draw)
