"""The share of a layer's weights that the last-level cache holds."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s", "rtx-4090", "b200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A feed-forward block, a format, and an accelerator with its L2 cache."""
    name, card, dtype = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.choice(("bf16", "fp8"))
    l2 = facts.hardware(card).accelerator.l2
    if l2 is None:
        return None
    hidden, inner, layers = (
        facts.model(name).hidden_size,
        facts.mlp(name).intermediate_size,
        facts.model(name).num_hidden_layers,
    )
    element = facts.element_bytes(dtype)
    size = 3 * hidden * inner * element
    right = l2.value / size
    mistakes = (
        Mistake(
            name="two matrices",
            value=right * 3 / 2,
            hint="You counted two matrices. A gated feed-forward block has three: gate, up and down.",
        ),
        Mistake(
            name="MB for MiB",
            value=right / 2**20 * 1e6,
            hint="You took 1 MiB of cache for 10^6 bytes: it is 1024^2 bytes, 5 % more.",
        ),
        Mistake(
            name="all layers",
            value=right / layers,
            hint="You took the blocks of all layers. The question is one layer's.",
        ),
        pitfalls.bits_for_bytes(right / 8, round(8 * element)),
        Mistake(
            name="other format",
            value=right * (2 if element == 2 else 0.5),
            hint=f"Count the bytes of an element again: it is {dtype}.",
        ),
    )
    return Problem(
        title="Weights in the L2 cache",
        text=(
            f"The feed-forward block of one layer of {facts.title(name)} has gate, up and down projections of hidden size "
            f"{hidden:,} ($d_model$) by inner width {inner:,} ($d_ff$), in {dtype}. The L2 cache of an {facts.card(card)} "
            "holds "
            f"{l2.value / 2**20:g} MiB. Which share of this one block's weights fits in it?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The three matrices take:",
                "3 * d_model * d_ff * b_w",
                {"d_model": (hidden, ""), "d_ff": (inner, ""), "b_w": (element, "")},
                "bytes",
            ),
            worked.formula(
                "The cache holds of that:",
                "Z / W_block",
                {"Z": (l2.value, "L2 cache [bytes]"), "W_block": (size, "weights of the block [bytes]")},
                "1",
            ),
            "What does not fit is read from device memory in every step, since the other layers come in between.",
        ),
        source="the hardware's file; docs/validation.md",
    )


TEMPLATE = Template(id="memory-hierarchy-weights-in-l2", topic="memory-hierarchy", minutes=3, draw=draw)
