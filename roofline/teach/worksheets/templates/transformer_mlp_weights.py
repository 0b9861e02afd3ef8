"""Weights of the gated feed-forward blocks of a whole model, and their size."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_PATHS = ("layers/mlp/gate_up_proj", "layers/mlp/down_proj")


def draw(rng: Rng) -> Problem:
    """A dense model, at two bytes a weight."""
    name = facts.of_other_depth(rng, rng.choice(facts.DENSE))
    counted = facts.parameters_by_path(name)
    layers = facts.model(name).num_hidden_layers
    total = sum(counted[path][0] * counted[path][1] for path in _PATHS)
    hidden, inner = facts.model(name).hidden_size, facts.mlp(name).intermediate_size
    size = total * facts.element_bytes("bf16")
    mistakes = (
        Mistake(
            name="gate forgotten",
            value=size * 2 / 3,
            hint="You counted two matrices. A gated block has three: gate, up and down.",
        ),
        Mistake(
            name="four times the hidden size",
            value=size * 4 * hidden / inner,
            hint="You took four times the hidden size for the inner width, as in GPT-2. Here the width is given.",
        ),
        pitfalls.bits_for_bytes(size * 8, 16),
        Mistake(
            name="a byte a weight",
            value=size / 2,
            hint="That many weights there are. In bf16 each of them takes two bytes.",
        ),
        pitfalls.one_layer(size / layers, layers),
        pitfalls.gb_for_gib(size),
    )
    return Problem(
        title="Feed-forward weights",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'hidden', 'inner')}. Its feed-forward blocks are gated "
            "(SwiGLU). How much memory do the weights of **all** of them take in bf16?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                "A gated block multiplies by three matrices of hidden size times inner width: gate and up on the way "
                "in, down on "
                "the way out."
            ),
            worked.of_model("All layers, with $b_w$ = 2 bytes a weight:", name, _PATHS, "weight_bytes", "bytes"),
        ),
    )


TEMPLATE = Template(id="transformer-mlp-weights", topic="transformer", minutes=4, draw=draw)
