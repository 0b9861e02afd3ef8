"""Matrix FLOP of the linear layers for one token."""

from __future__ import annotations

from functools import cache

from roofline.operators.gemm import Gemm
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


@cache
def _linear(name: str) -> tuple[tuple[str, ...], float]:
    """Paths of a decode step's linear layers, and their FLOP."""
    gemms = {path: (op, n) for path, (op, n) in facts.step_operators(name, 1, 1, 1024).items() if isinstance(op, Gemm)}
    return tuple(gemms), sum(op.cost().matrix_flops * n for op, n in gemms.values())


def draw(rng: Rng) -> Problem:
    """A dense model."""
    name = facts.of_other_depth(rng, rng.choice(facts.DENSE))
    counted = facts.parameters(name)
    paths, flops = _linear(name)
    head = 2 * counted.embedding
    mistakes = (
        pitfalls.multiply_accumulates(flops / 2),
        Mistake(
            name="embedding multiplied",
            value=2 * counted.total,
            hint="You took every parameter. The embedding is a row that is looked up, not a matrix that is multiplied by.",
        ),
        Mistake(
            name="LM head forgotten",
            value=flops - head,
            hint="The layers are there. To choose a token, its hidden state is multiplied by the LM head too.",
        ),
        Mistake(
            name="training",
            value=3 * flops,
            hint="6 FLOP a parameter is a step of training, forward and backward. Inference has the forward pass alone.",
        ),
    )
    return Problem(
        title="FLOP of a token",
        text=(
            f"{facts.title(name)} has {counted.total:,} parameters. {counted.embedding:,} of them are the embedding "
            f"table, and the LM head has as many again. How many FLOP do the matrix products with its weights take to "
            "generate **one** token? Leave attention over the cache out."
        ),
        answer=Answer(value=flops, kind="flop"),
        mistakes=mistakes,
        solution=(
            (
                "Each weight of a linear layer is multiplied once and added once: 2 FLOP. The embedding is looked up and costs "
                "none; the LM head is a product like any other."
            ),
            worked.of_model("All linear layers:", name, paths, "matrix_flops", "FLOP"),
        ),
    )


TEMPLATE = Template(id="transformer-flops-per-token", topic="transformer", minutes=4, draw=draw)
