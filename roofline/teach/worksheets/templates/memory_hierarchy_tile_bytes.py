"""Shared memory that the tiles of a matrix product need."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A tile of the output, the depth of a step, and the stages of the pipeline."""
    rows, columns = rng.choice((64, 128, 256)), rng.choice((64, 128, 192, 256))
    depth, stages, dtype = rng.choice((32, 64, 128)), rng.integer(2, 5), rng.choice(("bf16", "fp8"))
    element = facts.element_bytes(dtype)
    step = (rows + columns) * depth * element
    right = stages * step
    if right > 228 * 1024:  # what a streaming multiprocessor of Hopper has
        return None
    mistakes = (
        Mistake(
            name="one stage",
            value=step,
            hint=f"That is one stage. {stages} of them are on their way or in use at the same time.",
        ),
        Mistake(
            name="one operand",
            value=stages * rows * depth * element,
            hint="That is the tile of one operand. A product has two.",
        ),
        Mistake(
            name="accumulators too",
            value=right + rows * columns * 4,
            hint="You added the accumulators. They are in registers here.",
        ),
        Mistake(
            name="output tile",
            value=stages * rows * columns * element,
            hint="That is the size of the output's tile. What is loaded are the tiles of the inputs.",
        ),
        pitfalls.bits_for_bytes(8 * right, round(8 * element)),
    )
    return Problem(
        title="A tile in shared memory",
        text=(
            f"A kernel computes tiles of {rows} x {columns} of the output of a matrix product. In each step it loads "
            f"{rows} x {depth} elements of one operand and {depth} x {columns} of the other, in {dtype}, into shared memory, "
            f"and multiplies them; sums stay in registers. The pipeline has {stages} stages, each with its own buffers. How "
            "much shared memory does a thread block need?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A stage holds both tiles:",
                "(t_m + t_n) * t_k * b_e",
                {
                    "t_m": (rows, "rows of a tile"),
                    "t_n": (columns, "columns of a tile"),
                    "t_k": (depth, "depth of a step"),
                    "b_e": (element, "bytes of an element"),
                },
                "bytes",
            ),
            worked.formula(
                "All stages:",
                "n_stages * s_stage",
                {"n_stages": (stages, "stages"), "s_stage": (step, "a stage [bytes]")},
                "bytes",
            ),
        ),
        source="CUTLASS, Efficient GEMM in CUDA",
    )


TEMPLATE = Template(id="memory-hierarchy-tile-bytes", topic="memory-hierarchy", minutes=4, draw=draw)
