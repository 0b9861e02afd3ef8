"""What a KV cache retains between requests, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.planning import prefix_cache as module
from roofline.serving.planning.load import Load
from roofline.serving.planning.prefix_cache import (
    LONGEST_AGE,
    PrefixCacheModel,
    RetainedClass,
    Turns,
    _Case,
    _means,
    distinct,
    prefix_cache_model,
)
from roofline.serving.queueing.replica import Mix
from roofline.serving.traffic.build import single
from roofline.serving.traffic.conversations import Conversation, Pause

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


# Two classes of a few turns

TALK = ((60, 20, 0, False), (100, 30, 80, True), (200, 50, 150, True), (41, 10, 0, False))
"""Prompts, outputs, tokens of the turn before, and whether it is the last; of 40 tokens one of four system prompts has."""
ALONE = ((33, 16, 0, True), (64, 1, 0, True))
SHARE = {TALK: 0.25, ALONE: 0.75}


def turns_of(rows: Any, conversation: Conversation) -> Turns:
    prompts, outputs, history, last = (np.array(column) for column in zip(*rows, strict=True))
    return Turns(conversation, prompts, outputs, history, last)


def mix_of(rows: Any, **given: Any) -> Mix:
    return Mix(SHARE[rows], *(np.sort([row[k] for row in rows]).astype(float) for k in (0, 1)), **given)


def two(num_blocks: int = 1000, ranks: int = 1, **given: Any) -> PrefixCacheModel:
    """Blocks of 16 tokens; pauses are exponential, of 10 s."""
    talk = turns_of(TALK, Conversation(40, 4, None, Pause(10.0, 10.0, "exponential")))
    return prefix_cache_model(
        [(mix_of(TALK, **given), talk), (mix_of(ALONE), turns_of(ALONE, Conversation()))], num_blocks, 16, 2**21, ranks
    )


def own(prompt: int, output: int, shared: int = 2) -> int:
    """Blocks that a turn leaves, without the system prompt."""
    return math.ceil((prompt + output - 1) / 16) - shared


def retained(age: float, rate: float, residence: float) -> tuple[float, float, float]:
    """Blocks of system prompts, of idle conversations and of ended ones.

    Of the first class half of the turns are the last: 3 and 1 blocks are idle (79/16 and 50/16 up, less 2), 7 and 14 ended.
    """
    talk, alone = 0.25 * rate, 0.75 * rate
    system = 4 * 2 * (1 - math.exp(-talk * (age + residence) / 4))
    idle = talk * 0.5 * 10 * (1 - math.exp(-age / 10)) * (own(60, 20) + own(41, 10)) / 2
    ended = talk * 0.5 * age * (own(100, 30) + own(200, 50)) / 2 + alone * age * (own(33, 16, 0) + own(64, 1, 0)) / 2
    return system, idle, ended


def test_blocks_of_a_class() -> None:
    """What turns leave, and what they find: full blocks of the system prompt, of the turn before, but not the last token."""
    one, other = two().classes
    assert (one.shared, one.prompts, one.share, other.shared, other.prompts) == (2, 4, 0.25, 0, 1)
    assert (one.ended_share, other.ended_share) == (0.5, 1)
    blocks = [own(prompt, output) for prompt, output, *_ in TALK]
    assert blocks == [3, 7, 14, 2]
    assert (one.idle_blocks, one.ended_blocks, one.square) == (2.5, 10.5, (9 + 49 + 196 + 4) / 4)
    assert (other.idle_blocks, other.ended_blocks, other.square) == (0, 3.5, (9 + 16) / 2)
    for each, rows, shared in ((one, TALK, 2), (other, ALONE, 0)):
        contexts, _ = each.base.met
        assert each.decode_blocks == pytest.approx(sum(contexts) / len(contexts) / 16 + 0.5 - shared)
        assert each.prompt_blocks == sum(math.ceil(row[0] / 16) for row in rows) / len(rows) - shared
    cases = [(case.later, case.kind, case.prompts.tolist(), case.cached.tolist()) for case in one.cases]
    assert cases == [
        (False, "", [60, 41], [0, 0]), (False, "system", [60, 41], [32, 32]), (True, "", [100, 200], [0, 0]),
        (True, "system", [100, 200], [32, 32]), (True, "session", [100, 200], [64, 144]),  # 79/16 and 149/16 down
    ]  # fmt: skip
    assert [(case.later, case.kind) for case in other.cases] == [(False, "")]
    # of a prompt that is there as a whole the last token is computed, and with it its block
    whole = turns_of(((32, 16, 0, False), (48, 1, 48, True), (65, 1, 49, True)), Conversation(32))
    assert [case.cached.tolist() for case in RetainedClass(mix_of(TALK), whole, 16).cases if case.kind] == [
        [16],
        [32, 32],
        [32, 48],
    ]


def test_chances_of_a_turn() -> None:
    """Half are first ones. A system prompt is cached with 0.3, a conversation with 0.6; without it the system prompt may be."""
    one, other = two().classes
    assert one.shares(0.6, 0.3) == pytest.approx((0.5 * 0.7, 0.5 * 0.3, 0.5 * 0.4 * 0.7, 0.5 * 0.4 * 0.3, 0.5 * 0.6))
    assert other.shares(0.6, 0.3) == (1,)
    cached = 0.15 * 32 + 0.06 * 32 + 0.3 * (64 + 144) / 2
    assert one.cached_share(one.shares(0.6, 0.3)) == pytest.approx(cached / (401 / 4))
    assert one.system_hit(3.0, 2.0, 1.0) == pytest.approx(1 - math.exp(-2 * 4 / 4))
    assert other.system_hit(3.0, 2.0, 1.0) == 0
    assert two().all_cached == ((0, 0.5, 0, 0, 0.5), (1,))
    assert two().none_cached == ((0.5, 0, 0.5, 0, 0), (1,))
    # a hit share that is given leaves one case
    given = two(hit=0.2)
    assert (given.given, two().given) == (True, False)
    assert given.all_cached == given.none_cached == given.shares(5.0, 2.0, 1.0) == ((1,), (1,))
    computed = sum(math.ceil(row[0] * 0.8) for row in TALK)
    assert given.classes[0].given == pytest.approx(1 - computed / 401)
    assert given.mix[0] is given.classes[0].base


def test_means_of_equal_parts() -> None:
    """384 of them: each of four values 96 times, or of 768 values means of pairs; what is computed is in order."""
    assert _means(np.array([1.0, 2.0, 5.0, 9.0])) == pytest.approx(np.repeat([1, 2, 5, 9], 96))
    assert _means(np.arange(768.0)) == pytest.approx(np.arange(384) * 2 + 0.5)
    case = _Case(True, "session", np.array([100, 200, 30]), np.array([64, 190, 30]))
    mix = case.mix(mix_of(TALK))
    assert mix.computed == pytest.approx(np.repeat([1, 10, 36], 128))
    assert mix.prompts == pytest.approx(np.repeat([31, 200, 100], 128))
    assert (mix.share, case.mean_cached, mix.outputs.tolist()) == (0.25, 284 / 3, [10, 20, 30, 50])
    (cases, none) = (one.mix.cases for one in two().classes)
    assert (len(cases), len(none)) == (5, 1)
    assert turns_of(TALK, Conversation()).representatives() == pytest.approx(np.repeat([41, 60, 100, 200], 96))


def test_turns_of_a_class() -> None:
    """Every turn but a last one is the history of another, and adds its message; a first one has the system prompt."""
    for given, conversations, turns in (
        ({"turns": "uniform:1:3", "think": "1 s"}, 8192, 16384), ({"turns": 64, "think": "1 s"}, 512, 512 * 64),
        ({"system_prompt": 64}, 16384, 16384),
    ):  # fmt: skip
        (one,) = single(rate=1, input_len="uniform:100:200", output_len="uniform:10:50", **given).classes
        made = Turns.of(one)
        assert (len(made.prompts), made.last.sum(), (made.history == 0).sum()) == (turns, conversations, conversations)
        goes_on = ~made.last
        assert sorted((made.prompts + made.outputs)[goes_on]) == sorted(made.history[made.history > 0])
        messages = made.prompts - np.where(made.history > 0, made.history, given.get("system_prompt", 0))
        assert (messages.min(), messages.max(), made.outputs.min(), made.outputs.max()) == (100, 200, 10, 50)
        assert messages.mean() == pytest.approx(150, rel=0.01)
        assert made.mean_prompt == pytest.approx(sum(made.prompts) / turns)


def test_a_cache_at_an_age() -> None:
    """The sums of the module's docstring, over both classes."""
    model = two()
    for age, rate, residence in ((4.0, 6.0, 1.5), (30.0, 2.0, 0.0)):
        system, idle, ended = retained(age, rate, residence)
        assert model._retained(age, rate, residence) == pytest.approx(system + idle + ended)
        assert model.age(rate, 1000 - system - idle - ended, residence) == pytest.approx(age, rel=1e-5)
        shares = model.shares(age, rate, residence)
        state = model.describe(age, rate, 123.0, residence, shares)
        assert (state.shared, state.idle, state.ended) == pytest.approx((system, idle, ended))
        assert (state.idle_sessions, state.retained_sessions) == pytest.approx(
            (0.125 * rate * 10, 0.125 * rate * 10 * (1 - math.exp(-age / 10)))
        )
        hits, most = (model.classes[0].cached_share(of) for of in (shares[0], (0, 0.5, 0, 0, 0.5)))
        tokens = 0.25 * 401 / 4, 0.75 * 97 / 2  # of each class; the second finds nothing
        assert (state.hit_rate, state.achievable_hit_rate, state.max_hit_rate) == pytest.approx(
            [part * tokens[0] / sum(tokens) for part in (hits, hits, most)]
        )
        assert (state.age, state.running, state.needed, state.shares, state.cache) == (age, 123, None, shares, model)
    # given: its hits are those that are given, and what memory is enough for is beside
    given = two(hit=0.2)
    state = given.describe(4.0, 6.0, 123.0, 1.5, ((1.0,), (1.0,)))
    share = given.classes[0].cached_share(two().shares(4.0, 6.0, 1.5)[0])
    assert state.achievable_hit_rate == pytest.approx(share * tokens[0] / sum(tokens))
    assert state.hit_rate == pytest.approx(given.classes[0].given * tokens[0] / sum(tokens))  # type: ignore[operator]
    assert model.age(2.0, 1000.0, 0.0) == 0
    assert model.age(1e-9, 0.0, 0.0) == LONGEST_AGE


def test_ages_are_those_of_a_normal_distribution() -> None:
    """Medians of its eighths; the logarithm of the age has the deviation of the blocks over the slope, of 1 at the most."""
    scores = [NormalDist().inv_cdf((2 * k + 1) / 16) for k in range(8)]
    assert list(module._AGES) == pytest.approx(scores, abs=2e-4)
    for age, rate, residence in ((4.0, 6.0, 1.5), (30.0, 2.0, 0.5), (0.5, 0.1, 0.5)):
        slope = (sum(retained(age * 1.01, rate, residence)) - sum(retained(age, rate, residence))) / 0.01
        squares = 0.25 * (9 + 49 + 196 + 4) / 4 + 0.75 * (9 + 16) / 2
        sd = min((rate * squares * age) ** 0.5 / slope, 1.0)
        hit = sum(1 - math.exp(-age * math.exp(sd * z - sd**2 / 2) / 10) for z in scores) / 8
        system = 1 - math.exp(-0.25 * rate * (age + residence) / 4)
        expected = (0.5 * (1 - system), 0.5 * system, 0.5 * (1 - hit) * (1 - system), 0.5 * (1 - hit) * system, 0.5 * hit)
        assert two().shares(age, rate, residence)[0] == pytest.approx(expected, rel=1e-4)
        assert two().shares(age, rate, residence)[1] == (1,)
    assert (sd, two().shares(LONGEST_AGE, 2.0, 0.0)[0]) == (1, pytest.approx((0, 0.5, 0, 0, 0.5)))


def test_memory_that_a_given_share_needs() -> None:
    """At the age from which on turns find as much; of two classes the longer one."""
    model, free = two(hit=0.2), two()
    wanted = model.classes[0].given
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        share = free.classes[0].cached_share(free.shares(middle, 6.0, 1.5)[0])
        low, high = (low, middle) if share >= wanted else (middle, high)  # type: ignore[operator]
    assert model._needed(6.0, 1.5) == pytest.approx(sum(retained(high, 6.0, 1.5)), rel=1e-5)
    assert 0.1 < high < 100
    assert free._needed(6.0, 1.5) is None
    assert two(hit=0.9)._needed(6.0, 1.5) is None


def test_blocks_of_running_requests() -> None:
    """Three decode on a rank, by the steps of each class; prompts are there for their seconds, as Little's law has it."""
    model = two()
    seen: Any = SimpleNamespace(own_s=[np.array([0.1, 0.3]), np.array([0.5])], running=np.array([3.0]))
    one, other = model.classes
    steps = [0.25 * (110 / 4 - 1), 0.75 * (15 / 2)]  # of 20, 30, 50 and 10 tokens, and of 16 and 1
    blocks = 3 * (steps[0] * one.decode_blocks + steps[1] * other.decode_blocks) / sum(steps)
    blocks += 6.0 * (0.25 * 0.2 * one.prompt_blocks + 0.75 * 0.5 * other.prompt_blocks)
    assert model._running(6.0, seen) == pytest.approx((blocks, 3 / 6 + 0.25 * 0.2 + 0.75 * 0.5))
    assert two(num_blocks=5)._running(6.0, seen)[0] == 5


@pytest.mark.parametrize(
    ("ranks", "start", "rate"), [(1, LONGEST_AGE, 60.0), (2, LONGEST_AGE, 120.0), (1, 2.0, 60.0), (1, 1e-3, 60.0)]
)
def test_the_loop_is_followed_down(monkeypatch: pytest.MonkeyPatch, ranks: int, start: float, rate: float) -> None:
    """Each turn that finds nothing takes blocks: the age falls until it stays within a thousandth."""
    model = two(2000, ranks)
    asked: list[Any] = []

    def steady(server: Any, rate: float) -> Any:
        asked.append((server, rate))
        return server

    monkeypatch.setattr(module, "steady", steady)
    monkeypatch.setattr(PrefixCacheModel, "_running", lambda self, rate, seen: (1000 * (1 - seen[0][-1]), 0.5 * rate / 60))
    state, made, seen = model.state(rate, lambda shares: shares, start)
    ages, residence = [min(start, model.age(60.0, 0.0, 0.0))], 0.0
    while True:
        shares = model.shares(ages[-1], 60.0, residence)
        residence = 0.5
        following = min(model.age(60.0, 1000 * (1 - shares[0][-1]), residence), ages[-1])
        if following >= 0.999 * ages[-1]:
            break
        ages.append(following)
    assert len(asked) == len(ages)
    assert {each for _, each in asked} == {rate}
    assert (state.age, state.shares, made, seen) == (ages[-1], shares, shares, shares)
    assert state.running == pytest.approx(1000 * (1 - shares[0][-1]))
    assert state.shared == pytest.approx(retained(ages[-1], 60.0, 0.5)[0])
    assert len(ages) > 2 or start < LONGEST_AGE


def test_different_ones_of_those_drawn() -> None:
    """Of two drawn from four 1 + 3/4, on average; of one kind there is at most one."""
    assert distinct(2, 4) == pytest.approx(1.75)
    assert distinct(3, 2) == pytest.approx(1 + 1 / 2 + 1 / 4)
    assert (distinct(0.25, 1), distinct(3, 1), distinct(0, 4)) == (0.25, 1, 0)
