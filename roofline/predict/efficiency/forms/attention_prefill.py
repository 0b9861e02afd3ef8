"""Attention of prompts, whole or in chunks: blocks of query rows that walk over blocks of keys, one block of rows a CTA.

A CTA takes a block of rows of one sequence and head, starts (`block`), and meets every key that any of its rows sees, a block
of keys at a time. A pair costs the matrix units 4 head_dim FLOP and then the rest of the SM one exponential and its sums. The
CTAs share the SMs: the time is that of the average SM plus a part of the longest CTA (`tail`; with the causal mask the last
block meets twice the average), never less than the longest CTA, and grows where a long kernel lowers the clock. Reading of
cached keys overlaps with it. Before and after, queries, outputs and the keys and values of the new tokens move at the speed
of the datasheet, and the cache is written, a token at a time.

There are two kinds of kernels, and the parameter `packed` tells which one a backend launches:

* 0: a block has 64 rows of one query head (FlashAttention-2 on a paged cache, TensorRT-LLM). The keys of a block of rows are
  not divided among CTAs, however few these are. A query alone in its sequence has the heads of its group beside it.
* 1: a block has 128 rows (192 of narrow heads) of all query heads of a group (FlashAttention-3; SGLang on Ampere behaves
  so). Where CTAs are few the keys are divided among more of them, at the price of a second launch that combines.

NB: what the new tokens move is taken to lie in L2 as far as it has room, as just after the kernel before; `conditions.kv`
is about cached tokens. One query alone (a decode step) is a block of rows as any other, most of them empty.

Sources: Dao 2023 (FlashAttention-2), arXiv:2307.08691; Shah et al. 2024 (FlashAttention-3), arXiv:2407.08608; sizes of blocks
and when keys are divided: flash-attention, csrc/flash_attn/src/flash_fwd_launch_template.h (split-KV dispatch: 64 rows, 256,
128 or 64 keys), hopper/tile_size.h and hopper/heuristics.h. That TensorRT-LLM has the blocks of 0 is what measurements fit
best, not read in its source.
"""

from __future__ import annotations

from typing import cast

from roofline.numeric import Expr, ceil_div, maximum, minimum, ratio
from roofline.operators.attention import Attention
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import COLD, Conditions, Form, Operators, Parameter, Values

# Bytes/s that the last cache gives at least. NB: no datasheet has it; of 2.5 to 5 TB/s, chosen as what fits measurements of
# A100, H200 and L40S together. Only L40S, whose memory is slow and whose cache is large, depends on it.
CACHE = 4e12
# A kernel of half this time suffers half of the loss of clock that a long one does, seconds.
THROTTLE = 1e-3
# Keys are divided where CTAs are less than this part of the SMs (FlashAttention-3).
FILLED = 0.8


def blocks(
    new: Expr, cached: Expr, window: Expr | None, group: Expr, rows: Expr, keys: Expr, grain: Expr
) -> tuple[Expr, Expr, Expr]:
    """Blocks of `rows` query rows of one sequence and `group` heads; keys that they meet together; the most that one meets.

    Block i of n ends at new query i new/n. It meets the keys up to there, or those of the windows of its queries, in whole
    blocks of keys. Borders of both coincide every `grain` rows, the greatest common divisor of the two sizes; up to there
    they lie anywhere.

    >>> blocks(256, 0, None, 1, 64, 64, 64)  # 64 + 128 + 192 + 256
    (4, 640.0, 256)
    >>> blocks(256, 0, None, 4, 128, 128, 128)  # 32 queries a block: four times 128, four times 256
    (8, 1536.0, 256)
    >>> blocks(256, 0, 64, 1, 64, 64, 64)  # 64 + 128 + 128 + 128
    (4, 448.0, 128.0)
    """
    count = ceil_div(new * group, rows)
    step = new / count
    beyond = maximum(keys - step * grain / rows, 0)
    before = cached + beyond / 2
    if window is None:
        met = count * (before + step * (count + 1) / 2)
        return count, maximum(met, count * keys), maximum(cached + new, keys)
    seen = window + step + beyond
    growing = minimum(maximum((seen - before) / step, 0), count)
    met = growing * before + step * growing * (growing + 1) / 2 + (count - growing) * seen
    return count, maximum(met, count * keys), maximum(minimum(cached + new, seen), keys)


def shared_out(walks: Expr, count: Expr, met: Expr, most: Expr, units: float, values: Values, *, divides: bool) -> Expr:
    """Seconds in which the SMs (`units`) do `walks` times `count` CTAs, which take `met` seconds together in a walk beside
    their starts, and the longest `most`. A kernel that `divides` gives the keys of a CTA to several where there are few."""
    share = walks * (count * values["block"] + met) / units
    longest = values["block"] + most
    if divides:
        whole = (walks * count > FILLED * units) * longest
        longest = minimum(longest, share + values["launch"] + whole)
    return maximum(longest, share + values["tail"] * longest)


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    core = cast("Attention", next(iter(operators.values())))
    width = core.head_dim
    pair = (4 * width / (values["compute"] * chip.peak(core)) + 1 / (values["softmax"] * chip.vector)) * chip.units

    if values["packed"]:
        rows = 128 + 64 * (width <= 64)
        group = ratio(core.n_heads, core.n_kv_heads)
        count, met, most = blocks(core.new, core.cached, core.window, group, rows, 128, 128 - 64 * (width <= 64))
        met, most = met * rows * pair, most * rows * pair
        busy = shared_out(core.batch * core.n_kv_heads, count, met, most, chip.units, values, divides=True)
    else:
        count, met, most = blocks(core.new, core.cached, core.window, 1, 64, 16384 / width, 64)
        heads = core.n_kv_heads + (core.n_heads - core.n_kv_heads) * (core.new > 1)  # one query: all of a group in one block
        busy = shared_out(core.batch * heads, count, met * 64 * pair, most * 64 * pair, chip.units, values, divides=False)
    busy = busy * (1 + values["throttle"] * busy / (busy + THROTTLE))

    cost = core.cost()
    tokens = core.batch * core.new
    entries = tokens * 2 * core.n_kv_heads * width * core.dtypes.kv.bytes
    fresh = cost.activation_bytes + 3 * entries  # keys and values of the new tokens are read, written and read again
    held = maximum(cost.kv_read_bytes - entries, 0)
    activations = _moved(fresh, maximum(1 - chip.l2 / fresh, 0), chip)
    between = None if conditions.kv == COLD else fresh + held * conditions.kv
    cached = _moved(held, 1 if between is None else maximum(1 - chip.l2 / between, 0), chip)
    write = tokens * values["token"] / chip.units
    return {
        "launch": values["launch"],
        "blocks": busy,
        "cached": cached,
        "activations": activations,
        "write": write,
        "total": values["launch"] + maximum(busy, cached) + activations + write,
    }


def _moved(moved: Expr, missed: Expr, chip: Chip) -> Expr:
    """Seconds to move bytes of which a part is not in the last cache."""
    return moved * (missed / chip.bandwidth + (1 - missed) / max(chip.bandwidth, CACHE))


ATTENTION_PREFILL = Form(
    name="attention_prefill",
    ops=("attention_prefill",),
    about="blocks of query rows that meet blocks of keys, shared by the SMs, and the bytes around them",
    parameters=(
        Parameter(name="launch", unit="s", meaning="time of an empty call", start=1e-5, low=1e-6, high=1e-4),
        Parameter(name="compute", unit="1", meaning="fraction of the matrix peak", start=0.7, low=0.1, high=1.1),
        Parameter(
            name="softmax",
            unit="1",
            meaning="pairs/s as a fraction of the vector peak",
            start=0.1,
            low=0.01,
            high=10,
            neutral=1e9,
        ),
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
            name="packed", unit="1", meaning="0: a block of one head, 1: of a group", start=1, low=0, high=1, choices=(0, 1)
        ),
        Parameter(
            name="throttle", unit="1", meaning="how much slower long kernels are", start=0.1, low=1e-3, high=1, neutral=0
        ),
        Parameter(
            name="token", unit="s", meaning="one SM's time to write a token", start=1e-7, low=1e-10, high=1e-5, neutral=0
        ),
    ),
    terms=_terms,
)
