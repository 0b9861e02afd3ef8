"""Reuse: the arithmetic intensity of a tile."""

from __future__ import annotations

from roofline.formatting import number
from roofline.operators.gemm import Gemm
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A tile of the output and the depth of the product."""
    rows, columns = 16 * rng.integer(2, 16), 16 * rng.integer(2, 16)
    dtype, depth = rng.choice(("bf16", "fp8")), 1024 * rng.choice((2, 4, 8))
    element = facts.element_bytes(dtype)
    cost = Gemm(m=rows, n=columns, k=depth).cost()
    right = float(cost.matrix_flops) / ((rows + columns) * depth * element)
    if len(number(right)) < 5:  # a rounder one might stand in the text by chance
        return None
    mistakes = (
        pitfalls.multiply_accumulates(right / 2),
        Mistake(
            name="elements for bytes",
            value=right * element,
            hint="You divided by elements. Each of them has two bytes in bf16.",
        ),
        Mistake(
            name="one operand",
            value=right * (rows + columns) / rows,
            hint="You counted the bytes of one operand. Both are loaded.",
        ),
        Mistake(
            name="no reuse",
            value=2 / (2 * element),
            hint=(
                "You loaded both elements for each product. A tile uses each element of one operand with a whole row of the "
                "other."
            ),
        ),
        pitfalls.bits_for_bytes(right / 8, round(8 * element)),
    )
    # in a format of one byte elements are bytes: that is no mistake then
    return Problem(
        title="Reuse in a tile",
        text=(
            f"A thread block computes a tile of {rows} x {columns} of the output. For it, it reads {rows} x {depth:,} elements "
            f"of one operand and {depth:,} x {columns} of the other from the L2 cache, in {dtype}, each once; the tile "
            "itself stays in registers until the end, and its one writing is left out. How many FLOP is that for each byte "
            "read?"
        ),
        answer=Answer(value=right, kind="flop/byte"),
        mistakes=tuple(one for one in mistakes if one.name != "elements for bytes" or element > 1),
        solution=(
            worked.of_operator(
                "The products of the tile:",
                Gemm,
                "matrix_flops",
                {"m": ("T", rows), "n": ("d_model", columns), "k": ("d_ff", depth)},
                "FLOP",
            ),
            worked.formula(
                "Over the bytes of both operands; the depth drops out:",
                "2 * t_m * t_n / ((t_m + t_n) * b_e)",
                {
                    "t_m": (rows, "rows of the tile"),
                    "t_n": (columns, "columns of the tile"),
                    "b_e": (element, "bytes of an element"),
                },
                "FLOP/byte",
            ),
            "Twice as large a tile in both directions is twice as much reuse: so tiles are as large as registers allow.",
        ),
        source="CUTLASS, Efficient GEMM in CUDA",
    )


TEMPLATE = Template(id="memory-hierarchy-tile-intensity", topic="memory-hierarchy", minutes=4, draw=draw)
