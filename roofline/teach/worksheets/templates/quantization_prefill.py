"""The least time of a prompt with weights alone quantised, or weights and activations."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.bounds import matrix_dtype
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("h100-sxm", "h200-sxm", "l40s", "a100-sxm-80gb")
_SCHEMES = {
    "w4a16": "in four bits (W4A16): activations stay in bf16",
    "w8a8": "in fp8, and activations are quantised to fp8 on the way (W8A8)",
}


def draw(rng: Rng) -> Problem | None:
    """A prompt through the linear layers."""
    name, card, kind = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.choice(tuple(_SCHEMES))
    hardware, tokens = facts.hardware(card), 1024 * rng.integer(2, 16)
    if kind == "w8a8" and "fp8" not in hardware.peaks:
        return None
    option = "fp8" if kind == "w8a8" else kind
    linear = facts.quantized_layers(name, tokens, option)
    dtypes = {matrix_dtype(operator, hardware) for operator, _ in linear}
    if len(dtypes) > 1:
        return None
    peak, plain = hardware.peak(dtypes.pop()), hardware.peak("bf16")
    flops = float(sum(operator.cost().matrix_flops * layers for operator, layers in linear))
    right, weights = flops / peak, facts.layer_weights(name)
    mistakes = [
        pitfalls.multiply_accumulates(right / 2),
        pitfalls.sparse_peak(right / 2, formatting.quantity(peak, "FLOP/s")),
        Mistake(
            name="one token",
            value=right / tokens,
            hint=f"That is one token. The prompt has {tokens:,}.",
        ),
    ]
    if kind == "w4a16":
        mistakes += [
            Mistake(
                name="four times faster",
                value=right / 4,
                hint="You divided by four. The weights are widened to bf16 on the chip, and multiplied as ever.",
            ),
            Mistake(
                name="time of the bus",
                value=weights * 4.125 / 8 / hardware.bandwidth,
                hint="That is how long the weights take to be read. With this many tokens the products take longer.",
            ),
        ]
    else:
        mistakes.append(
            Mistake(
                name="bf16 peak",
                value=flops / plain,
                hint="That is at the bf16 peak. With both in fp8 the matrix units multiply in fp8.",
            )
        )
    fp8 = f", {formatting.quantity(hardware.peak('fp8'), 'FLOP/s')} in fp8" if "fp8" in hardware.peaks else ""
    return Problem(
        title="A prompt in fewer bits",
        text=(
            f"The linear layers of {facts.title(name)} have {weights:,} weights. They are quantised {_SCHEMES[kind]}. The "
            f"{facts.card(card)} has a dense peak of {formatting.quantity(plain, 'FLOP/s')} in bf16{fp8}. A prompt of "
            f"{tokens:,} tokens is bound by compute. How long do its linear layers take at the least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            (
                "Weights alone make the bus faster, which does not bind here: they are converted, and multiplied in bf16."
                if kind == "w4a16"
                else "With weights and activations in the same narrow format the matrix units multiply in it."
            ),
            worked.formula(
                "Two FLOP for each weight and token, over the peak that counts:",
                "2 * N * T / P",
                {"N": (weights, "weights of the linear layers"), "T": (tokens, ""), "P": (peak, "")},
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-prefill", topic="quantization", minutes=5, draw=draw)
