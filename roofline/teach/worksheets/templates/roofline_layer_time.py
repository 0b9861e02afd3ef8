"""The least time of a linear layer."""

from __future__ import annotations

from roofline import formatting
from roofline.operators.gemm import Gemm
from roofline.predict.bounds import times
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A matrix of a model, a number of tokens, and an accelerator."""
    name, card = rng.choice(facts.DENSE), rng.choice(facts.CARDS)
    tokens = rng.choice((1, 4, 8, 16, 32, 512, 1024, 2048, 4096))
    hidden, inner = facts.model(name).hidden_size, facts.mlp(name).intermediate_size
    hardware, operator = facts.hardware(card), Gemm(m=tokens, n=hidden, k=inner)
    cost = operator.cost()
    seconds = times(operator, cost, hardware)
    if 0.8 < seconds.matrix / seconds.memory < 1.25:
        return None
    compute = seconds.matrix > seconds.memory
    shorter, longer = sorted((seconds.matrix, seconds.memory))
    mistakes = [
        Mistake(
            name="the shorter time",
            value=shorter,
            hint=(
                f"That is the time of the {'bus' if compute else 'matrix units'}. The other resource takes longer, and "
                "both work at the same time."
            ),
        ),
        Mistake(
            name="sum of both times",
            value=shorter + longer,
            hint="You added both times. At the least they pass side by side, and the longer one counts.",
        ),
        Mistake(
            name="bits for bytes",
            value=max(seconds.matrix, 8 * seconds.memory),
            hint="bf16 has 16 bits: that is 2 bytes, not 16.",
        ),
    ]
    if compute:
        mistakes += [
            pitfalls.sparse_peak(longer / 2, formatting.quantity(hardware.peak("bf16"), "FLOP/s")),
            pitfalls.multiply_accumulates(longer / 2),
        ]
    else:
        mistakes.append(
            Mistake(name="a byte a weight", value=longer / 2, hint="You read a byte for each element. In bf16 there are two.")
        )
    return Problem(
        title="At least how long?",
        text=(
            f"The down projection of {facts.title(name)} takes {tokens:,} {'token' if tokens == 1 else 'tokens'} from "
            f"inner width "
            f"{inner:,} ($d_ff$) to hidden size {hidden:,} ($d_model$), everything in bf16. The {facts.card(card)} has "
            f"{facts.peak_and_bandwidth(card)}. How long does it take at the least?"
        ),
        answer=Answer(value=longer, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            worked.of_operator(
                "The work:",
                Gemm,
                "matrix_flops",
                {"m": ("T", tokens), "n": ("d_model", hidden), "k": ("d_ff", inner)},
                "FLOP",
            ),
            worked.formula(
                "The traffic of weights, inputs and outputs:",
                "b_a * (d_model * d_ff + T * d_model + T * d_ff)",
                {"T": (tokens, ""), "d_ff": (inner, ""), "d_model": (hidden, ""), "b_a": (2, "")},
                "bytes",
            ),
            (
                f"The matrix units need {formatting.quantity(seconds.matrix, 's')}, the bus "
                f"{formatting.quantity(seconds.memory, 's')}: the layer is "
                f"bound by "
                f"{'compute' if compute else 'memory'}."
            ),
            worked.formula(
                "The longer of both:",
                "max(F / P, D / beta)",
                {
                    "F": (cost.matrix_flops, "work [FLOP]"),
                    "D": (cost.bytes, "traffic [bytes]"),
                    "P": (hardware.peak("bf16"), ""),
                    "beta": (hardware.bandwidth, ""),
                },
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="roofline-layer-time", topic="roofline", minutes=6, draw=draw)
