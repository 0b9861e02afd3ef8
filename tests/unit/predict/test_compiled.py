"""The compiled function against `analyze`, point by point, and against arithmetic."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError, UnknownNameError
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.predict import compiled, tiles
from roofline.predict.analyze import Analysis, analyze
from roofline.predict.compiled import compile
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.grid import COLUMNS
from roofline.predict.timing import pipeline, second_reading
from roofline.specs.workload import decode

POINTS = [(1, 16, 0), (7, 300, 128), (64, 1024, 4095), (500, 17, 20_000)]
DEPLOYMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3.1-8b", "a100-sxm-80gb", {}),
    ("llama-3.1-8b", "h100-sxm", {"quantization": "fp8", "kv_cache_dtype": "fp8", "attention": "eager"}),
    ("llama-3.1-70b", "dgx-a100", {"tp": 4, "pp": 2, "block_size": 32}),
    ("gpt-oss-20b", "h100-sxm", {"mask": "full", "reserve": "2 GiB"}),
    ("deepseek-v2-lite", "dgx-h100", {"tp": 2, "dp": 2, "ep": 4, "bandwidth": "3 TB/s"}),
    ("deepseek-v2-lite", "dgx-h100", {"tp": 2, "dp": 2, "ep": 4, "sequence_parallel": True, "expert_imbalance": 1.5}),
    ("deepseek-v2-lite", "dgx-h100", {"tp": 2, "cp": 3, "dp": 2}),
    ("llama-3.1-8b", "dgx-h100", {"tp": 2, "cp": 2, "pp": 2, "sequence_parallel": True}),
    ("mixtral-8x7b", "dgx-a100", {"tp": 2, "routing_skew": 0.5, "logits": "all"}),
    ("deepseek-v3.2", "dgx-h100", {"tp": 8, "kv_cache_dtype": "fp8"}),
    ("deepseek-v4-flash", "dgx-h100", {"tp": 8, "dtype": "fp8"}),
    # an array of contexts fetched the latents of those that have none
    ("deepseek-v2-lite", "h100-sxm", {"mla": "expand"}),
    # `analyze` added what the engine adds to all three stages to the time of one
    ("deepseek-v2-lite", "dgx-h100", {"tp": 2, "pp": 3, "engine": "trtllm"}),
    # without measurements collectives are of the same family as all else, all of which was hidden as if it were collectives
    ("qwen3-30b-a3b", "mi300x-platform", {"dp": 8, "ep": 8, "microbatch_overlap": True}),
    # the stage with most in its memory is not the one with the least left
    ("qwen3.6-27b", "dgx-h100", {"tp": 4, "pp": 2, "engine": "sglang", "mem_fraction_static": 0.8, "memory": "1 TB"}),
]


@cache
def analyzed(number: int, phase: str) -> list[Analysis]:
    """What `analyze` gives for a deployment of the list at each of the points."""
    model, hardware, deployment = DEPLOYMENTS[number]
    return [
        analyze(
            model, hardware, phase=phase, ignore_capacity=True, batch=batch, **deployment,
            **({"context": context} if phase == "decode" else {"input_len": length}),
        )
        for batch, length, context in POINTS
    ]  # fmt: skip


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("number", range(len(DEPLOYMENTS)), ids=[f"{d[0]}-{i}" for i, d in enumerate(DEPLOYMENTS)])
def test_points_are_those_of_analyze(number: int, phase: str) -> None:
    """Arrays and plain numbers take the same path through the same formulas."""
    model, hardware, deployment = DEPLOYMENTS[number]
    batch, length, context = (np.array(axis) for axis in zip(*POINTS, strict=True))
    asked = {"batch": batch, "context": context} if phase == "decode" else {"batch": batch, "input_len": length}
    found = compile(model, hardware, phase, **deployment)(**asked)
    for index, result in enumerate(analyzed(number, phase)):
        point = POINTS[index]
        (step,) = result.phases
        got = {name: values[index] for name, values in found.items()}
        close = {
            "time_bound_s": step.time.bound,
            "time_sum_s": step.time.sum,
            "flops": step.cost.flops,
            "bytes": step.cost.bytes,
            "arithmetic_intensity": step.cost.flops / step.cost.bytes,
            "tokens_per_s": step.tokens_per_s.bound,
            "memory_bytes": result.memory.weights_bytes
            + result.memory.tower_bytes
            + result.memory.needed_bytes
            + result.memory.activation_bytes
            + result.memory.reserved_bytes,
        }
        for name, wanted in close.items():
            assert got[name] == pytest.approx(wanted, rel=1e-12), (point, name)
        assert got["bound_by"] == step.bound_by
        assert bool(got["fits"]) is result.memory.fits


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("number", range(len(DEPLOYMENTS)), ids=[f"{d[0]}-{i}" for i, d in enumerate(DEPLOYMENTS)])
def test_estimates_are_those_of_analyze(number: int, phase: str) -> None:
    """With their intervals and what the engine adds, of one stage and through all of them."""
    model, hardware, deployment = DEPLOYMENTS[number]
    batch, length, context = (np.array(axis) for axis in zip(*POINTS, strict=True))
    asked = {"batch": batch, "context": context} if phase == "decode" else {"batch": batch, "input_len": length}
    names = [name for name, column in COLUMNS.items() if column.estimated or name == "step_bound_s"]
    found = compile(model, hardware, phase, **deployment)(**asked, columns=names)
    assert list(found) == names
    for index, result in enumerate(analyzed(number, phase)):
        point = POINTS[index]
        (step,) = result.phases
        wanted = {"step_bound_s": step.pipeline.bound, "tokens_per_s_estimate": step.tokens_per_s.estimate}
        for end in ("estimate", "low", "high"):
            wanted |= {f"time_{end}_s": getattr(step.time, end), f"step_{end}_s": getattr(step.pipeline, end)}
        for name, value in wanted.items():
            assert found[name][index] == pytest.approx(value, rel=1e-12), (point, name)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-12b", "mixtral-8x7b", "deepseek-v2-lite"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_tiles_change_nothing(model: str, phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid in tiles of five points is the grid in one piece."""
    step = compile(model, "h100-sxm", phase)
    asked = {"batch": np.array([1, 3, 40, 500])[:, None], "context": np.array([0, 1, 100, 1023, 9000])[None, :]}
    if phase == "prefill":
        asked = {"batch": asked["batch"], "input_len": asked["context"] + 1, "context": asked["context"]}
    whole = step(**asked, columns=COLUMNS)
    monkeypatch.setattr(compiled, "tiles", lambda shape, most: tiles.tiles(shape, 5))
    for name, values in step(**asked, columns=COLUMNS).items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)


@pytest.mark.parametrize(
    ("number", "shape"), [(number, (1100,) if number % 2 else (22, 50)) for number in range(len(DEPLOYMENTS))]
)
def test_a_list_is_a_grid_point_by_point(number: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Distinct batches and contexts of a list are evaluated once each, or each point by itself: the same numbers.

    The list is longer than those that are evaluated as they are.
    """
    assert tiles.FEW_POINTS < 1100
    model, hardware, deployment = DEPLOYMENTS[number]
    random = np.random.default_rng(7)
    points: dict[str, Any] = {"batch": random.integers(1, 90, shape), "context": random.integers(0, 3000, shape)}
    step = compile(model, hardware, **deployment)
    wanted = tuple(COLUMNS)
    once = step(**points, estimate=True, columns=wanted)
    monkeypatch.setattr(tiles, "FEW_POINTS", 10**9)
    each = step(**points, estimate=True, columns=wanted)
    for name in wanted:
        if once[name].dtype.kind == "f":
            np.testing.assert_allclose(once[name], each[name], rtol=1e-12, err_msg=name)
        else:
            assert np.array_equal(once[name], each[name]), name
        assert once[name].shape == shape


@pytest.mark.parametrize("contexts", [[0, 2**52], [5] * 2])
def test_a_list_of_far_apart_lengths(contexts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No table as long as the longest context is made, and nothing overflows."""
    monkeypatch.setattr(tiles, "FEW_POINTS", 2)
    step = compile("llama-3.1-8b", "a100-sxm-80gb")
    batch = np.tile([3, 1, 2, 3], 300)
    context = np.resize(contexts, batch.size)
    found = step(batch=batch, context=context, columns=["time_bound_s"])["time_bound_s"]
    for index in (0, 1, 2, 1199):
        (alone,) = step(batch=[batch[index]], context=[context[index]], columns=["time_bound_s"])["time_bound_s"]
        assert found[index] == pytest.approx(alone, rel=1e-12)


def test_a_shared_prefix_of_later_chunks() -> None:
    """Of arrays of prompts with a past: which of a step's chunks reads the prefix differs from point to point."""
    points = [(1, 200, 5000), (7, 300, 1000), (64, 1024, 4095), (500, 17, 20_000)]
    batch, length, past = (np.array(axis) for axis in zip(*points, strict=True))
    found = compile("llama-3.1-8b", "h100-sxm", "prefill", shared_prefix=1000)(batch=batch, input_len=length, context=past)
    for index, (sequences, new, cached) in enumerate(points):
        result = analyze(
            "llama-3.1-8b", "h100-sxm", phase="prefill", batch=sequences, input_len=new + cached, cached_prefix=cached,
            shared_prefix=1000, ignore_capacity=True,
        )  # fmt: skip
        assert found["time_bound_s"][index] == pytest.approx(result.phases[0].time.bound, rel=1e-12)
        assert bool(found["fits"][index]) is result.memory.fits


@pytest.mark.parametrize(("phase", "context"), [("prefill", 999), ("decode", 999), ("decode", 0)])
def test_a_shared_prefix_is_part_of_what_is_cached(phase: str, context: int) -> None:
    """Refused alike; a prompt without a past has none in common either."""
    past = {"input_len": 2000, "cached_prefix": context} if phase == "prefill" else {"context": context}
    with pytest.raises(InputError, match=r"1,?000 is more than the"):
        analyze("llama-3.2-1b", "l4", phase=phase, shared_prefix=1000, **past)
    with pytest.raises(InputError, match="1000 is more than the"):
        compile("llama-3.2-1b", "l4", phase, shared_prefix=1000)(input_len=2000, context=[5000, context])
    assert compile("llama-3.2-1b", "l4", "prefill", shared_prefix=1000)(input_len=2000)["flops"] > 0


def test_columns_are_named() -> None:
    """Those that are asked for, in that order; a misspelt one is refused with the nearest."""
    step = compile("llama-3.2-1b", "l4")
    assert list(step(columns=["fits", "flops"])) == ["fits", "flops"]
    assert list(step(estimate=True)) == [*compiled.PLAIN, *compiled.ESTIMATED]
    with pytest.raises(UnknownNameError, match="time_bound_s"):
        step(columns=["time_bond_s"])


def test_one_more_token_is_read_once_a_sequence() -> None:
    """Llama 3.1 8B keeps 131072 bytes a token; nothing else of a decode step depends on the context."""
    step = compile("llama-3.1-8b", "a100-sxm-80gb")
    read = step(batch=[3, 5], context=[[100], [101]])["bytes"]
    np.testing.assert_array_equal(read[1] - read[0], [3 * 131_072, 5 * 131_072])


def test_shapes_broadcast() -> None:
    """A column of batches and a row of contexts make a table; a scalar makes a scalar."""
    step = compile("llama-3.2-1b", "l4")
    table = step(batch=np.arange(1, 6)[:, None], context=np.arange(7)[None, :], estimate=True)
    assert {values.shape for values in table.values()} == {(5, 7)}
    assert step()["flops"].shape == ()
    assert all(values.dtype == np.float64 for name, values in table.items() if name not in ("bound_by", "fits"))
    assert (table["time_estimate_s"] > table["time_bound_s"]).all()


def test_results_can_be_written_to() -> None:
    """They are arrays of their own, no views of something broadcast."""
    found = compile("llama-3.2-1b", "l4")(batch=[1, 2], context=5)
    found["bytes"][0] = 0
    assert found["bytes"][1] > 0


def test_context_defaults_to_the_prompt_at_decode_and_to_nothing_at_prefill() -> None:
    """As in `analyze`; a prefill with a context is the next chunk of a longer prompt and attends to more."""
    decode, prefill = compile("llama-3.2-1b", "l4"), compile("llama-3.2-1b", "l4", "prefill")
    assert decode(input_len=77)["flops"] == decode(context=77)["flops"]
    assert prefill(input_len=77)["flops"] == prefill(input_len=77, context=0)["flops"]
    assert prefill(input_len=77, context=100)["flops"] > prefill(input_len=77)["flops"]


def test_no_silent_overflow() -> None:
    """10^6 prompts of 10^6 tokens: about 2*7.5e9*10^12 FLOP in the layers alone, far beyond 2^63."""
    flops = compile("llama-3.1-8b", "h100-sxm", "prefill")(batch=np.int64(10**6), input_len=np.int64(10**6))["flops"]
    assert flops > 1.4e22


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch": 0},
        {"batch": 1.5},
        {"batch": -1},
        {"context": -1},
        {"input_len": 0},
        {"batch": np.nan},
        {"batch": "many"},
        {"batch": 2.0**60},
    ],
)
def test_what_is_no_count_is_refused(arguments: dict[str, Any]) -> None:
    """Zero sequences, half a token, NaN."""
    with pytest.raises(InputError):
        compile("llama-3.2-1b", "l4")(**arguments)


def test_shapes_that_do_not_broadcast_are_named() -> None:
    """The message says which argument has which shape."""
    with pytest.raises(InputError, match=r"batch \(2,\), .*context \(3,\)"):
        compile("llama-3.2-1b", "l4")(batch=[1, 2], context=[1, 2, 3])


def test_limits_of_the_engine_hold() -> None:
    """`analyze` refuses what the engine would; so does this, for whole arrays."""
    step = compile("llama-3.2-1b", "l4", max_num_seqs=8, max_model_len=100)
    with pytest.raises(InputError, match="max_num_seqs"):
        step(batch=9, context=1)
    with pytest.raises(InputError, match="max_model_len"):
        step(batch=1, context=100)
    with pytest.raises(InputError, match="shared_prefix"):
        compile("llama-3.2-1b", "l4", shared_prefix=2000)(context=1999)


def test_bad_deployments_are_refused_before_any_point() -> None:
    """An unknown phase, an option of the workload, an option that nobody knows, a tensor-parallel size that cannot be."""
    with pytest.raises(UnknownNameError):
        compile("llama-3.2-1b", "l4", "decoding")
    with pytest.raises(InputError, match="batch is not part of a deployment"):
        compile("llama-3.2-1b", "l4", batch=3)
    with pytest.raises(UnknownNameError):
        compile("llama-3.2-1b", "l4", tensor_paralel_size=2)
    with pytest.raises(InputError):
        compile("llama-3.2-1b", "l4", tp=3)


def test_empty_arrays() -> None:
    """No points, no answers, no error."""
    assert compile("llama-3.2-1b", "l4")(batch=[], context=[])["flops"].shape == (0,)


def test_sympy_is_not_loaded() -> None:
    """Arrays need no symbols."""
    script = "import sys, roofline; roofline.compile('gpt2', 'l4')(batch=[1, 2]); sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_limits_of_arrays() -> None:
    """The largest batch and the longest sequence, and the shortest cache of a shared prefix, decide."""
    points = compile("llama-3.2-1b", "dgx-h100", dp=2, max_num_seqs=4, max_model_len=100, shared_prefix=50)
    assert points(batch=[8, 1], context=[50, 99])["time_bound_s"].shape == (2,)
    for batch, context, message in (([9, 1], 60, "more than max_num_seqs"), (1, [60, 100], "longer than max_model_len"),
                                    (1, [49, 60], "shared_prefix 50 is more than the 49 cached")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            points(batch=batch, context=context)


@pytest.mark.every_case
@pytest.mark.parametrize("overlap", [False, True])
def test_seconds_of_a_step_by_kernels(overlap: bool) -> None:
    """Bounds and kernels of all stages: behind each other as far as an engine hides launches, alone, and what it could hide.

    Two microbatches hide 0.6 of the shorter of collectives and all else, with weights read once more.
    """
    made = compile("qwen3-30b-a3b", "dgx-h100", dp=4, ep=4, microbatch_overlap=overlap)
    request, step = made.request, decode(64, 1000)
    found = made.times(step)
    alone, hidden = replace(request.estimator, hidden=0.0), request.estimator.hidden
    assert hidden > 0
    graph = build(request.model, request.deployment, request.precision, step, stages(request.model, 1)[0])
    sums = {True: [0.0, 0.0, 0.0], False: [0.0, 0.0, 0.0]}
    for kernel in kernels(graph):
        terms = alone.terms(kernel)
        launch = alone.hideable(kernel, terms)
        for place, seconds in enumerate((max(terms["total"] - hidden * launch, terms["bound"]), terms["total"], launch)):
            sums[overlap and kernel.collective][place] += float(seconds * kernel.repeat)
    again = sum(second_reading(operator, request.hardware) * repeat for operator, repeat in graph.values())
    for place, seconds in enumerate((found.kernels, found.alone)):
        rest, links = sums[False][place] + (again if overlap else 0), sums[True][place]
        assert float(seconds) == pytest.approx(rest + links - 0.6 * min(rest, links))
    assert float(found.launches) == pytest.approx(sums[False][2] + sums[True][2])
    assert float(found.bound) == pytest.approx(pipeline(request, step).bound)
