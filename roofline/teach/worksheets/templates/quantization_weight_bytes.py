"""Bytes of a quantised matrix, with its scales and zero points."""

from __future__ import annotations

from roofline.specs.quantization import scheme
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

# scheme: its title, inputs of a group, bits of a group's scale, bits of its zero point
_SCHEMES = {
    "w4a16": ("W4A16", 128, 16, 0),
    "awq": ("AWQ", 128, 16, 4),
    "mxfp4": ("MXFP4", 32, 8, 0),
    "nvfp4": ("NVFP4", 16, 8, 0),
}


def draw(rng: Rng) -> Problem:
    """The gate projection of a model in a format of four bits."""
    name, kind = rng.choice(facts.DENSE), rng.choice(tuple(_SCHEMES))
    title, group, scale, zero = _SCHEMES[kind]
    hidden, inner = facts.model(name).hidden_size, facts.mlp(name).intermediate_size
    stored = scheme(kind).format
    weights = hidden * inner
    right = float(weights * stored.bytes + stored.metadata_bytes([(inner, hidden)]))
    zeros = f" and a zero point of {zero} bits" if zero else ""
    mistakes = [
        Mistake(
            name="scales left out",
            value=weights / 2,
            hint="Those are the weights alone. A group of them has a scale, which is stored as well.",
        ),
        Mistake(
            name="a scale per weight",
            value=weights * (4 + scale + zero) / 8,
            hint=f"You gave every weight a scale of its own. {group} of them share one.",
        ),
        Mistake(
            name="a scale per row",
            value=weights / 2 + inner * (scale + zero) / 8,
            hint=f"You gave every row one scale. Here {group} weights of a row share one, so that a row has many.",
        ),
        pitfalls.bits_for_bytes(8 * right, 4),
        pitfalls.gb_for_gib(right),
    ]
    if zero:
        value = weights / 2 + weights / group * scale / 8
        mistakes.append(Mistake(name="no zero points", value=value, hint="A group has a zero point too, not only a scale."))
    return Problem(
        title="A matrix in four bits",
        text=(
            f"The gate projection of {facts.title(name)} has {inner:,} rows ($d_ff$) of {hidden:,} weights ($d_model$). It is "
            f"stored in {title}: four bits per weight, and for each group of {group} weights of a row a scale of {scale} "
            f"bits{zeros}. How much memory does it take, with everything that is stored? Within 1 %."
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=tuple(mistakes),
        solution=(
            f"A group of {group} weights takes {group} x 4 bits, and {scale + zero} bits for what it shares.",
            worked.formula(
                "So much for each group, over 8 bits per byte:",
                "d_ff * d_model / g * (4 * g + b) / 8",
                {
                    "d_ff": (inner, ""),
                    "d_model": (hidden, ""),
                    "g": (group, "weights of a group"),
                    "b": (scale + zero, "bits that a group shares"),
                },
                "bytes",
            ),
        ),
        source=scheme(kind).source.partition(";")[0],
    )


TEMPLATE = Template(id="quantization-weight-bytes", topic="quantization", minutes=4, draw=draw)
