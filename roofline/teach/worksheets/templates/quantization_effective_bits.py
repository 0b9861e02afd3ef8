"""Effective bits: how many times smaller a format makes a matrix, its scales included."""

from __future__ import annotations

from roofline.specs.quantization.integers import PackQuantized
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_SIDE = 8192  # of a matrix so large that what it stores once does not matter


def draw(rng: Rng) -> Problem:
    """Bits, the size of a group, and whether it has a zero point."""
    bits, group, symmetric = rng.choice((2, 4, 8)), rng.choice((16, 32, 64, 128)), rng.choice((True, False))
    fields = {"name": "pack_quantized", "bits": bits, "group_size": group, "symmetric": symmetric}
    stored = PackQuantized.model_validate(fields).format
    size = _SIDE * _SIDE * stored.bytes + stored.metadata_bytes([(_SIDE, _SIDE)])
    right = 2 * _SIDE * _SIDE / float(size)
    shared = 16 if symmetric else 16 + bits
    mistakes = [
        Mistake(
            name="scales left out",
            value=16 / bits,
            hint="You compared the weights alone. The scales are stored and read too.",
        ),
        Mistake(
            name="effective bits",
            value=16 / right,
            hint="That is the number of bits per weight. How many times smaller than 16 bits is it?",
        ),
        Mistake(
            name="a scale per weight",
            value=16 / (bits + shared),
            hint=f"You added a whole scale to each weight. {group} weights share one.",
        ),
        Mistake(
            name="scales of one byte",
            value=16 / (bits + (shared - 8) / group),
            hint="You took 8 bits for the scale. It has 16.",
        ),
    ]
    if not symmetric:
        mistakes.append(
            Mistake(
                name="no zero points",
                value=16 / (bits + 16 / group),
                hint="A group has a zero point beside its scale.",
            )
        )
    zeros = "" if symmetric else f" and a zero point of {bits} bits"
    # what differs by a few tenths of a bit per group is within the tolerance here
    clear = tuple(one for one in mistakes if abs(one.value / right - 1) > 0.025 or one.name == "scales left out")
    return Problem(
        title="Effective bits",
        text=(
            f"Weights are stored in {bits} bits each; {group} of them share a scale of 16 bits{zeros}. How many times smaller "
            "is a large matrix than in bf16, everything counted?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=clear,
        solution=(
            "The bits of what a group shares are divided among its weights: that makes the effective bits of a weight.",
            worked.formula(
                "The effective bits:",
                "b + c / g",
                {
                    "b": (bits, "bits of a weight"),
                    "c": (shared, "bits that a group shares"),
                    "g": (group, "weights of a group"),
                },
                "bits",
            ),
            worked.formula(
                "16 bits of bf16 over them:",
                "16 / (b + c / g)",
                {
                    "b": (bits, "bits of a weight"),
                    "c": (shared, "bits that a group shares"),
                    "g": (group, "weights of a group"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-effective-bits", topic="quantization", minutes=3, draw=draw)
