"""What a device holds where experts are spread and all else is not."""

from __future__ import annotations

from functools import cache

from roofline.formatting import number
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
_EXPERTS = ("layers/moe/experts/up_proj", "layers/moe/experts/down_proj")


@cache
def _held(name: str, devices: int) -> float:
    """Bytes of weights on one of several devices, each with all of attention and its part of the experts."""
    return facts.request(name, "dgx-h100", dp=devices, ep=devices).memory.fullest_stage.weights_bytes


def draw(rng: Rng) -> Problem | None:
    """A model with experts in every layer, perhaps of another depth, and a number of devices."""
    name, devices = facts.of_other_depth(rng, rng.choice(_MODELS)), rng.choice((2, 4, 8, 16, 32))
    mlp, counted = facts.mlp(name), facts.parameters(name)
    if devices > mlp.num_experts:
        return None
    experts = sum(count * layers for count, layers in (facts.parameters_by_path(name)[path] for path in _EXPERTS))
    total, size, right = counted.total, facts.element_bytes("bf16"), _held(name, devices)
    rest = total - experts
    mistakes = (
        Mistake(
            name="everything divided",
            value=size * total / devices,
            hint="You divided everything. Attention, embeddings and routers are on every device, whole.",
        ),
        Mistake(
            name="nothing divided",
            value=size * total,
            hint="That is the whole model. A device holds its part of the experts only.",
        ),
        Mistake(
            name="experts alone",
            value=size * experts / devices,
            hint="Those are the experts of a device. It holds everything that is not an expert, too.",
        ),
        Mistake(
            name="active parameters",
            value=size * counted.active,
            hint="Those are the parameters that one token uses. A device holds all of its experts, used or not.",
        ),
        Mistake(
            name="one byte a parameter",
            value=size * (rest + experts / devices) / 2,
            hint="bf16 has 16 bits: that is two bytes per parameter.",
        ),
    )
    return Problem(
        title="What a device holds",
        text=(
            f"{facts.title(name)} has {total:,} parameters, of which {experts:,} belong to its experts "
            f"({mlp.num_experts} in each of {facts.model(name).num_hidden_layers} layers); a token uses {counted.active:,}. "
            f"It runs on {devices} devices with expert parallelism: each holds its part of every layer's experts, and a copy "
            "of everything else, with which it computes the attention of its own requests (data parallelism). How much memory "
            "do the weights take on a device, in bf16?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            f"Not of experts are {total:,} - {experts:,} = {number(rest)} parameters.",
            worked.formula(
                "They are on every device, the experts divided:",
                "b_w * (N_rest + N_experts / n)",
                {
                    "b_w": (size, ""),
                    "N_rest": (rest, "parameters of all else"),
                    "N_experts": (experts, "parameters of experts"),
                    "n": (devices, "devices"),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="moe-memory-of-a-device", topic="moe", minutes=4, draw=draw)
