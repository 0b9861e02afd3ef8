"""Attention of new tokens over their caches, as the kernels of three families of engines do it.

A decode has little to multiply and much to read, and what decides is how a kernel cuts the reading into thread blocks. A
block reads some keys of one KV head of one sequence, and an SM works at one block at a time, so that there are rounds. Each
costs a fixed time (`block`: to start, to fetch its query, to end) and streams its keys no faster than `stream`; all
together, no faster than device memory. Where a sequence was split, another kernel joins the parts (`extra`, `part`).

    t = launch + rounds * block + max(rounds * keys of a block / stream, bytes / memory) + extra kernels + sequences

What differs is the split, a fact of each kernel that its source states:

* FlashAttention 3 (Hopper) fills the SMs once, with as many parts of a sequence as there are SMs for it. vLLM bounds the parts
  at 32 (CUDA graphs); SGLang leaves up to four steps of keys whole.
* FlashAttention 2 (Ampere, Ada) packs the query heads of a KV head into one block and splits only where there is more than
  one of them and no window; else each query head reads the cache for itself, whole. The number of parts is the smallest
  that fills 85 % of two blocks an SM. Packing transposes queries and outputs in a kernel of their own, unless there is but
  one sequence or one KV head.
* TensorRT-LLM's XQA gives each 128 tokens of a cache to a block, windows or not, but of n such pieces to no more than
  (8n)^(1/2) blocks, and no more than 8 an SM; groups of one head or more than 32, and calls of less than a quarter of a piece
  an SM, go to an older kernel (masked multi-head attention) that reads the cache for each query head and splits within one
  block an SM. With caches of one byte XQA takes small calls too, and starts as slowly as the older kernel where heads are
  of 64.

Sources: github.com/Dao-AILab/flash-attention, `hopper/heuristics.h`, `hopper/flash_prepare_scheduler.cu`,
`csrc/flash_attn/flash_api.cpp` (`num_splits_heuristic`, `seqlenq_ngroups_swapped`); github.com/NVIDIA/TensorRT-LLM,
`decoderXQAConstants.h`, `decoderXQAImplCommon.h` (`computeMultiBlockCount`, `mayHavePerfGain`). Of the older kernel and of
caches of one byte: as measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from roofline.numeric import Expr, ceil_div, floor_div, maximum, minimum
from roofline.operators.attention import Attention, keys_read
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.sparse_counts import entries_read
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Operators, Parameter, Values, WorkGrid
from roofline.predict.efficiency.forms.gemm import root, square

# Keys of one step of a FlashAttention 3 or XQA block.
STEP = 128
# Latents of one step of a block.
LATENT_STEP = 64
# Rows of queries of one block: a warp group's matrix instruction.
ROWS = 64
# FlashAttention 3 prepares the schedule of up to that many sequences beforehand, 31 in each of 32 warps.
PREPARED = 992
# Read again and again, this share of L2 stays in it, and of twice as much nothing does. These chips have theirs in halves, and
# what SMs of both halves read lies in it twice.
RESIDENT = 2 / 3
BEFORE_HOPPER = ("volta", "turing", "ampere", "ada")
HALVED = ("ampere", "hopper", "blackwell")


@dataclass(frozen=True, slots=True)
class SplitKv:
    """How a kernel cuts one call into thread blocks. Fields may be arrays."""

    blocks: Expr
    parts: Expr
    """Of one sequence and head."""
    keys: Expr
    """That one block goes through."""
    kernels: Expr
    """Further kernels of the same call."""
    older: Expr = 0
    """1 where the older kernel runs (TensorRT-LLM)."""
    slow: Expr = 0
    """1 where a call starts as slowly as one of the older kernel."""
    scheduled: Expr = 0
    """Sequences that a schedule is made of."""
    start: Expr = 1
    """Fixed time of a block, by that of a block for heads of 128."""


Policy = Callable[[Attention, Expr, Chip], SplitKv]


def _flash_3(*, most: int, whole: int, paged: bool, prepared: float) -> Policy:
    """At most `most` parts; sequences of up to `whole` steps whole; a schedule of at most `prepared` sequences. `paged`: a
    window that
    slides lies across one step more. Values of one byte are transposed in the block: half of its cost goes with their width."""

    def cut(core: Attention, length: Expr, chip: Chip) -> SplitKv:
        heads = core.batch * core.n_kv_heads * ceil_div(core.new * core.n_heads, ROWS * core.n_kv_heads)
        steps = ceil_div(length, STEP)
        if core.window is not None and paged:
            steps = steps + (core.cached >= core.window)
        parts = maximum(1, minimum(most, floor_div(chip.units, heads)))
        each = minimum(steps, maximum(ceil_div(steps, parts), whole))
        parts = ceil_div(steps, each)
        scheduled = core.batch * (core.batch <= prepared)
        start = 1 if core.dtypes.kv.bytes > 1 else (core.head_dim + STEP) / (2 * STEP)
        return SplitKv(blocks=heads * parts, parts=parts, keys=each * STEP, kernels=parts > 1, scheduled=scheduled, start=start)

    return cut


def _flash_2(core: Attention, length: Expr, chip: Chip) -> SplitKv:
    packs = (core.n_heads > core.n_kv_heads) * (core.new == 1) * (1 if core.window is None else 0)
    tiles = ceil_div(core.n_heads, ROWS * core.n_kv_heads)
    heads = core.batch * (core.n_heads + packs * (core.n_kv_heads * tiles - core.n_heads))
    step = 64 + 64 * (core.head_dim <= STEP) + 128 * (core.head_dim <= STEP // 2)  # by head_dim: shared memory
    steps = ceil_div(length, step)
    slots = 2 * chip.units
    once = ceil_div(17 * slots, 20 * heads)  # 85 % of the slots
    split = packs * (5 * heads < 4 * slots)
    parts = once + (once * heads > slots) * (ceil_div(17 * slots, 10 * heads) - once)  # or of two rounds
    parts = 1 + split * (minimum(parts, STEP) - 1)
    each = ceil_div(steps, parts)
    parts = ceil_div(steps, each)
    swaps = packs * (core.batch > 1) * (core.n_kv_heads > 1)
    return SplitKv(blocks=heads * parts, parts=parts, keys=each * step, kernels=(parts > 1) + swaps)


def _multi_block(core: Attention, length: Expr, chip: Chip) -> SplitKv:
    heads = core.batch * core.n_kv_heads
    pieces = maximum(1, floor_div(core.cached + core.new, STEP))
    parts = minimum(pieces, (8 * pieces) ** 0.5)  # more would be long in joining
    parts = maximum(1, minimum(parts, floor_div(8 * chip.units, heads)))
    older = 1 - (core.n_heads > core.n_kv_heads) * (core.n_heads <= 32 * core.n_kv_heads)
    if core.dtypes.kv.bytes > 1:
        older = slow = maximum(older, 4 * heads * pieces < chip.units)
    else:
        slow = maximum(older, core.head_dim <= 64)
    single = core.batch * core.n_heads
    fill = maximum(1, minimum(ceil_div(chip.units, single), length * core.head_dim / 32768))
    blocks = heads * parts + older * (single * fill - heads * parts)
    parts = parts + older * (fill - parts)
    keys = maximum(length, STEP) / parts
    return SplitKv(blocks=blocks, parts=parts, keys=keys, kernels=parts > 1, older=older, slow=slow)


def _resident(between: Expr, chip: Chip) -> Expr:
    """Share of the bytes that are still in L2 when they are read again, `between` bytes later."""
    held = RESIDENT * chip.l2 * (0.5 if chip.architecture in HALVED else 1.0) + 1
    return minimum(1, maximum(0, 2 - between / held))


def _terms(policy: Policy) -> Callable[[Operators, Chip, Conditions, Values], dict[str, Expr]]:
    def terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
        (core,) = operators.values()
        if not isinstance(core, Attention):
            msg = f"a decode of {core.kind} is not what this form is of"
            raise TypeError(msg)
        v_head_dim = core.head_dim if core.v_head_dim is None else core.v_head_dim
        length = keys_read(core.new, core.cached, core.window, chunked=core.chunked)
        cut = policy(core, length, chip)
        cost = core.cost()
        moved = cost.kv_read_bytes + cost.activation_bytes
        if not math.isinf(conditions.kv):
            moved = moved * (1 - _resident(moved * conditions.kv, chip))
        memory = maximum(moved / (values["memory"] * chip.bandwidth), cost.matrix_flops / chip.peak(core))
        launch, block, pace = values["launch"], values["block"], 1 / values["stream"]
        if "older_stream" in values:
            launch = launch + cut.slow * (values["older_launch"] - launch)
            block = block + cut.older * (values["older_block"] - block)
            pace = pace + cut.older * (1 / values["older_stream"] - pace)
        rounds = ceil_div(cut.blocks, chip.units)
        blocks = rounds * block * cut.start
        streams = rounds * cut.keys * (core.head_dim + v_head_dim) * core.dtypes.kv.bytes * pace
        extra: Expr = 0.0
        if "extra" in values:
            extra = extra + values["extra"] * cut.kernels
        if "part" in values:
            extra = extra + values["part"] * (cut.parts - 1)
        if "sequence" in values:
            extra = extra + values["sequence"] * cut.scheduled
        return {
            "launch": launch,
            "blocks": blocks,
            "streams": streams,
            "memory": memory,
            "extra": extra,
            "total": launch + blocks + maximum(streams, memory) + extra,
        }

    return terms


_LAUNCH = Parameter("launch", "s", "of a call of one small block", 9e-6, 1e-6, 5e-5)
_BLOCK = Parameter("block", "s", "of a thread block besides its keys", 2e-6, 1e-8, 3e-5, neutral=0)
_STREAM = Parameter("stream", "byte/s", "of keys and values in one SM", 4e10, 3e9, 5e11, neutral=1e18)
_MEMORY = Parameter("memory", "1", "fraction of the memory bandwidth", 0.85, 0.3, 1.0)
_EXTRA = Parameter("extra", "s", "of a further kernel: parts joined, queries transposed", 3e-6, 1e-9, 2e-5, neutral=0)
_PART = Parameter("part", "s", "of joining one part more", 5e-8, 1e-10, 2e-6, neutral=0)
_SEQUENCE = Parameter("sequence", "s", "of the schedule, a sequence", 1e-8, 1e-11, 2e-7, neutral=0)
_FLASH = (_LAUNCH, _BLOCK, _STREAM, _MEMORY, _EXTRA)


def _clock(chip: Chip) -> float:
    clock = chip.hardware.accelerator.boost_clock
    return clock.value if clock else 1.0


def _matrix_rates(chip: Chip, other: Chip) -> float:
    """How many times as much the matrix units of an SM do on the other chip."""
    return (other.sixteen_bit / other.units) / (chip.sixteen_bit / chip.units)


def _scaled(values: Values, chip: Chip, other: Chip) -> dict[str, float]:
    """An SM streams as its matrix units multiply (a block's steps alternate loads, products and softmax; a newer SM does more
    of each), but no slower than its clock says: a chip of few products for its memory (H20) loads like its siblings. Waits
    stay as they are, and so do fractions of the memory's bandwidth."""
    clocks = _clock(other) / _clock(chip) if _clock(other) > 1 and _clock(chip) > 1 else 0.0
    ratio = max(_matrix_rates(chip, other), clocks)
    return {name: value * ratio if name.endswith("stream") else value for name, value in values.items()}


def _flash(chip: Chip) -> str:
    """FlashAttention 3 is for Hopper and what follows; before, vLLM calls FlashAttention 2."""
    return FLASH_2.name if chip.architecture in BEFORE_HOPPER else FLASH_3.name


_VLLM_3 = _flash_3(most=32, whole=1, paged=True, prepared=PREPARED)
_SGLANG_3 = _flash_3(most=128, whole=4, paged=False, prepared=math.inf)

FLASH_3 = KernelForm(
    name="attention_decode_flash_3",
    ops=("attention_decode",),
    about="FlashAttention 3 as vLLM calls it: blocks that fill the SMs once, or the memory",
    parameters=(*_FLASH, _SEQUENCE),
    terms=_terms(_VLLM_3),
    overlapping=("streams", "memory"),
    transfer=_scaled,
    elsewhere=_flash,
)
FLASH_3_WHOLE = KernelForm(
    name="attention_decode_flash_3_whole",
    ops=("attention_decode",),
    about="FlashAttention 3 as SGLang calls it: up to four steps of keys are left whole",
    parameters=(_LAUNCH, _BLOCK, _STREAM, _MEMORY, _PART, _SEQUENCE),
    terms=_terms(_SGLANG_3),
    overlapping=("streams", "memory"),
    transfer=_scaled,
)
FLASH_2 = KernelForm(
    name="attention_decode_flash_2",
    ops=("attention_decode",),
    about="FlashAttention 2 as vLLM calls it: packed and split where heads share keys, else a head at a time",
    parameters=(*_FLASH, _PART),
    terms=_terms(_flash_2),
    overlapping=("streams", "memory"),
    transfer=_scaled,
    elsewhere=_flash,
)
MULTI_BLOCK = KernelForm(
    name="attention_decode_multi_block",
    ops=("attention_decode",),
    about="TensorRT-LLM's XQA, up to eight blocks an SM, and its older kernel for groups that XQA does not take",
    parameters=(
        *_FLASH,
        Parameter("older_launch", "s", "launch of the older kernel", 8e-6, 1e-6, 5e-5),
        Parameter("older_block", "s", "block of the older kernel", 1e-6, 1e-8, 3e-5),
        Parameter("older_stream", "byte/s", "stream of the older kernel", 3e10, 1e9, 5e11),
    ),
    terms=_terms(_multi_block),
    overlapping=("streams", "memory"),
    transfer=_scaled,
)


def _block_grid(policy: Policy) -> Callable[[Operators, Chip, Conditions, Values], WorkGrid]:
    def grid(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> WorkGrid:
        (core,) = operators.values()
        assert isinstance(core, Attention)  # noqa: S101 - narrows the type
        cut = policy(core, keys_read(core.new, core.cached, core.window, chunked=core.chunked), chip)
        return WorkGrid(kind="thread blocks", rows=ROWS, columns=cut.keys, count=cut.blocks, split=cut.parts, units=chip.units)

    return grid


GRIDS = {
    form.name: _block_grid(policy)
    for form, policy in ((FLASH_3, _VLLM_3), (FLASH_3_WHOLE, _SGLANG_3), (FLASH_2, _flash_2), (MULTI_BLOCK, _multi_block))
}
"""The thread blocks of each form, by its name."""


def _latent_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    """Absorbed latent attention of new tokens over their caches: one cache of wide entries for all query heads.

    A thread block takes 64 query rows of one sequence and goes through its latents. Kernels for Hopper deal all the latents of
    a call out evenly to the SMs; TensorRT-LLM's for Ampere leaves each sequence to one block. A block costs a fixed time and
    streams latents no faster than `stream` (with 64 rows of products a latent, that is the matrix units as much as the loads);
    all of them together no faster than device memory. The slower of the two decides, with a little more where they are alike
    (a norm of fourth power). Queries and outputs are as wide as latents, and some kernels pass over them again.

        t = launch + block * blocks/SM + ((latents of an SM / stream)^4 + (bytes / memory)^4)^(1/4) + queries + extra

    Source: github.com/deepseek-ai/FlashMLA, `csrc/` (`BLOCK_SIZE_M` 64, `get_mla_metadata`: latents over the SMs, evenly).
    """
    (core,) = operators.values()
    if not isinstance(core, LatentAttention):
        msg = f"a decode of {core.kind} is not what this form is of"
        raise TypeError(msg)
    length = entries_read(core.new, core.cached, None, core.chosen)
    blocks = core.batch * ceil_div(core.new * core.n_heads, ROWS)
    longest = maximum(length, LATENT_STEP)
    if chip.architecture == "ampere":
        parts: Expr = 1
        share = ceil_div(blocks, chip.units) * longest
    else:
        parts = maximum(1, minimum(chip.units / blocks, longest / LATENT_STEP))
        share = maximum(blocks / chip.units * longest, longest / parts)
    cost = core.cost()
    moved = cost.kv_read_bytes
    if not math.isinf(conditions.kv):
        moved = moved * (1 - _resident(moved * conditions.kv, chip))
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


def _latent_scaled(values: Values, chip: Chip, other: Chip) -> dict[str, float]:
    """With 64 rows of products a latent, an SM streams as its matrix units multiply."""
    return {**values, "stream": values["stream"] * _matrix_rates(chip, other)}


MLA_DECODE = KernelForm(
    name="mla_decode",
    ops=("mla_decode",),
    about="latents dealt out evenly to the SMs (Ampere: a sequence to a block), or the memory",
    parameters=(
        Parameter("launch", "s", "of a call of one small block", 1.2e-5, 1e-6, 1e-4),
        Parameter("block", "s", "of a thread block besides its latents", 3e-6, 1e-8, 5e-5, neutral=0),
        Parameter("stream", "byte/s", "of latents in one SM", 4e10, 1e9, 5e11, neutral=1e18),
        Parameter("memory", "1", "fraction of the memory bandwidth", 0.85, 0.2, 1.0),
        Parameter("passes", "1", "passes over queries and outputs, at all bandwidth", 1.0, 0.1, 10.0, neutral=1),
        Parameter("extra", "s", "of joining the parts of a sequence", 1e-6, 1e-9, 2e-5, neutral=0),
    ),
    terms=_latent_terms,
    overlapping=("streams", "memory"),
    transfer=_latent_scaled,
)
