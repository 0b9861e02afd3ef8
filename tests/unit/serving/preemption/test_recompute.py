"""Recomputation: that of the step that `analyze` times, chunk by chunk, beside a batch, and as a table."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.predict.slo import without_estimate
from roofline.predict.timing import pipeline
from roofline.serving.preemption.recompute import Recompute
from roofline.specs.workload import Segment, decode, prefill

A100 = "a100-sxm-80gb"


def of(model: str = "llama-3.1-8b", hardware: str = A100, batch: int = 0, context: int = 0, **options: Any) -> Recompute:
    request = prepare(model, hardware, **{"context": options.get("shared_prefix", 0), "phase": "decode", **options})
    return Recompute(request, batch, context, options.get("shared_prefix", 0))


def test_alone_it_is_a_prompt() -> None:
    """As `analyze` times it, with its interval."""
    found = of().estimate(2048)
    asked = roofline.analyze("llama-3.1-8b", A100, input_len=2048, phase="prefill").prefill
    assert asked is not None
    span = asked.pipeline
    assert (found.seconds, found.bound, found.low, found.high) == pytest.approx(
        (span.estimate, span.bound, span.low, span.high)
    )
    assert found.steps == 1


def test_the_floor_is_that_of_its_chunks() -> None:
    """8292 tokens: a chunk of 8192, and one of a hundred after them."""
    recompute = of()
    steps = (prefill(1, 8192), (Segment(1, 100, 8192),))
    floors = [pipeline(recompute.request, step).floor for step in steps]
    assert recompute._floor(8192) == pytest.approx(floors[0])
    assert recompute._floor(8292) == pytest.approx(sum(floors))


def test_chunks() -> None:
    """8292 tokens are a step of 8192, and one of a hundred after them."""
    recompute = of()
    parts = [pipeline(recompute.request, step).estimate for step in (prefill(1, 8192), (Segment(1, 100, 8192),))]
    assert [recompute.steps(tokens) for tokens in (1, 8192, 8193, 8292)] == [1, 1, 2, 2]
    assert recompute.exact(8292) == pytest.approx(sum(part or 0.0 for part in parts))
    small = of(max_num_batched_tokens=512)
    assert small.steps(2048) == 4
    assert small.exact(2048) > of().exact(2048)  # the weights are read four times


def test_a_prefix_that_stays_is_attended_to() -> None:
    recompute = of(shared_prefix=4096)
    assert recompute.exact(1000) == pytest.approx(pipeline(recompute.request, (Segment(1, 1000, 4096),)).estimate)


def test_a_prefix_that_stays_beside_a_batch() -> None:
    """Of a model with windows too; close to what `analyze` has with the prefix read once."""
    for model, hardware in (("gpt-oss-20b", "h100-sxm"), ("llama-3.1-8b", A100)):
        recompute = of(model, hardware, 8, 3000, shared_prefix=1000)
        running, prompt = Segment(8, 1, 3000, decode=True), Segment(1, 700, 1000)
        whole, alone = (pipeline(recompute.request, step).bound or 0 for step in ((running, prompt), (running,)))
        assert recompute.exact(700, "bound") == pytest.approx(whole - alone, rel=0.02)


def test_beside_a_batch_it_is_what_it_adds() -> None:
    """The step with the prompt in it less the step without."""
    recompute = of(batch=32, context=2048)
    running, prompt = Segment(32, 1, 2048, decode=True), Segment(1, 1000, 0)
    whole, alone = (pipeline(recompute.request, step) for step in ((running, prompt), decode(32, 2048)))
    assert recompute.exact(1000) == pytest.approx((whole.estimate or 0) - (alone.estimate or 0))
    assert recompute.exact(1000, "bound") == pytest.approx((whole.bound or 0) - (alone.bound or 0))
    assert recompute.budget == 8192 - 32
    assert recompute.exact(64) < of().exact(64) / 5  # the weights are read anyway


@pytest.mark.parametrize("tokens", [1, 20, 500, 20_000])
def test_beside_a_batch_the_interval_holds_the_estimate(tokens: int) -> None:
    """On slow matrix units rows that fill one tile take as long as fewer do, and the bounds differ: it is held at that."""
    for options in ({}, {"peak_flops": "5 TFLOP/s"}):
        found = of("llama-3.1-8b", "h100-sxm", batch=8, context=4096, **options).estimate(tokens)
        assert found.low is not None
        assert found.high is not None
        assert found.bound <= found.low <= found.seconds <= found.high


def test_a_budget_of_tokens_that_nothing_reaches() -> None:
    """No table is made for chunks that never come: 4096 tokens are one chunk, of a budget of 8192 as of one of 10^12."""
    assert of(max_num_batched_tokens=10**12).seconds(4096) == pytest.approx(of(max_num_batched_tokens=8192).seconds(4096))


def test_a_batch_that_fills_the_step() -> None:
    with pytest.raises(InputError, match="leaves none of the 64 tokens of a step"):
        _ = of(batch=64, max_num_batched_tokens=64).budget


def test_at_the_bound() -> None:
    """Where nothing was measured."""
    measured = of()
    recompute = Recompute(without_estimate(measured.request))
    found = recompute.estimate(512)
    assert (found.seconds, found.low, found.high) == (found.bound, None, None)
    assert found.bound == measured.estimate(512).bound < measured.estimate(512).seconds


CASES = [
    ("llama-3.1-8b", A100, {}),
    ("gemma-3-12b", "h100-sxm", {}),
    ("mixtral-8x7b", "h100-sxm", {"tp": 2}),
    ("deepseek-v3", "h200-sxm", {"tp": 8}),
    ("qwen3-32b", "h100-sxm", {"tp": 2, "pp": 2}),
]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0, 1, 33])
@pytest.mark.parametrize(("model", "hardware", "options"), CASES)
def test_the_table_is_within_two_per_cent(model: str, hardware: str, options: dict[str, Any], batch: int) -> None:
    """At lengths between those that it holds, short and of many chunks; half of them within a thousandth."""
    recompute = of(model, hardware, batch, 1000, **options)
    rnd = random.Random(batch)  # noqa: S311 - lengths to try, not a secret
    lengths = [rnd.randrange(1, 9000) for _ in range(40)] + [rnd.randrange(9000, 100_000) for _ in range(15)]
    off = np.array([recompute.seconds(tokens) / recompute.exact(tokens) - 1 for tokens in lengths])
    assert abs(off).max() < 0.02
    assert np.median(abs(off)) < 0.001


def test_the_table_has_its_own_points() -> None:
    recompute = of(max_num_batched_tokens=1000)
    for tokens in (1, 2, 63, 512, 513, 576, 577, 1000, 1001, 1064, 2000, 2001):
        assert recompute.seconds(tokens) == pytest.approx(recompute.exact(tokens), rel=1e-9)
    assert recompute.seconds(0) == 0.0


# Chunk by chunk


def chunks(tokens: int, budget: int) -> list[tuple[int, int]]:
    """The new and the cached tokens of each step."""
    steps, done = [], 0
    while done < tokens:
        steps.append((min(budget, tokens - done), done))
        done += steps[-1][0]
    return steps


SMALL = {"max_num_batched_tokens": 200}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("batch", "options", "left"),
    [
        (0, SMALL, 200), (0, {**SMALL, "shared_prefix": 300}, 200), (5, {**SMALL, "dp": 2}, 197), (4, {**SMALL, "dp": 2}, 198),
        (7, {**SMALL, "shared_prefix": 300}, 193),
        (199, SMALL, 1),
    ],
)  # fmt: skip
def test_steps_one_by_one(batch: int, options: dict[str, Any], left: int) -> None:
    """Each chunk adds its step less the batch's step alone; of 5 sequences on two replicas 3 are on the fuller one.

    Beside a batch a prefix counts as cached tokens of each sequence, read by each.
    """
    recompute, prefix = of(batch=batch, context=1000, **options), options.get("shared_prefix", 0)
    running = (Segment(batch, 1, 1000, decode=True),) if batch else ()
    plain = {name: value for name, value in options.items() if name != "shared_prefix"}
    request = of(**plain).request if batch else recompute.request
    assert recompute.budget == left
    for tokens in (1, 2, left, left + 1, min(3 * left - 1, 9)) if left < 9 else (1, left - 1, left, left + 1, 3 * left - 1):
        steps = chunks(tokens, left)
        assert recompute.steps(tokens) == len(steps)
        for basis in ("bound", "estimate"):
            alone = getattr(pipeline(request, running), basis) if batch else 0.0
            times = [
                getattr(pipeline(request, (*running, Segment(1, new, prefix + cached))), basis) - alone for new, cached in steps
            ]
            assert recompute.exact(tokens, basis) == pytest.approx(sum(times))
            assert not batch or recompute.alone[basis] == pytest.approx(alone)
        assert recompute.exact(tokens) == recompute.exact(tokens, "estimate")
        if not batch:
            floors = [pipeline(request, (Segment(1, new, prefix + cached),)).floor for new, cached in steps]
            assert recompute._floor(tokens) == pytest.approx(sum(floors))


@pytest.mark.every_case
@pytest.mark.parametrize("prefix", [0, 4000])
@pytest.mark.parametrize("tokens", [150, 200, 500])
def test_the_interval_is_that_of_the_ends(prefix: int, tokens: int) -> None:
    """Of the last chunk and, if there is another, the first: their intervals over their times."""
    recompute = of(shared_prefix=prefix, **SMALL)
    steps = chunks(tokens, 200)
    ends = [steps[-1], *steps[:1]] if len(steps) > 1 else steps
    spans = [pipeline(recompute.request, (Segment(1, new, prefix + cached),)) for new, cached in ends]
    found, total = recompute.estimate(tokens), sum(span.estimate or 0.0 for span in spans)
    low, high = (found.seconds * sum(getattr(span, end) for span in spans) / total for end in ("low", "high"))
    assert (found.seconds, found.time_s, found.steps) == (recompute.exact(tokens), found.seconds, len(steps))
    assert found.bound == recompute.exact(tokens, "bound")
    assert (found.low, found.high) == (
        pytest.approx(max(low, recompute._floor(tokens)), rel=1e-10),
        pytest.approx(high, rel=1e-10),
    )


@pytest.mark.every_case
@pytest.mark.parametrize("batch", [0, 1, 40, 64, 70])
@pytest.mark.parametrize("most", [300, 577, 1000])
def test_the_table_is_linear_between_tiles(batch: int, most: int) -> None:
    """Rows fill tiles of 64, of which the batch has the first.

    Between the first and the last length of a tile in a chunk the time is linear. Lengths up to 512 are there one by one.
    """
    recompute = of(batch=batch, context=500, max_num_batched_tokens=most)
    budget = most - batch
    ends = [budget - 1, budget, budget + 1, 2 * budget, 2 * budget + 1, 2 * budget + 90, 5 * budget - 7]
    for tokens in (1, 130, 290, 511, 520, 600, 690, 930, 1100, 1101, *ends):
        before = (tokens - 1) // budget * budget
        first = last = tokens - before
        while first > 1 and (first - 1 + batch) % 64:
            first -= 1
        while last < budget and (last + batch) % 64:
            last += 1
        start, end = recompute.exact(before + first), recompute.exact(before + last)
        share = (tokens - before - first) / (last - first) if last > first else 0.0
        expected = recompute.exact(tokens) if tokens <= min(512, budget) else start + share * (end - start)
        assert recompute.seconds(tokens) == pytest.approx(expected, rel=1e-9)


def test_without_options_it_is_alone() -> None:
    request = of().request
    assert Recompute(request) == Recompute(request, batch=0, context=0, prefix=0)


def test_chunks_that_are_longer_than_a_table() -> None:
    """Beyond 2^20 tokens of one chunk there is no table; up to it, and in shorter chunks, there is."""
    recompute = of(max_num_batched_tokens=2**20 + 64)
    assert recompute.seconds(2**20 + 1) == recompute.exact(2**20 + 1)
    assert recompute._rows == []
    assert recompute.seconds(2**20) == pytest.approx(recompute.exact(2**20), rel=1e-9)
    assert len(recompute._rows) == 1
    for budget in (2**19, 2**20):
        short = of(max_num_batched_tokens=budget)
        assert short.seconds(2**20 + 1) == pytest.approx(short.exact(2**20 + 1), rel=1e-9)
        assert len(short._rows) > 2**20 // budget
