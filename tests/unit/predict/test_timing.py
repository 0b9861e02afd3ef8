"""Times of a step: overlap of microbatches, shares of a kernel, what engines add, means over many steps."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.operators.collectives import Collective
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import Interval
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import (
    _shared,
    decode_contexts,
    overlapped,
    overlapped_interval,
    per_stage,
    pipeline,
    pipelined_step,
    replica,
    request_times,
    second_reading,
    stage_bound,
    stage_estimate,
    timed,
    with_engine,
)
from roofline.specs.workload import Segment, decode, prefill

pytestmark = pytest.mark.every_case


@cache
def overlapping(microbatch_overlap: bool = True) -> ResolvedRequest:
    """Experts over four replicas."""
    return prepare("qwen3-30b-a3b", "dgx-h100", dp=4, ep=4, microbatch_overlap=microbatch_overlap, batch=64)


@cache
def with_steps(**options: Any) -> ResolvedRequest:
    """An engine that adds 100 s, 1 per sequence, 10 per doubling of ranks, 2 per layer of experts, 3 per stage and sequence."""
    request = prepare("qwen3-30b-a3b", "dgx-h100", **options)
    assert request.steps is not None
    figures = {"step": 100.0, "sequence": 1.0, "rank": 10.0, "experts": 2.0, "stage": 3.0, "eager": 0.5, "band": (0.9, 1.3)}
    return replace(request, steps=request.steps.model_copy(update=figures))


@pytest.mark.parametrize(("batch", "hidden", "seconds"), [(4, 1.0, 10), (5, 1.0, 7), (64, 0.5, 8.5), (1, 0.5, 10)])
def test_two_microbatches_hide_the_shorter(batch: int, hidden: float, seconds: float) -> None:
    """7 s beside 3: from two sequences in a replica on a share of the 3 passes behind; without the option nothing does."""
    for one, other in ((7.0, 3.0), (3.0, 7.0)):
        assert overlapped(overlapping(), decode(batch, 9), one, other, hidden) == seconds
        assert overlapped(overlapping(False), decode(batch, 9), one, other, hidden) == 10


@pytest.mark.parametrize(("batch", "pair"), [(4, 0), (5, 1)])
def test_an_interval_that_overlaps(batch: int, pair: int) -> None:
    """0.6 of the 4 s of collectives is hidden, with a second reading of 1 s; it begins where all is, and ends where none is."""
    whole, compute, links = Interval(11, 8, 15), Interval(7, 5, 9), Interval(4, 3, 5)
    found = overlapped_interval(overlapping(), decode(batch, 9), whole, compute, links, 1.0)
    assert found.seconds == pytest.approx(7 + pair + 4 - 0.6 * 4 * pair)
    assert (found.low, found.high) == pytest.approx((5 + 3 - 3 * pair, 15 + pair))
    narrow = overlapped_interval(overlapping(), decode(5, 9), Interval(1, 9, 2), Interval(7, 90, 9), links, 1.0)
    assert (narrow.low, narrow.high) == (narrow.seconds, narrow.seconds)


def test_weights_are_read_again() -> None:
    """Half of a product's microbatches reads them once more: their bytes where memory decides, nothing where it does not."""
    hardware = overlapping().hardware
    short, long = Gemm(m=1, n=4096, k=4096), Gemm(m=8192, n=4096, k=4096)
    assert second_reading(short, hardware) == pytest.approx(2 * 4096 * 4096 / 3350e9)
    assert second_reading(long, hardware) == 0


def test_a_stage_that_overlaps() -> None:
    """Bounds of collectives beside those of all else; estimates of both, with the second reading of all weights."""
    request, step = overlapping(), decode(64, 1000)
    graph = build(request.model, request.deployment, request.precision, step, stages(request.model, 1)[0])
    plain = overlapping(False)
    of_links = {path: entry for path, entry in graph.items() if isinstance(entry[0], Collective)}
    others = {path: entry for path, entry in graph.items() if path not in of_links}
    links, compute = (stage_bound(plain, step, part) for part in (of_links, others))
    assert min(links, compute) > 0
    assert stage_bound(plain, step, graph) == pytest.approx(links + compute)
    assert stage_bound(request, step, graph) == pytest.approx(max(links, compute))
    again = sum(second_reading(operator, request.hardware) * repeat for operator, repeat in graph.values())
    whole, sent, rest = (stage_estimate(plain, step, part)[0] for part in (graph, of_links, others))
    assert whole is not None
    assert sent is not None
    assert rest is not None
    found, parts = stage_estimate(request, step, graph)
    assert found == overlapped_interval(request, step, whole, rest, sent, again)
    assert set(parts) == set(graph)
    assert stage_estimate(request, step, others)[0] == rest  # without collectives nothing overlaps


def test_operators_of_one_kernel_share_its_time() -> None:
    """Each has its own bound, and of the rest a share by the sum of its resources' times; for all repeats."""
    request = overlapping()
    up, down = (GroupedGemm(tokens=64, n=n, k=k, experts=8, top_k=2) for n, k in ((256, 4096), (4096, 128)))
    kernel = Kernel("moe", {"up_proj": up, "down_proj": down}, ("a", "b"), 3)
    hardware, time = request.hardware, Interval(5.0, 4.0, 7.0)
    busy = []
    for one in (up, down):
        cost = one.cost()
        busy.append((cost.matrix_flops / hardware.peak("bf16"), cost.bytes / hardware.bandwidth))
    bounds, sums = [3 * max(each) for each in busy], [sum(each) for each in busy]
    parts = _shared(time, kernel, request)
    for path, bound, share in zip("ab", bounds, sums, strict=True):
        expected = [bound + (end - sum(bounds)) * share / sum(sums) for end in (5.0, 4.0, 7.0)]
        assert parts[path] is not None
        assert (parts[path].seconds, parts[path].low, parts[path].high) == pytest.approx(tuple(expected))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "sequences", "added", "staged"),
    [
        ({"tp": 1}, 5, 100 + 5 + 2 * 48, 0),
        ({"tp": 4}, 5, 100 + 5 + 10 * 2 + 2 * 48, 0),
        ({"tp": 2, "pp": 4}, 7, 100 + 7 + 10 + 2 * 48 + 4 * 3 * 7, 21),
    ],
)
def test_what_an_engine_adds(options: dict[str, int], sequences: int, added: float, staged: float) -> None:
    """In the wider of the kernels' interval and the engine's band; 48 layers have experts."""
    request = with_steps(**options)
    assert request.engine_seconds(sequences) == pytest.approx(added)
    assert request.stage_seconds(sequences) == staged
    assert request.engine_seconds(sequences, 1) == pytest.approx(added - (options.get("pp", 1) - 1) * staged)
    assert (request.eager_seconds, request.engine_band) == (24, (0.9, 1.3))
    whole = 1000 + added
    wide = with_engine(request, Interval(1000.0, 100.0, 9000.0), sequences)
    assert (wide.seconds, wide.low, wide.high) == pytest.approx((whole, 100 + added, 9000 + added))
    narrow = with_engine(request, Interval(1000.0, 999.0, 1001.0), sequences)
    assert (narrow.low, narrow.high) == pytest.approx((0.9 * whole, 1.3 * whole))
    assert request.steps is not None
    above = replace(request, steps=request.steps.model_copy(update={"band": (1.1, 1.2)}))
    below = replace(request, steps=request.steps.model_copy(update={"band": (0.7, 0.8)}))
    assert (above.engine_band, below.engine_band) == ((1.0, 1.2), (0.7, 1.0))
    bare = replace(request, steps=None)
    assert (bare.engine_seconds(9), bare.stage_seconds(9), bare.eager_seconds, bare.engine_band) == (0, 0, 0, (1, 1))
    assert with_engine(bare, narrow, sequences) is narrow


def test_a_step_of_a_pipeline() -> None:
    """Bounds, floors and kernels of all stages, one after another, and what the engine adds for the replica with most."""
    request, step = with_steps(tp=2, pp=2, dp=2, batch=9), decode(9, 700)
    assert replica(request, step) == 5
    by_stage = per_stage(request, step)
    estimates = [estimate for _, estimate in by_stage]
    graphs = [build(request.model, request.deployment, request.precision, step, one) for one in stages(request.model, 2)]
    found = pipeline(request, step)
    assert found.bound == pytest.approx(sum(stage_bound(request, step, graph) for graph in graphs))
    sums = {end: sum(getattr(one, end) for one in estimates) for end in ("seconds", "low", "high")}
    through = with_engine(request, Interval(**sums), 5)
    assert (found.estimate, found.low, found.high) == pytest.approx((through.seconds, through.low, through.high))
    parts = [timed(request, graph, step) for graph in graphs]
    assert found.floor == pytest.approx(sum(one.floor or 0 for one in parts))
    assert [one.estimate for one in parts] == pytest.approx([one.seconds for one in estimates if one is not None])
    with_one = replace(request.estimator, wanted=False)
    assert pipeline(replace(request, estimator=with_one), step) == Duration(found.bound, None, floor=found.floor)


@pytest.mark.parametrize(
    ("step", "parts"),
    [
        (decode(18, 700), decode(6, 700)),
        (prefill(18, 64), prefill(6, 64)),
        ((*decode(18, 9), Segment(6, 8, 0)), (*decode(6, 9), Segment(2, 8, 0))),
    ],
)
def test_microbatches_of_a_pipeline(step: Any, parts: Any) -> None:
    """Three of 6 sequences, 3 in each replica: of decode the longer of a microbatch's way and three times the slowest stage.

    With prompts the way of one and twice the slowest stage more. The engine's 3 s a sequence and stage delay the stages, what
    else it adds only the way.
    """
    request, rounds = with_steps(tp=2, pp=2, dp=2, batch=18), all(segment.decode for segment in step)
    by_stage, own = per_stage(request, parts), 3 * replica(request, parts)
    found = pipelined_step(request, step, 3)
    bounds = [bound for bound, _ in by_stage]
    assert found.bound == pytest.approx(max(sum(bounds), 3 * max(bounds)) if rounds else sum(bounds) + 2 * max(bounds))
    ends = {end: [getattr(one, end) for _, one in by_stage] for end in ("seconds", "low", "high")}
    way = with_engine(request, Interval(**{end: sum(values) for end, values in ends.items()}), replica(request, parts))
    for end, name in (("seconds", "estimate"), ("low", "low"), ("high", "high")):
        slowest, alone = max(ends[end]) + own, getattr(way, end)
        assert getattr(found, name) == pytest.approx(max(alone, 3 * slowest) if rounds else alone + 2 * slowest)


@pytest.mark.parametrize(("first", "steps"), [(0, 1), (100, 33), (100, 34), (1, 35), (1000, 4097), (7, 100)])
def test_means_over_contexts(first: int, steps: int) -> None:
    """Between points times are a straight line: the mean of the line over all whole contexts, by brute force."""
    points = decode_contexts(first, steps)
    contexts = np.array([context for context, _ in points])
    assert len(points) == min(steps, 33)
    assert (contexts[0], contexts[-1]) == (first, first + steps - 1)
    if steps > 33:
        assert np.abs(np.diff(contexts) - (steps - 1) / 32).max() <= 1
    values = np.random.default_rng(1).uniform(1, 2, len(points))
    every = np.interp(np.arange(first, first + steps), contexts, values)
    assert np.dot([weight for _, weight in points], values) == pytest.approx(every.mean())


def test_times_of_a_request() -> None:
    """The first token out of the prompt, the others one after another; the mean of their steps."""
    request = prepare("llama-3.1-8b", "h100-sxm", batch=3, input_len=500, output_len=5)
    times = request_times(request, timed=True)
    assert times is not None
    ttft, steps = pipeline(request, prefill(3, 500)), [pipeline(request, decode(3, 500 + more)) for more in range(4)]
    for name in ("bound", "estimate", "low", "high", "floor"):
        each = [getattr(step, name) for step in steps]
        assert getattr(times["ttft_s"], name) == getattr(ttft, name)
        assert getattr(times["tpot_s"], name) == pytest.approx(sum(each) / 4)
        assert getattr(times["e2e_s"], name) == pytest.approx(getattr(ttft, name) + sum(each))
    launched = kernels(build(request.model, request.deployment, request.precision, decode(3, 500)))
    assert any(kernel.op == "gemm" for kernel in launched)
