"""One operator on one device: arithmetic that a reader can check, textbook answers, and the numbers of `analyze`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, UnknownNameError
from roofline.operators import OPERATORS
from roofline.operators.gemm import Gemm
from roofline.predict.bounds import times
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import Fits
from roofline.predict.efficiency.forms.gemm import _library_times
from roofline.predict.efficiency.kernels import Kernel
from roofline.predict.op import OpResult, _first, _limit, _Setting, _setting, term_texts
from roofline.predict.operator_query import _TYPICAL, Dimension, operator_names, operator_query
from roofline.predict.request import Options

LLAMA = {"hardware": "h100-sxm", "batch": 64, "context": 4095}


def test_a_product_is_arithmetic() -> None:
    """2mnk FLOP; X, W and Y of two bytes an element once; peak and bandwidth of the datasheet."""
    result = roofline.op("gemm", m=512, n=8192, k=28672, hardware="h100-sxm", dtype="bf16")
    m, n, k = 512, 8192, 28672
    assert result.cost.matrix_flops == 2 * m * n * k
    assert result.cost.weight_bytes == 2 * n * k
    assert result.cost.activation_bytes == 2 * (m * k + m * n)
    flops, bandwidth = result.hardware["peak_flops"], result.hardware["bandwidth"]
    assert (flops, bandwidth) == (989.4e12, 3.35e12)
    assert result.hardware["ridge_point"] == flops / bandwidth
    assert result.time.bound == 2 * m * n * k / flops  # 243 us; the bytes take 151
    assert result.intensity == 2 * m * n * k / (2 * (n * k + m * k + m * n))
    assert result.bound_by == "compute"
    assert result.estimate_basis == "measured"
    assert result.time.low is not None
    assert result.time.bound <= result.time.low <= result.time.estimate <= result.time.high


def test_dimensions_are_taken_in_order_by_name_and_in_other_spellings() -> None:
    """m, n, k; `tokens` is m."""
    one = roofline.op("gemm", 512, 8192, 28672, hardware="h100-sxm")
    for same in (
        roofline.op("gemm", m=512, n=8192, k=28672, hardware="h100-sxm"),
        roofline.op("matmul", 512, k="28k", n="8k", hardware="h100-sxm"),
        roofline.op("gemm", tokens=512, n=8192, k=28672, hardware=roofline.load_hardware("h100-sxm")),
    ):
        assert same.cost == one.cost
        assert same.time == one.time


# The same operator in a model, to the last digit.


def _of_analyze(path: str, phase: str = "decode", **options: object) -> tuple[object, float]:
    result = roofline.analyze("llama-3.1-8b", **{**LLAMA, **options})
    operator = next(one for one in getattr(result, phase).operators if one.path == path)
    return operator, operator.repeat


def _same(result: OpResult, path: str, phase: str = "decode", **options: object) -> None:
    """Cost, bound and the estimate in a step are those of one of a model's layers, times their number."""
    operator, repeat = _of_analyze(path, phase, **options)
    assert result.cost * repeat == operator.cost
    assert result.time.bound * repeat == pytest.approx(operator.time.bound, rel=1e-15)
    for name in ("estimate", "low", "high"):
        assert getattr(result.in_step, name) * repeat == pytest.approx(getattr(operator.time, name), rel=1e-14)
    assert result.bound_by == operator.bound_by


def test_a_product_is_that_of_a_model() -> None:
    """gate_up_proj of Llama-3.1-8B: 64 tokens, 2 x 14336 outputs, 4096 inputs."""
    _same(roofline.op("gemm", 64, 28672, 4096, hardware="h100-sxm"), "layers/mlp/gate_up_proj")


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "fp8"},
        {"quantization": "w8a16"},
        {"peak_flops": "500 TFLOP/s", "bandwidth": "2 TB/s"},
        {"mfu": 0.4, "mbu": 0.8},
    ],
    ids=str,
)
def test_options_mean_what_they_do_in_a_model(options: dict[str, object]) -> None:
    """Formats, figures of the hardware and given shares; down_proj is one matrix as the operator alone is."""
    _same(roofline.op("gemm", 64, 4096, 14336, hardware="h100-sxm", **options), "layers/mlp/down_proj", **options)


def test_attention_is_that_of_a_model() -> None:
    """64 sequences of 4096 tokens, the new one included; and a prompt of 1024."""
    shape = {"heads": 32, "kv_heads": 8, "head_dim": 128}
    decode = roofline.op("attention", batch=64, kv_len=4096, hardware="h100-sxm", **shape)
    _same(decode, "layers/attention/core")
    _same(roofline.op("attention", batch=64, context=4095, hardware="h100-sxm", **shape), "layers/attention/core")
    prompt = roofline.op("attention", q_len=1024, kv_len=1024, hardware="h100-sxm", **shape)
    _same(prompt, "layers/attention/core", "prefill", batch=1)
    eager = roofline.op("attention", q_len=1024, kv_len=1024, hardware="h100-sxm", attention="eager", mask="full", **shape)
    _same(eager, "layers/attention/core", "prefill", batch=1, attention="eager", mask="full")


def test_an_all_reduce_is_that_of_a_model() -> None:
    """64 tokens of 4096 elements, over 4 devices: 2 * 3/4 of 512 KiB leave each."""
    result = roofline.op("all-reduce", bytes=64 * 4096 * 2, tp=4, hardware="h100-sxm")
    assert result.cost.link_bytes == 2 * 3 / 4 * 64 * 4096 * 2
    assert result.cost.messages == 2 * 3
    _same(result, "layers/mlp/all_reduce", tensor_parallel_size=4)
    assert result.time.floor < result.time.bound  # switches can add


def test_experts_are_those_of_a_model() -> None:
    """The routed experts of a layer of Qwen3-30B-A3B are one kernel of four operators."""
    analysis = roofline.analyze("qwen3-30b-a3b", "h100-sxm", batch=64)
    operators = [one for one in analysis.decode.operators if "/experts/" in one.path or one.path.endswith("moe/combine")]
    result = roofline.op("experts", tokens=64, experts=128, top_k=8, hidden=2048, intermediate=768, hardware="h100-sxm")
    assert len(operators) == len(result.parts) == 4
    repeat = operators[0].repeat
    assert result.cost.matrix_flops * repeat == sum(one.cost.matrix_flops for one in operators)
    assert result.cost.bytes * repeat == pytest.approx(sum(one.cost.bytes for one in operators), rel=1e-14)
    assert result.time.bound * repeat == pytest.approx(sum(one.time.bound for one in operators), rel=1e-14)
    assert result.in_step.estimate * repeat == pytest.approx(sum(one.time.estimate for one in operators), rel=1e-12)
    # 6 T k d d_e, and 128 (1 - (120/128)^64) experts of three matrices
    assert result.cost.matrix_flops == 6 * 64 * 8 * 2048 * 768
    assert result.cost.weight_bytes == pytest.approx(128 * (1 - (120 / 128) ** 64) * 3 * 2048 * 768 * 2)


def test_formulas_of_experts_with_a_popularity() -> None:
    """Which experts are met is a number then, not a formula; the bytes are those of the cost."""
    shape = {"tokens": 64, "experts": 128, "top_k": 8, "hidden": 2048, "intermediate": 768, "hardware": "h100-sxm"}
    result = roofline.op("experts", routing_skew=1.0, **shape)
    formulas = {part.subject: part for part in result.formulas}
    assert formulas["weight_bytes"].formula == "3·d_model·d_e·b_w·E_met"
    assert formulas["weight_bytes"].value == pytest.approx(result.cost.weight_bytes, rel=1e-12)
    assert result.cost.weight_bytes < roofline.op("experts", **shape).cost.weight_bytes


# Textbooks: Austin et al., "How to Scale Your Model", 2025, chapters 1, 4 and 8.


def test_critical_batch_of_a_wide_product_is_the_ridge() -> None:
    """TPU v5e: 1.97e14 / 8.2e11 = 240 tokens (chapter 1). m < n, k counts: B D F / (B D + B F + D F) = 240."""
    result = roofline.op("gemm", 1, 2**20, 2**20, hardware="tpu-v5e")
    assert result.hardware["ridge_point"] == pytest.approx(240, rel=0.01)
    name, value = result.compute_bound_from
    assert (name, value) == ("m", pytest.approx(240, rel=0.01))


@pytest.mark.parametrize(
    ("options", "published"),
    [({"dtype": "int8", "bandwidth": "8.1e11 B/s"}, 243), ({"quantization": "w8a16"}, 120)],
    ids=["int8", "int8 weights, bf16 products"],
)
def test_critical_batch_with_eight_bit_weights(options: dict[str, str], published: int) -> None:
    """Chapter 1, problems 1 and 3: products in int8, and weights of a byte with products in bf16."""
    name, value = roofline.op("gemm", 1, 2**20, 2**20, hardware="tpu-v5e", **options).compute_bound_from
    assert name == "m"
    assert value == pytest.approx(published, rel=0.01)


def test_dot_product_and_products_that_share_nothing() -> None:
    """A dot product: 2n - 1 FLOP of 4n + 2 bytes, 1/2. A matrix for each batch element, int8: 2 FLOP a byte at most."""
    assert roofline.op("gemm", 1, 1, 2**24, hardware="tpu-v5e").intensity == pytest.approx(0.5, rel=1e-6)
    batched = roofline.op("gemm", 1, 4096, 4096, batch=4096, dtype="int8", hardware="tpu-v5e")
    assert batched.intensity == pytest.approx(2, rel=0.01)


def test_attention_of_prompts_and_of_decode() -> None:
    """Chapter 4: decode reads each key for G query heads, G FLOP a byte; a prompt of T has T G/(G + 1)."""
    shape = {"heads": 32, "kv_heads": 8, "head_dim": 128, "hardware": "tpu-v5e"}
    decode = roofline.op("attention", batch=8, kv_len=2**20, **shape)
    assert decode.intensity == pytest.approx(4, rel=1e-4)
    prompt = roofline.op("attention", q_len=8192, kv_len=8192, mask="full", **shape)
    assert prompt.intensity == pytest.approx(8192 * 4 / 5, rel=1e-12)
    assert decode.bound_by == "memory"


def test_critical_batch_of_experts_is_larger_by_the_experts_that_a_token_leaves_out() -> None:
    """240 E/k (chapter 4): 1,920 tokens with 2 of 16 experts, where activations hardly count."""
    wide = {"experts": 16, "top_k": 2, "hidden": 2**17, "intermediate": 2**17}
    name, value = roofline.op("experts", tokens=1, hardware="tpu-v5e", **wide).compute_bound_from
    assert name == "tokens"
    assert value == pytest.approx(240 * 16 / 2, rel=0.03)


def test_one_product_of_70b_over_32_devices() -> None:
    """8192 x 28672 bf16 weights over 32 TPU v5e, 64 tokens: 14.7 MB / 8.2e11 B/s = 18 us."""
    result = roofline.op("gemm", 64, 28672 // 32, 8192, hardware="tpu-v5e", bandwidth="8.2e11 B/s")
    assert result.cost.weight_bytes / 8.2e11 == pytest.approx(18e-6, rel=0.01)
    assert result.bound_by == "memory"


# Sweeps


def test_a_product_turns_compute_bound_where_the_closed_form_says() -> None:
    """2mnk / (b (nk + m(n + k))) = R gives m = R b nk / (2nk - R b (n + k))."""
    n, k = 4096, 14336
    result = roofline.op("gemm", n=n, k=k, hardware="a100-sxm-80gb", sweep="m=1:8192:x2")
    ridge = 312e12 / 2.039e12
    exact = ridge * 2 * n * k / (2 * n * k - ridge * 2 * (n + k))
    assert result.sweep.crossovers == ((math.floor(exact) + 1, "memory", "compute"),)
    assert [point.dims["m"] for point in result.sweep.points] == [2**power for power in range(14)]
    for point in result.sweep.points:
        alone = roofline.op("gemm", point.dims["m"], n, k, hardware="a100-sxm-80gb")
        assert (point.cost, point.time, point.bound_by) == (alone.cost, alone.time, alone.bound_by)


def test_decode_attention_is_memory_bound_at_every_batch() -> None:
    """No sequence shares its keys with another."""
    shape = {"kv_len": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "hardware": "h100-sxm"}
    result = roofline.op("attention", sweep={"batch": [1, 64, 4096]}, **shape)
    assert result.sweep.crossovers == ()
    assert {point.bound_by for point in result.sweep.points} == {"memory"}
    lengths = roofline.op("attention", sweep="kv_len=1k,8k", **{name: shape[name] for name in shape if name != "kv_len"})
    first, last = (point.cost.kv_read_bytes for point in lengths.sweep.points)
    assert last == 8 * first


# Tiles


def test_tiles_are_counted_over_the_outputs() -> None:
    """4096 x 4096 outputs in tiles of 128 x 256 are 32 x 16 on 132 SMs. Tiles for 65 rows of 128 have 63 beyond the edge."""
    even = roofline.op("gemm", 4096, 4096, 4096, hardware="h100-sxm").grid
    assert even.count == math.ceil(4096 / even.rows) * math.ceil(4096 / even.columns) * even.split
    assert (even.units, even.waves, even.used) == (132, even.count / 132, 1)
    edge = roofline.op("gemm", 65, 4096, 4096, hardware="h100-sxm").grid
    assert edge.used == 65 / (edge.rows * math.ceil(65 / edge.rows))


@pytest.mark.parametrize("shape", [(1, 4096, 4096), (16, 512, 16384), (512, 8192, 28672), (8192, 1024, 1024)], ids=str)
@pytest.mark.parametrize("hardware", ["h100-sxm", "a100-sxm-80gb"])
def test_the_tiles_are_those_that_the_estimate_is_of(shape: tuple[int, int, int], hardware: str) -> None:
    """With another tile or another split the same form takes as long or longer."""
    kernel = Kernel("gemm", {"": Gemm(m=shape[0], n=shape[1], k=shape[2])}, ("",), 1)
    estimator = Estimator(Fits(roofline.load_hardware(hardware)))
    fitted, chip = estimator.fitted(kernel), estimator.fits.chip
    gemm = kernel.operators[""]
    grid = roofline.op("gemm", *shape, hardware=hardware).grid
    times, _, _ = _library_times(gemm, chip, estimator.conditions, fitted.values, ((grid.rows, grid.columns),))
    terms = fitted.form.terms(kernel.operators, chip, estimator.conditions, fitted.values)
    assert min(times) == pytest.approx(terms["total"] - terms["launch"], rel=1e-12)
    assert grid.split == 1 or min(times) < times[1]  # only where it is faster than not to split


def test_a_long_sequence_is_split_over_the_units() -> None:
    """One sequence of 8192 keys and 8 KV heads has 8 blocks whole, and 128 in parts of 512 keys; of 132 SMs."""
    shape = {"kv_len": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128, "hardware": "h100-sxm"}
    grid = roofline.op("attention", batch=1, **shape).grid
    assert (grid.count, grid.split, grid.columns) == (128, 16, 512)
    assert roofline.op("attention", batch=64, **shape).grid.split == 1
    assert roofline.op("norm", 8, 4096, hardware="h100-sxm").grid is None


# Every operator


@pytest.mark.parametrize("name", operator_names())
def test_every_operator_is_predicted(name: str) -> None:
    """FLOP, bytes and times; its formulas have the values of its cost; and its JSON is of plain numbers."""
    query = operator_query(name)
    shape = {entry.name: str(_TYPICAL.get(entry.name, 1024)).strip("'") for entry in query.dimensions if entry.required}
    hardware = "dgx-h100" if name == "host-copy" else "h100-sxm"
    result = roofline.op(name, hardware=hardware, **shape)
    assert result.time.bound > 0
    assert result.time.floor <= result.time.bound <= result.time.estimate <= result.time.high
    formulas = {part.subject: part.value for part in result.formulas}
    for field in ("matrix_flops", "vector_flops", "weight_bytes", "activation_bytes", "kv_read_bytes", "link_bytes"):
        assert formulas.get(field, 0) == pytest.approx(getattr(result.cost, field), rel=1e-12)
    if "time_bound" in formulas:
        assert formulas["time_bound"] == pytest.approx(result.time.bound, rel=1e-12)
    document = result.to_dict()
    assert document["bytes"]["total"] == result.cost.bytes
    assert document["time_s"]["bound"] == result.time.bound
    assert "H100" in repr(result)


def test_every_registered_operator_has_a_name() -> None:
    """A new one is there without a line of its own."""
    assert {name.replace("-", "_") for name in operator_names()} == {*OPERATORS, "experts"}


# Errors


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        (("gem", 1, 2, 3), {}, "unknown operator 'gem'. Did you mean gemm"),
        (("gemm", 1, 2), {}, "gemm needs k. Usage: gemm m n k"),
        (("gemm", 1, 2, 3, 4, 5, 6), {}, "gemm has 5 dimensions, not 6"),
        (("gemm", 1, 2, 3), {"m": 4}, "m is given twice"),
        (("gemm", 1, 2), {"kk": 3}, "unknown dimension or option of gemm 'kk'. Did you mean k"),
        (("gemm", 1, 2, 3), {"dtyp": "bf16"}, "Did you mean dtype"),
        (("gemm", 1, 2, "3.5"), {}, "must be a whole number"),
        (("gemm", 0, 2, 3), {}, "must be at least 1"),
        (("attention",), {"q_len": 8, "kv_len": 4, "heads": 8, "head_dim": 64}, "kv_len counts the new tokens too"),
        (("attention",), {"kv_len": 4, "heads": 8, "kv_heads": 3, "head_dim": 64}, "kv_heads 3 must divide heads 8"),
        (("all-reduce", "64 MB", 1), {}, "must be at least 2"),
        (("all-reduce", "64 TFLOP", 2), {}, "must be a whole number"),
        (("experts", 1, 8, 9, 64, 64), {}, "top_k 9 is more than experts 8"),
        (("norm", 8, 64), {"function": "batchnorm"}, "Known: rmsnorm, layernorm"),
        (("norm", 8, 64), {"bias": "maybe"}, "must be true or false"),
        (("norm", 8, 64), {"quantization": "fp8"}, "--quantization is of linear layers and experts"),
        (("rope", 8, 32, 128), {"dtype": "fp8"}, "has no weights that could be fp8"),
        (("gemm", 1, 2, 3), {"mask": "full"}, "--mask has no effect on gemm"),
        (("gemm", 1, 2, 3), {"sweep": "m"}, "--sweep must be DIMENSION=VALUES such as m=1:8192:x2"),
        (("gemm", 1, 2, 3), {"sweep": "z=1:4"}, "unknown dimension"),
        (("gemm", 1, 2, 3), {"sweep": "m=4:1"}, "is no range"),
        (("norm", 8, 64), {"sweep": "bias=true"}, "over whole numbers"),
        (("all-reduce", "1 MB", 16), {}, "has no link that joins 16 devices"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(arguments: tuple[object, ...], named: dict[str, object], message: str) -> None:
    """One line: what is wrong, what is allowed, the nearest name."""
    with pytest.raises((InputError, UnknownNameError)) as error:
        roofline.op(*arguments, hardware="h100-sxm", **named)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# What is derived from a point


@pytest.mark.every_case
@pytest.mark.parametrize("shares", [{}, {"mfu": 0.5, "mbu": 0.25}])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gemm", {"m": 512, "n": 8192, "k": 4096}),
        ("norm", {"rows": 8, "width": 4096}),
        ("all-reduce", {"bytes": "64 MB", "tp": 4}),
        ("experts", {"tokens": 64, "experts": 16, "top_k": 2, "hidden": 512, "intermediate": 256}),
    ],
)
def test_figures_of_a_point(name: str, shape: dict[str, object], shares: dict[str, float]) -> None:
    """Shares and rates at the estimate, intensities of matrix and of all FLOP, and the same in both layouts."""
    result = roofline.op(name, hardware="h100-sxm", **shape, **shares)
    cost, time, busy = result.cost, result.time, result.times
    assert time.estimate is not None
    operators = setting_of(result).operators(result.dims)
    parts = [times(one, one.cost(), roofline.load_hardware("h100-sxm")) for one in operators.values()]
    for field in ("matrix", "vector", "memory", "link"):
        assert getattr(busy, field) == pytest.approx(sum(getattr(part, field) for part in parts))
    bound, together = sum(part.bound for part in parts), busy.matrix + busy.vector + busy.memory + busy.link
    assert (time.bound, time.sum) == (pytest.approx(bound), pytest.approx(together))
    flops = cost.matrix_flops + cost.vector_flops
    matrix = cost.matrix_flops / cost.bytes
    expected = {
        "flops_per_s": flops / time.estimate, "mfu": busy.matrix / time.estimate, "mbu": busy.memory / time.estimate,
        "matrix_intensity": matrix, "bound_by": result.bound_by, "limited_by": result.limited_by,
    }  # fmt: skip
    figures, row = result.figures(), result.row()
    for field, value in expected.items():
        assert figures[field] == row[field] == getattr(result, field) == pytest.approx(value)
    assert result.link_share == pytest.approx(busy.link / time.estimate)
    assert result.intensity == pytest.approx(matrix or cost.vector_flops / cost.bytes)
    assert figures["arithmetic_intensity"] == pytest.approx(flops / cost.bytes)
    assert figures["flops"] == {"matrix": cost.matrix_flops, "vector": cost.vector_flops, "total": flops}
    assert figures["messages"] == result.messages == cost.messages
    assert figures["link_bytes"] == row["link_bytes"] == cost.link_bytes
    assert figures["resources_s"] == {key: getattr(busy, key) for key in ("matrix", "vector", "memory", "link")}
    assert figures["time_s"] == {**time.to_dict(), "sum": time.sum}
    assert figures["terms_s"] == result.terms_s == result.terms
    assert row == {
        **result.dims, **expected, "matrix_flops": cost.matrix_flops, "vector_flops": cost.vector_flops, "bytes": cost.bytes,
        "link_bytes": cost.link_bytes, "time_floor_s": time.floor, "time_bound_s": time.bound,
        "time_estimate_s": time.estimate, "time_low_s": time.low, "time_high_s": time.high,
    } | {field: pytest.approx(value) for field, value in expected.items()}  # fmt: skip
    assert result.rows() == [row]
    if shares:
        assert time.estimate == pytest.approx(
            sum(max(part.matrix / 0.5, part.memory / 0.25, part.vector, part.link) for part in parts)
        )
        assert (time.low, time.high, result.estimate_basis) == (time.estimate, time.estimate, "given")
    document = result.to_dict()
    assert document["in_step_s"] == {key: getattr(result.in_step, key) for key in ("bound", "estimate", "low", "high")}
    assert document["ridge_point"] == result.hardware["peak_flops"] / result.hardware["bandwidth"]


def setting_of(result: OpResult) -> _Setting:
    """Where an operator runs, from its result."""
    return _setting(operator_query(result.operator), result.hardware["name"], Options.of({}))


def test_what_has_no_estimate_has_shares_of_its_bound() -> None:
    """A processor: shares and rates are at the bound."""
    host = Path(__file__).resolve().parents[3] / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"
    result = roofline.op("gemm", 64, 1024, 1024, hardware=host, dtype="fp32")
    assert (result.time.estimate, result.in_step.estimate, result.estimate_basis, result.terms) == (None, None, None, {})
    assert result.mbu == pytest.approx(result.times.memory / result.time.bound)
    assert result.flops_per_s == pytest.approx(2 * 64 * 1024 * 1024 / result.time.bound)
    assert (result.grid, result.estimate_source, result.median_error, result.limited_by) == (None, "", None, result.bound_by)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("terms", "binds", "limit", "texts"),
    [
        ({"launch": 3.0, "tiles": 2.0, "memory": 0.0}, "memory", "overhead", [("launch", 3.0), ("compute in tiles", 2.0)]),
        ({"up_proj": 3.0, "stream": 2.0}, "compute", "compute", None),
        ({"up_proj": 1.0, "stream": 2.0}, "compute", "memory", None),
        ({"other": 9.0, "link": 2.0}, "memory", "link", [("link", 2.0)]),
        ({"other": 9.0}, "memory", "memory", []),
        ({}, "link", "link", []),
    ],
)
def test_the_longest_term_is_the_limit(terms: dict[str, float], binds: str, limit: str, texts: Any) -> None:
    """A term without a limit of its own is one of what binds; terms without a name, and those of 0 s, are not shown."""
    assert _limit(terms, binds) == limit
    if texts is not None:
        assert term_texts(terms) == texts


def test_first_of_a_range() -> None:
    """The first number at which something is so, between one where it is not and one where it is."""
    for first in range(1, 40):
        asked: list[int] = []
        assert _first(lambda n, first=first, asked=asked: asked.append(n) or n >= first, 0, 40) == first
        assert len(asked) <= 6


def test_a_sweep_of_cached_tokens() -> None:
    """With `context` the keys are one more; values are sorted, without doubles; the shape shown is the last of the curve."""
    shape = {"heads": 8, "kv_heads": 8, "head_dim": 64, "batch": 2, "hardware": "h100-sxm"}
    result = roofline.op("attention", sweep={"context": [64, 8, 8]}, **shape)
    assert result.sweep is not None
    assert [(point.dims["context"], point.dims["kv_len"]) for point in result.sweep.points] == [(8, 9), (64, 65)]
    assert result.dims["kv_len"] == 65
    assert result.rows() == [point.row() for point in result.sweep.points]
    sized = roofline.op("all-reduce", tp=4, hardware="h100-sxm", sweep="bytes=1kB:4kB:x2")
    assert sized.sweep is not None
    assert [point.dims["bytes"] for point in sized.sweep.points] == [1000, 2000, 4000]
    document = roofline.op("gemm", n=4096, k=4096, hardware="h100-sxm", sweep="m=1,4096").to_dict()
    assert [point["dims"]["m"] for point in document["points"]] == [1, 4096]
    ((crossing,),) = [document["sweep"]["crossovers"]]
    ridge = 989.4e12 / 3.35e12
    exact = ridge * 2 * 4096**2 / (2 * 4096**2 - ridge * 2 * 2 * 4096)
    assert crossing == {"at": math.floor(exact) + 1, "from": "memory", "to": "compute"}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("flag", "Yes", True), ("flag", True, True), ("flag", 1, True), ("flag", "no", False), ("flag", 0, False),
        ("flag", "False", False), ("bytes", "64 kB", 64_000), ("bytes", "1 KiB", 1024), ("bytes", "16k", 16_384),
        ("bytes", 100, 100), ("number", "1.5", 1.5), ("count", "2k", 2048), ("choice", "a", "a"),
    ],
)  # fmt: skip
def test_values_of_dimensions(kind: Any, given: object, value: object) -> None:
    """Truth in words or numbers, bytes with a unit or as a count, numbers, and names of a list."""
    entry = Dimension(name="d", kind=kind, choices=("a", "b"))
    found = entry.read(given, "op")
    assert (found, type(found)) == (value, type(value))
    assert entry.required
    assert not Dimension(name="d", default=None).required


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("shape", "options", "decode", "absorbed"),
    [
        ({"q_len": 1, "context": 9}, {}, True, True),
        ({"q_len": 1, "context": 0}, {}, False, False),  # a prompt of one token
        ({"q_len": 2, "context": 9}, {}, False, False),
        ({"q_len": 1, "context": 9}, {"mla": "expand"}, True, False),
        ({"q_len": 2, "context": 9}, {"mla": "absorb"}, False, True),
    ],
)
def test_one_token_after_others_is_generated(
    shape: dict[str, int], options: dict[str, str], decode: bool, absorbed: bool
) -> None:
    """Decode absorbs the projections of latents, and prompts expand them, unless `mla` says otherwise."""
    sizes = {"heads": 16, "r_kv": 512, "d_nope": 128, "d_rope": 64, "d_v": 128, "batch": 1}
    result = roofline.op("latent-attention", hardware="h100-sxm", **sizes, **shape, **options)
    pairs = sum(shape["context"] + new + 1 for new in range(shape["q_len"]))
    assert result.cost.matrix_flops == 2 * 16 * pairs * (512 + 64 + 512 if absorbed else 128 + 64 + 128)
    plain = {"heads": 8, "kv_heads": 8, "head_dim": 64}
    core = roofline.op("attention", hardware="h100-sxm", **plain, **shape)
    assert core.estimate_source.rpartition(" ")[2].startswith("attention_decode" if decode else "attention_prefill")


def test_formats_that_were_not_given_are_noted() -> None:
    """The dtype alone, unless it was given; dimensions that have a default likewise."""
    why = "unless --dtype says otherwise"
    for options, noted in (({}, True), ({"dtype": "bf16"}, False), ({"activation_dtype": "bf16"}, True)):
        notes = roofline.op("gemm", 8, 64, 64, hardware="h100-sxm", **options).assumptions
        assert [note.name for note in notes if note.why == why] == ["dtype"] * noted
    core = {"kv_len": 64, "heads": 8, "head_dim": 64, "hardware": "h100-sxm"}
    noted = {note.name: note.value for note in roofline.op("attention", **core, kv_heads=8).assumptions}
    assert (noted["batch"], noted["q_len"]) == (1, 1)
    assert "kv_heads" not in noted
    assert noted["mask"] == "causal"
    given = roofline.op("attention", **core, kv_heads=8, batch=2, q_len=1, mask="full")
    assert not {"batch", "q_len"} & {note.name for note in given.assumptions}
    assert "mask" not in [note.name for note in given.assumptions if note.origin == "default"]
