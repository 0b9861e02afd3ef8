"""Products with a weight matrix: tiles of the output dealt to the SMs in waves, beside the traffic of device memory.

An SM that works on a tile of `bm` by `bn` outputs multiplies (2 bm bn k FLOP at a share of its peak) while it is fed rows and
columns of both operands from L2 ((bm + bn) k elements), and spends a while on the first loads and on the store, which grows
with the side of the tile. All SMs work at once: a product takes as many times that as it has waves of tiles. Device memory
moves each byte once meanwhile. Products of 8 bits first quantise their activations, in a launch of its own (an activation
quantised already has as few bits as the weights, and needs none).

Three kinds of libraries differ in how they choose tiles:

* Vendor libraries (cuBLAS, CUTLASS) have a few tile sizes. Where the tiles are too few, several SMs share one by splitting k,
  and their sums are added up afterwards. They choose the tile and the split; so does the form, by the least time. Long
  products draw so much power that clocks fall. CUTLASS as engines call it for 8 bits takes its tile by the number of rows.
* DeepGEMM, for weights in blocks of 128 x 128 with scales: tiles of many widths, the best by a count of the bytes that cross
  L1 and L2. Never split. Its largest tiles spill their sums from registers where they are compiled for one wave.
* TensorRT-LLM has an early DeepGEMM, whose tile is the narrowest with the fewest waves, the last of them fullest. Below 32
  rows it takes 128 outputs of the weights by a few rows of activations.

The last two load tiles as boxes: of a tile that lies partly below the last row, the rows that do not exist cost time in L2
as well, more than those that do (DeepGEMM calls it bound by out-of-bounds rows), so that a product grows faster with less to
do: 129 rows take half as long again as 256.

Sources: NVIDIA, "Matrix Multiplication Background User's Guide" (tiles, waves, quantisation of both), and CUTLASS, "Efficient
GEMM in CUDA" (split k); github.com/deepseek-ai/DeepGEMM, `csrc/jit_kernels/heuristics/sm90.hpp` (candidates, cost);
github.com/NVIDIA/TensorRT-LLM, `deep_gemm/jit_utils.cuh` and `fp8_blockscale_gemm_kernel.cuh` (tile, limit of 32 rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import cast

from roofline.numeric import Expr, ceil_div, floor_div, maximum, minimum
from roofline.operators.gemm import Gemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Operators, Parameter, Values, WorkGrid

# Common tiles of outputs, rows by columns.
TILES = ((64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128))
# Kernels for these stay on their SM: tiles balance out over it, and the store of one hides behind the loads of the next.
PERSISTENT = ("hopper", "blackwell")
STAGE = 64  # elements of k in a stage of the main loop
SHORTEST = 256  # k that one SM is left with after a split, at least
# Caches of these are one whole, and what a benchmark reads again and again is found in them. On A100 and Hopper, whose L2 are
# two halves, the measurements show nothing of it.
WHOLE_L2 = ("ada",)
WARM = 3  # times as fast as memory such a cache is: 2.5 TB/s of L40S
POWERS = 1e-3  # seconds at full speed after which half of the fall of clocks has come

# Rows of a matrix instruction. Few rows are multiplied in tiles as low as that by kernels for weights that are widened
# (Marlin), and where an SM multiplies so slowly that the rows of a higher tile would take longer than the weights.
FRAGMENT = 16

BLOCK = 128  # k that has one scale, and one step of a kernel for such blocks
SWAPPED = 32  # rows below which TensorRT-LLM swaps weights and activations
PAIRED = 1024  # rows from which its tiles are in pairs, where the outputs are a multiple of two tiles
WAVES_MOST = 1000  # for an order by waves, then SMs idle, then width in one number: more than SMs, more than any width
# Bytes a cycle that DeepGEMM counts with: of L1 for an SM; of L2 for an SM, and for all.
L1, L2, L2_ALL = 128, 64, 8e6 / 1.3e3
WARP_ROWS = 64  # a matrix instruction has as many rows at least
SPILLED = 128 * 192  # outputs of a tile that do not fit in registers

# Rows and columns of a tile, and the number of both that an SM has from another at work on a tile next to it.
Tiling = Callable[[Gemm, Chip], tuple[Expr, Expr, Expr]]


def square(value: Expr) -> Expr:
    """Return the square as a product, which is faster on arrays than a power."""
    return value * value


def root(value: Expr) -> Expr:
    """Return the fourth root as two square roots, which is faster on arrays than a power."""
    return (value**0.5) ** 0.5


def _quantised(gemm: Gemm, chip: Chip) -> bool:
    """Whether activations come with more bits than are multiplied."""
    weight, activation = gemm.dtypes.weight, gemm.dtypes.activation
    return weight.bytes < activation.bytes and matrix_dtype(gemm, chip.hardware) != activation.name


def _one(split: Expr) -> bool:
    return isinstance(split, int) and split == 1


def _joined(split: Expr, gemm: Gemm, values: Values, bandwidth: float) -> Expr:
    """Adding up the sums of a split k."""
    return values["split"] + 2 * split * gemm.batch * gemm.m * gemm.n / bandwidth


def _quantisation(gemm: Gemm, chip: Chip, values: Values, bandwidth: float) -> Expr:
    """16 bits an element in, 8 out, a row at a time, in a launch of its own."""
    if not _quantised(gemm, chip):
        return 0.0
    moved = 3 * gemm.batch * gemm.m * gemm.k / bandwidth
    rows = gemm.batch * gemm.m * values["row"] / chip.units if "row" in values else 0.0
    return values["launch"] + moved + rows


def _missed(gemm: Gemm, chip: Chip, conditions: Conditions) -> Expr:
    """Share of the bytes that cost as much as from memory: in an undivided L2 all stays up to 0.9 of it, nothing from 1.1."""
    if chip.architecture not in WHOLE_L2:
        return 1
    cost = gemm.cost()
    working = conditions.weights * cost.weight_bytes + cost.activation_bytes
    missed = maximum(0, minimum(1, (working / chip.l2 - 0.9) / 0.2))
    return missed + (1 - missed) / WARM


def _library_times(
    gemm: Gemm, chip: Chip, conditions: Conditions, values: Values, menu: tuple[tuple[int, int], ...]
) -> tuple[list[Expr], Expr, Expr]:
    """Seconds of each way to do a product with tiles of a menu, those of unsplit tiles without memory, and those of memory.

    Where k may be split, the ways are: for each tile the split that fills the SMs, then the best unsplit, then the best halved.
    """
    m, n, k = gemm.m, gemm.n, gemm.k
    persistent = chip.architecture in PERSISTENT
    bandwidth = values["memory"] * chip.bandwidth
    peak = chip.peak(gemm) / chip.units
    start = values["tile"] / 2  # and as long for its end

    # Memory streams from when the first tiles have started.
    memory = start * (0.5 if persistent else 1) + _missed(gemm, chip, conditions) * gemm.cost().bytes / bandwidth

    slowest = memory * memory

    def with_memory(tiles_time: Expr) -> Expr:
        """Tiles while memory streams: the slower of the two, and a little more."""
        if "throttle" in values:
            tiles_time = tiles_time * (1 + values["throttle"] * tiles_time / (tiles_time + POWERS))
        return root(square(square(tiles_time)) + slowest * slowest)

    along = {rows: ceil_div(m, rows) for rows, _ in menu}
    across = {columns: ceil_div(n, columns) for _, columns in menu}
    stages = ceil_div(k, STAGE)
    widened = gemm.dtypes.weight_only
    low = widened or "low" in values
    fragments = FRAGMENT * ceil_div(m, FRAGMENT)
    width = gemm.dtypes.weight.bytes / gemm.dtypes.activation.bytes if widened else 1  # of weights on their way from L2
    times: list[Expr] = []
    least: Expr = None  # of tiles that are not split, and of those split in two: what they cost extra is the same
    twice: Expr = None
    for rows, columns in menu:
        tiles = gemm.batch * along[rows] * across[columns]
        filled = minimum(rows, fragments) if low else rows
        each = 2 * filled * columns / (values["compute"] * peak)
        if "feed" in values:
            each = root(square(square(each)) + square(square((filled + width * columns) / (values["feed"] * peak))))
        edge = (start if persistent else 2 * start) * (rows * columns / 128**2) ** 0.5

        def seconds_of(split: Expr, tiles: Expr = tiles, each: float = each, edge: float = edge) -> Expr:
            # Hopper's kernels stay on their SM and balance their tiles; before, the last wave took as long as a full one.
            waves = tiles * split / chip.units if persistent else ceil_div(tiles * split, chip.units)
            return maximum(1, waves) * (STAGE * (stages if _one(split) else ceil_div(stages, split)) * each + edge)

        unsplit = seconds_of(1)
        least = unsplit if least is None else minimum(least, unsplit)
        if "narrow" in values:  # a tile is taken by the number of rows
            times.append(with_memory(unsplit) + (rows * columns < 64 * minimum(m, 256)) * values["narrow"])
            continue
        if "split" in values:
            halved = seconds_of(2)
            twice = halved if twice is None else minimum(twice, halved)
            fill = maximum(1, minimum(floor_div(chip.units, tiles), ceil_div(k, SHORTEST)))
            times.append(with_memory(seconds_of(fill)) + (fill > 1) * _joined(fill, gemm, values, bandwidth))
    if "narrow" not in values:
        times.append(with_memory(least))
    if twice is not None:
        times.append(with_memory(twice) + _joined(2, gemm, values, bandwidth))
    return times, least, memory


def _libraries(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    gemm = cast("Gemm", next(iter(operators.values())))
    times, least, memory = _library_times(gemm, chip, conditions, values, TILES)
    best = reduce(minimum, times)
    quantise = 0.0 if conditions.fused else _quantisation(gemm, chip, values, values["memory"] * chip.bandwidth)
    return {
        "launch": values["launch"],
        "quantise": quantise,
        "tiles": least,
        "memory": memory,
        "total": values["launch"] + quantise + best,
    }


def library_grid(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> WorkGrid:
    """Return the tiles that the form takes a vendor's library to choose, and the split of k. Plain numbers."""
    gemm = cast("Gemm", next(iter(operators.values())))
    ways: list[tuple[float, tuple[int, int], int]] = []
    for tile in TILES:
        times, _, _ = _library_times(gemm, chip, conditions, values, (tile,))
        tiles = gemm.batch * ceil_div(gemm.m, tile[0]) * ceil_div(gemm.n, tile[1])
        fill = max(1, min(floor_div(chip.units, tiles), ceil_div(gemm.k, SHORTEST)))
        splits = (fill, 1, 2) if len(times) > 1 else (1,)
        ways += [(seconds, tile, split) for seconds, split in zip(times, splits, strict=True)]
    _, (rows, columns), split = min(ways)
    return _tile_grid(gemm, chip, rows, columns, split)


def _tile_grid(gemm: Gemm, chip: Chip, rows: float, columns: float, split: float = 1) -> WorkGrid:
    tiles = gemm.batch * ceil_div(gemm.m, rows) * ceil_div(gemm.n, columns)
    used = gemm.batch * gemm.m * gemm.n / (tiles * rows * columns)
    return WorkGrid(kind="tiles", rows=rows, columns=columns, count=tiles * split, split=split, units=chip.units, used=used)


def _deep_gemm(gemm: Gemm, chip: Chip) -> tuple[Expr, Expr, Expr]:
    """The tile of the fewest cycles: waves by those of one tile, in L1 or L2, whichever takes longer.

    Each byte crosses L1 twice, into shared memory and out of it. Where there is more than one wave, DeepGEMM counts with pairs
    of SMs that share what they have in common; of a gain by it measurements show nothing.
    """
    shared = min(L2, L2_ALL / chip.units)
    fewest: Expr = None
    best_rows: Expr = 0
    best_columns: Expr = 0
    for rows in (64, 128, 16, 32, 256):
        for columns in (*range(16, 129, 16), 144, 160, 192):
            if rows > 128 and columns > 128:
                continue
            waves = ceil_div(gemm.batch * ceil_div(gemm.m, rows) * ceil_div(gemm.n, columns), chip.units)
            store = 2 * rows * columns
            given = (waves > 1) * max(rows, columns) / 2
            inner = (gemm.k * (rows + max(rows, WARP_ROWS) + 2 * columns) + 2 * store) / L1
            outer = (gemm.k * (rows + columns - given) + store) / shared
            cycles = waves * maximum(inner, outer) * (1 + 1e-7 * (waves > 1))  # of equal ones that of a single wave
            if rows < WARP_ROWS:
                cycles = cycles + (gemm.m > rows) * 1e30  # for as few rows alone
            better = 1 * (cycles < fewest * (1 - 1e-9)) if fewest is not None else 1
            best_rows = best_rows + better * (rows - best_rows)
            best_columns = best_columns + better * (columns - best_columns)
            fewest = cycles if fewest is None else minimum(fewest, cycles)
    return best_rows, best_columns, 0


def _narrowest(along: Expr, across: Expr, length: Expr, widths: Iterable[int], units: float) -> Expr:
    """Of tiles of one length the width with the fewest waves, then with the fewest SMs idle in the last, then the least."""
    least: Expr = None
    for width in widths:
        tiles = ceil_div(along, length) * ceil_div(across, width)
        waves = ceil_div(tiles, units)
        order = (waves * WAVES_MOST + waves * units - tiles) * WAVES_MOST + width
        least = order if least is None else minimum(least, order)
    return least - WAVES_MOST * floor_div(least, WAVES_MOST)


def _early_deep_gemm(gemm: Gemm, chip: Chip) -> tuple[Expr, Expr, Expr]:
    """The tile: 64 or 128 rows by any width, or the other way round for a few rows. Pairs of tiles share from 1024 rows."""
    rows = 64 + 64 * (gemm.m > 64)
    columns = _narrowest(gemm.m, gemm.n, rows, range(16, 129, 8), chip.units)
    outputs = 64 + 64 * (gemm.n > 64)
    few = _narrowest(gemm.n, gemm.m, outputs, range(16, SWAPPED + 1, 8), chip.units)
    swapped = 1 * (gemm.m < SWAPPED)
    given = (gemm.m >= PAIRED) * (2 * columns * ceil_div(gemm.n, 2 * columns) == gemm.n) * rows / 2
    return rows + swapped * (few - rows), columns + swapped * (outputs - columns), given


def _blocks(tiling: Tiling) -> Callable[[Operators, Chip, Conditions, Values], dict[str, Expr]]:
    def terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
        gemm = cast("Gemm", next(iter(operators.values())))
        m, n, k = gemm.m, gemm.n, gemm.k
        bandwidth = values["memory"] * chip.bandwidth
        peak = chip.peak(gemm)
        rows, columns, given = tiling(gemm, chip)
        along, across = ceil_div(m, rows), gemm.batch * ceil_div(n, columns)
        tiles = along * across
        steps = ceil_div(k, BLOCK)

        # A step waits for its loads, however little it multiplies.
        multiply = 2 * BLOCK * rows * columns * chip.units / peak
        step = root(square(square(multiply)) + square(square(values["step"])))
        compute = maximum(1, tiles / chip.units) * (steps * step + values["tile"] * (rows * columns / 128**2) ** 0.5)
        missing = along * rows - m
        # SMs are in pairs: where all have the same rows, one of two fetches what is not there.
        fetched = across - (along == 1) * maximum(0, across - chip.units / 2)
        absent = missing * fetched * steps * BLOCK / (values["missing"] * chip.units)
        feed = (tiles * (rows + columns - given) - missing * across) * steps * BLOCK / (values["feed"] * peak) + absent
        cost = gemm.cost()
        memory = values["tile"] / 2 + cost.bytes / bandwidth
        total = (square(compute) + square(memory) + square(feed)) ** 0.5
        if "spill" in values:
            total = total + (tiles <= chip.units) * (rows * columns >= SPILLED) * steps * values["spill"]
        quantise: Expr = 0.0
        if _quantised(gemm, chip):  # 16 bits an element in, 8 out
            move = 3 * gemm.batch * m * k / bandwidth
            if "work" in values:
                move = root(square(square(move)) + square(square(gemm.batch * m * k * values["work"] / chip.vector)))
            quantise = values["launch"] + move
        return {
            "launch": values["launch"],
            "quantise": quantise,
            "tiles": compute,
            "feed": feed,
            "memory": memory,
            "total": values["launch"] + quantise + total,
        }

    return terms


def block_grid(tiling: Tiling) -> Callable[[Operators, Chip, Conditions, Values], WorkGrid]:
    """Return a function that returns the tiles of a kernel for weights in blocks. Plain numbers."""

    def grid(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> WorkGrid:
        gemm = cast("Gemm", next(iter(operators.values())))
        rows, columns, _ = tiling(gemm, chip)
        return _tile_grid(gemm, chip, rows, columns)

    return grid


def _transfer(values: Values, source: Chip, target: Chip) -> dict[str, float]:
    """Shares of datasheet figures hold elsewhere, times too. But an SM's way from L2 is as wide in all, however fast it is:
    `feed`, which is per FLOP of its peak, is half on Blackwell, whose SMs multiply twice as fast as Hopper's, and three times
    an A100's on a GeForce of its generation. An SM that multiplies more slowly has low tiles for few rows."""
    times = (source.sixteen_bit / source.units) / (target.sixteen_bit / target.units)
    moved = {name: value * times if name == "feed" else value for name, value in values.items()}
    return {**moved, "low": 1.0} if times > 1 else moved


def _transfer_blocks(values: Values, source: Chip, target: Chip) -> dict[str, float]:
    """As of others; but what is of Hopper's kernels alone is left behind: registers that spill, and tiles that reach far below
    the last row (Blackwell's keep sums elsewhere, and take rows by the sixteen)."""
    left = ("spill", "missing") if target.architecture != source.architecture else ()
    neutral = {entry.name: entry.neutral for form in (GEMM_FP8_BLOCK, GEMM_FP8_BLOCK_SWAPPED) for entry in form.parameters}
    return {name: neutral[name] or 0.0 if name in left else value for name, value in _transfer(values, source, target).items()}


_LAUNCH = Parameter("launch", "s", "a launch and its end", 2e-6, 2e-7, 2e-5)
_COMPUTE = Parameter("compute", "1", "fraction of the matrix peak in a tile", 0.9, 0.3, 1.2)
_MEMORY = Parameter("memory", "1", "fraction of the memory bandwidth", 0.8, 0.3, 1.0)
_TILE = Parameter("tile", "s", "start and end of a 128 x 128 tile", 2e-6, 1e-7, 2e-5, neutral=1e-9)
_FEED = Parameter("feed", "1", "elements into an SM per FLOP of its peak", 0.01, 0.002, 0.1, neutral=1e3)
_SPLIT = Parameter("split", "s", "adding up a split", 2.5e-6, 1e-7, 1e-3, neutral=1.0)
_THROTTLE = Parameter("throttle", "1", "slowdown of long products by power", 0.1, 0.003, 2, neutral=0.0)
_STEP = Parameter("step", "s", "a step of k, at least", 1.4e-7, 1e-9, 1e-6, neutral=0.0)
_MISSING = Parameter("missing", "byte/s", "rows below the last, an SM", 2e10, 1e9, 1e12, neutral=1e18)
_SPILL = Parameter("spill", "s", "a step of a tile that spills", 2e-6, 1e-9, 1e-5, neutral=0.0)
_WORK = Parameter("work", "1", "vector FLOP to quantise an element", 100, 1, 1000, neutral=0.0)
_NARROW = Parameter("narrow", "s", "small tiles for many rows", 3e-6, 1e-8, 1e-3, neutral=0.0)
_ROW = Parameter("row", "s", "an SM's time to quantise a row", 1e-7, 1e-9, 1e-5, neutral=0.0)
_EIGHT = ("fp8", "int8", "llm_int8", "mxfp8", "mxfp4", "nvfp4", "fp4")

GEMM = KernelForm(
    name="gemm",
    ops=("gemm", "bmm"),
    about="a product with weights of 16 bits: tiles in waves over the SMs, split where they are few, against device memory",
    parameters=(_LAUNCH, _COMPUTE, _MEMORY, _TILE, _FEED, _SPLIT, _THROTTLE),
    terms=_libraries,
    overlapping=("tiles", "memory"),
    transfer=_transfer,
    formats=("bf16", "fp16", "fp32", "tf32"),
)
# With one scale a row, 8-bit products show no trace of being fed too slowly.
GEMM_FP8 = KernelForm(
    name="gemm_fp8",
    ops=("gemm", "bmm"),
    about="a product of 8 bits by a vendor's library (cuBLAS), and the quantisation of its activations before",
    parameters=(_LAUNCH, _COMPUTE, _MEMORY, _TILE, _SPLIT),
    terms=_libraries,
    overlapping=("tiles", "memory"),
    transfer=_transfer,
    formats=_EIGHT,
)
GEMM_FP8_CUTLASS = KernelForm(
    name="gemm_fp8_cutlass",
    ops=("gemm", "bmm"),
    about="a product of 8 bits by CUTLASS: tiles by the number of rows, never split, and a slow quantisation before",
    parameters=(_LAUNCH, _COMPUTE, _MEMORY, _TILE, _THROTTLE, _NARROW, _ROW),
    terms=_libraries,
    overlapping=("tiles", "memory"),
    transfer=_transfer,
    formats=_EIGHT,
)
GEMM_FP8_BLOCK = KernelForm(
    name="gemm_fp8_block",
    ops=("gemm", "bmm"),
    about="a product of 8 bits with a scale a block by DeepGEMM, and the quantisation of its activations before",
    parameters=(_LAUNCH, _MEMORY, _TILE, _FEED, _STEP, _MISSING, _SPILL),
    terms=_blocks(_deep_gemm),
    overlapping=("tiles", "feed", "memory"),
    transfer=_transfer_blocks,
    formats=("fp8_block",),
)
GEMM_FP8_BLOCK_SWAPPED = KernelForm(
    name="gemm_fp8_block_swapped",
    ops=("gemm", "bmm"),
    about="a product of 8 bits with a scale a block by TensorRT-LLM, and the quantisation of its activations before",
    parameters=(_LAUNCH, _MEMORY, _TILE, _FEED, _STEP, _MISSING, _WORK),
    terms=_blocks(_early_deep_gemm),
    overlapping=("tiles", "feed", "memory"),
    transfer=_transfer_blocks,
    formats=("fp8_block",),
    elsewhere=lambda chip: "gemm_fp8_block_swapped" if chip.architecture == "hopper" else "gemm_fp8_block",
)
GRIDS = {
    **dict.fromkeys((GEMM.name, GEMM_FP8.name, GEMM_FP8_CUTLASS.name), library_grid),
    GEMM_FP8_BLOCK.name: block_grid(_deep_gemm),
    GEMM_FP8_BLOCK_SWAPPED.name: block_grid(_early_deep_gemm),
}
"""The tiles of each form, by its name."""
