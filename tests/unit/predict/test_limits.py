"""Critical batches: where the linear operators, and where the whole decode step, turn from memory to compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.predict.batch_limits import _first_surplus, _intervals, _root, critical_batch_why, standard_contexts
from roofline.predict.request import prepare

pytestmark = pytest.mark.every_case

LAST = 3000


@pytest.mark.parametrize(
    ("hardware", "options", "peak", "bandwidth", "bytes_a_weight"),
    [
        ("h100-sxm", {}, 989.4e12, 3350e9, 2),
        ("a100-sxm-80gb", {}, 312e12, 2039e9, 2),
        ("h100-sxm", {"dtype": "fp8"}, 1978.9e12, 3350e9, 1),
        ("a100-sxm-80gb", {"dtype": "fp8"}, 312e12, 2039e9, 1),  # multiplied as bf16
        ("a100-sxm-80gb", {"dtype": "int4"}, 312e12, 2039e9, 0.5),
        ("a100-sxm-80gb", {"peak_flops": "100 TFLOP/s", "bandwidth": "1 TB/s"}, 100e12, 1e12, 2),
    ],
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mistral-7b-v0.1", "llama-3.2-1b"])
def test_linear_is_half_the_bytes_times_the_ridge(
    model: str, hardware: str, options: dict[str, Any], peak: float, bandwidth: float, bytes_a_weight: float
) -> None:
    """2BP/peak = bP/bandwidth gives B = b/2 * peak/bandwidth for dense weights without biases."""
    found = roofline.analyze(model, hardware, **options).limits.critical_batch_linear
    assert found == pytest.approx(bytes_a_weight / 2 * peak / bandwidth, rel=1e-9)


def test_why_a_batch_is_not_reached() -> None:
    """It is said where one sequence more would be needed than fit."""
    request = prepare("llama-3.1-8b", "h100-sxm")
    fits = request.memory.max_batch(1024)
    whys = [critical_batch_why(request.memory, request.hardware, 295.0, fits + more, 1024) for more in (0, 1)]
    assert whys == ["", f"from {fits + 1} sequences on compute takes the larger share; {fits} fit in memory"]


def test_linear_of_replicas_is_of_the_whole_deployment() -> None:
    """Each of three replicas needs its own critical batch."""
    one, three = (roofline.analyze("llama-3.1-8b", "dgx-h100", dp=dp).limits.critical_batch_linear for dp in (1, 3))
    assert three == pytest.approx(3 * one, rel=1e-9)  # type: ignore[operator]


def test_linear_of_experts_is_larger() -> None:
    """128 experts of which a token uses 8 need far more tokens than a dense model."""
    dense = roofline.analyze("llama-3.1-8b", "h100-sxm").limits.critical_batch_linear
    sparse = roofline.analyze("qwen3-30b-a3b", "h100-sxm").limits.critical_batch_linear
    assert sparse is not None
    assert dense is not None
    assert sparse > 5 * dense


@pytest.mark.parametrize("context", [0, 16, 128, 1024, 8192])
@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "h100-sxm", {}),
        ("llama-3.1-8b", "a100-sxm-80gb", {"dtype": "fp8"}),
        ("llama-2-7b", "a100-sxm-80gb", {}),
        ("falcon-7b", "a100-sxm-80gb", {}),
        ("mistral-7b-v0.1", "a100-sxm-80gb", {"kv_cache_dtype": "fp8"}),
        ("gemma-3-12b", "h100-sxm", {}),
        ("gpt2", "l4", {}),
        ("mixtral-8x7b", "h100-sxm", {}),
        ("qwen3-30b-a3b", "a100-sxm-80gb", {}),
        ("gpt-oss-20b", "h100-sxm", {}),
        ("deepseek-v2-lite", "h100-sxm", {}),
        ("deepseek-v2-lite", "a100-sxm-80gb", {"mla": "expand"}),
        ("llama-3.1-8b", "h100-sxm", {"attention": "eager"}),
    ],
)
def test_step_equals_a_search_of_every_batch(model: str, hardware: str, options: dict[str, Any], context: int) -> None:
    """The first batch from 1 to 3000 at which more of the bound is compute than memory, if there is one so small."""
    found = roofline.analyze(model, hardware, context=context, phase="decode", **options).limits.critical_batch_step
    step = roofline.compile(model, hardware, **options)
    binds = step(batch=np.arange(1, LAST + 1), context=context)["bound_by"]
    first = int(np.argmax(binds == "compute")) + 1 if (binds == "compute").any() else None
    if first is None:
        assert found is None or found > LAST
    else:
        assert found == first


def test_step_of_replicas_is_where_the_fullest_turns() -> None:
    """Dealt round to three replicas, the fullest has one sequence more from three times one less on: 3(B - 1) + 1."""
    analyses = (roofline.analyze("llama-3.1-8b", "dgx-h100", context=0, phase="decode", dp=dp) for dp in (1, 3))
    one, three = (analysis.limits.critical_batch_step for analysis in analyses)
    assert one is not None
    assert three == 3 * (one - 1) + 1


def test_step_exists_for_short_contexts_only() -> None:
    """With nothing cached a step turns compute-bound near the ridge; with 32k cached tokens attention binds it."""
    short, long = (roofline.analyze("llama-3.1-8b", "h100-sxm", context=context, phase="decode") for context in (0, 32768))
    assert short.limits.critical_batch_step is not None
    assert 295 < short.limits.critical_batch_step < 1000
    assert long.limits.critical_batch_step is None
    assert "takes more time for reads of its KV cache and activations than for compute" in long.limits.critical_batch_why


def test_standard_contexts() -> None:
    """Powers of two from 1k, and the model's own maximum."""
    assert standard_contexts(131072) == [2**n for n in range(10, 18)]
    assert standard_contexts(40960) == [1024, 2048, 4096, 8192, 16384, 32768, 40960]
    assert standard_contexts(1024) == [1024]
    assert standard_contexts(512) == [512]


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0, 7.0])
@pytest.mark.parametrize(("root", "low", "high"), [(0.3, 0.0, 1.0), (3.0, 2.0, 4.0), (700.25, 512.0, 1024.0)])
def test_where_a_function_crosses_zero(power: float, root: float, low: float, high: float) -> None:
    """Curves that bend either way, to the last digits in a dozen evaluations; a straight line in one step."""
    asked: list[float] = []

    def curve(value: float) -> float:
        asked.append(value)
        return value**power - root**power

    assert _root(curve, low, high) == pytest.approx(root, rel=1e-13)
    assert len(asked) <= (4 if power == 1 else 16 if low else 40)
    assert _root(lambda value: value - high, low, high) == high


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "deepseek-v2-lite"])
def test_linear_of_experts_by_bisection(model: str) -> None:
    """Products and bytes of weights of a decode step at any batch, from `analyze` at whole ones: the two meet between them."""
    found = roofline.analyze(model, "h100-sxm").limits.critical_batch_linear
    assert found is not None
    surplus = []
    for batch in (int(found), int(found) + 1):
        phase = roofline.analyze(model, "h100-sxm", batch=batch, context=0, phase="decode", ignore_capacity=True).decode
        assert phase is not None
        linear = [one for one in phase.operators if one.kind in ("gemm", "grouped_gemm")]
        surplus.append(sum(one.cost.matrix_flops / 989.4e12 - one.cost.weight_bytes / 3350e9 for one in linear))
    assert surplus[0] < 0 <= surplus[1]
    assert surplus[0] / (surplus[0] - surplus[1]) == pytest.approx(found - int(found), abs=0.01)  # nearly a straight line


def synthetic(lines: list[tuple[float, float]], weights: list[float]) -> Any:
    """Operators whose surplus of compute over memory time is a straight line each, and their weighted sum."""

    def state(batch: int) -> tuple[tuple[float, ...], float]:
        surpluses = tuple(slope * batch - offset for offset, slope in lines)
        return surpluses, sum(weight * surplus for weight, surplus in zip(weights, surpluses, strict=True))

    return state


def test_intervals_between_turns() -> None:
    """Every batch at which some surplus turns positive, or back, begins an interval; together they are all batches."""
    chance = np.random.default_rng(1)
    for _ in range(40):
        lines = [(float(2 ** chance.uniform(-2, 19)), float(chance.choice([1.0, 1.0, 3.0, -1.0]))) for _ in range(6)]
        lines += [(-offset, slope) for offset, slope in lines if slope < 0]  # falls through zero
        state = synthetic(lines, [1.0] * len(lines))
        turns = set()
        for offset, slope in lines:
            at = math.floor(offset / slope) + 1 if slope > 0 else math.ceil(offset / slope)
            if 1 < at <= 2**20:
                turns.add(at)
        asked: list[int] = []
        found = list(_intervals(lambda batch, state=state, asked=asked: asked.append(batch) or state(batch)))
        assert len(set(asked)) <= 2 + 4 * len(turns)
        assert [first for first, _ in found] == [1, *sorted(turns)]
        assert [last for _, last in found] == [*(turn - 1 for turn in sorted(turns)), 2**20]


@pytest.mark.parametrize(
    ("offset", "slope", "low", "high", "expected"),
    [(50.0, 1.0, 1, 100, 51), (50.5, 1.0, 1, 100, 51), (0.0, 1.0, 1, 100, 1), (100.0, 1.0, 1, 100, None),
     (99.0, 1.0, 1, 100, 100),
     (-50.0, -1.0, 1, 100, 1), (-0.5, -1.0, 1, 100, None), (1.5, 1.0, 1, 2, 2), (7.0, 1.0, 8, 8, 8), (8.0, 1.0, 8, 8, None)],
)  # fmt: skip
def test_first_batch_with_a_surplus(offset: float, slope: float, low: int, high: int, expected: int | None) -> None:
    """Above zero, not at it; at the start of an interval, or where a line rises through zero."""
    assert _first_surplus(synthetic([(offset, slope)], [1.0]), low, high) == expected
