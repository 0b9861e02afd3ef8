"""The forms of kernels by hand: on a chip of round figures each term is a product or two.

An SM multiplies 1 TFLOP/s here, unless a test says otherwise, and constants that a test is not about have the value at which
their term is gone (`Parameter.neutral`), or nearly so.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from roofline.dtypes import BF16, FORMATS, Dtypes
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ExpertRouting, SendRecv
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.host_copy import HostCopy
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.operators.sampling import Sampling
from roofline.predict.efficiency.form import CEILINGS, SHARES, SHARES_WIDENING, Chip, Conditions, KernelForm, chip
from roofline.predict.efficiency.forms import attention_decode, attention_prefill, communication, gemm, moe, streaming
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.specs.quantization import scheme

pytestmark = pytest.mark.every_case
US = 1e-6
FP8 = Dtypes(weight=FORMATS["fp8"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
FP8_BLOCK = Dtypes(weight=scheme("fp8_block").format, activation=FORMATS["bf16"], kv=FORMATS["bf16"])


@cache
def h100() -> Chip:
    """The chip whose peaks the others have."""
    return chip(load_hardware("h100-sxm")[0])


def round_chip(units: int = 4, architecture: str = "hopper", **figures: float) -> Chip:
    """A number of SMs, memory of 1 TB/s and no last cache."""
    return replace(h100(), **{"architecture": architecture, "units": units, "bandwidth": 1e12, "l2": 0.0, **figures})


def values(form: KernelForm, operator: Any, on: Chip, **given: float) -> dict[str, Any]:
    """The constants of a form, neutral where they are not given."""
    usual = {"launch": 0.0, "compute": 1e12 * on.units / on.peak(operator), "memory": 1.0}
    return {one.name: usual.get(one.name, one.neutral) for one in form.parameters} | given


def terms(form: KernelForm, operators: Any, on: Chip, conditions: Conditions | None = None, **given: float) -> dict[str, Any]:
    """The terms of a form."""
    constants = values(form, next(iter(operators.values())), on, **given)
    return form.terms(operators, on, conditions or Conditions(), constants)


def norm4(*parts: float) -> float:
    """The fourth root of the sum of fourth powers, by which what overlaps takes a little more than the longest."""
    return float(sum(part**4 for part in parts)) ** 0.25


# matrix products


def product(dtypes: Dtypes = BF16, **sizes: int) -> dict[str, Gemm]:
    """One product."""
    return {"": Gemm(**sizes, dtypes=dtypes)}


def test_tiles_in_waves() -> None:
    """128 x 256 outputs on 4 SMs are four tiles of 64 x 128, one each.

    That is 640 steps of k of 2*64*128 FLOP at 1 TFLOP/s, and 2 us times the side's (1/2)^0.5 for the edges. Eight of 64 x 64
    would be two waves of 640 * 2*64*64 FLOP and 1 us. Memory streams from half of the first tile's start: 1 us, and 2 B of
    128*640 + 640*256 + 128*256 elements at 0.5 TB/s.
    """
    found = terms(gemm.GEMM, product(m=128, n=256, k=640), round_chip(), tile=4 * US, launch=3 * US, memory=0.5)
    tiles = 640 * 2 * 64 * 128 / 1e12 + 2 * US * 0.5**0.5
    memory = 1 * US + 2 * (128 * 640 + 640 * 256 + 128 * 256) / 0.5e12
    assert tiles < 2 * (640 * 2 * 64 * 64 / 1e12 + 1 * US)
    assert (found["launch"], found["quantise"]) == (3 * US, 0)
    assert found["tiles"] == pytest.approx(tiles)
    assert found["memory"] == pytest.approx(memory)
    assert found["total"] == pytest.approx(3 * US + norm4(tiles, memory))


def test_waves_are_whole_before_hopper() -> None:
    """Five tiles of 64 x 64 on 4 SMs of an Ampere take as long as eight; three of 64 x 128 one wave.

    That is 64 steps of 2*64*128 FLOP, and both start and end of a tile, 4 us by (1/2)^0.5. Memory waits for one whole start.
    """
    found = terms(gemm.GEMM, product(m=64, n=320, k=64), round_chip(architecture="ampere"), tile=4 * US)
    tiles = 64 * 2 * 64 * 128 / 1e12 + 4 * US * 0.5**0.5
    memory = 2 * US + 2 * (64 * 64 + 64 * 320 + 64 * 320) / 1e12
    assert found["tiles"] == pytest.approx(tiles)
    assert found["memory"] == pytest.approx(memory)
    assert found["total"] == pytest.approx(norm4(tiles, memory))


def test_a_long_product_of_one_tile_is_split() -> None:
    """64 x 64 outputs of 4096 steps: four SMs take 1024 each, where 256 are enough.

    They add up four sums, 2 * 4 * 64*64 B at 1 TB/s, after 1 us. Whole it would be 33.6 us, halved 16.8.
    """
    found = terms(gemm.GEMM, product(m=64, n=64, k=4096), round_chip(), tile=4 * US, split=1 * US)
    memory = 1 * US + 2 * (2 * 64 * 4096 + 64 * 64) / 1e12
    joined = 1 * US + 2 * 4 * 64 * 64 / 1e12
    assert found["total"] == pytest.approx(norm4(1024 * 2 * 64 * 64 / 1e12 + 1 * US, memory) + joined)
    assert found["tiles"] == pytest.approx(4096 * 2 * 64 * 64 / 1e12 + 1 * US)  # as without a split
    (one,), on = product(m=64, n=64, k=4096).values(), round_chip()
    grid = gemm.library_grid({"": one}, on, Conditions(), values(gemm.GEMM, one, on, tile=4 * US, split=1 * US))
    assert (grid.rows, grid.columns, grid.split, grid.count, grid.used) == (64, 64, 4, 4, 1)


def test_half_a_split_where_the_units_are_more() -> None:
    """On 3 SMs two tiles have one SM each at most: a split in two is tried all the same, in 4/3 waves of half the steps."""
    found = terms(gemm.GEMM, product(m=64, n=128, k=8192), round_chip(3, bandwidth=1e15), tile=4 * US, split=1 * US)
    halved = 4 / 3 * (4096 * 2 * 64 * 64 / 1e12 + 1 * US)
    assert found["total"] == pytest.approx(halved + 1 * US, rel=1e-4)
    assert found["tiles"] == pytest.approx(8192 * 2 * 64 * 64 / 1e12 + 1 * US)


def test_feeding_and_clocks() -> None:
    """A step of 64 x 128 multiplies 16,384 FLOP, and is fed 64 + 128 elements at 0.01 a FLOP, as long as 19,200 take.

    Where tiles take t, clocks fall by 0.5 t/(t + 1 ms).
    """
    on = round_chip(bandwidth=1e15)
    peak = on.peaks["bf16"] / on.units
    fed = terms(gemm.GEMM, product(m=128, n=256, k=640), on, compute=1.0, feed=0.01, tile=0.0)
    assert fed["tiles"] == pytest.approx(640 * norm4(2 * 64 * 128, 19_200) / peak)
    slow = terms(gemm.GEMM, product(m=128, n=256, k=64_000), on, throttle=0.5, tile=0.0)
    tiles = 64_000 * 2 * 64 * 128 / 1e12
    assert slow["total"] == pytest.approx(tiles * (1 + 0.5 * tiles / (tiles + 1e-3)), rel=1e-6)


def test_an_undivided_cache_holds_what_is_read_again() -> None:
    """Ada: all of what is up to 0.9 of the cache is read three times as fast; half of what fills it; nothing of 1.1 of it."""
    operators = product(m=64, n=64, k=64)
    size = 2 * 3 * 64 * 64
    shares = []
    for share in (0.9, 1.0, 1.1):
        on = round_chip(architecture="ada", l2=size / share)
        shares.append(terms(gemm.GEMM, operators, on, Conditions(weights=1), tile=0.0)["memory"] / (size / 1e12))
    assert shares == pytest.approx([1 / 3, 1 / 2 + 1 / 6, 1])


def test_eight_bits_are_quantised_before() -> None:
    """A launch of its own, 2 B in and 1 B out of each of 64 x 256 elements, and 16 rows of 0.1 us on each of 4 SMs."""
    on = round_chip()
    found = terms(gemm.GEMM_FP8_CUTLASS, product(FP8, m=64, n=64, k=256), on, launch=2 * US, row=0.1 * US)
    assert found["quantise"] == pytest.approx(2 * US + 3 * 64 * 256 / 1e12 + 1.6 * US)
    fused = terms(gemm.GEMM_FP8_CUTLASS, product(FP8, m=64, n=64, k=256), on, Conditions(fused=True), launch=2 * US)
    assert fused["quantise"] == 0


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [
        (64, 64, (64, 64)),  # 4096 outputs for 64 rows
        (65, 64, (128, 64)),  # two of 64 x 64 are less than 64 outputs a row
        (256, 128, (128, 128)),  # 64 x 256 would be twice as much
        (1000, 128, (128, 128)),  # as of 256
    ],
)
def test_cutlass_takes_its_tile_by_the_rows(m: int, n: int, tile: tuple[int, int]) -> None:
    """Tiles of fewer than 64 outputs for each row, of 256 rows at most, cost 1 ms here. Of one SM, the least beside."""
    on = round_chip(1, bandwidth=1e15)
    found = terms(gemm.GEMM_FP8_CUTLASS, product(FP8, m=m, n=n, k=64), on, narrow=1e-3)
    tiles = -(-m // tile[0]) * n / tile[1]
    assert found["total"] - found["quantise"] == pytest.approx(tiles * 64 * 2 * tile[0] * tile[1] / 1e12, rel=1e-3)


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [
        (64, 128, (64, 128)),  # two tiles of 64 columns are of two thirds of the bytes each
        (16, 128, (16, 128)),  # an eighth fewer than a tile of 64 rows: it is loaded as 16 and passed on as 64
        (17, 128, (32, 128)),
        (64, 16, (64, 16)),
    ],
)
def test_deep_gemm_takes_the_tile_of_the_fewest_bytes(m: int, n: int, tile: tuple[int, int]) -> None:
    """On one SM, where waves are tiles: a tile low enough for all rows that has just the columns."""
    grid = gemm.GRIDS["gemm_fp8_block"](product(FP8_BLOCK, m=m, n=n, k=4096), round_chip(1), Conditions(), {})
    assert (grid.rows, grid.columns, grid.count) == (*tile, 1)


@pytest.mark.parametrize(
    ("sizes", "units", "tile"),
    [
        # below 32 rows 128 outputs by the narrowest of 16, 24 and 32 rows with the fewest waves
        ({"m": 8, "n": 4096}, 40, (16, 128)),
        ({"m": 20, "n": 4096}, 40, (24, 128)),  # 32 tiles; of 16 rows they are 64, two waves
        ({"m": 20, "n": 4096}, 132, (16, 128)),  # one wave in any case, and fewer SMs are idle
        ({"m": 31, "n": 64}, 1, (32, 64)),  # few outputs: 64
        ({"m": 31, "n": 65}, 1, (32, 128)),
        # else 64 or 128 rows by the narrowest of 16, 24, ... 128 outputs
        ({"m": 32, "n": 256}, 4, (64, 64)),
        ({"m": 64, "n": 256}, 4, (64, 64)),
        ({"m": 65, "n": 128}, 1, (128, 128)),
        ({"m": 100, "n": 200}, 2, (128, 104)),  # two tiles; of 96 outputs they are three
        ({"m": 100, "n": 200}, 13, (128, 16)),  # thirteen in one wave
    ],
)
def test_the_narrowest_tile_of_the_fewest_waves(sizes: dict[str, int], units: int, tile: tuple[int, int]) -> None:
    """TensorRT-LLM's early DeepGEMM (`jit_utils.cuh`): fewest waves, then fewest SMs idle in the last, then least width."""
    grid = gemm.GRIDS["gemm_fp8_block_swapped"](product(FP8_BLOCK, **sizes, k=512), round_chip(units), Conditions(), {})
    assert (grid.rows, grid.columns) == tile
    count = -(-sizes["m"] // tile[0]) * -(-sizes["n"] // tile[1])
    assert (grid.count, grid.split, grid.units) == (count, 1, units)
    assert grid.used == pytest.approx(sizes["m"] * sizes["n"] / (count * tile[0] * tile[1]))


def test_a_product_of_blocks() -> None:
    """100 x 200 outputs of two tiles of 128 x 104 on 2 SMs, 4 blocks of 128 steps.

    A step multiplies 2*128*128*104 FLOP or waits 3 us. Each tile has 28 rows too many in boxes of 104 columns' rows, which are
    fetched at 0.1 GB/s by one SM of a pair (both tiles have the same rows); the other elements at 0.01 a FLOP of the peak.
    """
    on = round_chip(2)
    found = terms(
        gemm.GEMM_FP8_BLOCK_SWAPPED,
        product(FP8_BLOCK, m=100, n=200, k=512),
        on,
        launch=2 * US, tile=4 * US, step=3 * US, feed=0.01, missing=1e8, memory=0.5, work=10.0,
    )  # fmt: skip
    peak, bandwidth = on.peaks["fp8"], 0.5e12
    step = norm4(2 * 128 * 128 * 104 * 2 / peak, 3 * US)
    tiles = 4 * step + 4 * US * (128 * 104 / 128**2) ** 0.5
    weights = 512 * 200 + 4 * 4 * 2  # 4 x 2 scales of 4 B
    memory = 2 * US + (weights + 2 * (100 * 512 + 100 * 200)) / bandwidth
    absent = 28 * (2 - 1) * 512 / (1e8 * 2)
    feed = (2 * (128 + 104) - 28 * 2) * 512 / (0.01 * peak) + absent
    quantise = 2 * US + norm4(3 * 100 * 512 / bandwidth, 100 * 512 * 10 / on.vector)
    assert found["tiles"] == pytest.approx(tiles)
    assert found["memory"] == pytest.approx(memory)
    assert found["feed"] == pytest.approx(feed)
    assert found["quantise"] == pytest.approx(quantise)
    assert found["total"] == pytest.approx(2 * US + quantise + (tiles**2 + memory**2 + feed**2) ** 0.5)


@pytest.mark.parametrize(("m", "spilled"), [(128, 4), (256, 0)])
def test_large_tiles_of_one_wave_spill(m: int, spilled: int) -> None:
    """128 x 192 outputs are one tile, whose sums do not fit in registers: 2 us in each of 4 steps. Of two on one SM they do."""
    operators, on = product(FP8_BLOCK, m=m, n=192, k=512), round_chip(1)
    grid = gemm.GRIDS["gemm_fp8_block"](operators, on, Conditions(), {})
    assert (grid.rows, grid.columns, grid.count) == (128, 192, m / 128)
    whole, fitting = (terms(gemm.GEMM_FP8_BLOCK, operators, on, spill=spill)["total"] for spill in (2 * US, 0.0))
    assert whole - fitting == pytest.approx(spilled * 2 * US)


def seeded(seed: int) -> random.Random:
    """Chance that is the same in every run."""
    return random.Random(seed)  # noqa: S311 - no secret


def ceil_of(a: float, b: float) -> int:
    """The quotient, rounded up."""
    return math.ceil(a / b)


def drawn(form: KernelForm, operator: Any, on: Chip, chance: random.Random, *without: str) -> dict[str, float]:
    """Constants of a form between a half and twice those from which its fit starts, with the rate of `round_chip`."""
    scaled = {one.name: one.start * chance.uniform(0.5, 2) for one in form.parameters if one.name not in without}
    return values(form, operator, on, **{name: value for name, value in scaled.items() if name != "compute"})


FOUR_BITS = replace(BF16, weight=FORMATS["int4"])


@pytest.mark.parametrize(
    ("form", "dtypes", "low"),
    [(gemm.GEMM, BF16, False), (gemm.GEMM, BF16, True), (gemm.GEMM, FOUR_BITS, False), (gemm.GEMM_FP8, FP8, False),
     (gemm.GEMM_FP8_CUTLASS, FP8, False), (gemm.GEMM_FP8_CUTLASS, BF16, False)],
)  # fmt: skip
@pytest.mark.parametrize("architecture", ["hopper", "ampere"])
def test_products_of_any_size(form: KernelForm, dtypes: Dtypes, low: bool, architecture: str) -> None:
    """The least of all ways: each tile of the menu, whole, halved, or split until the SMs are full (256 steps at least).

    Random sizes, one way after another. Widened weights, and chips with low tiles, have tiles as low as 16 rows; four bits have
    a quarter of the way from L2.
    """
    chance, persistent = seeded(1), architecture == "hopper"
    for number in range(30):
        sizes = {name: int(2 ** chance.uniform(0, 13)) for name in ("m", "n", "k")}
        if number % 2:  # few outputs of a long product
            sizes = {"m": chance.randrange(1, 400), "n": chance.randrange(1, 400), "k": chance.choice([2000, 9000, 20_000])}
        one = Gemm(**sizes, batch=chance.choice([1, 1, 3]), dtypes=dtypes)
        on = round_chip(chance.choice([4, 60, 132]), architecture)
        v = drawn(form, one, on, chance, "neutral") | ({"low": 1.0} if low else {})
        m, n, k, rate, bandwidth = *sizes.values(), v["compute"] * on.peak(one) / on.units, v["memory"] * on.bandwidth
        memory = v["tile"] * (1 / 4 if persistent else 1 / 2) + one.cost().bytes / bandwidth

        def beside_memory(seconds: float, v: dict[str, float] = v, memory: float = memory) -> float:
            return norm4(seconds * (1 + v.get("throttle", 0) * seconds / (seconds + 1e-3)), memory)

        ways, whole = {}, []
        for rows, columns in gemm.TILES:
            tiles = one.batch * ceil_of(m, rows) * ceil_of(n, columns)
            height = min(rows, 16 * ceil_of(m, 16)) if low or dtypes is FOUR_BITS else rows
            step = 2 * height * columns / rate
            if "feed" in v:
                loaded = height + columns * (dtypes.weight.bytes / 2 if dtypes is FOUR_BITS else 1)
                step = norm4(step, loaded / (v["feed"] * on.peak(one) / on.units))
            filled = max(1, min(on.units // tiles, ceil_of(k, 256)))
            for split in {1, 2, filled} if "split" in v else {1}:
                waves = tiles * split / on.units if persistent else ceil_of(tiles * split, on.units)
                edge = v["tile"] * (rows * columns) ** 0.5 / 128 * (1 / 2 if persistent else 1)
                seconds = max(waves, 1) * (64 * ceil_of(ceil_of(k, 64), split) * step + edge)
                joined = (v["split"] + 2 * split * one.batch * m * n / bandwidth) if split > 1 else 0
                small = v.get("narrow", 0) * (rows * columns < 64 * min(m, 256))
                ways[(rows, columns), split] = beside_memory(seconds) + joined + small
                whole += [seconds] if split == 1 else []
        quantise = 0.0
        if dtypes is FP8:
            quantise = v["launch"] + one.batch * (3 * m * k / bandwidth + m * v.get("row", 0) / on.units)
        found = form.terms({"": one}, on, Conditions(), v)
        assert found["tiles"] == pytest.approx(min(whole))
        assert found["memory"] == pytest.approx(memory)
        assert found["quantise"] == pytest.approx(quantise)
        assert found["total"] == pytest.approx(v["launch"] + quantise + min(ways.values()))
        grid = gemm.library_grid({"": one}, on, Conditions(), v)
        assert ways[(grid.rows, grid.columns), grid.split] == pytest.approx(min(ways.values()))
        tiles = one.batch * ceil_of(m, grid.rows) * ceil_of(n, grid.columns)
        assert (grid.count, grid.units) == (tiles * grid.split, on.units)
        assert grid.used == pytest.approx(one.batch * m * n / (tiles * grid.rows * grid.columns))


def deep_gemm_cycles(one: Gemm, rows: int, columns: int, units: float) -> tuple[float, int]:
    """Cycles by DeepGEMM's count, and waves: bytes of eight bits into an SM, twice, and out of it in sixteen, at 128 a cycle.

    Or from L2 at 64 a cycle, at most 8 TB/s at 1.3 GHz for all SMs; half of the longer side comes from the other SM of a pair.
    """
    waves = ceil_of(one.batch * ceil_of(one.m, rows) * ceil_of(one.n, columns), units)
    inner = (one.k * (rows + max(rows, 64) + 2 * columns) + 4 * rows * columns) / 128
    shared = max(rows, columns) / 2 if waves > 1 else 0
    outer = (one.k * (rows + columns - shared) + 2 * rows * columns) / min(64, 8e12 / 1.3e9 / units)
    return waves * max(inner, outer), waves


def test_deep_gemm_takes_the_fewest_cycles() -> None:
    """Of random products: no other tile has fewer, and of equal ones that of a single wave comes first.

    Tiles are 64, 128 or 256 rows, or 16 or 32 for as few; of both sides at most one is above 128.
    """
    chance, seen = seeded(1), set()
    for _ in range(300):
        sizes = {name: int(2 ** chance.uniform(2, 13)) for name in ("m", "n", "k")}
        one, units = Gemm(**sizes, batch=chance.choice([1, 2]), dtypes=FP8_BLOCK), chance.choice([2, 20, 132, 200])
        grid = gemm.GRIDS["gemm_fp8_block"]({"": one}, round_chip(units), Conditions(), {})
        menu = {
            (rows, columns): deep_gemm_cycles(one, rows, columns, units)
            for rows in (16, 32, 64, 128, 256)
            for columns in (*range(16, 129, 16), 144, 160, 192)
            if (rows <= 128 or columns <= 128) and (rows >= 64 or one.m <= rows)
        }
        least = min(cycles for cycles, _ in menu.values())
        cycles, waves = menu[int(grid.rows), int(grid.columns)]
        assert cycles <= least * (1 + 1.1e-7)
        assert waves == 1 or all(more > 1 for other, more in menu.values() if other <= cycles * (1 + 1e-10))
        seen.add((grid.rows, grid.columns))
    assert {rows for rows, _ in seen} == {16, 32, 64, 128, 256}
    assert {144, 160, 192} < {columns for _, columns in seen}


def early_tile(one: Gemm, units: float) -> tuple[int, int]:
    """TensorRT-LLM's tile: the fewest waves, then the fewest SMs idle in the last, then the narrowest."""

    def narrowest(along: int, across: int, length: int, widths: range) -> int:
        def order(width: int) -> tuple[int, float, int]:
            tiles = ceil_of(along, length) * ceil_of(across, width)
            return ceil_of(tiles, units), -tiles % units, width

        return min(widths, key=order)

    if one.m < 32:
        outputs = 128 if one.n > 64 else 64
        return narrowest(one.n, one.m, outputs, range(16, 33, 8)), outputs
    rows = 128 if one.m > 64 else 64
    return rows, narrowest(one.m, one.n, rows, range(16, 129, 8))


@pytest.mark.parametrize("form", [gemm.GEMM_FP8_BLOCK, gemm.GEMM_FP8_BLOCK_SWAPPED])
@pytest.mark.parametrize("dtypes", [FP8_BLOCK, replace(FP8_BLOCK, activation=FP8.weight)])
def test_products_of_blocks_of_any_size(form: KernelForm, dtypes: Dtypes) -> None:
    """Tiles, feeding and memory as the root of their squares, for random sizes and constants.

    A tile pair of TensorRT-LLM shares half of its rows, from 1024 rows, if the outputs are whole pairs. Activations that have
    eight bits already are not quantised.
    """
    chance, early = seeded(2), form is gemm.GEMM_FP8_BLOCK_SWAPPED
    for _ in range(60):
        m, n, k = int(2 ** chance.uniform(1, 11.5)), chance.choice([64, 100, 768, 4096]), 128 * chance.randrange(1, 50) - 7
        one, on = Gemm(m=m, n=n, k=k, batch=chance.choice([1, 2]), dtypes=dtypes), round_chip(chance.choice([4, 40, 132]))
        v = drawn(form, one, on, chance)
        grid = gemm.GRIDS[form.name]({"": one}, on, Conditions(), {})
        rows, columns, units = int(grid.rows), int(grid.columns), on.units
        if early:
            assert (rows, columns) == early_tile(one, units)
        along, across, steps = ceil_of(m, rows), one.batch * ceil_of(n, columns), ceil_of(k, 128)
        tiles, pairs = along * across, early and m >= 1024 and n % (2 * columns) == 0
        step = norm4(2 * 128 * rows * columns * units / on.peak(one), v["step"])
        compute = max(1, tiles / units) * (steps * step + v["tile"] * (rows * columns) ** 0.5 / 128)
        absent = along * rows - m  # rows below the last, of every column of tiles; where all share them one of two SMs fetches
        fetched = min(across, units / 2) if along == 1 else across
        feed = (tiles * (rows + columns - pairs * rows / 2) - absent * across) * steps * 128 / (v["feed"] * on.peak(one))
        feed += absent * fetched * steps * 128 / (v["missing"] * units)
        bandwidth = v["memory"] * on.bandwidth
        memory = v["tile"] / 2 + one.cost().bytes / bandwidth
        spilled = steps * v["spill"] if not early and tiles <= units and rows * columns >= 128 * 192 else 0
        quantise = 0.0
        if dtypes is FP8_BLOCK:
            work = one.batch * m * k * v["work"] / on.vector if early else 0
            quantise = v["launch"] + norm4(3 * one.batch * m * k / bandwidth, work)
        found = form.terms({"": one}, on, Conditions(), v)
        assert (found["tiles"], found["feed"], found["memory"]) == pytest.approx((compute, feed, memory))
        assert found["quantise"] == pytest.approx(quantise)
        total = (compute**2 + feed**2 + memory**2) ** 0.5 + spilled
        assert found["total"] == pytest.approx(v["launch"] + quantise + total)


def test_an_undivided_cache_is_neither_more_than_full_nor_less_than_empty() -> None:
    """All that is a half of Ada's cache is read at 3 TB/s, all that is twice as much at 1; other caches keep nothing."""
    operators, size = product(m=64, n=64, k=64), 2 * 3 * 64 * 64
    for architecture, share, times in (("ada", 0.5, 1 / 3), ("ada", 2.0, 1), ("hopper", 0.5, 1)):
        on = round_chip(architecture=architecture, l2=size / share)
        found = terms(gemm.GEMM, operators, on, Conditions(weights=1), tile=0.0)
        assert found["memory"] == pytest.approx(times * size / 1e12)


@pytest.mark.parametrize("architecture", ["hopper", "blackwell"])
@pytest.mark.parametrize("form", [gemm.GEMM, gemm.GEMM_FP8_BLOCK])
@pytest.mark.parametrize(("units", "times"), [(2, 0.5), (4, 1.0), (8, 2.0)])
def test_products_on_another_chip(form: KernelForm, units: int, times: float, architecture: str) -> None:
    """Of the same peak on twice as many SMs each does half, and is fed as fast: twice as much a FLOP, with low tiles.

    What spills and what is fetched below the last row is Hopper's alone: it is gone elsewhere.
    """
    given = {one.name: one.start for one in form.parameters}
    expected = given | {"feed": times * given["feed"]} | ({"low": 1.0} if times > 1 else {})
    if architecture != "hopper" and "spill" in given:
        expected |= {"spill": 0.0, "missing": 1e18}
    assert form.transfer is not None
    assert form.transfer(given, round_chip(4), round_chip(units, architecture)) == pytest.approx(expected)


# routed experts


def experts(tokens: int, **changes: Any) -> dict[str, GroupedGemm]:
    """Two of 8 experts here, of 4096 in and 256 out for gate and up, and 128 back; two of them for each token."""
    sizes: dict[str, Any] = {"tokens": tokens, "experts": 8, "top_k": 2, "local_experts": 2, **changes}
    return {"up_proj": GroupedGemm(n=256, k=4096, **sizes), "down_proj": GroupedGemm(n=4096, k=128, **sizes)}


WEIGHTS = 2 * 256 * 4096  # bytes of an expert's first product
ROW = 2 * 256 + 2 * 128 + 3 * 4096  # elements that a row moves between the kernels


def met_and_rows(tokens: int, conditions: Conditions, **changes: Any) -> tuple[float, float]:
    """Experts of this device that meet a row, by the time in which slow memory reads them, and the rows of all of them."""
    found = terms(moe.MOE, experts(tokens, **changes), round_chip(bandwidth=1.0), conditions, stream=1.0)
    return found["up_proj"] / WEIGHTS, (found["stream"] / 2 - tokens * 4096) / ROW


@pytest.mark.parametrize(("tokens", "met", "rows"), [(1, 1, 1), (3, 2, 2), (4, 2, 2), (6, 2, 3), (24, 2, 12)])
def test_balanced_routing_deals_rows_round(tokens: int, met: int, rows: float) -> None:
    """Of 2 T rows a quarter comes here, one after another to the experts: of 2 rows 1/2, which is one expert with one row."""
    assert met_and_rows(tokens, Conditions(routing=0.0)) == pytest.approx((met, rows), rel=1e-6)


def test_uniform_routing_meets_experts_independently() -> None:
    """Each of 4 tokens picks an expert with 1/4: 2 (1 - (3/4)^4) of 2 are met, by 2 of the 8 rows; with 1/2 by 4."""
    assert met_and_rows(4, Conditions()) == pytest.approx((2 * (1 - 0.75**4), 2), rel=1e-6)
    assert met_and_rows(4, Conditions(), imbalance=2.0) == pytest.approx((2 * (1 - 0.5**4), 4), rel=1e-6)


def test_zipf_routing_is_near_the_sum_over_experts() -> None:
    """128 experts, of which the r-th is picked with 8/128 times r^-0.8 over its mean: those met by 20 tokens, of all 128."""
    sizes = {"experts": 128, "top_k": 8, "local_experts": 128}
    popularity = np.arange(1, 129) ** -0.8
    picked = np.minimum(8 / 128 * popularity / popularity.mean(), 1)
    expected = np.sum(1 - (1 - picked) ** 20)
    met, rows = met_and_rows(20, Conditions(popularity=0.8), **sizes)
    assert met == pytest.approx(expected, rel=0.02)
    assert rows == pytest.approx(20 * 8, rel=0.02)
    assert met_and_rows(20, Conditions(), **sizes, skew=0.8) == (met, rows)


@pytest.mark.parametrize(("exponent", "tokens"), [(1.2, 4000), (1.01, 500), (0.6, 4000), (1.2, 8)])
def test_power_law_of_one_device(exponent: float, tokens: int) -> None:
    """All experts here: rows are all, dealt to classes of popularity, integrated here by 70,000 points.

    They are the quantiles of x^-a between 1 and 0.8 T (0.01 and 2 where rows are fewer than experts), scaled to sum to all.
    """
    sizes = {"experts": 64, "top_k": 4, "local_experts": 64}
    low, high = (1, 0.8 * tokens) if 4 * tokens > 64 else (0.01, 2)
    ends = np.array([low, high]) ** (1 - exponent)
    shares = (np.arange(70_000) + 0.5) / 70_000
    counts = (ends[0] + shares * (ends[1] - ends[0])) ** (1 / (1 - exponent))
    counts *= 4 * tokens / (64 * counts.mean())
    classes = [counts[(shares > below) & (shares < above)].mean() for below, above in pairwise(moe.EDGES)]
    expected = 64 * np.dot(np.diff(moe.EDGES), np.minimum(classes, 1))
    assert met_and_rows(tokens, Conditions(routing=exponent), **sizes) == pytest.approx((expected, 4 * tokens), rel=2e-3)


@pytest.mark.parametrize(
    ("exponent", "tokens", "count", "ranks"),
    [(1.2, 2000, 128, 2), (1.2, 2000, 128, 8), (1.2, 2000, 128, 32), (1.01, 512, 256, 16), (0.6, 2000, 128, 8)],
)
def test_power_law_of_the_busiest_device(exponent: float, tokens: int, count: int, ranks: int) -> None:
    """Against 2,000 of the draws that it stands for (AIConfigurator's `sample_power_law`, the rank with most rows).

    Sums of a few experts have longer tails than normal ones: the form has up to a sixth too few.
    """
    chance = np.random.default_rng(1)
    ends = np.array([1.0, 0.8 * tokens]) ** (1 - exponent)
    drawn = (ends[0] + chance.random((2000, ranks, count // ranks)) * (ends[1] - ends[0])) ** (1 / (1 - exponent))
    drawn *= 4 * tokens / drawn.sum(axis=(1, 2), keepdims=True)
    busiest = drawn.sum(axis=2).max(axis=1).mean()
    _, rows = met_and_rows(tokens, Conditions(routing=exponent), experts=count, top_k=4, local_experts=count // ranks)
    assert rows == pytest.approx(busiest, rel=0.16)


@pytest.mark.parametrize("sent", [False, True])
def test_time_of_experts(sent: bool) -> None:
    """Of 160 tokens 80 rows are here, 40 of each of 2 experts, and 240 elsewhere, which cost a quarter unless they stay away.

    Tiles of 16 x 64: 3 for an expert, 4 side by side, on 4 SMs in 6 waves. Each multiplies 2*16*64*4096 FLOP, loads 16 + 64
    rows of 4096 elements from L2 at 0.1 TB/s, and starts in 1 us. So do a quarter of the 18 tiles of others' experts. The
    default for many tokens is 64 x 64: 2 waves, and 6 tiles elsewhere; kernels run it half.
    """
    conditions = Conditions(routing=0.0, sent=sent)
    constants = {"launch": 9 * US, "tile": 1 * US, "remote": 0.25, "default": 0.5, "latency": 1e-9, "stream": 0.5}
    found = terms(moe.MOE, experts(160), round_chip(), conditions, **constants, memory=0.5)

    def tiles(height: int, waves: int, elsewhere: int) -> float:
        one = norm4(2 * height * 64 * 4096 / 1e12, (height + 64) * 4096 * 2 / 1e11) + 1 * US
        return waves * one + (0 if sent else 0.25 * 1 * US * elsewhere * 4 / 4)

    best, default = tiles(16, 6, 18), tiles(64, 2, 6)
    compute, memory = best + 0.5 * (default - best), 2 * WEIGHTS / 0.5e12
    assert found["up_proj"] == pytest.approx((compute**2 + memory**2) ** 0.5 + 1e-9 * 4096)
    tokens, rows = (80, 80) if sent else (160, 80 + 0.25 * 240)
    stream = 2 * (rows * ROW + tokens * 4096) / 0.5e12
    assert found["stream"] == pytest.approx(stream)
    assert found["total"] == pytest.approx(9 * US + found["up_proj"] + found["down_proj"] + stream)


def test_few_tiles_of_experts_take_the_time_of_one() -> None:
    """6 x 4 tiles of 16 x 64 on 1000 SMs: the smallest of the menu, once; others' rows cost nothing."""
    found = terms(moe.MOE, experts(160), round_chip(1000, bandwidth=1e15), Conditions(routing=0.0), tile=1 * US)
    tile = norm4(2 * 16 * 64 * 4096 / 1e12, (16 + 64) * 4096 * 2 / 1e11) + 1 * US
    assert found["up_proj"] == pytest.approx(tile, rel=1e-3)


@pytest.mark.parametrize(
    ("exponent", "tokens", "count", "held"),
    [(1.2, 2000, 128, 64), (1.2, 2000, 128, 4), (0.6, 300, 64, 2), (1.0, 512, 256, 16), (1.2, 8, 64, 8), (1.2, 16, 64, 8),
     (2.0, 3000, 64, 32), (1.2, 5, 16, 1)],
)  # fmt: skip
def test_the_busiest_device_leans_to_popular_experts(exponent: float, tokens: int, count: int, held: int) -> None:
    """The moments of the power law are of 400,000 points here, the classes are means of their quantiles.

    The busiest of n devices has 3.3 (1 - n^-1/4) deviations of its sum more than the mean, or its largest expert, the quantile
    E/(E+1), less the others' part; at most all rows. Classes get weights linear in their counts, none below 0.
    """
    low, high = (1, 0.8 * tokens) if 4 * tokens > count else (0.01, 2)
    shares = (np.arange(400_000) + 0.5) / 400_000

    def quantile(share: Any) -> Any:
        if exponent == 1:
            return low * (high / low) ** share
        ends = np.array([low, high]) ** (1 - exponent)
        return (ends[0] + share * (ends[1] - ends[0])) ** (1 / (1 - exponent))

    drawn_counts = quantile(shares)
    mean, ranks = drawn_counts.mean(), count / held
    variance = (drawn_counts**2).mean() / mean**2 - 1
    counts = np.array([drawn_counts[(shares > a) & (shares < b)].mean() for a, b in pairwise(moe.EDGES)]) / mean
    largest = quantile(count / (count + 1)) / mean - 1
    excess = max(3.3 * (1 - ranks**-0.25) * (variance / held) ** 0.5, largest / held * (1 - 1 / ranks))
    excess = min(excess, ranks - 1)
    lean = np.diff(moe.EDGES) * np.maximum(1 + excess / variance * (counts - 1), 0)
    experts_of = held * lean / lean.sum()
    rows = (1 + excess) * 4 * tokens * held / count
    each = counts * rows / np.dot(experts_of, counts)
    classes = moe._power_law(tokens, 4 * tokens, count, held, exponent)
    assert [met * of for met, of in classes] == pytest.approx(experts_of * each, rel=6e-3)
    assert [met for met, _ in classes] == pytest.approx(experts_of * np.minimum(each, 1), rel=6e-3)
    assert min(of for _, of in classes) >= 1


@pytest.mark.parametrize(("exponent", "tokens"), [(0.8, 20), (1.0, 3), (1.6, 400), (0.3, 1)])
def test_classes_of_zipf_routing(exponent: float, tokens: int) -> None:
    """Of 128 experts, 32 here: the mean of rank^-a between the ranks of a class, by 20,000 points, over that of all ranks."""
    edges = [1 - edge for edge in moe.EDGES]

    def popularity(above: float, below: float) -> float:
        ranks = 0.5 + 128 * (below + (above - below) * (np.arange(20_000) + 0.5) / 20_000)
        return float((ranks**-exponent).mean())

    found = moe._zipf(tokens, 8 / 128, 32, 128, exponent)
    for (above, below), (met, rows) in zip(pairwise(edges), found, strict=True):
        picked = min(8 / 128 * popularity(above, below) / popularity(1, 0), 1)
        expected = 1 - (1 - picked) ** tokens
        assert met == pytest.approx(32 * (above - below) * expected, rel=5e-3)
        assert rows == pytest.approx(tokens * picked / expected, rel=5e-3)


Classes = list[tuple[float, float]]
"""Experts that meet a row, and the rows of each."""


def classes_of(conditions: Conditions, tokens: int, count: int, held: int) -> Classes:
    """Of the device that holds `held` of the experts, where each token picks four."""
    rows = tokens * 4
    if conditions.routing == 0:
        return [(min(held, ceil_of(rows * held, count)), max(rows / count, 1))]
    if conditions.routing:
        return moe._power_law(tokens, rows, count, held, conditions.routing)
    if conditions.popularity:
        return moe._zipf(tokens, 4 / count, held, count, conditions.popularity)
    met = 1 - (1 - 4 / count) ** tokens
    return [(held * met, rows / count / met)]


def tiles_of(classes: Classes, height: int, *, even: bool) -> float:
    """Whole tiles where all experts of a class have its rows; else half a tile more than their mean, and one at least."""
    return sum(experts * (ceil_of(each, height) if even else max(each / height + 0.5, 1)) for experts, each in classes)


def grouped_seconds(
    one: GroupedGemm, on: Chip, v: dict[str, float], here: Classes, everyone: Classes, *, few: bool, even: bool
) -> float:
    """The best of the menu's tiles, mixed with a default, beside the weights of the experts met."""
    expert, weight = one.held_bytes / one.held, one.dtypes.weight.bytes
    rate = v["compute"] * on.peak(one) / on.units * (0.5 if weight < 1 else 1)

    def seconds(height: int, columns: int) -> float:
        loaded = height * one.k * one.dtypes.activation.bytes + columns * expert / one.n
        tile = norm4(2 * height * columns * one.k / rate, loaded / 1e11) + v["tile"]
        tile += loaded / 1e10 if one.k % 16 and weight == 2 else 0
        own, across = tiles_of(here, height, even=even), ceil_of(one.n, columns) / on.units
        far = max(tiles_of(everyone, height, even=even) - own, 0)
        return max(own * across, 1) * tile + v["remote"] * v["tile"] * far * across

    best, default = min(seconds(*shape) for shape in moe.MENU), seconds(16, 32) if few else seconds(64, 64)
    compute = best + v["default"] * max(default - best, 0)
    memory = max(sum(experts for experts, _ in here), 1) * expert / (v["memory"] * on.bandwidth)
    return float((compute**2 + memory**2) ** 0.5 + v["latency"] * one.k * (0.5 if weight == 1 else 1))


@pytest.mark.parametrize("dtypes", [BF16, FP8, FOUR_BITS], ids=["bf16", "fp8", "int4"])
@pytest.mark.parametrize(
    "conditions",
    [Conditions(), Conditions(sent=True), Conditions(routing=0.0), Conditions(routing=0.0, sent=True),
     Conditions(routing=0.0, gathered=True), Conditions(gathered=True), Conditions(popularity=0.7), Conditions(routing=1.2)],
    ids=["uniform", "sent", "balanced", "balanced, sent", "balanced, gathered", "gathered", "zipf", "power law"],
)  # fmt: skip
def test_experts_of_any_size(conditions: Conditions, dtypes: Dtypes) -> None:
    """The whole form on random layers and chips, from the classes of rows.

    Rows elsewhere cost traffic and the starts of their tiles, unless tokens were sent. What was gathered adds the other picks
    of each token to one expert. An inner width that is no multiple of 16 is loaded from memory, unless its weights are narrow;
    widened weights multiply at half of the rate; steps of 8 bits are twice as long.
    """
    chance, even = seeded(3), conditions.routing == 0
    for _ in range(12):
        count, tokens = chance.choice([8, 64, 256]), chance.choice([1, 8, 64, int(2 ** chance.uniform(0, 11))])
        held, width = count // chance.choice([1, 2, 4]), chance.choice([128, 200, 1001])
        sizes: dict[str, Any] = {"tokens": tokens, "experts": count, "top_k": 4, "local_experts": held, "dtypes": dtypes}
        up, down = GroupedGemm(n=2 * width, k=512, **sizes), GroupedGemm(n=512, k=width, **sizes)
        on = round_chip(chance.choice([20, 132]))
        v = drawn(moe.MOE, up, on, chance) | {"remote": chance.uniform(0.1, 0.9), "default": chance.uniform(0.1, 0.9)}
        here, everyone = (classes_of(conditions, tokens, count, own) for own in (held, count))
        rows, picked = sum(experts * each for experts, each in here), float(tokens)
        if conditions.sent or conditions.gathered:  # tokens with a pick here; of balanced routing picks lie apart
            missed = (1 - rows / (4 * tokens)) ** 4
            picked = tokens * min(4 * held / count, 1) if even else max(tokens * (1 - missed), min(rows / 4, tokens))
            if conditions.gathered and (more := 4 * picked - rows) > 0:
                here, rows = [*here, (min(more, 1), max(more, 1))], rows + more
            everyone = here
        few = picked <= held
        first, second = (grouped_seconds(one, on, v, here, everyone, few=few, even=even) for one in (up, down))
        others = 0 if conditions.sent else max(picked * 4 - rows, 0)
        moved = (rows + v["remote"] * others) * (2 * 2 * width + 2 * width + 3 * 512) + picked * 512
        stream = moved * dtypes.activation.bytes / (v["stream"] * on.bandwidth)
        expected = {"launch": v["launch"], "up_proj": first, "down_proj": second, "stream": stream}
        found = moe.MOE.terms({"up_proj": up, "down_proj": down}, on, conditions, v)
        assert found == pytest.approx(expected | {"total": sum(expected.values())})


# attention of one token


def decode_of(batch: int, keys: int, **changes: Any) -> Attention:
    """8 query heads over 2 KV heads of 128, one new token."""
    sizes: dict[str, Any] = {"n_heads": 8, "n_kv_heads": 2, "head_dim": 128, **changes}
    return Attention(batch=batch, new=1, cached=keys - 1, **sizes)


@pytest.mark.parametrize(
    ("form", "core", "units", "count", "parts", "keys"),
    [
        # vLLM: 32 parts at most; 4096 keys are 32 steps, 2 x 2 blocks without a split
        ("flash_3", decode_of(2, 4096), 132, 4 * 32, 32, 128),
        ("flash_3", decode_of(2, 8192), 1000, 4 * 32, 32, 256),
        ("flash_3", decode_of(2, 4096), 20, 4 * 5, 5, 7 * 128),  # 20/4 parts of ceil(32/5) steps
        ("flash_3", decode_of(2, 4096), 3, 4, 1, 4096),
        ("flash_3", decode_of(2, 4096, window=1024), 20, 4 * 5, 5, 2 * 128),  # 8 steps and one across
        ("flash_3", decode_of(2, 4096, n_heads=256), 16, 8 * 2, 2, 16 * 128),  # 128 heads of a KV head are two blocks
        # SGLang: 4 steps stay whole
        ("flash_3_whole", decode_of(2, 4096), 132, 4 * 8, 8, 512),
        ("flash_3_whole", decode_of(2, 4096, window=1024), 20, 4 * 2, 2, 512),
        # FlashAttention 2: 85 % of 2 blocks an SM: 34 of 4 heads are 9 parts of ceil(32/9) steps
        ("flash_2", decode_of(2, 4096), 20, 4 * 8, 8, 4 * 128),
        ("flash_2", decode_of(12, 4096), 20, 24 * 3, 3, 11 * 128),  # 2 parts are more than 40 blocks: 68 of two rounds
        ("flash_2", decode_of(16, 4096), 20, 32, 1, 4096),  # 32 are 80 % of 40
        ("flash_2", decode_of(2, 4096, n_kv_heads=8), 20, 16, 1, 4096),  # no heads to pack
        ("flash_2", decode_of(2, 4096, window=1024), 20, 16, 1, 1024),  # nor with a window
        ("flash_2", decode_of(2, 4096, head_dim=64), 20, 4 * 8, 8, 2 * 256),
        ("flash_2", decode_of(2, 4096, head_dim=256), 20, 4 * 8, 8, 8 * 64),
        # TensorRT-LLM: of n pieces of 128 tokens (8 n)^0.5 blocks, 8 an SM
        ("multi_block", decode_of(2, 4096), 20, 4 * 16, 16, 256),
        ("multi_block", decode_of(2, 4096), 4, 4 * 8, 8, 512),
        ("multi_block", decode_of(2, 1024), 128, 4 * 8, 8, 128),  # 4 x 8 pieces are a quarter of the SMs
        ("multi_block", decode_of(2, 1024), 132, 16 * 4, 4, 256),  # less: the older kernel, 2^17 elements of a head in 4 parts
        ("multi_block", decode_of(2, 4096, n_kv_heads=8), 32, 16 * 2, 2, 2048),  # no groups: the older, 32/16 blocks a head
        ("multi_block", decode_of(2, 4096, n_heads=66), 264, 132 * 2, 2, 2048),  # groups of 33
        ("multi_block", decode_of(2, 4096, n_heads=64), 264, 4 * 16, 16, 256),  # of 32
    ],
)  # fmt: skip
def test_how_engines_cut_a_cache(form: str, core: Attention, units: int, count: float, parts: float, keys: float) -> None:
    """Blocks, parts of a sequence and keys of a block by the rules of the kernels' sources."""
    grid = attention_decode.GRIDS[f"attention_decode_{form}"]({"": core}, round_chip(units), Conditions(), {})
    assert (grid.count, grid.split, grid.columns) == (count, parts, keys)


def test_time_of_a_decode() -> None:
    """20 blocks of 896 keys on 20 SMs, of 256 elements of 2 B at 1 GB/s an SM; or all bytes at half of 1 GB/s."""
    core = decode_of(2, 4096)
    constants = {"launch": 5 * US, "block": 2 * US, "stream": 1e9, "memory": 0.5, "extra": 3 * US, "sequence": 1 * US}
    streams = 7 * 128 * 256 * 2 / 1e9
    moved = 2 * (2 * 4096 * 2 * 256) + 2 * (2 * 8 * 256)
    for bandwidth, longest in ((1e12, streams), (1e9, moved / 0.5e9)):
        found = terms(attention_decode.FLASH_3, {"": core}, round_chip(20, bandwidth=bandwidth), **constants)
        assert found["streams"] == pytest.approx(streams)
        assert found["memory"] == pytest.approx(moved / (0.5 * bandwidth))
        assert found["extra"] == pytest.approx(3 * US + 2 * 1 * US)  # parts are joined; two sequences in the schedule
        assert found["total"] == pytest.approx(5 * US + 2 * US + longest + 5 * US)
    two = terms(attention_decode.FLASH_3_WHOLE, {"": core}, round_chip(7), block=2 * US, stream=1e9, part=1 * US)
    assert two["blocks"] == pytest.approx(2 * US)  # 4 blocks, which 7 SMs take in one round
    assert two["extra"] == 0


@pytest.mark.parametrize(
    ("architecture", "units", "length", "block", "share", "joined"),
    [
        ("ampere", 5, 1024, 12 / 5, 3 * 1024, 0),  # 12 blocks of whole sequences, 3 on the busiest of 5 SMs
        ("ampere", 5, 10, 12 / 5, 3 * 64, 0),  # 64 latents at least
        ("hopper", 5, 1024, 12 / 5, 12 / 5 * 1024, 0),
        ("hopper", 48, 1024, 1, 1024 / 4, 1),  # four SMs for a block
        ("hopper", 1000, 1024, 12 * 16 / 1000, 64, 1),
    ],
)
def test_time_of_a_latent_decode(architecture: str, units: int, length: int, block: float, share: float, joined: int) -> None:
    """6 sequences of 128 heads are 12 blocks of 64 query rows; an SM streams 576 elements of 2 B of its share of latents."""
    core = LatentAttention(
        batch=6, new=1, cached=length - 1, n_heads=128, r_kv=512, d_nope=128, d_rope=64, d_v=128, absorbed=True
    )
    constants = {"launch": 5 * US, "block": 2 * US, "stream": 1e9, "memory": 1e-3, "passes": 2.0, "extra": 3 * US}
    found = terms(attention_decode.MLA_DECODE, {"": core}, round_chip(units, architecture), **constants)
    streams, memory = share * 576 * 2 / 1e9, 6 * length * 576 * 2 / 1e9
    queries = 2 * 6 * 128 * (576 + 512) * 2 / 1e12
    assert found["blocks"] == pytest.approx(2 * US * block)
    assert found["streams"] == pytest.approx(streams)
    assert found["memory"] == pytest.approx(memory)
    assert found["queries"] == pytest.approx(queries)
    assert found["extra"] == pytest.approx(3 * US * joined)
    assert found["total"] == pytest.approx(5 * US + 2 * US * block + norm4(streams, memory) + queries + 3 * US * joined)


@pytest.mark.parametrize(("architecture", "part"), [("ada", 1.0), ("hopper", 0.5)])
def test_a_cache_that_is_read_again(architecture: str, part: float) -> None:
    """Two thirds of the last cache keep it (of one in halves, a third), and twice as much is gone: half of 1.5 stays."""
    core = decode_of(2, 4096)
    moved = 2 * (2 * 4096 * 2 * 256) + 2 * (2 * 8 * 256)
    for filled, stays in ((0.9, 1.0), (1.5, 0.5), (2.0, 0.0)):
        on = round_chip(20, architecture, l2=2 * moved / filled / (2 / 3 * part))
        found = terms(attention_decode.FLASH_3, {"": core}, on, Conditions(kv=2), memory=1e-3)
        least = core.cost().matrix_flops / on.peaks["bf16"]
        assert found["memory"] == pytest.approx(max(moved * (1 - stays) / 1e9, least), rel=1e-4)
    latent = LatentAttention(batch=6, new=1, cached=1023, n_heads=1, r_kv=512, d_nope=128, d_rope=64, d_v=128, absorbed=True)
    size = 6 * 1024 * 576 * 2
    on = round_chip(20, architecture, l2=size / 1.5 / (2 / 3 * part))
    found = terms(attention_decode.MLA_DECODE, {"": latent}, on, Conditions(kv=1), memory=1e-3)
    assert found["memory"] == pytest.approx(size * 0.5 / 1e9, rel=1e-4)


# attention of prompts


def latents(new: int, cached: int = 0) -> dict[str, LatentAttention]:
    """One sequence and one head of DeepSeek's widths."""
    sizes = {"r_kv": 512, "d_nope": 128, "d_rope": 64, "d_v": 128}
    return {"": LatentAttention(batch=1, new=new, cached=cached, n_heads=1, **sizes)}


def test_prompts_over_latents() -> None:
    """64 queries meet 64 latents, 2 (512 + 64) and 2 * 512 FLOP a pair, in one block.

    That is divided among all 4 SMs, after another launch; half of it is added to the mean of the SMs.
    """
    constants = {"launch": 1 * US, "block": 1 * US, "tail": 0.5, "token": 0.25 * US}
    found = terms(attention_prefill.MLA_PREFILL, latents(64), round_chip(), **constants, absorbed=1)
    met = 64 * 64 * 2 * (512 + 64 + 512) / 1e12
    mean = (1 * US + met) / 4
    blocks = mean + 0.5 * (mean + 1 * US)
    assert mean + 1 * US < 1 * US + met
    assert found["blocks"] == pytest.approx(blocks)
    assert found["memory"] == pytest.approx((64 * (576 + 512) + 64 * 576) * 2 / 1e12)
    assert found["write"] == pytest.approx(64 * 0.25 * US / 4)
    assert found["total"] == pytest.approx(1 * US + blocks + 4 * US)


def test_prompts_over_expanded_keys() -> None:
    """256 queries in blocks of 128 meet 128 and 256 keys, 2 (128 + 64) and 2 * 128 FLOP a pair.

    Before Hopper blocks have 64 rows, which meet 64, 128, 192 and 256 keys.
    """
    for architecture, rows, met in (("hopper", 128, 384), ("ampere", 64, 640)):
        on = round_chip(4, architecture)
        found = terms(attention_prefill.MLA_PREFILL, latents(256), on, block=1 * US, tail=0.5, absorbed=0)
        count = 256 // rows
        pair = 2 * (128 + 64 + 128) / 1e12
        mean, longest = (count * US + met * rows * pair) / 4, 1 * US + 256 * rows * pair
        assert found["blocks"] == pytest.approx(max(longest, mean + 0.5 * longest)), architecture
        moved = 256 * (192 + 128) + 256 * (128 + 128 + 64)
        assert found["memory"] == pytest.approx(2 * moved / 1e12)


def prompts(cached: int = 0, **changes: Any) -> dict[str, Attention]:
    """Two sequences of 256 new tokens, 4 query heads over one KV head of 128."""
    sizes: dict[str, Any] = {"batch": 2, "new": 256, "n_heads": 4, "n_kv_heads": 1, "head_dim": 128, **changes}
    return {"": Attention(cached=cached, **sizes)}


@pytest.mark.parametrize(
    ("packed", "cached", "walks", "rows", "count", "met", "longest"),
    [
        (0, 0, 2 * 4, 64, 4, 128 + 128 + 256 + 256, 256),  # a head at a time, keys by 128
        (0, 1024, 2 * 4, 64, 4, 4 * 1024 + 768, 1280),
        (1, 0, 2, 128, 8, 4 * 128 + 4 * 256, 256),  # 32 queries of 4 heads
    ],
)
def test_time_of_prompts(packed: int, cached: int, walks: int, rows: int, count: int, met: int, longest: int) -> None:
    """A pair is 4 * 128 FLOP of the matrix units, at 1 TFLOP/s an SM, and an exponential, at half of 0.02 TFLOP/s.

    4 SMs share the starts of 2 us and the pairs; half of the longest block comes after. Clocks fall by 0.1 t/(t + 1 ms).
    """
    constants = {"launch": 5 * US, "block": 2 * US, "tail": 0.5, "softmax": 0.5, "throttle": 0.1, "token": 0.25 * US}
    on = round_chip(vector=0.08e12)
    found = terms(attention_prefill.ATTENTION_PREFILL, prompts(cached), on, **constants, packed=packed)
    pair = 4 * 128 / 1e12 + 1 / 0.01e12
    blocks = walks * (count * 2 * US + met * rows * pair) / 4 + 0.5 * (2 * US + longest * rows * pair)
    blocks *= 1 + 0.1 * blocks / (blocks + 1e-3)
    new, old = (2 * tokens * 2 * 128 * 2 for tokens in (256, cached))  # bytes of keys and values
    assert found["blocks"] == pytest.approx(blocks)
    assert found["cached"] == pytest.approx(old / 1e12)
    assert found["activations"] == pytest.approx((2 * 2 * 256 * 4 * 128 * 2 + 3 * new) / 1e12)
    assert found["write"] == pytest.approx(2 * 256 * 0.25 * US / 4)
    others = 5 * US + found["activations"] + found["write"]
    assert found["total"] == pytest.approx(others + max(blocks, old / 1e12))


def test_few_blocks_of_prompts() -> None:
    """One block of a packed kernel: divided among 4 SMs after another launch. A kernel for one head does not divide it."""
    core = prompts(batch=1, new=32)
    pair = 4 * 128 / 1e12
    for packed, blocks in ((1, (2 * US + 128 * 128 * pair) / 4 + 1 * US), (0, 2 * US + 128 * 64 * pair)):
        on = round_chip(vector=1e30)
        found = terms(attention_prefill.ATTENTION_PREFILL, core, on, launch=1 * US, block=2 * US, packed=packed)
        assert found["blocks"] == pytest.approx(blocks)


def test_prompts_in_the_last_cache() -> None:
    """Half of the new tokens' bytes fit: they move at 4 TB/s. Cached ones do where a benchmark reads them again and again."""
    core = prompts(1024)
    fresh, held = 2 * 2 * 256 * 4 * 128 * 2 + 3 * 2 * 256 * 2 * 128 * 2, 2 * 1024 * 2 * 128 * 2
    half = terms(attention_prefill.ATTENTION_PREFILL, core, round_chip(l2=fresh / 2))
    assert half["activations"] == pytest.approx(fresh * (0.5 / 1e12 + 0.5 / 4e12))
    assert half["cached"] == pytest.approx(held / 1e12)
    again = terms(attention_prefill.ATTENTION_PREFILL, core, round_chip(l2=(fresh + 2 * held) / 4), Conditions(kv=2))
    assert again["cached"] == pytest.approx(held * (0.75 / 1e12 + 0.25 / 4e12))


def cut_by_hand(form: str, core: Attention, length: int, units: int) -> dict[str, float]:
    """Blocks, parts of a sequence, keys of a block, further kernels, and what of the older kernel of TensorRT-LLM holds."""
    heads, steps = core.batch * core.n_kv_heads, ceil_of(length, 128)
    grouped = core.n_heads > core.n_kv_heads
    if form.startswith("flash_3"):
        heads *= ceil_of(core.n_heads, 64 * core.n_kv_heads)
        most, whole = (128, 4) if form == "flash_3_whole" else (32, 1)
        steps += core.window is not None and form == "flash_3" and core.cached >= core.window
        allowed = max(1, min(most, units // heads))
        each = next(n for n in range(min(whole, steps), steps + 1) if ceil_of(steps, n) <= allowed)
        parts = ceil_of(steps, each)
        scheduled = core.batch if form == "flash_3_whole" or core.batch <= 31 * 32 else 0
        start = (core.head_dim / 128 + 1) / 2 if core.dtypes.kv.bytes == 1 else 1
        return {"blocks": heads * parts, "parts": parts, "keys": each * 128, "kernels": parts > 1, "start": start,
                "scheduled": scheduled}  # fmt: skip
    if form == "flash_2":
        packs, slots = grouped and core.window is None, 2 * units
        heads = heads * ceil_of(core.n_heads, 64 * core.n_kv_heads) if packs else core.batch * core.n_heads
        step = {64: 256, 128: 128, 256: 64}[core.head_dim]
        steps, parts = ceil_of(length, step), 1
        if packs and heads < 0.8 * slots:  # the fewest parts that fill 85 % of a round, or of two
            filling = [n for n in range(1, slots + 1) if 20 * n * heads >= 17 * slots and n * heads <= slots]
            parts = min(filling[0] if filling else next(n for n in range(1, 4 * slots) if 10 * n * heads >= 17 * slots), 128)
        each = ceil_of(steps, parts)
        parts = ceil_of(steps, each)
        swaps = packs and core.batch > 1 and core.n_kv_heads > 1
        return {"blocks": heads * parts, "parts": parts, "keys": each * step, "kernels": (parts > 1) + swaps}
    pieces = max(1, (core.cached + 1) // 128)
    parts = max(1, min(pieces, (8 * pieces) ** 0.5, 8 * units // heads))
    older = not grouped or core.n_heads > 32 * core.n_kv_heads
    older = older or (core.dtypes.kv.bytes == 2 and 4 * heads * pieces < units)
    slow = older or (core.dtypes.kv.bytes == 1 and core.head_dim <= 64)
    if older:
        heads = core.batch * core.n_heads
        parts = max(1, min(ceil_of(units, heads), length * core.head_dim / 2**15))
    return {"blocks": heads * parts, "parts": parts, "keys": max(length, 128) / parts, "kernels": parts > 1, "slow": slow,
            "older": older}  # fmt: skip


@pytest.mark.parametrize("form", ["flash_3", "flash_3_whole", "flash_2", "multi_block"])
@pytest.mark.parametrize("dtypes", [BF16, replace(BF16, kv=FORMATS["fp8"])], ids=["bf16", "fp8 cache"])
def test_decodes_of_any_size(form: str, dtypes: Dtypes) -> None:
    """Cuts of random calls by the rules of the kernels' sources, and rounds of blocks over the SMs beside memory."""
    chance, shapes = seeded(4), ((8, 8), (32, 8), (66, 2), (128, 1), (256, 2), (4, 1))
    for number in range(150):
        n_heads, n_kv_heads = shapes[number % len(shapes)]
        window = chance.choice([None, None, 256, 1024])
        core = Attention(
            batch=chance.choice([1, 2, 7, 40, 992, 993, 3000]), new=1, cached=int(2 ** chance.uniform(0, 15)), n_heads=n_heads,
            n_kv_heads=n_kv_heads, head_dim=chance.choice([64, 128, 256]), window=window, dtypes=dtypes,
            chunked=window == 1024, v_head_dim=chance.choice([None, 32]),
        )  # fmt: skip
        if number % 10 == 0:
            core = replace(core, cached=256, window=256, chunked=False)
        on, one = round_chip(chance.choice([20, 60, 132, 600])), attention_decode.__dict__[form.upper()]
        v = drawn(one, core, on, chance)
        length = core.cached + 1
        if core.window is not None:
            length = core.cached % core.window + 1 if core.chunked else min(length, core.window)
        cut = cut_by_hand(form, core, length, int(on.units))
        grid = attention_decode.GRIDS[one.name]({"": core}, on, Conditions(), {})
        assert (grid.count, grid.split, grid.columns) == pytest.approx((cut["blocks"], cut["parts"], cut["keys"]))
        older, slow = ("older_" if cut.get(name) else "" for name in ("older", "slow"))
        rounds, stored = ceil_of(cut["blocks"], on.units), core.head_dim + (core.v_head_dim or core.head_dim)
        cost = core.cost()
        memory = (cost.kv_read_bytes + cost.activation_bytes) / (v["memory"] * on.bandwidth)
        expected = {
            "launch": v[f"{slow}launch"],
            "blocks": rounds * v[f"{older}block"] * cut.get("start", 1),
            "streams": rounds * cut["keys"] * stored * dtypes.kv.bytes / v[f"{older}stream"],
            "memory": max(memory, cost.matrix_flops / on.peak(core)),
            "extra": v.get("extra", 0) * cut["kernels"] + v.get("part", 0) * (cut["parts"] - 1),
        }
        expected["extra"] += v.get("sequence", 0) * cut.get("scheduled", 0)
        expected["total"] = sum(expected.values()) - min(expected["streams"], expected["memory"])
        assert one.terms({"": core}, on, Conditions(), v) == pytest.approx(expected)


@pytest.mark.parametrize("form", [attention_decode.FLASH_3, attention_decode.MULTI_BLOCK, attention_decode.MLA_DECODE])
@pytest.mark.parametrize(
    ("units", "clocks", "times", "latent"),
    [(2, (1e9, 1e9), 2, 2), (8, (1e9, 1e9), 1, 0.5), (8, (1e9, 1.5e9), 1.5, 0.5), (8, (0, 1.5e9), 0.5, 0.5),
     (8, (1.5e9, 0), 0.5, 0.5)],
)  # fmt: skip
def test_decodes_on_another_chip(
    form: KernelForm, units: int, clocks: tuple[float, float], times: float, latent: float
) -> None:
    """Streams grow as what an SM multiplies, but no less than as its clock if both are known; of latents as products."""

    def clocked(units: int, hertz: float) -> Chip:
        on = round_chip(units)
        known = on.hardware.accelerator.boost_clock
        assert known is not None
        clock = known.model_copy(update={"value": hertz}) if hertz else None
        accelerator = on.hardware.accelerator.model_copy(update={"boost_clock": clock})
        return replace(on, hardware=Hardware(accelerator, on.hardware.node, {}))

    given = {one.name: one.start for one in form.parameters}
    factor = latent if form is attention_decode.MLA_DECODE else times
    expected = {name: value * (factor if "stream" in name else 1) for name, value in given.items()}
    assert form.transfer is not None
    assert form.transfer(given, clocked(4, clocks[0]), clocked(units, clocks[1])) == pytest.approx(expected)


def test_engines_have_another_kernel_before_hopper() -> None:
    """What vLLM launches: FlashAttention 2 up to Ada, 3 from Hopper on."""
    for architecture, form in (("ampere", "flash_2"), ("ada", "flash_2"), ("hopper", "flash_3"), ("blackwell", "flash_3")):
        for known in (attention_decode.FLASH_2, attention_decode.FLASH_3):
            assert known.elsewhere is not None
            assert known.elsewhere(round_chip(architecture=architecture)) == f"attention_decode_{form}"


@pytest.mark.parametrize("window", [None, 100, 1000])
def test_blocks_of_prompts_meet_keys(window: int | None) -> None:
    """Block by block: up to its last query, and half of what whole blocks of keys have beyond; with a window no more than that.

    A window that starts to slide within a block is taken to do so at its middle: at most an eighth of a block more.
    """
    chance = seeded(5)
    for _ in range(100):
        new, cached, group = int(2 ** chance.uniform(0, 11)), chance.choice([0, 30, 500, 5000]), chance.choice([1, 4, 8])
        rows, keys, grain = chance.choice([(64, 64, 64), (64, 256, 64), (128, 128, 128), (192, 128, 64)])
        count, met, most = attention_prefill._blocks(new, cached, window, group, rows, keys, grain)
        assert count == ceil_of(new * group, rows)
        step = new / count
        beyond = max(keys - step * grain / rows, 0)
        seen = (window or math.inf) + step + beyond
        each = [min(cached + beyond / 2 + step * (i + 1), seen) for i in range(count)]
        least, slack = max(sum(each), count * keys), step / 8 if window else 0
        assert least * (1 - 1e-12) <= met <= (least + slack) * (1 + 1e-12)
        assert most == pytest.approx(max(min(cached + new, seen), keys))
        read = cached + new if window is None else new + min(cached, window - 1)
        every = max(read, keys)
        assert attention_prefill._blocks(new, cached, window, group, rows, keys, grain, full=True) == (
            count,
            count * every,
            every,
        )


def shared_out(walks: float, count: float, met: float, most: float, units: float, v: Any, *, divides: bool) -> float:
    """The mean SM and a part of the longest block, or that alone; divided where blocks are fewer than 0.8 of the SMs."""
    mean, longest = walks * (count * v["block"] + met) / units, v["block"] + most
    if divides:
        longest = min(longest, mean + v["launch"] + (longest if walks * count > 0.8 * units else 0))
    return float(max(longest, mean + v["tail"] * longest))


@pytest.mark.parametrize("packed", [0, 1])
@pytest.mark.parametrize("mask", ["causal", "full"])
def test_prompts_of_any_size(packed: int, mask: Any) -> None:
    """Random prompts on random chips: blocks over the SMs beside cached keys, and what goes before and after.

    Packed blocks have 128 rows of all heads of a group, 192 of narrow ones; others 64 of one head, or of a lone query's group.
    """
    chance = seeded(6)
    for _ in range(60):
        new, cached = chance.choice([1, 2, 64, 300, 2000]), chance.choice([0, 700, 6000])
        kv_heads, width = chance.choice([1, 2]), chance.choice([64, 65, 128, 256])
        window = chance.choice([None, 256])
        core = Attention(batch=chance.choice([1, 3]), new=new, cached=cached, n_heads=8, n_kv_heads=kv_heads, head_dim=width,
                         window=window, mask=mask)  # fmt: skip
        on = round_chip(chance.choice([4, 132]), vector=1e13, l2=chance.choice([0.0, 1e6, 1e12]),
                        bandwidth=chance.choice([1e12, 6e12]))  # fmt: skip
        v = drawn(attention_prefill.ATTENTION_PREFILL, core, on, chance) | {"packed": packed}
        conditions = Conditions(kv=chance.choice([math.inf, 1, 5]))
        rows, keys, grain, group, walks = 64, 16384 / width, 64, 1, 8 if new > 1 else kv_heads
        if packed:
            narrow = width <= 64
            rows, keys, grain, group, walks = (192 if narrow else 128), 128, (64 if narrow else 128), 8 // kv_heads, kv_heads
        walks *= core.batch
        count, met, most = attention_prefill._blocks(new, cached, window, group, rows, keys, grain, full=mask == "full")
        pair = (4 * width / (v["compute"] * on.peak(core)) + 1 / (v["softmax"] * 1e13)) * on.units
        took = shared_out(walks, count, met * rows * pair, most * rows * pair, on.units, v, divides=packed == 1)
        took *= 1 + v["throttle"] * took / (took + 1e-3)
        stored = core.batch * new * 2 * kv_heads * width * 2
        fresh, held = 2 * core.batch * new * 8 * width * 2 + 3 * stored, max(core.cost().kv_read_bytes - stored, 0)

        def moved(size: float, missed: float, on: Chip = on) -> float:
            return size * (missed / on.bandwidth + (1 - missed) / max(on.bandwidth, 4e12))

        activations = moved(fresh, max(1 - on.l2 / fresh, 0))
        again = 1 if conditions.kv == math.inf else max(1 - on.l2 / (fresh + held * conditions.kv), 0)
        expected = {"launch": v["launch"], "blocks": took, "cached": moved(held, again), "activations": activations,
                    "write": core.batch * new * v["token"] / on.units}  # fmt: skip
        expected["total"] = sum(expected.values()) - min(took, expected["cached"])
        assert attention_prefill.ATTENTION_PREFILL.terms({"": core}, on, conditions, v) == pytest.approx(expected)
        grid = attention_prefill.block_grid({"": core}, on, conditions, v)
        assert (grid.rows, grid.count, grid.units) == (rows, walks * count, on.units)
        assert grid.columns == pytest.approx(met / count)


@pytest.mark.parametrize("absorbed", [0, 1])
@pytest.mark.parametrize("mask", ["causal", "full"])
def test_latent_prompts_of_any_size(absorbed: int, mask: Any) -> None:
    """Random prompts over latents, or over keys and values of 24 and 8 of each head: blocks, or bytes if they take longer."""
    chance = seeded(7)
    for _ in range(40):
        batch, heads = chance.choice([1, 3]), chance.choice([2, 16])
        new, cached = chance.choice([1, 70, 900]), chance.choice([0, 9000])
        sizes = {
            "batch": batch,
            "new": new,
            "cached": cached,
            "n_heads": heads,
            "r_kv": 32,
            "d_nope": 16,
            "d_rope": 8,
            "d_v": 8,
        }
        core = LatentAttention(**sizes, mask=mask)
        architecture = chance.choice(["ampere", "hopper"])
        on = round_chip(chance.choice([4, 132]), architecture, bandwidth=chance.choice([1e10, 1e12]))
        v = drawn(attention_prefill.MLA_PREFILL, core, on, chance) | {"absorbed": absorbed}
        rows = 64 if absorbed or architecture == "ampere" else 128
        group, walks, wide = (heads, batch, 32 + 8 + 32) if absorbed else (1, batch * heads, 16 + 8 + 8)
        count, met, most = attention_prefill._blocks(new, cached, None, group, rows, 64, 64, full=mask == "full")
        pair = rows * 2 * wide * on.units / (v["compute"] * on.peak(core))
        took = shared_out(walks, count, met * pair, most * pair, on.units, v, divides=absorbed == 1)
        moved = batch * new * heads * wide + batch * (cached + new) * (32 + 8 if absorbed else heads * (16 + 8) + 8)
        expected = {"launch": v["launch"], "blocks": took, "memory": 2 * moved / on.bandwidth,
                    "write": batch * new * v["token"] / on.units}  # fmt: skip
        expected["total"] = sum(expected.values()) - min(took, expected["memory"])
        assert attention_prefill.MLA_PREFILL.terms({"": core}, on, Conditions(), v) == pytest.approx(expected)


# rows that stream through


@pytest.mark.parametrize(
    ("operator", "steps", "moved"),
    [
        # 1024 threads, of which an SM holds two blocks: 100 rows are 13 waves of 4 passes and one
        (Norm(rows=100, width=4096), 13 * 5, 2 * (2 * 100 * 4096 + 4096)),
        (Norm(rows=100, width=512), 7 * 2, 2 * (2 * 100 * 512 + 512)),  # 512 threads, 4 blocks
        (Rope(tokens=100, heads=32, rotary_dim=128), 7 * 5, None),  # 512 threads of a pair each
        (Activation(rows=100, width=1025), 13 * 3, 2 * 3 * 100 * 1025),
        (Add(elements=4096), 1, 2 * 3 * 4096),
        (Embedding(tokens=16, width=64, entries=1000), 16, None),  # few rows, one after another
        (Embedding(tokens=64, width=4096, entries=1000), 64 * 4096 / (1024 * 4), None),
    ],
)
def test_time_of_rows(operator: Operator, steps: float, moved: int | None) -> None:
    """Round trips of 1 us to memory, together with bytes at half of its bandwidth: the root of their squares."""
    found = terms(streaming.STREAMING, {"": operator}, round_chip(), launch=3 * US, step=1 * US, memory=0.5)
    assert found["latency"] == pytest.approx(steps * US)
    if moved is not None:
        assert found["memory"] == pytest.approx(moved / 0.5e12)
    assert found["total"] == pytest.approx(3 * US + np.hypot(found["latency"], found["memory"]))


def test_rows_in_the_last_cache() -> None:
    """What is read again stays in half of it, and is gone at twice as much: all of 1, a half of 1.5, nothing of 2."""
    operator = {"": Add(elements=4096)}
    size = 2 * 3 * 4096
    for filled, stays in ((1.0, 1.0), (4 / 3, 0.5), (2.0, 0.0)):
        on = round_chip(l2=2 * size / filled)
        found = terms(streaming.STREAMING, operator, on, Conditions(weights=1), cache=4.0)
        assert found["memory"] == pytest.approx(size * (1 - stays + stays / 4) / 1e12)
    cold = terms(streaming.STREAMING, operator, round_chip(l2=1e9), cache=4.0)
    assert cold["memory"] == pytest.approx(size / 1e12)


@pytest.mark.parametrize(("units", "bandwidth", "times"), [(4, 1e12, 1), (2, 1e12, 0.5), (4, 2e12, 0.5), (8, 1e12, 1)])
def test_rows_on_another_chip(units: int, bandwidth: float, times: float) -> None:
    """Half as many units for each byte/s have twice as much in flight, and a pass takes half; it never takes longer."""
    given = {one.name: one.start for one in streaming.STREAMING.parameters}
    assert streaming.STREAMING.transfer is not None
    moved = streaming.STREAMING.transfer(given, round_chip(4), round_chip(units, bandwidth=bandwidth))
    assert moved == pytest.approx(given | {"step": times * given["step"]})


def test_sampling_is_a_row_of_choices() -> None:
    """1,000 rows of 32,000 choices: 1,024 threads, two rows an SM, in 125 waves of 32 passes and one."""
    found = terms(streaming.STREAMING, {"": Sampling(rows=1000, choices=32_000)}, round_chip(), step=1 * US)
    assert found["latency"] == pytest.approx(125 * 33 * US)


@pytest.mark.parametrize(("filled", "stays"), [(0.2, 1), (1, 1), (1.25, 0.75), (2, 0), (5, 0)])
def test_what_of_a_cache_stays(filled: float, stays: float) -> None:
    """Two thirds of L2 keep what is read again; of twice as much nothing is left, between them a straight line."""
    for architecture, halves in (("ada", 1), ("hopper", 2)):
        on = round_chip(architecture=architecture, l2=3e9 * halves / 2)
        assert attention_decode._resident(filled * 1e9, on) == pytest.approx(stays, abs=1e-8)


# shares of peaks


def test_shares_of_peaks() -> None:
    """A launch, a wait, and the slowest of matrix units at 0.5, memory at 0.8, links at 0.6 and what widens weights."""
    on = replace(chip(load_hardware("dgx-h100")[0]), vector=1e12)
    base = {"launch": 2 * US, "wait": 3 * US, "compute": 0.5, "memory": 0.8, "link": 0.6}
    long, short = product(m=8192, n=8192, k=8192), product(m=1, n=8192, k=8192)
    link = 2 * 7 / 8 * 2**21 / 450e9
    for operators, longest in (
        (long, 2 * 8192**3 / (0.5 * on.peaks["bf16"])),
        (short, 2 * (8192 * 8192 + 2 * 8192) / (0.8 * 3.35e12)),
        ({"": AllReduce(elements=2**20, world=8)}, link / 0.6),
    ):
        assert terms(SHARES, operators, on, **base)["total"] == pytest.approx(5 * US + longest)
    four_bits = replace(BF16, weight=FORMATS["int4"])
    widened = terms(SHARES_WIDENING, product(four_bits, m=1, n=8192, k=8192), on, **base, widen=20.0)
    assert widened["total"] == pytest.approx(5 * US + 20 * 8192 * 8192 / 1e12)
    assert terms(SHARES_WIDENING, short, on, **base, widen=20.0)["total"] == terms(SHARES, short, on, **base)["total"]
    base = {"launch": 2 * US, "compute": 0.5, "memory": 0.8}
    assert terms(CEILINGS, long, on, **base)["total"] == pytest.approx(2 * US + 2 * 8192**3 / (0.5 * on.peaks["bf16"]))
    ring = terms(CEILINGS, {"": AllReduce(elements=2**20, world=8)}, on, **base)
    assert ring["total"] == pytest.approx(2 * US + link / 0.8)


# communication


@pytest.mark.parametrize(
    "group",
    [
        {"world": 2, "stride": 8},  # one member in each of two nodes, whose network is the limit
        {"world": 8, "stride": 8},
        {"world": 16},
        {"world": 64},
    ],
)
def test_trees_over_nodes(group: dict[str, int]) -> None:
    """NCCL's trees: 0.5 * 0.6 * 0.9 of 50 GB/s a member of the node, at most 33 GB/s over two nodes and 24 over more.

    With flags 1/3.8 of that after 4.4 us and, up and down, hops of 0.936 and 5 us; else 0.915 after 4.4, 1.2 and 8.5 us.
    """
    joined = load_hardware("dgx-h100")[0].connection(group["world"] * group.get("stride", 1))
    members = 1 if "stride" in group else 8
    nodes = group["world"] // members
    hops = {2: 1, 8: 3}[nodes]
    rate = min(0.27 * 50e9 * members, 33e9 if nodes == 2 else 24e9)
    for elements in (5_000, 500_000_000):
        flags = 4.4e-6 + 2 * ((members - 1) * 0.936e-6 + hops * 5e-6) + 2 * elements / (rate / 3.8)
        whole = 4.4e-6 + 2 * ((members - 1) * 1.2e-6 + hops * 8.5e-6) + 2 * elements / (0.915 * rate)
        found = communication.tree_seconds(AllReduce(elements=elements, **group), joined)
        assert found == pytest.approx(min(flags, whole))
        assert (flags < whole) == (elements == 5_000)


def test_experts_of_low_latency_over_nodes() -> None:
    """32 us, and a copy of 7168 x 2 B for each of 8 experts of 128 tokens, half of them in the other node, at 44 GB/s."""
    routing = ExpertRouting(top_k=8, n_group=8, topk_group=4)
    exchange = AllToAll(elements=128 * 6 * 7168, world=16, copies=6, routing=routing, low_latency=True)
    found = terms(communication.COLLECTIVE, {"": exchange}, chip(load_hardware("dgx-h100")[0]))
    link = 128 * 8 * 7168 * 2 / 2 / (0.88 * 50e9)
    assert found == pytest.approx({"latency": 32e-6, "link": link, "total": 32e-6 + link})


def test_an_all_reduce_inside_a_node() -> None:
    """16 KiB over 4 devices of 450 GB/s: 6 messages of 4 KiB, whose latency grows by half of 0.2.

    At once every device sends 3 tensors, or with two phases 3/2 of one; a pipeline takes a + x + 2 (a x)^0.5, also with the
    sums in the switch: 1/1.02 of the bytes and twice the latency. Half of each at the size of the switch.
    """
    operator = AllReduce(elements=8192, world=4)
    base = {"base": 4 * US, "step": 0.5 * US, "grow": 0.2, "near": 0.5, "far": 0.8, "setup": 10 * US, "sums": 2.0}
    latency, ring = (4 + 6 * 0.5) * US * 1.1, 1.5 * 16384 / 450e9
    for phase, short in ((1.0, latency + 2 * ring / 0.5), (1e-9, latency + ring / 0.5 + 1e-9)):
        found = terms(communication.ALL_REDUCE, {"": operator}, h100(), **base, phase=phase, switch=16384.0)
        transfer = ring / 0.8
        long = 10 * US + transfer + 2 * (10 * US * transfer) ** 0.5
        assert found["latency"] == pytest.approx(latency)
        assert found["link"] == pytest.approx(ring)
        assert found["short"] == pytest.approx(short)
        assert found["long"] == pytest.approx(long)
        assert found["total"] == pytest.approx((short + long) / 2)
    later = terms(communication.ALL_REDUCE, {"": operator}, h100(), **base, phase=1.0, switch=8192.0)  # 2^4 : 1
    assert later["total"] == pytest.approx(found["long"] * 16 / 17 + (latency + 2 * ring / 0.5) / 17)
    large = AllReduce(elements=8192 * 10**6, world=8)
    sums = terms(communication.ALL_REDUCE, {"": large}, h100(), **base, phase=1.0, switch=16384.0)
    transfer = 9 / 14 / 0.85 * (2 * 7 / 8 * 16384e6 / 450e9) / 0.8  # (n + 1)/(2 (n - 1)) at 0.85 of the rate
    assert sums["long"] == pytest.approx(20 * US + transfer + 2 * (20 * US * transfer) ** 0.5)


def test_collectives_over_the_host() -> None:
    """Four L40S gather 3/4 of 16 KB over PCIe of 32 GB/s, half as slow again for each device beyond two: twice the time.

    As a pipeline there are three passes of a piece over memory besides.
    """
    on = chip(load_hardware("l40s")[0])
    base = {"base": 4 * US, "step": 0.5 * US, "near": 0.5, "far": 0.8, "setup": 10 * US, "shared": 0.5, "switch": 12_000.0}
    found = terms(communication.COLLECTIVE, {"": AllGather(elements=8000, world=4)}, on, **base)
    link = 2 * 12_000 / 32e9
    latency, transfer = (4 + 3 * 0.5) * US, link / 0.8 + 3 * 4000 / on.bandwidth
    long = 10 * US + transfer + 2 * (10 * US * transfer) ** 0.5
    assert found["link"] == pytest.approx(link)
    assert found["latency"] == pytest.approx(latency)
    assert (found["short"], found["long"]) == pytest.approx((latency + link / 0.5, long))
    assert found["total"] == pytest.approx((latency + link / 0.5 + long) / 2)


def test_an_all_reduce_over_nodes() -> None:
    """16 devices in two nodes: NCCL's tree for 16 KB; for 1.6 GB its rings, 1.4 (8.4 + 2*14*3.4 + 2*9.6) us and the bytes."""
    on = chip(load_hardware("dgx-h100")[0])
    small, large = ({"": AllReduce(elements=elements, world=16)} for elements in (8000, 800_000_000))
    base = {"base": 4 * US, "near": 0.6, "far": 0.8, "setup": 10 * US, "sums": 1.0, "switch": 1e6}
    found = terms(communication.ALL_REDUCE, small, on, **base)
    assert found["latency"] == pytest.approx((4.4 + 2 * (7 * 1.8 * 0.52 + 5)) * US)
    assert found["total"] == found["short"] == communication.tree_seconds(small[""], on.link(16))
    found = terms(communication.ALL_REDUCE, large, on, **base)
    sent = 2 * 15 / 16 * 1.6e9
    link = max(sent * 7 / 8 / 450e9, sent / 8 / 50e9)  # an eighth leaves the node
    assert found["link"] == pytest.approx(link)
    assert found["total"] == pytest.approx(1.4 * (8.4 + 2 * 14 * 3.4 + 2 * 9.6) * US + link / 0.8)


def test_experts_announce_their_tokens_over_nodes() -> None:
    """30 us, and 31 for each doubling of nodes, before an exchange of tokens over four; not of other pieces."""
    on = chip(load_hardware("dgx-h100")[0])
    base = {"base": 4 * US, "near": 0.5, "far": 0.8, "setup": 10 * US, "switch": 1e6}
    routed = AllToAll(elements=8192, world=32, copies=2, routing=ExpertRouting(top_k=2))
    with_tokens, without = (
        terms(communication.COLLECTIVE, {"": one}, on, **base) for one in (routed, replace(routed, routing=None, copies=None))
    )
    for name in ("latency", "total"):
        assert with_tokens[name] - without[name] == pytest.approx((30 + 2 * 31) * US)
    copied = replace(routed, routing=replace(routed.routing, redundant=4, experts=8))
    assert terms(communication.COLLECTIVE, {"": copied}, on, **base)["link"] == with_tokens["link"]


def test_messages_and_copies() -> None:
    """A neighbour gets 16 KB at half of 450 GB/s; the host 32 KB in two calls at half of 64 GB/s."""
    on = chip(load_hardware("dgx-h100")[0])
    sent = terms(communication.P2P, {"": SendRecv(elements=8000)}, on, launch=8 * US, link=0.5)
    assert sent == pytest.approx({"launch": 8 * US, "link": 16_000 / 225e9, "total": 8 * US + 16_000 / 225e9})
    copy = HostCopy(size=32_000, calls=2)
    copied = terms(communication.HOST_COPY, {"": copy}, on, call=8 * US, link=0.5)
    assert copied == pytest.approx({"calls": 16 * US, "link": 32_000 / 32e9, "total": 17 * US})


@pytest.mark.parametrize("world", [16, 64])
def test_other_collectives_over_nodes_wait_for_a_ring(world: int) -> None:
    """NCCL's ring of short messages: 3.6 us, 1.8 * 0.47 for a hop in a node and 2.7 for one between; a longer latency stays.

    A pipeline takes a + x + 2 (a x)^0.5; the piece passes memory three times.
    """
    on, nodes = chip(load_hardware("dgx-h100")[0]), world // 8
    operator = AllGather(elements=2**20, world=world)
    ring = (3.6 + (world - nodes) * 1.8 * 0.47 + (nodes - 1) * 2.7) * US
    link = operator.cost().link_bytes / 50e9 / 8  # an eighth leaves the node
    link = max(link, operator.cost().link_bytes * 7 / 8 / 450e9)
    for least in (1 * US, 500 * US):
        base = {"base": least, "near": 0.6, "far": 0.8, "setup": least, "switch": 1e6}
        found = terms(communication.COLLECTIVE, {"": operator}, on, **base)
        latency, transfer = max(least, ring), link / 0.8 + 3 * (2**21 / world) / on.bandwidth
        assert found["latency"] == pytest.approx(latency)
        assert found["short"] == pytest.approx(latency + link / 0.6)
        assert found["long"] == pytest.approx(latency + transfer + 2 * (latency * transfer) ** 0.5)


def test_no_link_is_no_time() -> None:
    """One device has nobody to send to."""
    for form, alone in (
        (communication.COLLECTIVE, AllGather(elements=8, world=1)),
        (communication.P2P, SendRecv(elements=8, span=1)),
    ):
        assert form.terms({"": alone}, h100(), Conditions(), {}) == {"total": 0.0}


def test_a_switch_adds_floats_alone() -> None:
    """Of 8 devices it takes 9/14/0.85 of a ring's bytes; sums of int8, or on an Ampere, take the ring."""
    joined = h100().link(8)
    assert joined is not None
    for dtypes, architecture, share in (
        (BF16, "hopper", 9 / 14 / 0.85), (BF16, "blackwell", 9 / 14 / 0.74), (BF16, "ampere", 1),
        (replace(BF16, activation=FORMATS["int8"]), "hopper", 1),
    ):  # fmt: skip
        operator = AllReduce(elements=8, world=8, dtypes=dtypes)
        assert communication._in_switch(operator, round_chip(architecture=architecture), joined) == pytest.approx(share)
    over = load_hardware("dgx-h100")[0].connection(16)
    assert over is not None
    assert communication._in_switch(AllReduce(elements=8, world=16), h100(), over) == 1
