"""Absorbed latent attention of new tokens over their caches: one cache of wide entries for all query heads.

A thread block takes 64 query rows of one sequence and goes through its latents. Kernels for Hopper deal all the latents of a
call out evenly to the SMs; TensorRT-LLM's for Ampere leaves each sequence to one block. A block costs a fixed time and streams
latents no faster than `stream` (with 64 rows of products a latent, that is the matrix units as much as the loads); all of them
together no faster than device memory. The slower of the two decides, with a little more where they are alike (a norm of fourth
power). Queries and outputs are as wide as latents, and some kernels pass over them again.

    t = launch + block * blocks/SM + ((latents of an SM / stream)^4 + (bytes / memory)^4)^(1/4) + queries + extra

Source: github.com/deepseek-ai/FlashMLA, `csrc/` (`BLOCK_SIZE_M` 64, `get_mla_metadata`: latents over the SMs, evenly).
"""

from __future__ import annotations

import math

from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.operators.entries import entries_read
from roofline.operators.latent_attention import LatentAttention
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values
from roofline.predict.efficiency.forms.attention_decode import ROWS, matrix_rates, resident
from roofline.predict.efficiency.forms.gemm import root, square

# Latents of one step of a block.
STEP = 64


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (core,) = operators.values()
    if not isinstance(core, LatentAttention):
        msg = f"a decode of {core.kind} is not what this form is of"
        raise TypeError(msg)
    length = entries_read(core.new, core.cached, None, core.chosen)
    blocks = core.batch * ceil_div(core.new * core.n_heads, ROWS)
    longest = maximum(length, STEP)
    if chip.architecture == "ampere":
        parts: Expr = 1
        share = ceil_div(blocks, chip.units) * longest
    else:
        parts = maximum(1, minimum(chip.units / blocks, longest / STEP))
        share = maximum(blocks / chip.units * longest, longest / parts)
    cost = core.cost()
    moved = cost.kv_read_bytes
    if not math.isinf(conditions.kv):
        moved = moved * (1 - resident(moved * conditions.kv, chip))
    memory = maximum(moved / (values["memory"] * chip.bandwidth), cost.matrix_flops / chip.peak(core))
    streams = share * (core.r_kv + core.d_rope) * core.dtypes.kv.bytes / values["stream"]
    queries = values["passes"] * cost.activation_bytes / chip.bandwidth
    each = values["block"] * blocks * parts / chip.units
    extra = values["extra"] * (parts > 1)
    return {
        "launch": values["launch"],
        "blocks": each,
        "streams": streams,
        "memory": memory,
        "queries": queries,
        "extra": extra,
        "total": values["launch"] + each + root(square(square(streams)) + square(square(memory))) + queries + extra,
    }


def _scaled(values: Values, chip: Chip, other: Chip) -> dict[str, float]:
    """With 64 rows of products a latent, an SM streams as its matrix units multiply."""
    return {**values, "stream": values["stream"] * matrix_rates(chip, other)}


MLA_DECODE = Form(
    name="mla_decode",
    ops=("mla_decode",),
    about="latents dealt out evenly to the SMs (Ampere: a sequence to a block), or the memory",
    parameters=(
        Parameter(name="launch", unit="s", meaning="of a call of one small block", start=1.2e-5, low=1e-6, high=1e-4),
        Parameter(
            name="block", unit="s", meaning="of a thread block besides its latents", start=3e-6, low=1e-8, high=5e-5, neutral=0
        ),
        Parameter(name="stream", unit="byte/s", meaning="of latents in one SM", start=4e10, low=1e9, high=5e11, neutral=1e18),
        Parameter(name="memory", unit="1", meaning="fraction of the memory bandwidth", start=0.85, low=0.2, high=1.0),
        Parameter(
            name="passes",
            unit="1",
            meaning="passes over queries and outputs, at all bandwidth",
            start=1.0,
            low=0.1,
            high=10.0,
            neutral=1,
        ),
        Parameter(
            name="extra", unit="s", meaning="of joining the parts of a sequence", start=1e-6, low=1e-9, high=2e-5, neutral=0
        ),
    ),
    terms=_terms,
    transfer=_scaled,
)
