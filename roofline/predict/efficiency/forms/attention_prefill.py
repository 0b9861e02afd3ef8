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

NB: what the new tokens move is taken to lie in L2 as far as it fits, as just after the kernel before; `conditions.kv`
is about cached tokens. One query alone (a decode step) is a block of rows as any other, most of them empty.

Sources: Dao 2023 (FlashAttention-2), arXiv:2307.08691; Shah et al. 2024 (FlashAttention-3), arXiv:2407.08608; sizes of blocks
and when keys are divided: flash-attention, csrc/flash_attn/src/flash_fwd_launch_template.h (split-KV dispatch: 64 rows, 256,
128 or 64 keys), hopper/tile_size.h and hopper/heuristics.h. That TensorRT-LLM has the blocks of 0 is what measurements fit
best, not read in its source.
"""

from __future__ import annotations

from typing import cast

from roofline.numeric import Expr, ceil_div, maximum, minimum, ratio
from roofline.operators.attention import Attention, keys_read
from roofline.operators.latent_attention import LatentAttention
from roofline.predict.efficiency.form import COLD, Chip, Conditions, KernelForm, Operators, Parameter, Values, WorkGrid

# Bytes/s that the last cache gives at least. NB: no datasheet has it; of 2.5 to 5 TB/s, chosen as what fits measurements of
# A100, H200 and L40S together. Only L40S, whose memory is slow and whose cache is large, depends on it.
CACHE = 4e12
# A kernel of half this time suffers half of the loss of clock that a long one does, seconds.
THROTTLE = 1e-3
# Keys are divided where CTAs are less than this part of the SMs (FlashAttention-3).
FILLED = 0.8
# A block of latents: keys, and query rows of all heads.
KEYS = 64
LATENT_ROWS = 64


def _blocks(
    new: Expr, cached: Expr, window: Expr | None, group: Expr, rows: Expr, keys: Expr, grain: Expr, *, full: bool = False
) -> tuple[Expr, Expr, Expr]:
    """Blocks of `rows` query rows of one sequence and `group` heads; keys that they meet together; the maximum that one meets.

    Block i of n ends at new query i new/n. It meets the keys up to there, or those of the windows of its queries, in whole
    blocks of keys. Borders of both coincide every `grain` rows, the greatest common divisor of the two sizes; up to there
    they lie anywhere. Without a mask (`full`) every block meets every key that is read.

    >>> _blocks(256, 0, None, 1, 64, 64, 64)  # 64 + 128 + 192 + 256
    (4, 640.0, 256)
    >>> _blocks(256, 0, None, 4, 128, 128, 128)  # 32 queries a block: four times 128, four times 256
    (8, 1536.0, 256)
    >>> _blocks(256, 0, 64, 1, 64, 64, 64)  # 64 + 128 + 128 + 128
    (4, 448.0, 128.0)
    >>> _blocks(256, 32, 96, 1, 64, 64, 64)  # 96 + 160 + 160 + 160
    (4, 576.0, 160.0)
    >>> _blocks(256, 0, None, 1, 64, 64, 64, full=True)  # four times 256
    (4, 1024, 256)
    """
    count = ceil_div(new * group, rows)
    if full:
        every = maximum(keys_read(new, cached, window), keys)
        return count, count * every, every
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


def _shared_out(walks: Expr, count: Expr, met: Expr, most: Expr, units: float, values: Values, *, divides: bool) -> Expr:
    """Seconds in which the SMs (`units`) do `walks` times `count` CTAs, which take `met` seconds together in a walk beside
    their starts, and the longest `most`. A kernel that `divides` gives the keys of a CTA to several where there are few."""
    share = walks * (count * values["block"] + met) / units
    longest = values["block"] + most
    if divides:
        whole = (walks * count > FILLED * units) * longest
        longest = minimum(longest, share + values["launch"] + whole)
    return maximum(longest, share + values["tail"] * longest)


def _ctas(core: Attention, values: Values) -> tuple[Expr, Expr, Expr, Expr, Expr]:
    """Walks over the queries of a sequence (one for each head, or group of heads), rows of a block, and of a walk the blocks,
    the keys that they meet together, and the maximum that one meets."""
    width, full = core.head_dim, core.mask == "full"
    if values["packed"]:
        rows = 128 + 64 * (width <= 64)
        group = ratio(core.n_heads, core.n_kv_heads)
        count, met, most = _blocks(core.new, core.cached, core.window, group, rows, 128, 128 - 64 * (width <= 64), full=full)
        return core.batch * core.n_kv_heads, rows, count, met, most
    heads = core.n_kv_heads + (core.n_heads - core.n_kv_heads) * (core.new > 1)  # one query: all of a group in one block
    count, met, most = _blocks(core.new, core.cached, core.window, 1, 64, 16384 / width, 64, full=full)
    return core.batch * heads, 64, count, met, most


def block_grid(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> WorkGrid:
    """Return the blocks of query rows, as they are without dividing keys. Plain numbers."""
    core = cast("Attention", next(iter(operators.values())))
    walks, rows, count, met, _ = _ctas(core, values)
    return WorkGrid(kind="thread blocks", rows=rows, columns=met / count, count=walks * count, units=chip.units)


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    core = cast("Attention", next(iter(operators.values())))
    width = core.head_dim
    pair = (4 * width / (values["compute"] * chip.peak(core)) + 1 / (values["softmax"] * chip.vector)) * chip.units

    walks, rows, count, met, most = _ctas(core, values)
    divides = values["packed"] == 1
    compute = _shared_out(walks, count, met * rows * pair, most * rows * pair, chip.units, values, divides=divides)
    compute = compute * (1 + values["throttle"] * compute / (compute + THROTTLE))

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
        "blocks": compute,
        "cached": cached,
        "activations": activations,
        "write": write,
        "total": values["launch"] + maximum(compute, cached) + activations + write,
    }


def _moved(moved: Expr, missed: Expr, chip: Chip) -> Expr:
    """Seconds to move bytes of which a part is not in the last cache."""
    return moved * (missed / chip.bandwidth + (1 - missed) / max(chip.bandwidth, CACHE))


ATTENTION_PREFILL = KernelForm(
    name="attention_prefill",
    ops=("attention_prefill",),
    about="blocks of query rows that meet blocks of keys, shared by the SMs, and the bytes around them",
    parameters=(
        Parameter("launch", "s", "time of an empty call", 1e-5, 1e-6, 1e-4),
        Parameter("compute", "1", "fraction of the matrix peak", 0.7, 0.1, 1.1),
        Parameter("softmax", "1", "pairs/s as a fraction of the vector peak", 0.1, 0.01, 10, neutral=1e9),
        Parameter("block", "s", "start and end of a CTA", 2e-6, 1e-8, 5e-5, neutral=0),
        Parameter("tail", "1", "part of the longest CTA after the average SM", 0.5, 0.01, 1.5, neutral=0),
        Parameter("packed", "1", "0: a block of one head, 1: of a group", 1, 0, 1, choices=(0, 1)),
        Parameter("throttle", "1", "how much slower long kernels are", 0.1, 1e-3, 1, neutral=0),
        Parameter("token", "s", "one SM's time to write a token", 1e-7, 1e-10, 1e-5, neutral=0),
    ),
    terms=_terms,
    overlapping=("blocks", "cached"),
)

GRIDS = {ATTENTION_PREFILL.name: block_grid}
"""The thread blocks of the form, by its name."""


def _latent_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
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
    core = cast("LatentAttention", next(iter(operators.values())))
    flop = 2 * chip.units / (values["compute"] * chip.peak(core))
    wide, full = core.d_nope + core.d_rope + core.d_v, core.mask == "full"
    latent = 2 * core.r_kv + core.d_rope

    queries, keys = core.batch * core.new * core.n_heads, core.batch * (core.cached + core.new)
    if values["absorbed"]:
        count, met, most = _blocks(core.new, core.cached, None, core.n_heads, LATENT_ROWS, KEYS, KEYS, full=full)
        met, most = (pairs * LATENT_ROWS * latent * flop for pairs in (met, most))
        compute = _shared_out(core.batch, count, met, most, chip.units, values, divides=True)
        moved = queries * latent * core.dtypes.activation.bytes + keys * (core.r_kv + core.d_rope) * core.dtypes.kv.bytes
    else:
        rows = 64 if chip.architecture in {"volta", "turing", "ampere", "ada"} else 128
        count, met, most = _blocks(core.new, core.cached, None, 1, rows, KEYS, KEYS, full=full)
        met, most = (pairs * rows * wide * flop for pairs in (met, most))
        compute = _shared_out(core.batch * core.n_heads, count, met, most, chip.units, values, divides=False)
        expanded = queries * wide + keys * (core.n_heads * (core.d_nope + core.d_v) + core.d_rope)
        moved = expanded * core.dtypes.activation.bytes

    memory = moved / chip.bandwidth
    write = core.batch * core.new * values["token"] / chip.units
    return {
        "launch": values["launch"],
        "blocks": compute,
        "memory": memory,
        "write": write,
        "total": values["launch"] + maximum(compute, memory) + write,
    }


MLA_PREFILL = KernelForm(
    name="mla_prefill",
    ops=("mla_prefill",),
    about="blocks of query rows that meet blocks of keys or of latents, shared by the SMs",
    parameters=(
        Parameter("launch", "s", "time of an empty call", 1e-5, 1e-6, 1e-4),
        Parameter("compute", "1", "fraction of the matrix peak", 0.7, 0.1, 1.1),
        Parameter("block", "s", "start and end of a CTA", 2e-6, 1e-8, 5e-5, neutral=0),
        Parameter("tail", "1", "part of the longest CTA after the average SM", 0.5, 0.01, 1.5, neutral=0),
        Parameter("absorbed", "1", "0: expanded keys and values, 1: latents", 0, 0, 1, choices=(0, 1)),
        Parameter("token", "s", "one SM's time for a token beside", 1e-7, 1e-10, 1e-5, neutral=0),
    ),
    terms=_latent_terms,
    overlapping=("blocks", "memory"),
)
