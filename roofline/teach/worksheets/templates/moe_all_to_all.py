"""What a device sends to the experts of others."""

from __future__ import annotations

from functools import cache

from roofline.operators.collectives import AllToAll
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")


@cache
def _sent(elements: int, devices: int) -> float:
    """Bytes that leave a device."""
    return float(AllToAll(elements=elements, world=devices).cost().link_bytes)


def draw(rng: Rng) -> Problem | None:
    """A model, its experts on several devices, and the tokens that each device has."""
    name, devices, tokens = rng.choice(_MODELS), rng.choice((2, 4, 8, 16, 32)), rng.choice((16, 32, 64, 128, 256, 512))
    block, hidden = facts.mlp(name), facts.model(name).hidden_size
    used, experts = block.num_experts_per_tok, block.num_experts
    if experts % devices:
        return None
    right = _sent(tokens * used * hidden, devices)
    mistakes = (
        Mistake(
            name="one copy a token",
            value=right / used,
            hint=f"You sent each token once. It goes to {used} experts, a copy to each.",
        ),
        Mistake(
            name="own experts too",
            value=right * devices / (devices - 1),
            hint="You sent all copies. Those for the device's own experts do not leave it.",
        ),
        Mistake(
            name="both ways",
            value=2 * right,
            hint="You counted the way back too. The answer is the dispatch alone.",
        ),
        Mistake(
            name="width of an expert",
            value=right * block.moe_intermediate_size / hidden,
            hint="You sent vectors of an expert's inner width. What goes to an expert is as wide as the residual stream.",
        ),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="Tokens on their way to experts",
        text=(
            f"The {experts} experts of each layer of {facts.title(name)} are spread evenly over {devices} devices. A token, a "
            f"vector of {hidden:,} elements ($d_model$) in bf16, goes to {used} experts ($k$), with a copy for each of them "
            f"wherever it is; an expert's inner width is {block.moe_intermediate_size:,}. In a step each device has {tokens} "
            "tokens of its own, and all experts get equally many. How many bytes does a device send in one layer to dispatch "
            "its tokens (the results come back later)?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            f"Of the copies the share (n - 1)/n, {devices - 1} of {devices}, is for experts of other devices.",
            worked.formula(
                "So a device sends:",
                "(n - 1) * T * k * d_model * b_a / n",
                {
                    "n": (devices, "devices"),
                    "T": (tokens, ""),
                    "k": (used, ""),
                    "d_model": (hidden, ""),
                    "b_a": (facts.element_bytes("bf16"), ""),
                },
                "bytes",
            ),
        ),
        source="Thakur et al., IJHPCA 19(1), 2005, section 4.2",
    )


TEMPLATE = Template(id="moe-all-to-all", topic="moe", minutes=4, draw=draw)
