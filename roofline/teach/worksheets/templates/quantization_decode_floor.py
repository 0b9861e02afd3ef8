"""How much sooner a decode step can be done with weights in four bits."""

from __future__ import annotations

from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A model at batch 1, in bf16 and in W4A16."""
    name, card = facts.of_other_depth(rng, rng.choice(facts.DENSE)), rng.choice(_CARDS)
    plain, small = facts.floor(name, card, 1, 1, 0), facts.floor(name, card, 1, 1, 0, quantization="w4a16")
    layers, head = facts.layer_weights(name), facts.parameters(name).embedding
    if max(plain.compute_s / plain.memory_s, small.compute_s / small.memory_s) > 0.5:
        return None
    right = plain.weight_bytes / small.weight_bytes
    mistakes = (
        Mistake(
            name="bits alone",
            value=4,
            hint="That is 16 bits over 4. Scales are read as well, and not all matrices are quantised.",
        ),
        Mistake(
            name="LM head forgotten",
            value=16 / 4.125,
            hint="That holds for what is quantised. The LM head is read in bf16 in both cases.",
        ),
        Mistake(
            name="both tables read",
            value=(2 * layers + 4 * head) / (layers * 4.125 / 8 + 4 * head),
            hint="You read the embedding too. A step reads one row of it.",
        ),
        Mistake(
            name="bytes saved",
            value=1 - 1 / right,
            hint="That is the share of the bytes that is saved. Put the bytes before over those after.",
        ),
        Mistake(name="the wrong way round", value=1 / right, hint="That is the time after over the time before."),
    )
    return Problem(
        title="Decode in four bits",
        text=(
            f"The linear layers of {facts.title(name)} have {layers:,} weights, the LM head {head:,}. At batch 1, with a short "
            "context, a decode step is bound by the memory bus. The linear layers go from bf16 to W4A16 (four bits, and a "
            "scale of 16 bits for each 128 weights), the LM head stays in bf16. How many times shorter is the "
            "least time of a step?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "The bus decides, so that times are as bytes. A quantised weight takes 4 + 16/128 bits.",
            worked.formula(
                "Before over after:",
                "b_w * (N + H) / (N * (4 * 128 + 16) / 128 / 8 + b_w * H)",
                {
                    "N": (layers, "weights of the linear layers"),
                    "H": (head, "weights of the LM head"),
                    "b_w": (2, ""),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-decode-floor", topic="quantization", minutes=5, draw=draw)
