"""Seconds of a deployment under a mix of requests, against the same steps asked for one by one."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.serving.queueing.replica import Demand, Mix, Replica, scatter
from roofline.specs.workload import Segment, decode

FIXED = Mix(1.0, np.full(8, 1000.0), np.full(8, 201.0))


def replica(budgets: tuple[int, ...] = (2048,), **options: object) -> Replica:
    return Replica(prepare("llama-3.1-8b", "h100-sxm", input_len=1, phase="decode", **options), 64, budgets)


def test_a_decode_step_is_that_of_the_mean_context() -> None:
    """1,000 prompt tokens and half of 200 later ones: the middle of the answer."""
    found = replica()
    seconds = found.server([FIXED], 64, 2048).decode_s
    for many in (1, 64):
        assert seconds[many - 1] == pytest.approx(pipeline(found.request, decode(many, 1100)).estimate, rel=1e-9)


def test_a_prompt_adds_the_step_with_it_less_the_step_without() -> None:
    found = replica()
    demand = found.server([FIXED], 64, 2048).demands[0]
    beside = Segment(64, 1, 1100, decode=True)
    both = pipeline(found.request, (beside, Segment(1, 1000, 0))).estimate
    alone = pipeline(found.request, (beside,)).estimate
    assert both is not None
    assert alone is not None
    # NB: the engine's part is by sequences: a prompt is one more for `pipeline`, and none here
    engine = found.request.engine_seconds(65) - found.request.engine_seconds(64)
    assert demand.prompts(np.array([64.0]))[0, 0] == pytest.approx(both - alone - engine, rel=1e-6)


def test_a_long_prompt_is_the_sum_of_its_chunks() -> None:
    """10,000 tokens in chunks of 2,048: four whole ones, of which the first and the last are looked at, and a rest."""
    found = replica()
    mix = Mix(1.0, np.full(8, 10_000.0), np.full(8, 2.0))
    demand = found.server([mix], 64, 2048).demands[0]
    request, total = found.request, 0.0
    beside = Segment(1, 1, 10_000, decode=True)
    alone = pipeline(request, (beside,)).estimate or 0.0
    engine = request.engine_seconds(2) - request.engine_seconds(1)
    for start in range(0, 10_000, 2048):
        chunk = min(2048, 10_000 - start)
        both = pipeline(request, (beside, Segment(1, chunk, start))).estimate or 0.0
        total += both - alone - engine
    assert demand.prompts(np.array([1.0]))[0, 0] == pytest.approx(total, rel=0.02)


def test_ranks_have_a_prompt_each() -> None:
    """Eight ranks share the experts: a prompt on each costs what `analyze` says of a batch of eight, and one alone of one."""
    request = prepare("deepseek-v3", "dgx-h200", input_len=1, phase="decode", dp=8, ep=8)
    ranks = Replica(request, 16, (8192,))
    mix = Mix(1.0, np.full(8, 8192.0), np.full(8, 201.0))
    demand = ranks.server([mix], 16, 8192).demands[0]
    beside = Segment(8, 1, 8292, decode=True)
    alone = pipeline(request, (beside,)).estimate or 0.0
    engine = request.engine_seconds(2) - request.engine_seconds(1)
    each, one = ((pipeline(request, (beside, Segment(count, 8192, 0))).estimate or 0.0) - alone - engine for count in (8, 1))
    assert each < 8 * one / 3  # prompts of ranks that step together are not computed one after another
    assert demand.prompts(np.array([1.0]))[0, 0] == pytest.approx(each, rel=1e-3)
    assert demand.prompts(np.array([1.0]))[0, 0] * demand.alone(8) == pytest.approx(one, rel=0.05)


def test_cached_tokens_are_not_computed() -> None:
    mix = Mix(1.0, np.array([1000.0]), np.array([2.0]), hit=0.75)
    assert list(mix.computed) == [250]
    assert list(Mix(1.0, np.array([3.0]), np.array([2.0]), hit=0.99).computed) == [1]
    found = replica()
    whole, part = (found.server([one], 64, 2048).demands[0].prompts(np.array([1.0]))[0, 0]
                   for one in (Mix(1.0, np.array([1000.0]), np.array([2.0])), mix))  # fmt: skip
    assert part < whole / 2


def test_bounds_are_below_estimates_and_scale() -> None:
    found = replica()
    bound, estimate = (found.server([FIXED], 64, 2048, basis=basis) for basis in ("bound", "estimate"))
    assert np.all(bound.decode_s < estimate.decode_s)
    twice = found.server([FIXED], 64, 2048, scale=2.0)
    assert twice.decode_s == pytest.approx(2 * estimate.decode_s)


def test_a_pipeline_has_a_batch_in_every_stage() -> None:
    """Of 64 sequences in two stages 32 are in each: a token takes as long as 32 take through both."""
    found = replica(pp=2)
    seconds = found.server([FIXED], 64, 2048).decode_s[63]
    assert seconds == pytest.approx(pipeline(found.request, decode(32, 1100)).estimate, rel=1e-9)
    assert found.server([FIXED], 64, 2048).stages == 2


def test_what_the_prefix_cache_has() -> None:
    """A share of every prompt, its first tokens, or some of the requests."""
    lengths = np.array([1000.0]), np.array([2.0])
    assert not Mix(1.0, *lengths).cached
    assert Mix(1.0, *lengths, hit=0.5).cached
    assert Mix(1.0, *lengths, prefix=1).cached


def test_scatter_is_that_of_prompts_to_compute() -> None:
    """Prompts of 1 and 3 tokens: mean 2, mean square 5, so 5/4 - 1."""
    demand = Demand(1.0, np.ones(1), np.zeros((1, 2)), np.array([1.0, 3.0]), np.ones(1))
    assert scatter([demand]) == pytest.approx(0.25)
