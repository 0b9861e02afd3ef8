"""Latent attention of prompts, as `attention_prefill`, in whichever of the two equivalent forms of MLA a backend launches.

The parameter `absorbed` tells which, whatever the operator says:

* 0: keys and values of every head, 192 and 128 wide in DeepSeek's models, were expanded before. A block has 128 rows of one
  head (64 before Hopper); its keys are not divided among CTAs.
* 1: all heads share the latents, 576 and 512 wide: 3.4 times the FLOP a pair, far less to read. A block has 64 rows of all
  heads; where CTAs are fewer than SMs the keys are divided among more of them, at the price of a second launch.

Bytes overlap with the blocks. NB: for whole prompts they never count; for a few queries after a long context they do.

Sources: DeepSeek-V2, arXiv:2405.04434, section 2.1; blocks of latents: flash-attention, hopper/tile_size.h (64 by 64). The
blocks of 0 are those that fit measurements of TensorRT-LLM best, not read in its source.
"""

from __future__ import annotations

from typing import cast

from roofline.numeric import Expr, maximum
from roofline.operators.latent_attention import LatentAttention
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values
from roofline.predict.efficiency.forms.attention_prefill import blocks, shared_out

KEYS = 64
LATENT_ROWS = 64


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    core = cast("LatentAttention", next(iter(operators.values())))
    flop = 2 * chip.units / (values["compute"] * chip.peak(core))
    wide = core.d_nope + core.d_rope + core.d_v
    latent = 2 * core.r_kv + core.d_rope

    queries, keys = core.batch * core.new * core.n_heads, core.batch * (core.cached + core.new)
    if values["absorbed"]:
        count, met, most = blocks(core.new, core.cached, None, core.n_heads, LATENT_ROWS, KEYS, KEYS)
        met, most = (pairs * LATENT_ROWS * latent * flop for pairs in (met, most))
        busy = shared_out(core.batch, count, met, most, chip.units, values, divides=True)
        moved = queries * latent * core.dtypes.activation.bytes + keys * (core.r_kv + core.d_rope) * core.dtypes.kv.bytes
    else:
        rows = 64 if chip.architecture in {"volta", "turing", "ampere", "ada"} else 128
        count, met, most = blocks(core.new, core.cached, None, 1, rows, KEYS, KEYS)
        met, most = (pairs * rows * wide * flop for pairs in (met, most))
        busy = shared_out(core.batch * core.n_heads, count, met, most, chip.units, values, divides=False)
        expanded = queries * wide + keys * (core.n_heads * (core.d_nope + core.d_v) + core.d_rope)
        moved = expanded * core.dtypes.activation.bytes

    memory = moved / chip.bandwidth
    write = core.batch * core.new * values["token"] / chip.units
    return {
        "launch": values["launch"],
        "blocks": busy,
        "memory": memory,
        "write": write,
        "total": values["launch"] + maximum(busy, memory) + write,
    }


MLA_PREFILL = Form(
    name="mla_prefill",
    ops=("mla_prefill",),
    about="blocks of query rows that meet blocks of keys or of latents, shared by the SMs",
    parameters=(
        Parameter(name="launch", unit="s", meaning="time of an empty call", start=1e-5, low=1e-6, high=1e-4),
        Parameter(name="compute", unit="1", meaning="fraction of the matrix peak", start=0.7, low=0.1, high=1.1),
        Parameter(name="block", unit="s", meaning="start and end of a CTA", start=2e-6, low=1e-8, high=5e-5, neutral=0),
        Parameter(
            name="tail",
            unit="1",
            meaning="part of the longest CTA after the average SM",
            start=0.5,
            low=0.01,
            high=1.5,
            neutral=0,
        ),
        Parameter(
            name="absorbed", unit="1", meaning="0: expanded keys and values, 1: latents", start=0, low=0, high=1, choices=(0, 1)
        ),
        Parameter(
            name="token", unit="s", meaning="one SM's time for a token beside", start=1e-7, low=1e-10, high=1e-5, neutral=0
        ),
    ),
    terms=_terms,
)
