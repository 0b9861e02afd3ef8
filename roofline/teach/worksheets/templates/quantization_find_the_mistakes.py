"""Find the mistakes: a post that puts a model in four bits on a card."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model, and the two mistakes of the post."""
    name = facts.of_other_depth(rng, rng.choice(facts.DENSE))
    right = facts.loaded_bytes(name, quantization="awq")
    total, layers = facts.parameters(name).total, facts.layer_weights(name)
    shared = layers / 128 * 20 / 8
    stated = total / 2
    mistakes = (
        Mistake(
            name="both mistakes",
            value=stated,
            hint="That is the number of the post. Look at what it takes for a weight, and at which weights are quantised.",
        ),
        Mistake(
            name="all in four bits",
            value=stated + total / 128 * 20 / 8,
            hint="Scales and zero points are there. But the embedding and the LM head stay in bf16.",
        ),
        Mistake(
            name="scales left out",
            value=right - shared,
            hint="The embedding and the LM head are right now. A group of weights has a scale and a zero point, too.",
        ),
        pitfalls.bits_for_bytes(8 * right, 4),
        pitfalls.gb_for_gib(right),
    )
    return Problem(
        title="Find the mistakes",
        text=(
            f"A post works out the memory of {facts.title(name)} in AWQ:\n\n"
            f"> {total:,} parameters x 4 bits / 8 = {formatting.quantity(stated, 'B', 3)}\n\n"
            f"AWQ quantises the {layers:,} weights of the linear layers, in groups of 128 with a scale of 16 bits and a zero "
            "point of 4 bits. All other parameters stay in bf16. Find both mistakes. How much memory do they really take?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                "The post leaves out what groups share, 20 bits for 128 weights, and quantises the embedding and the LM head, "
                "which stay in two bytes."
            ),
            worked.formula(
                "Put right:",
                "N * (4 * 128 + 20) / 128 / 8 + b_w * R",
                {
                    "N": (layers, "weights of the linear layers"),
                    "R": (total - layers, "parameters in bf16"),
                    "b_w": (2, ""),
                },
                "bytes",
            ),
        ),
        source="arXiv:2306.00978",
    )


TEMPLATE = Template(id="quantization-find-the-mistakes", topic="quantization", minutes=5, draw=draw)
