"""The arithmetic intensity of a linear layer, activations included."""

from __future__ import annotations

from roofline.operators.gemm import Gemm
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A matrix of a model, and a number of tokens."""
    name, tokens = rng.choice(facts.DENSE), rng.choice((192, 256, 384, 512, 768, 1024, 2048, 4096))
    hidden, inner = facts.model(name).hidden_size, facts.mlp(name).intermediate_size
    cost = Gemm(m=tokens, n=inner, k=hidden).cost()
    flops, size = cost.matrix_flops, cost.weight_bytes + cost.activation_bytes
    right = flops / size
    mistakes = (
        Mistake(
            name="weights alone",
            value=flops / cost.weight_bytes,
            hint="That is with weights alone, which is good for a few tokens. Here inputs and outputs are worth counting.",
        ),
        Mistake(
            name="outputs forgotten",
            value=flops / (cost.weight_bytes + 2 * tokens * hidden),
            hint="Weights and inputs are read. The outputs have to be written too.",
        ),
        pitfalls.multiply_accumulates(right / 2),
        Mistake(
            name="elements for bytes",
            value=2 * right,
            hint="You divided by elements. In bf16 each is two bytes.",
        ),
    )
    return Problem(
        title="Intensity of a linear layer",
        text=(
            f"The up projection of {facts.title(name)} takes {tokens:,} tokens from hidden size {hidden:,} ($d_model$) "
            f"to inner "
            f"width {inner:,} ($d_ff$). Weights and activations are in bf16; weights, inputs and outputs each cross the memory "
            "bus once. What is its arithmetic intensity?"
        ),
        answer=Answer(value=right, kind="flop/byte"),
        mistakes=mistakes,
        solution=(
            worked.of_operator(
                "The work:",
                Gemm,
                "matrix_flops",
                {"m": ("T", tokens), "n": ("d_ff", inner), "k": ("d_model", hidden)},
                "FLOP",
            ),
            worked.formula(
                "The traffic, $b_a$ = 2 bytes per element:",
                "b_a * (d_model * d_ff + T * d_model + T * d_ff)",
                {"T": (tokens, ""), "d_ff": (inner, ""), "d_model": (hidden, ""), "b_a": (2, "")},
                "bytes",
            ),
            worked.formula(
                "One over the other:", "F / D", {"F": (flops, "work [FLOP]"), "D": (size, "traffic [bytes]")}, "FLOP/byte"
            ),
        ),
    )


TEMPLATE = Template(id="roofline-gemm-intensity", topic="roofline", minutes=5, draw=draw)
