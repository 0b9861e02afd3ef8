"""The critical batch with weights alone quantised."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.predict.batch_limits import critical_batch_linear
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "a100-pcie-40gb")


@cache
def _critical(name: str, card: str) -> float:
    """Where the time of the bus is that of the matrix units, by the toolkit."""
    batch = critical_batch_linear(facts.request(name, card, quantization="w4a16").memory, facts.hardware(card))
    assert batch is not None  # noqa: S101 - narrows the type: weights are read at every batch
    return batch


def draw(rng: Rng) -> Problem:
    """A model in W4A16, and an accelerator."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    hardware, right = facts.hardware(card), _critical(name, card)
    layers, head = facts.layer_weights(name), facts.parameters(name).embedding
    peak, bandwidth = hardware.peak("bf16"), hardware.bandwidth
    size = layers * 4.125 / 8 + 2 * head
    mistakes = (
        Mistake(
            name="as in bf16",
            value=peak / bandwidth,
            hint="That is the critical batch in bf16. Fewer bytes are read now for the same products.",
        ),
        Mistake(
            name="times as many",
            value=peak / bandwidth * (layers + head) * 2 / size,
            hint="You turned it round. With fewer bytes to read, compute binds from a smaller batch on.",
        ),
        Mistake(
            name="LM head in four bits",
            value=peak / bandwidth * 4.125 / 16,
            hint="You quantised the LM head too. It stays in bf16.",
        ),
        pitfalls.sparse_peak(2 * right, formatting.quantity(peak, "FLOP/s")),
    )
    return Problem(
        title="The critical batch in four bits",
        text=(
            f"The linear layers of {facts.title(name)} have {layers:,} weights in W4A16: four bits, with a scale of 16 bits "
            f"for each 128 weights; they are multiplied in bf16. The LM head has {head:,} weights in bf16. The "
            f"{facts.card(card)} "
            f"has {facts.peak_and_bandwidth(card)}. From which batch on do all of these take longer to multiply in a decode "
            "step than to be read? Leave activations and the cache out."
        ),
        answer=Answer(value=right, kind="sequences"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The bytes that are read, with 4 + 16/128 bits per quantised weight:",
                "N * (4 * 128 + 16) / 128 / 8 + b_w * H",
                {"N": (layers, "weights of the linear layers"), "H": (head, "weights of the LM head"), "b_w": (2, "")},
                "bytes",
            ),
            worked.formula(
                "Each weight does 2 FLOP for each sequence. Both take equally long where 2 B (N + H) / P is W / $beta$:",
                "P * W / (2 * beta * (N + H))",
                {
                    "P": (peak, ""),
                    "beta": (bandwidth, ""),
                    "W": (size, "weights read [bytes]"),
                    "N": (layers, "weights of the linear layers"),
                    "H": (head, "weights of the LM head"),
                },
                "sequences",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-critical-batch", topic="quantization", minutes=6, draw=draw)
