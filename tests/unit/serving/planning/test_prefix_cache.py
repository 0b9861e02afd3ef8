"""What a KV cache retains between requests, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.planning.load import Load
from roofline.serving.planning.prefix_cache import LONGEST_AGE, PrefixCacheModel, prefix_cache_model
from roofline.serving.traffic.build import single
from roofline.serving.traffic.conversations import Pause

ONE: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16", "mode": "colocated"}


def cache(num_blocks: int, **traffic: Any) -> PrefixCacheModel:
    """The KV cache of a rank with blocks of 16 tokens, of which each has 2 MiB."""
    load = Load.of(single(**traffic))
    return prefix_cache_model(load.retained, num_blocks, 16, 2**21, 1)


TWO_TURNS: dict[str, Any] = {"rate": 2, "input_len": 160, "output_len": 160, "turns": 2, "think": "10 s"}


def test_conversations_by_hand() -> None:
    """Two turns a second, every other one the last of two.

    A first turn leaves 160 + 160 - 1 tokens, 20 blocks, a last one 160 + 160 + 160 + 160 - 1, 40 blocks. Beyond the
    pause of 10 s: 1/s x 10 s x 20 + 1/s x T x 40 = 200 + 40 T. In 1,100 blocks beside 100 that run T is 20 s, and
    every second turn finds 19 full blocks of 320 tokens: 304 of the (160 + 480)/2 tokens of both. In 400 T would be 5 s, 20 T +
    40 T = 300, before the next turn comes.
    """
    ample, tight = cache(1100, **TWO_TURNS), cache(400, **TWO_TURNS)
    (one,) = ample.classes
    assert (one.idle_blocks, one.ended_blocks, one.ended_share) == (20, 40, 0.5)
    assert ample.age(2.0, 100.0, 0.0) == pytest.approx(20, rel=1e-3)
    assert tight.age(2.0, 100.0, 0.0) == pytest.approx(5, rel=1e-3)
    state = ample.describe(20.0, 2.0, 100.0, 0.0, ample.shares(20.0, 2.0, 0.0))
    assert (state.idle, state.ended) == pytest.approx((200, 800))
    assert (state.idle_sessions, state.retained_sessions) == pytest.approx((10, 10))  # Little: 1/s x 10 s
    assert state.hit_rate == pytest.approx(304 / 2 / 320)
    assert state.use().idle_tokens == pytest.approx(200 * 16)
    state = tight.describe(5.0, 2.0, 100.0, 0.0, tight.shares(5.0, 2.0, 0.0))
    assert state.retained_sessions == pytest.approx(5)
    assert state.hit_rate < 0.02


def test_what_all_ranks_hold() -> None:
    """Two ranks with 1,100 blocks each of 16 tokens and 2 MiB: what a result says is of both."""
    one = cache(1100, **TWO_TURNS)
    state = one.describe(20.0, 2.0, 100.0, 0.0, one.shares(20.0, 2.0, 0.0))
    use = replace(state, cache=replace(one, ranks=2), shared=7.0, needed=50.0).use()
    assert (use.capacity_tokens, use.capacity_bytes, use.bytes_per_token) == (2 * 1100 * 16, 2 * 1100 * 2**21, 2**21 / 16)
    held = (use.running_tokens, use.shared_tokens, use.idle_tokens, use.ended_tokens, use.needed_tokens)
    assert held == pytest.approx([2 * 16 * blocks for blocks in (100, 7, 200, 800, 50)])
    assert (use.idle_sessions, use.retained_sessions, use.eviction_age_s) == pytest.approx((20, 20, 20))
    assert state.use().needed_tokens is None
    assert replace(state, age=LONGEST_AGE).use().eviction_age_s is None


def test_the_age_fluctuates() -> None:
    """Near the pause some turns come in time.

    In a window of 10 s blocks come in clumps of 20 and 40, with a variance of 2/s (20^2 + 40^2)/2 x 10 s = 20,000. Over
    the slope
    of 60 blocks/s their standard deviation of 141 is 2.4 s.
    """
    state = cache(10_000, **TWO_TURNS)
    assert state.shares(10.0 - 1e-6, 2.0, 0.0)[0][-1] == pytest.approx(0.25, abs=0.13)  # half of the second turns
    some = [state.shares(age, 2.0, 0.0)[0][-1] * 2 for age in (6.0, 9.0, 12.0, 20.0)]
    assert some == sorted(some)
    assert some[0] < 0.2
    assert some[-1] == 1


def test_system_prompts_by_hand() -> None:
    """Four prompts of 160 tokens, ten blocks each, drawn with 2 requests/s.

    A request of 160 + 160 + 16 tokens has 21 - 10 = 11 blocks of its own. At an age of 3 s, with requests of 1 s, each
    is cached with 1 - exp(-2/4 x 4): 40 (1 - e^-2) blocks, and 2 x 3 x 11 of ended
    requests.
    """
    model = cache(1000, rate=2, input_len=160, output_len=16, system_prompt=160, system_prompts=4)
    (one,) = model.classes
    hit = 1 - math.exp(-2)
    assert (one.shared, one.ended_blocks) == (10, 11)
    assert one.system_hit(3.0, 2.0, 1.0) == pytest.approx(hit)
    free = 40 * hit + 66
    assert model.age(2.0, 1000 - free, 1.0) == pytest.approx(3, rel=1e-3)
    state = model.describe(3.0, 2.0, 1000 - free, 1.0, model.shares(3.0, 2.0, 1.0))
    assert state.shared == pytest.approx(40 * hit)
    assert state.hit_rate == pytest.approx(hit / 2)  # 160 of 320 tokens


def test_windows_retain_nothing() -> None:
    """As in simulation: blocks of windows are found by rules of their own, and every prompt is computed."""
    lengths = {"rate": 1, "output_len": 20, "max_num_seqs": 32}
    some = [
        roofline.plan("gemma-3-12b", **ONE, **lengths, **prompts).best
        for prompts in ({"input_len": 200, "system_prompt": 1000}, {"input_len": 1200})
    ]
    assert some[0] is not None
    assert some[1] is not None
    assert some[0].performance.cache is None
    assert some[0].ttft_s.mean == pytest.approx(some[1].ttft_s.mean, rel=0.01)
    assert any("no prefixes are retained" in note for note in some[0].notes)


def test_a_given_share_needs_memory() -> None:
    """38 % of the prompt tokens are 0.38 x 320/304 = 0.4 of the turns, 0.8 of the second ones.

    Pauses are exponential: T = 10 ln 5 s, which at 200 turns/s retains 100/s x 8 s x 20 + 100/s x 16.1 s x 40 = 80,400 blocks;
    fluctuations take a little more. More than 304/640 is not there to find.
    """
    given = {**TWO_TURNS, "think": "exponential:10 s", "prefix_hit": 0.38}
    state = cache(5000, **given).describe(50.0, 200.0, 100.0, 0.0, ((1.0,),))
    assert state.hit_rate == pytest.approx(0.38, abs=2e-3)  # tokens are whole
    assert state.needed == pytest.approx(100 * (160 + 40 * 10 * math.log(5)), rel=0.02)
    assert state.max_hit_rate == pytest.approx(304 / 640)
    assert cache(5000, **{**given, "prefix_hit": 0.5}).describe(50.0, 200.0, 100.0, 0.0, ((1.0,),)).needed is None


@pytest.mark.parametrize(
    "pause", [Pause(10.0), Pause(10.0, 10.0, "exponential"), Pause(10.0, 6.0, "lognormal"), Pause(10.0, 30.0, "lognormal")]
)
def test_pauses(pause: Pause) -> None:
    """P(Z < t) and E[min(Z, t)] against 200,000 draws."""
    rng = np.random.default_rng(1)
    drawn = np.array([pause.sample(rng) for _ in range(200_000)])
    for seconds in (2.0, 9.9, 30.0):
        assert pause.within(seconds) == pytest.approx((drawn < seconds).mean(), abs=0.005)
        assert pause.mean_up_to(seconds) == pytest.approx(np.minimum(drawn, seconds).mean(), rel=0.01)
    assert pause.mean_up_to(math.inf) == pytest.approx(10)


@pytest.mark.slow
def test_a_shared_prompt_is_in_memory_once() -> None:
    """Requests of 4,000 + 160 tokens and 80 more take 265 blocks, of which 250 are the system prompt's.

    C blocks hold C/265 of them alone, and (C - 250)/15 that share it; with 1,024 prompts nearly each has another. C is that
    beside the activations of the longest step, here of shorter ones: 3 %.
    """
    lengths = {"rate": 2, "output_len": 80, "gpu_memory_utilization": 0.27, "max_num_batched_tokens": 2048}

    def first(**traffic: Any) -> Any:
        best = roofline.plan("llama-3.1-8b", **ONE, **lengths, **traffic).best
        assert best is not None
        return best

    alone, shared = first(input_len=4160), first(input_len=160, system_prompt=4000)
    capacity = shared.performance.cache.cache.num_blocks
    assert alone.pools[0].deployment["max_num_seqs"] == pytest.approx(capacity / 265, abs=1)
    assert shared.pools[0].deployment["max_num_seqs"] == pytest.approx((capacity - 250) / 15, rel=0.03)
    assert first(input_len=160, system_prompt=4000, system_prompts=1024).pools[0].deployment["max_num_seqs"] == pytest.approx(
        capacity / 265, abs=1
    )
    found = shared.to_dict()["kv_cache"]
    assert found["shared_tokens"] == pytest.approx(4000, rel=1e-3)
    assert found["hit_rate"] == pytest.approx(4000 / 4160, rel=1e-3)
    parts = sum(found[f"{name}_tokens"] for name in ("running", "shared", "idle", "ended"))
    assert parts == pytest.approx(found["capacity_tokens"], rel=0.01)
    assert found["bytes_per_token"] == 32 * 2 * 8 * 128 * 2  # layers, K and V, heads, their size, bf16


@pytest.mark.slow
def test_less_memory_forgets_more() -> None:
    """The share of cached prompt tokens falls with memory, and with it the rate; the objectives see longer prompts."""
    talk = {"input_len": 300, "output_len": 200, "turns": 6, "think": "exponential:30 s", "rate": 3}
    best = [
        roofline.plan("llama-3.1-8b", **ONE, **talk, gpu_memory_utilization=share, max_num_seqs=32).best
        for share in (0.9, 0.4, 0.3)
    ]
    states = [one.performance.cache for one in best if one is not None and one.performance.cache is not None]
    assert len(states) == 3
    rates, ages = [one.hit_rate for one in states], [one.age for one in states]
    assert rates == sorted(rates, reverse=True)
    assert ages == sorted(ages, reverse=True)
    assert best[0].ttft_s.mean < best[1].ttft_s.mean < best[2].ttft_s.mean
    assert best[0].breaks_at > best[1].breaks_at > best[2].breaks_at


@pytest.mark.slow
def test_simulated_candidates_hold_conversations() -> None:
    """`--simulate` has the conversations too, whose turns go to the replica that holds them: hits are those predicted."""
    talk = {"input_len": 300, "output_len": 100, "turns": 5, "think": "exponential:20 s", "ttft": "1 s", "tpot": "40 ms"}
    settings = {"gpu_memory_utilization": 0.4, "max_num_seqs": 48, "max_num_batched_tokens": 2048}
    best = roofline.plan("llama-3.1-8b", **ONE, rate=40, **talk, **settings, simulate_top=1).best
    assert best is not None
    assert best.simulated is not None
    assert best.simulated.simulation is not None
    assert best.performance.cache is not None
    assert best.replicas > 1  # else all go to one
    assert best.simulated.simulation.prefix_hit_rate == pytest.approx(best.performance.cache.hit_rate, abs=0.04)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"concurrency": 8, "turns": 3}, "clients that hold conversations"),
        ({"rate": 1, "turns": 3, "mode": "disaggregated"}, "--mode disaggregated: what pools retain"),
    ],
)
def test_what_is_simulated_only(given: dict[str, Any], error: str) -> None:
    """Each says what to do instead."""
    with pytest.raises(InputError, match=error):
        roofline.plan("llama-3.1-8b", **{**ONE, **given}, input_len=20, output_len=10)
