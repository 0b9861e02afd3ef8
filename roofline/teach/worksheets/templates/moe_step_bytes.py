"""Weights of experts that a decode step reads."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.formatting import number
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
_PATHS = ("layers/moe/experts/up_proj", "layers/moe/experts/down_proj")


@cache
def _read(name: str, batch: int) -> tuple[float, float]:
    """Bytes of all experts that a decode step reads, and parameters of one expert."""
    operators = [facts.step_operators(name, batch, 1, 1024)[path] for path in _PATHS]
    size = sum(float(operator.cost().weight_bytes) * layers for operator, layers in operators)
    return size, sum(facts.parameters_by_path(name)[path][0] for path in _PATHS) / facts.mlp(name).num_experts


def draw(rng: Rng) -> Problem | None:
    """A model with experts in every layer, and a batch."""
    name, batch = rng.choice(_MODELS), rng.integer(1, 40)
    block, layers = facts.mlp(name), facts.model(name).num_hidden_layers
    experts, used, (right, one) = block.num_experts, block.num_experts_per_tok, _read(name, batch)
    each = one * facts.element_bytes("bf16") * layers
    met = right / each
    if met > 0.96 * experts:
        return None
    mistakes = [
        Mistake(
            name="all experts read",
            value=each * experts,
            hint=f"You read all {experts} experts. Some are chosen by no token of the step, and are not read.",
        ),
        pitfalls.one_layer(right / layers, layers),
        pitfalls.bits_for_bytes(right * 8, 16),
        Mistake(
            name="two matrices",
            value=right * 2 / 3,
            hint="You counted two matrices. A gated expert has three: gate, up and down.",
        ),
    ]
    if batch > 1:
        mistakes += [
            Mistake(
                name="one token's experts",
                value=each * used,
                hint="Those are the experts of one token. The other tokens of the step go to others too.",
            ),
            Mistake(
                name="nothing shared",
                value=each * used * batch,
                hint="You read experts for every token. Where tokens share an expert it is read once.",
            ),
        ]
    text = "sequences decode one token each" if batch > 1 else "sequence decodes a token"
    return Problem(
        title="Experts that are read",
        text=(
            f"{facts.title(name)} has {layers} layers ($L$), each with {experts} experts ($E$), of which a token uses {used} "
            f"($k$). An expert is three matrices of {facts.model(name).hidden_size:,} ($d_model$) by "
            f"{block.moe_intermediate_size:,} ($d_e$), in bf16. {batch} {text}. With all experts equally likely, and tokens "
            "independent of each other, how many bytes of experts' weights does the step read on average, in all layers?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=tuple(mistakes),
        solution=(
            (
                f"An expert is missed by all tokens with probability (1 - {used}/{experts})^{batch}, so that a layer reads "
                f"{experts} x (1 - (1 - {used}/{experts})^{batch}) = {number(met)} experts of "
                f"{formatting.quantity(each / layers, 'B')}."
            ),
            worked.formula(
                "With that number of them (n), of three matrices each, in all layers:",
                "L * n * 3 * d_model * d_e * b_w",
                {
                    "L": (layers, ""),
                    "n": (met, "experts that are met"),
                    "d_model": (facts.model(name).hidden_size, ""),
                    "d_e": (block.moe_intermediate_size, ""),
                    "b_w": (facts.element_bytes("bf16"), ""),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="moe-step-bytes", topic="moe", minutes=5, draw=draw)
