"""The arithmetic intensity of experts at decode."""

from __future__ import annotations

from functools import cache

from roofline.formatting import number
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "deepseek-v2-lite")


@cache
def _cost(name: str, batch: int) -> tuple[float, float]:
    """FLOP and bytes of weights of the first product of a layer's experts."""
    block = facts.mlp(name)
    cost = GroupedGemm(
        tokens=batch,
        n=2 * block.moe_intermediate_size,
        k=facts.model(name).hidden_size,
        experts=block.num_experts,
        top_k=block.num_experts_per_tok,
    ).cost()
    return float(cost.matrix_flops), float(cost.weight_bytes)


def draw(rng: Rng) -> Problem | None:
    """A model with experts, and a batch that uses many of them."""
    name, batch = rng.choice(_MODELS), rng.integer(8, 160, 4)
    block, (flops, read) = facts.mlp(name), _cost(name, batch)
    experts, used = block.num_experts, block.num_experts_per_tok
    right = flops / read
    each = flops / used / batch  # FLOP of a token in one expert, and bytes of an expert: both one a weight, but for 2 and 2
    met = read / each
    if met > 0.97 * experts:
        return None
    mistakes = (
        Mistake(
            name="as a dense layer",
            value=2 * batch / facts.element_bytes("bf16"),
            hint="That is a dense layer, whose weights every token meets. An expert meets only the tokens that chose it.",
        ),
        Mistake(
            name="all experts read",
            value=batch * used / experts,
            hint=f"You read all {experts} experts. With so few tokens some are not chosen, and are not read.",
        ),
        Mistake(
            name="one expert a token",
            value=right / used,
            hint=f"You let each token work in one expert. It works in {used}.",
        ),
        pitfalls.multiply_accumulates(right / 2),
        pitfalls.bits_for_bytes(right / 8, 16),
    )
    return Problem(
        title="The intensity of experts",
        text=(
            f"{batch} sequences decode one token each with {facts.title(name)}, whose layers have {experts} experts, of which "
            f"a token uses {used}. The weights are in bf16. All experts are equally likely, and tokens choose independently of "
            "each other. What is the arithmetic intensity of the routed experts? Of the bytes count the weights alone, of the "
            "experts that are met on average."
        ),
        answer=Answer(value=right, kind="flop/byte"),
        mistakes=mistakes,
        solution=(
            (
                f"On average {experts} x (1 - (1 - {used}/{experts})^{batch}) = {number(met)} experts are met (n). Each of "
                f"their weights is read once, two bytes, and takes part in 2 FLOP for each token that chose the expert."
            ),
            worked.formula(
                f"Tokens and the {used} experts of each ($k$) make the rows that these experts share:",
                "2 * B * k / (b_w * n)",
                {
                    "B": (batch, ""),
                    "k": (used, ""),
                    "b_w": (facts.element_bytes("bf16"), ""),
                    "n": (met, "experts that are met"),
                },
                "FLOP/byte",
            ),
        ),
    )


TEMPLATE = Template(id="moe-expert-intensity", topic="moe", minutes=5, draw=draw)
