"""Performance of replicas that are made up, so that their times are round numbers: at a rate, of clients, of offline work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofline.serving.planning import batch
from roofline.serving.planning import performance as module
from roofline.serving.planning.batch import batch_performance, fewest_replicas, size_for_batch
from roofline.serving.planning.load import BatchWork, Load
from roofline.serving.planning.performance import (
    ClosedLoopPerformance,
    LatencyStats,
    _delayed,
    _scaled_to,
    band,
    closed_loop_performance,
    performance,
)
from roofline.serving.planning.sizing import (
    SizedReplica,
    _missed_by,
    _saturated_by,
    coarsened,
    role_server,
    size_replica,
    unloaded,
)
from roofline.serving.queueing.offline import offline_run, shares
from roofline.serving.queueing.replica import BatchServer, Demand, scatter
from roofline.serving.queueing.steady import Steady, steady
from roofline.serving.traffic.build import single
from roofline.serving.traffic.classes import Traffic
from roofline.specs.workload import decode, prefill

BUDGET = 4096


@dataclass
class MadeUp:
    """A replica whose steps take 20 ms, `each` more per sequence, and 10 us per token of a prompt; at its bound half of that.

    `rounds`: tokens of a sequence in a step.
    """

    basis: str = "estimate"
    ranks: int = 1
    each: float = 0.0
    rounds: int = 1
    request: Any = None
    steps: Any = None
    speculation: Any = None
    seen: list[dict[str, Any]] = field(default_factory=list)

    def server(
        self, mix: Any, slots: int, budget: int, *, basis: str | None, scale: float, cv: float, shares: Any
    ) -> BatchServer:
        """As `Replica.server`."""
        self.seen.append({"cv": cv, "shares": shares})
        factor = scale * (0.5 if (basis or self.basis) == "bound" else 1.0)
        demands = tuple(
            Demand(
                part.share, np.ones(1), part.computed[None, :] * 1e-5 * factor, part.computed, (part.outputs - 1) / self.rounds,
                decode_tokens=None if self.rounds == 1 else part.outputs - 1,
            )
            for part in mix
        )  # fmt: skip
        steps = (0.02 + self.each * np.arange(1, slots + 1)) * factor
        return BatchServer(steps, demands, budget, self.ranks, cv=cv, scatter=scatter(demands), step_tokens=self.rounds)


def load_of(*classes: dict[str, Any]) -> Load:
    """Classes in the terms of the command; prompts of 1,000 tokens and outputs of 101 if they do not say otherwise."""
    parts = [single(**{"input_len": 1000, "output_len": 101, **one}).classes[0] for one in classes]
    return Load.of(Traffic(classes=tuple(replace(one, name=f"class {k}") for k, one in enumerate(parts))))


def made(load: Load, slots: int = 8, role: Any = "both", **replica: Any) -> SizedReplica:
    one: Any = MadeUp(**replica)
    return SizedReplica(one, role_server(one, load, role, slots, BUDGET), role, slots, BUDGET, 0.0, "throughput")


def stats(mean: float | None, p50: float | None = None, at: float | None = None, percentile: float = 0.95) -> LatencyStats:
    return LatencyStats(mean, p50, at, None, None, None, percentile)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A closed loop with a TPOT of 25 ms, 22.5 to 30, whose bound is 20 ms; and a band of 0.9 to 1.2. What it was asked."""
    asked: dict[str, Any] = {}

    class Loop:
        def __init__(self, steps: Any) -> None:
            pass

        def tpot(self, *lengths: float, **options: Any) -> dict[str, float]:
            asked.update({"lengths": lengths, **options})
            return {"estimate": 0.025, "low": 0.0225, "high": 0.03, "bound": 0.02}

    monkeypatch.setattr(module, "ClosedLoop", Loop)
    for where in (module, batch):
        monkeypatch.setattr(where, "band", lambda sized, load: (0.9, 1.2))
    return asked


# Under random arrivals


def state_of(sized: SizedReplica, load: Load, rate: float, scale: float = 1.0, basis: str | None = None) -> Steady:
    server = role_server(sized.replica, load, sized.role, sized.slots, sized.budget, scale=scale, basis=basis)
    return steady(coarsened(server), rate)


TWO = ({"rate": 0.75, "percentile": 90}, {"rate": 0.25, "input_len": "uniform:2000:3000", "output_len": "uniform:11:41"})


def test_classes_are_weighted_by_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three quarters of the requests are of one class; of all, the highest of the percentiles is within its time."""
    monkeypatch.setattr(module, "band", lambda sized, load: (0.9, 1.2))
    load = load_of(*TWO)
    one = made(load)
    seen = performance(one, one, load, (2.0, 2.0))
    state = state_of(one, load, 2.0)
    for times, mean, within in (
        (seen.ttft, state.ttft_mean, state.ttft_within),
        (seen.tpot, state.tpot_mean, state.tpot_within),
    ):
        assert times.mean == pytest.approx(0.75 * mean(0)[0] + 0.25 * mean(1)[0])
        assert times.percentile == 0.95
        for share, at in ((0.5, times.p50), (0.95, times.at)):
            assert at is not None
            assert 0.75 * within(0, at)[0] + 0.25 * within(1, at)[0] == pytest.approx(share, abs=2e-3)
    for k, percentile in enumerate((0.9, 0.95)):
        ttft, tpot = seen.classes[f"class {k}"]
        assert (ttft.mean, tpot.mean) == pytest.approx((state.ttft_mean(k)[0], state.tpot_mean(k)[0]))
        assert ttft.percentile == tpot.percentile == percentile
        assert state.ttft_within(k, ttft.at or 0)[0] == pytest.approx(percentile, abs=2e-3)
        assert state.tpot_within(k, tpot.at or 0)[0] == pytest.approx(percentile, abs=2e-3)


def test_means_at_the_ends_of_the_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step 0.9 or 1.2 times as long, or half at the bound, below which the low end does not go; none of a bound."""
    load = load_of({"rate": 1})
    one = made(load)
    for ends, low in (((0.9, 1.2), {"scale": 0.9}), ((0.3, 1.2), {"basis": "bound"})):
        monkeypatch.setattr(module, "band", lambda sized, load, ends=ends: ends)
        seen = performance(one, one, load, (2.0, 2.0))
        states = [state_of(one, load, 2.0, **end) for end in (low, {"scale": 1.2}, {"basis": "bound"})]  # type: ignore[arg-type]
        assert (seen.ttft.low, seen.ttft.high, seen.ttft.bound) == pytest.approx([state.ttft_mean(0)[0] for state in states])
        assert (seen.tpot.low, seen.tpot.high, seen.tpot.bound) == pytest.approx([state.tpot_mean(0)[0] for state in states])
    monkeypatch.undo()
    one = made(load, basis="bound")
    seen = performance(one, one, load, (2.0, 2.0))
    assert (seen.ttft.low, seen.ttft.high) == (None, None)
    assert seen.ttft.mean == seen.ttft.bound == pytest.approx(state_of(one, load, 2.0, basis="bound").ttft_mean(0)[0])


def test_what_has_no_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits, beyond 0.98 of what saturates, or 0.98/1.2 with steps 1.2 times as long; TPOT without a second token."""
    monkeypatch.setattr(module, "band", lambda sized, load: (0.9, 1.2))
    load = load_of({"rate": 1})
    one = made(load)
    means, percentiles, high = [], [], []
    for share in (0.81, 0.82, 0.975, 0.985, 1.01):
        seen = performance(one, one, load, (share * one.server.capacity,) * 2)
        means.append((seen.ttft.mean is None, seen.tpot.mean is None))
        percentiles.append(seen.ttft.at is None)
        high.append(seen.ttft.high is None)
        assert seen.utilisation == pytest.approx(share)
    assert means == [(unbounded, unbounded) for unbounded in (False, False, False, True, True)]
    assert percentiles == [False, False, False, False, True]
    assert high == [False, True, True, True, True]
    load = load_of({"rate": 1, "output_len": 1}, {"rate": 1})
    one = made(load)
    seen = performance(one, one, load, (1.0, 1.0))
    assert seen.tpot.mean is not None
    assert [tpot.mean is None for _, tpot in seen.classes.values()] == [True, False]
    assert seen.classes["class 0"][1].percentile == 0.95


def test_sequences_and_the_share_of_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 ranks, each with half of the arrivals, both run some.

    At almost no load a request costs 10 ms for its prompt and 100 steps of 20 ms for its output: 10/2010 of the money is that
    of prompts; of outputs without a second token all is.
    """
    monkeypatch.setattr(module, "band", lambda sized, load: (0.9, 1.2))
    load = load_of({"rate": 1})
    two = made(load, ranks=2)
    seen = performance(two, two, load, (2.0, 2.0))
    assert seen.running == pytest.approx(2 * state_of(two, load, 2.0).running[0])
    state = state_of(two, load, 2.0)  # a rank has half of the arrivals
    prompts, outputs = float(state.prompt_utilization[0]) / 1.0, 2 / max(float(state.running[0]), 1)
    assert seen.prompt_share == pytest.approx(prompts / (prompts + outputs))
    one = made(load)
    assert performance(one, one, load, (0.01, 0.01)).prompt_share == pytest.approx(0.01 / 2.01, rel=1e-3)
    busy = performance(one, one, load, (3.0, 3.0))
    assert busy.running > 5
    assert busy.prompt_share == pytest.approx(0.01 / (0.01 + 2 / busy.running), rel=1e-6)
    assert busy.slot_wait_s == pytest.approx(state_of(one, load, 3.0).slot_wait_s[0])
    load = load_of({"rate": 1, "output_len": 1})
    one = made(load)
    assert performance(one, one, load, (1.0, 1.0)).prompt_share == 1


def test_fewer_representatives_have_the_same_means() -> None:
    """48 of 384: means of eight neighbours each."""
    server = made(load_of(*TWO)).server
    coarse = coarsened(server)
    for one, demand in zip(coarse.demands, server.demands, strict=True):
        assert one.prompt_s.shape == (1, 48)
        assert demand.prompt_s.shape == (1, 384)
        for name in ("prompt_s", "prompt_tokens", "decode_steps"):
            assert getattr(one, name).mean() == pytest.approx(getattr(demand, name).mean())
        assert one.prompt_tokens[0] == pytest.approx(demand.prompt_tokens[:8].mean())
    assert coarsened(coarse).demands[0].prompt_tokens is coarse.demands[0].prompt_tokens


def test_ranks_in_step_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of clients with equal requests do not wait for each other, whatever the server says of random arrivals."""
    monkeypatch.setattr(module, "band", lambda sized, load: (0.9, 1.2))
    load = load_of({"rate": 1})
    two = made(load, ranks=2)
    in_step = replace(two, server=replace(two.server, scatter=None))
    means = [performance(one, one, load, (4.0, 4.0)).ttft.mean for one in (two, in_step)]
    states = [steady(replace(coarsened(two.server), scatter=scatter), 4.0) for scatter in (0.0, None)]
    assert means == pytest.approx([state.ttft_mean(0)[0] for state in states])
    assert states[0].ttft_mean(0)[0] > 1.001 * states[1].ttft_mean(0)[0]


def test_what_the_cache_has_is_asked_of_the_replica(loop: dict[str, Any]) -> None:
    """The shares of requests that find something in the KV cache; of offline work all find everything."""
    load = load_of({"concurrency": 100})
    cache: Any = SimpleNamespace(mix=load.mix, all_cached=((1.0,),))
    replica: Any = MadeUp()
    one = size_for_batch(replica, load, [(8, BUDGET)], 8, lambda budget: cache)
    assert one.prefix_cache is cache
    assert {asked["shares"] for asked in replica.seen} == {((1.0,),)}
    one.server_of(load, ((0.25,),))
    assert replica.seen[-1]["shares"] == ((0.25,),)
    one.server_of(load, ())
    assert replica.seen[-1]["shares"] == ((1.0,),)
    replace(one, prefix_cache=None).server_of(load, ())
    assert replica.seen[-1]["shares"] == ()
    cache.mix = load_of({"concurrency": 100, "input_len": 100}).mix
    at_bound = role_server(replica, load, "both", 8, BUDGET, basis="bound", prefix_cache=cache)
    assert batch_performance(one, load, 50).bound_s == pytest.approx(offline_run(at_bound, 50).finish_s)
    # its requests are those of the cache, of which each class has its cases
    state: Any = SimpleNamespace(shares=((0.5,),))
    held = replace(one, cache=state)
    seen = performance(held, held, load, (2.0, 2.0))
    assert seen.cache is state
    assert replica.seen[-1]["shares"] == ((0.5,),)
    assert seen.ttft.mean == pytest.approx(steady(coarsened(one.server_of(load, ())), 2.0).ttft_mean(0)[0])


def test_pools_share_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """TTFT is that of prompts, with the transfer of the cache and the wait for a slot of the other pool, which has the TPOT.

    The pool that is nearer to saturation says how much is used.
    """
    monkeypatch.setattr(module, "band", lambda sized, load: (0.9, 1.2))
    load = load_of({"rate": 1})
    prompts, outputs = made(load, role="prefill"), made(load, role="decode")
    after = (np.full(len(load.mix[0].prompts), 0.05),)
    seen = performance(prompts, outputs, load, (40.0, 3.0), after)
    first, last = state_of(prompts, load, 40.0), state_of(outputs, load, 3.0)
    assert last.slot_wait_s[0] > 0.01
    assert seen.ttft.mean == pytest.approx(first.ttft_mean(0)[0] + 0.05 + last.slot_wait_s[0])
    assert seen.tpot.mean == pytest.approx(last.tpot_mean(0)[0])
    assert seen.running == pytest.approx(last.running[0])
    assert seen.slot_wait_s == pytest.approx(last.slot_wait_s[0])
    capacities = prompts.server.capacity, outputs.server.capacity
    for parts in ((0.3, 0.6), (0.6, 0.3)):
        rates = (parts[0] * capacities[0], parts[1] * capacities[1])
        assert performance(prompts, outputs, load, rates, after).utilisation == pytest.approx(0.6)
    for parts in ((0.5, 0.99), (0.99, 0.5)):  # a pool alone has waits without an end
        rates = (parts[0] * capacities[0], parts[1] * capacities[1])
        assert performance(prompts, outputs, load, rates, after).ttft.mean is None


def test_the_band_is_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the engine, of a step with half of the slots at the middle of a mean output, and of a mean prompt on each rank."""
    asked: list[Any] = []

    def times(*intervals: tuple[float | None, float | None, float | None]) -> Callable[..., Any]:
        left = list(intervals)

        def pipeline(request: Any, step: Any) -> Any:
            asked.append(step)
            estimate, low, high = left.pop(0)
            return SimpleNamespace(estimate=estimate, low=low, high=high)

        return pipeline

    request = SimpleNamespace(engine_band=(0.95, 1.1), deployment=SimpleNamespace(data_parallel_size=2))
    load = load_of({"rate": 1, "input_len": 1000, "output_len": 100})
    one = made(load, slots=9, ranks=2, request=request)
    for intervals, expected in (
        (((2.0, 1.8, 2.1), (4.0, 3.9, 6.0)), (0.9, 1.5)),  # 1.8/2 of a decode step and 6/4 of a prompt
        (((2.0, 1.9, 3.0), (4.0, 3.2, 4.1)), (0.8, 1.5)),
        (((2.0, 1.99, 2.01), (4.0, 3.99, 4.01)), (0.95, 1.1)),
        (((None, None, None), (4.0, 2.0, 8.0)), (0.5, 2.0)),  # nothing measured of decode steps
        (((2.0, 1.0, None), (4.0, None, 8.0)), (0.95, 1.1)),
    ):
        monkeypatch.setattr(module, "pipeline", times(*intervals))
        assert band(one, load) == pytest.approx(expected)
    assert asked[:2] == [decode(2 * 4, 1050), prefill(2, 1000)]
    monkeypatch.setattr(module, "pipeline", times((2.0, 1.8, 2.1), (4.0, 3.9, 6.0)))
    assert band(replace(one, slots=1), load) == pytest.approx((0.9, 1.5))
    assert asked[-2] == decode(2, 1050)  # half a slot is one
    assert band(made(load, basis="bound", request=request), load) == (1.0, 1.0)
    monkeypatch.setattr(module, "pipeline", times((2.0, 1.8, 2.1), (4.0, 3.9, 6.0)))
    band(one, load_of({"rate": 1, "input_len": 1, "output_len": 1}))
    assert asked[-2:] == [decode(2 * 4, 2), prefill(2, 1)]
    # with drafts a step is a round
    rounds = SimpleNamespace(
        round=lambda *batch: SimpleNamespace(estimate=2.0, low=1.4, high=2.2) if batch == (8, 1050) else None
    )
    monkeypatch.setattr(module, "pipeline", times((4.0, 3.9, 6.0)))
    assert band(made(load, slots=9, ranks=2, request=request, speculation=rounds), load) == pytest.approx((0.7, 1.5))


# Of clients


def test_clients_are_those_who_run_and_those_who_wait(loop: dict[str, Any]) -> None:
    """Little's law, n = rate x (TTFT + 100 x 25 ms), with all clients, and without the wait with those in the 8 slots."""
    for clients, running in [(0.5, 0.5), (4, 4), (8, 8), (20, 8)]:
        load = load_of({"concurrency": 20})
        one = made(load)
        seen = closed_loop_performance(one, load, clients)
        shown = seen.performance
        assert seen.clients == clients
        assert shown.ttft.mean is not None
        assert seen.rate * (shown.ttft.mean + 2.5) == pytest.approx(clients, rel=2e-5)
        assert seen.rate * (shown.ttft.mean - shown.slot_wait_s + 2.5) == pytest.approx(running, rel=2e-5)
        assert shown.slot_wait_s == pytest.approx((clients - running) / seen.rate, abs=1e-4)
        assert shown.slot_wait_s >= 0
        assert shown.running == running
        assert shown.utilisation == pytest.approx(seen.rate / one.server.capacity)
        assert loop["lengths"] == (max(running, 1), 1000, 101)
        assert (shown.tpot.mean, shown.tpot.low, shown.tpot.high, shown.tpot.bound) == (0.025, 0.0225, 0.03, 0.02)
        # the wait is in every time but the bound; the rest is that of random arrivals
        open_loop = performance(one, one, load, (seen.rate, seen.rate))
        for name in ("mean", "p50", "at", "low", "high"):
            assert getattr(shown.ttft, name) == pytest.approx(getattr(open_loop.ttft, name) + shown.slot_wait_s, rel=1e-6)
        assert shown.ttft.bound == pytest.approx(open_loop.ttft.bound)
        assert open_loop.tpot.mean is not None
        assert (shown.tpot.at or 0) / 0.025 == pytest.approx((open_loop.tpot.at or 0) / open_loop.tpot.mean)


def test_the_rate_of_clients_is_found_in_a_dozen_halvings(loop: dict[str, Any]) -> None:
    """From n/(100 x 25 ms) on, each step goes half of the way to n/(TTFT + 100 x 25 ms)."""
    load = load_of({"concurrency": 20})
    one = made(load)
    rate = 8 / 2.5
    for _ in range(12):
        ttft = steady(one.server, min(rate, 0.85 * one.server.capacity)).ttft_mean(0)[0]
        rate = min((rate + 8 / (ttft + 2.5)) / 2, one.server.capacity)
    assert closed_loop_performance(one, load, 20).rate == pytest.approx(rate, rel=1e-12)


def test_clients_of_two_classes(loop: dict[str, Any]) -> None:
    """Three of four requests are of one class. Each waits for a slot; its TPOT is to the mean as under random arrivals."""
    load = load_of({"concurrency": 15}, {"concurrency": 5, "input_len": "uniform:2000:3000", "output_len": 401})
    one = made(load)
    seen = closed_loop_performance(one, load, 20)
    steps = 0.75 * 100 + 0.25 * 400
    assert seen.performance.ttft.mean is not None
    assert seen.rate * (seen.performance.ttft.mean + steps * 0.025) == pytest.approx(20, rel=2e-5)
    assert loop["lengths"] == (8, 0.75 * 1000 + 0.25 * 2500, 0.75 * 101 + 0.25 * 401)
    state = state_of(one, load, seen.rate)
    mean = 0.75 * state.tpot_mean(0)[0] + 0.25 * state.tpot_mean(1)[0]
    for k, (ttft, tpot) in enumerate(seen.performance.classes.values()):
        assert tpot.mean == pytest.approx(0.025 * state.tpot_mean(k)[0] / mean)
        assert tpot.bound == pytest.approx(0.02 * state.tpot_mean(k)[0] / mean)
        assert ttft.mean == pytest.approx(state.ttft_mean(k)[0] + seen.performance.slot_wait_s)


def test_clients_beyond_what_saturates(loop: dict[str, Any]) -> None:
    """Outputs of one token have no steps that would limit the rate: it is the capacity. TTFT before the wait: at 0.85 of it."""
    load = load_of({"concurrency": 64, "output_len": 1})
    one = made(load, slots=64)
    seen = closed_loop_performance(one, load, 64)
    assert seen.rate == pytest.approx(one.server.capacity)
    shown = seen.performance
    assert shown.ttft.mean == pytest.approx(64 / seen.rate)
    assert shown.slot_wait_s == pytest.approx(64 / seen.rate - state_of(one, load, 0.85 * seen.rate).ttft_mean(0)[0])
    assert (shown.tpot.mean, shown.utilisation) == (None, 1)


def test_what_a_closed_loop_is_asked(loop: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens per step, cached prompts, and what the fullest rank has more: of equal requests nothing."""
    load = load_of({"concurrency": 8, "prefix_hit": 0.3})
    closed_loop_performance(made(load, ranks=2), load, 20)
    assert loop == {
        "lengths": (16, 1000, 101), "excess": None, "tokens_per_step": 1, "variance": 0, "cached_len": 300, "max_running": None
    }  # fmt: skip
    # rounds of two tokens: 50 of 50 ms for 100 tokens
    load = load_of({"concurrency": 8})
    seen = closed_loop_performance(made(load, rounds=2), load, 8)
    assert (loop["tokens_per_step"], loop["cached_len"]) == (2, 0)
    assert seen.rate * ((seen.performance.ttft.mean or 0) + 2.5) == pytest.approx(8, rel=2e-5)
    load = load_of({"concurrency": 8, "input_len": "uniform:500:1500", "system_prompt": 100})
    one = made(load, ranks=2)
    monkeypatch.setattr(module, "_ITERATIONS", 1)  # of the rate, which comes after
    for clients in (16, 17):
        closed_loop_performance(one, load, clients)
        mean, in_turn = np.array([0.5]), clients <= 16
        assert loop["excess"](mean) == pytest.approx(one.server.excess(mean, in_turn=in_turn))
        assert loop["variance"] == one.server.scatter > 0  # type: ignore[operator]
        assert loop["max_running"] == 16  # blocks of the system prompt are there once
    one = made(load)
    closed_loop_performance(one, load, 4)
    assert loop["excess"] is None


def test_objectives_that_are_missed() -> None:
    """At its own percentile, by any class; each objective once. A time that has no end misses."""
    load = load_of({"concurrency": 1, "ttft": "1 s", "tpot": "50 ms"}, {"concurrency": 1, "tpot": "20 ms"})
    seen: Any = SimpleNamespace

    def missed(*times: tuple[float | None, float | None]) -> list[str]:
        classes = {f"class {k}": (stats(None, at=ttft), stats(None, at=tpot)) for k, (ttft, tpot) in enumerate(times)}
        return ClosedLoopPerformance(2, 1.0, seen(classes=classes)).misses(load)

    assert missed((1.0, 0.05), (9.0, 0.02)) == []  # at the limit it is met; the second class has none for TTFT
    assert missed((1.1, 0.05), (None, 0.02)) == ["ttft"]
    assert missed((0.9, 0.06), (9.0, 0.03)) == ["tpot"]
    assert missed((None, None), (9.0, 0.02)) == ["ttft", "tpot"]
    assert missed((0.9, 0.05), (9.0, 0.03)) == ["tpot"]


def test_the_distribution_is_that_of_random_arrivals() -> None:
    """A class with 4 s where the mean of all is 2 s, in a loop with a mean of 3 s: 6 s, and percentiles 1.5 times its own."""
    closed = LatencyStats(3.0, 3.0, 3.0, 2.7, 3.6, 2.4, 0.5)
    opened = stats(4.0, p50=2.0, at=8.0, percentile=0.9)
    assert _scaled_to(opened, closed, 2.0) == LatencyStats(6.0, 3.0, 12.0, 5.4, 7.2, 4.8, 0.9)
    assert _scaled_to(opened, closed) == LatencyStats(3.0, 1.5, 6.0, 2.7, 3.6, 2.4, 0.9)
    for other, loop, mean in (
        (stats(None), closed, 2.0),
        (opened, stats(None), 2.0),
        (opened, closed, 0.0),
        (stats(None), closed, None),
    ):
        assert _scaled_to(other, loop, mean) is loop
    assert _delayed(LatencyStats(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.9), 10.0) == LatencyStats(
        11.0, 12.0, 13.0, 14.0, 15.0, 6.0, 0.9
    )
    assert _delayed(stats(None, at=1.0), 2.0) == stats(None, at=3.0)


# Of offline work


def test_offline_work_of_a_replica(loop: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """100 requests: the seconds and times of `offline_run`, from 0.9 to 1.2 times as many, and half of them at the bound."""
    load = load_of({"concurrency": 100}, {"concurrency": 300, "output_len": "uniform:51:351"})
    one = made(load)
    run = offline_run(one.server, 100)
    for ends, low in (((0.9, 1.2), 0.9), ((0.3, 1.2), 0.5)):
        monkeypatch.setattr(batch, "band", lambda sized, load, ends=ends: ends)
        seen = batch_performance(one, load, 100)
        assert seen.finish_s == run.finish_s
        assert (seen.low_s, seen.high_s, seen.bound_s) == pytest.approx([run.finish_s * end for end in (low, 1.2, 0.5)])
        ttft = seen.each.performance.ttft
        mean = run.first_s.mean()
        assert (ttft.mean, ttft.low, ttft.high, ttft.bound) == pytest.approx([mean * end for end in (1, low, 1.2, 0.5)])
        assert (ttft.p50, ttft.at) == pytest.approx(np.interp([0.5, 0.95], shares(), run.first_s))
    assert (seen.each.clients, seen.each.rate) == (100, pytest.approx(100 / run.finish_s))
    shown = seen.each.performance
    assert loop["lengths"][0] == 8
    assert (shown.tpot.mean, shown.tpot.low) == pytest.approx((run.tpot_s, run.tpot_s * 0.9))
    assert shown.tpot.bound == 0.02
    assert sum(
        share * (tpot.mean or 0) for share, (_, tpot) in zip((0.25, 0.75), shown.classes.values(), strict=True)
    ) == pytest.approx(run.tpot_s)
    assert shown.running == run.running
    assert shown.slot_wait_s == pytest.approx(run.waits_s.mean())
    assert shown.utilisation == pytest.approx(100 / run.finish_s / run.rate)
    batch_performance(one, load, 3.0)
    assert loop["lengths"][0] == 3  # fewer than the slots
    bound = made(load, basis="bound")
    seen = batch_performance(bound, load, 100)
    assert (seen.low_s, seen.high_s) == (None, None)
    assert seen.finish_s == seen.bound_s == pytest.approx(run.finish_s / 2)
    assert (seen.each.performance.ttft.low, seen.each.performance.ttft.high) == (None, None)


def test_no_replica_is_used_more_than_all_of_the_time(loop: dict[str, Any]) -> None:
    """Two generations on four ranks end sooner than at the rate that random arrivals saturate, which is not the full load."""
    load = load_of({"concurrency": 64, "input_len": "uniform:1:20000"})
    one = made(load, ranks=4)
    run = offline_run(one.server, 64)
    assert 64 / run.finish_s > 1.5 * run.rate
    assert batch_performance(one, load, 64).each.performance.utilisation == 1


def test_the_setting_with_the_highest_throughput(loop: dict[str, Any]) -> None:
    """Steps of 20 ms and 1 ms per sequence: more slots serve more, as far as the objective for TPOT allows."""
    settings = [(4, BUDGET), (16, BUDGET), (8, BUDGET)]
    replica: Any = MadeUp(each=0.001)
    work = {"concurrency": 100, "output_len": "uniform:51:151"}
    free, limited = load_of(work), load_of({**work, "tpot": "34 ms"}, work)  # one of two classes has an objective
    best = size_for_batch(replica, free, settings, 16)
    assert (best.slots, best.binds, best.budget) == (16, "memory", BUDGET)
    assert best.max_rate == pytest.approx(offline_run(best.server, 24 * 16).rate)
    assert size_for_batch(replica, free, [(16, BUDGET)], 17).binds == "throughput"
    # 16 sequences take 36 ms and what prompts add, 8 take 28
    best = size_for_batch(replica, limited, settings, 16)
    assert (best.slots, best.binds) == (8, "tpot")
    assert best.max_rate == pytest.approx(offline_run(best.server, 24 * 8).rate)
    assert size_for_batch(replica, limited, [(8, BUDGET)], 8).binds == "memory"
    assert size_for_batch(replica, limited, [(16, BUDGET)], 16).max_rate == 0


def test_the_fewest_replicas_that_end_in_time(loop: dict[str, Any]) -> None:
    """One fewer ends too late; a request alone takes 10 ms and 100 steps of 20 ms, and no number of replicas is faster."""
    load = load_of({"concurrency": 100})
    replica: Any = MadeUp()
    one = size_for_batch(replica, load, [(8, BUDGET)], 8)
    for requests, deadline in ((1000, 300.0), (1000, 100.0), (1000, 20.0), (100, 2.5), (3, 100.0)):
        count = fewest_replicas(one, load, BatchWork(requests * 101, requests, deadline))
        assert isinstance(count, int)
        assert offline_run(one.server, requests / count).finish_s <= deadline
        assert count == 1 or offline_run(one.server, requests / (count - 1)).finish_s > deadline
    assert fewest_replicas(one, load, BatchWork(10100, 100, 2.0)) is None
    # no more than requests, even if the full load were slower than a request alone
    assert fewest_replicas(replace(one, max_rate=1e-3), load, BatchWork(303, 3, 2.5)) == 3
    assert fewest_replicas(replace(one, max_rate=0.0), load, BatchWork(10100, 100, 100.0)) is None


# The rate of a replica


def test_a_server_of_a_role() -> None:
    """Prompts alone have no steps, and their transfers; outputs alone a prompt of no time."""
    load = load_of(*TWO)
    one: Any = MadeUp(rounds=2, each=0.001)
    both, decodes = (role_server(one, load, role, 8, BUDGET) for role in ("both", "decode"))  # type: ignore[arg-type]
    for after, expected in (((), (0.0, 0.0)), ((0.5, 0.7), (0.5, 0.7))):
        prefills = role_server(one, load, "prefill", 8, BUDGET, after_s=after)
        assert prefills.decode_s == pytest.approx([0.021])
        assert prefills.mean_steps == 0
        for demand, whole, seconds in zip(prefills.demands, both.demands, expected, strict=True):
            assert demand.prompt_s == pytest.approx(whole.prompt_s)
            assert demand.after_s == seconds
            assert (demand.decode_steps.tolist(), demand.decode_tokens, demand.rounds_variance) == ([0], None, 0)
    assert decodes.decode_s == pytest.approx(0.02 + 0.001 * np.arange(1, 9))
    for demand, whole in zip(decodes.demands, both.demands, strict=True):
        assert (demand.prompt_s.tolist(), demand.prompt_tokens.tolist(), demand.running.tolist()) == ([[0]], [1], [1])
        assert demand.decode_steps == pytest.approx(whole.decode_steps)


def highest(server: BatchServer, met: Callable[[Steady], bool]) -> tuple[float, bool]:
    """The highest rate, one after another: fifteenths of 0.85 of what saturates, and sixths of the first that fails."""
    coarse = coarsened(server)
    top, good = 0.85 * coarse.capacity, 0.0
    for step in range(1, 16):
        if not met(steady(coarse, top * step / 15)):
            for part in range(1, 7):
                rate = top * (step - 1 + part / 6) / 15
                if not met(steady(coarse, rate)):
                    return good, False
                good = rate
        good = top * step / 15
    return good, True


@pytest.mark.parametrize(
    ("role", "objectives", "binds"),
    [
        ("both", ({}, {}), "throughput"),
        ("both", ({"ttft": "60 ms"}, {}), "ttft"),
        ("both", ({}, {"ttft": "60 ms", "percentile": 80}), "ttft"),
        ("both", ({"tpot": "27 ms"}, {}), "tpot"),
        ("both", ({"tpot": "40 ms"}, {"tpot": "25.5 ms", "percentile": 80}), "tpot"),
        ("both", ({"ttft": "3.2 s", "tpot": "1 s"}, {"ttft": "3.2 s"}), "throughput"),  # a fifteenth more is too much
        ("both", ({"ttft": "1 ms"}, {}), "ttft"),
        ("prefill", ({"ttft": "170 ms", "tpot": "1 ms"}, {}), "ttft"),
        ("prefill", ({"tpot": "1 ms"}, {}), "throughput"),
        ("decode", ({"tpot": "26 ms"}, {"ttft": "10 s", "percentile": 50}), "tpot"),
        ("decode", ({}, {"ttft": "1 ms", "percentile": 99}), "ttft"),
        ("decode", ({}, {"tpot": "27 ms", "output_len": 1}), "throughput"),
    ],
)  # fmt: skip
def test_the_highest_rate(role: Any, objectives: tuple[dict[str, Any], ...], binds: str) -> None:
    """All that is asked of the role, by the shares of requests of each class; 20 ms and 1 ms per sequence in a step."""
    load = load_of(*({**one, **more} for one, more in zip(TWO, objectives, strict=True)))
    after = (np.full(384, 0.05), np.full(384, 0.1)) if role == "prefill" else ()
    replica: Any = MadeUp(each=0.001)
    one = size_replica(replica, load, [(8, BUDGET)], 9, role, after)
    server = role_server(replica, load, role, 8, BUDGET, after_s=after)

    def met(state: Steady) -> bool:
        for k, service in enumerate(load.services):
            shares = []
            if service.ttft is not None:
                shares.append(1 - state.slot_wait_probability if role == "decode" else state.ttft_within(k, service.ttft))
            if service.tpot is not None and role != "prefill" and service.mix.outputs.max() > 1:
                shares.append(state.tpot_within(k, service.tpot))
            if any(share[0] < service.percentile for share in shares):
                return False
        return True

    rate, every = highest(server, met)
    assert one.max_rate == pytest.approx(rate)
    assert (one.binds, one.slots, one.budget, one.role) == (binds, 8, BUDGET, role)
    assert every == (binds == "throughput")
    # at almost no load, over the objective: the worst class
    first = steady(coarsened(server), 0.85 * server.capacity / 15)
    ratios = {"ttft": 0.0, "tpot": 0.0}
    for k, service in enumerate(load.services):
        if service.ttft and role != "decode":
            ratios["ttft"] = max(ratios["ttft"], first.ttft_quantile(k, service.percentile)[0] / service.ttft)
        if service.tpot and role != "prefill":
            ratios["tpot"] = max(ratios["tpot"], first.tpot_quantile(k, service.percentile)[0] / service.tpot)
    assert unloaded(one, load) == pytest.approx(ratios)


def test_the_setting_with_the_highest_rate() -> None:
    """More slots serve more; a budget that changes nothing leaves the first."""
    replica: Any = MadeUp()
    best = size_replica(replica, load_of({"rate": 1}), [(4, BUDGET), (8, 2 * BUDGET), (8, BUDGET), (2, BUDGET)], 8)
    assert (best.slots, best.budget, best.binds) == (8, 2 * BUDGET, "memory")


def test_what_binds() -> None:
    """Memory, where as many run as it holds: more than 0.425 of the slots, or where the first token waits for a slot."""
    for running, slots, memory, binds in (
        (4.3, 10, 10, "memory"), (4.2, 10, 10, "throughput"), (4.3, 10, 9, "memory"), (4.3, 10, 11, "throughput"),
    ):  # fmt: skip
        state: Any = SimpleNamespace(running=np.array([9.9, running]))
        assert _saturated_by(state, slots, memory) == binds
    load = load_of({"rate": 1, "ttft": "1 s", "tpot": "20 ms"})

    def missed(
        ttft: float, tpot: float, slot_wait: float = 2.0, wait: float = 1.0, slots: int = 10, running: float = 9.0, at: int = 1
    ) -> str:
        """Of the second of two rates."""
        seen: Any = SimpleNamespace(
            ttft_within=lambda which, limit: np.array([0.0, ttft]), tpot_within=lambda which, limit: np.array([0.0, tpot]),
            slot_wait_s=np.array([0.0, slot_wait]), wait=SimpleNamespace(mean=np.array([9.0, wait])),
            running=np.array([0.0, running]),
        )  # fmt: skip
        return _missed_by(seen, at, load, "both", slots, 10)

    assert missed(0.94, 0.94) == "memory"
    assert missed(0.94, 0.94, slots=9) == "ttft"
    assert missed(0.94, 0.94, slot_wait=1.0) == missed(0.94, 1.0, slot_wait=0.9) == "ttft"
    assert missed(0.95, 0.94) == "tpot"
    assert missed(0.95, 0.95) == "memory"
    assert missed(0.95, 0.95, slots=9) == missed(0.95, 0.95, running=4.2) == "throughput"
    assert missed(0.95, 0.95, at=0) == "ttft"


@pytest.mark.parametrize(
    ("share", "capacity", "slots", "expected", "binds"),
    [
        (1.0, 1e9, 8, 1.0, "memory"), (1.0, 1e9, 7, 1.0, "throughput"), (0.999, 1e9, 8, 127 / 128, "ttft"),
        (0.7, 1e9, 8, 89 / 128, "ttft"), (0.0, 1e9, 8, 0.0, "ttft"), (0.009, 1e9, 8, 1 / 128, "ttft"),
        (1.0, 0.5, 8, 64 / 128, "memory"), (1.0, 0.499, 8, 63 / 128, "memory"), (1.0, 0.5, 7, 64 / 128, "throughput"),
    ],
)  # fmt: skip
def test_a_cache_that_depends_on_the_rate(share: float, capacity: float, slots: int, expected: float, binds: str) -> None:
    """Objectives are met up to a share of 0.85 of what saturates a full cache, in 128ths; or more saturates what is cached.

    What the cache retains is that at the highest rate, at least a 90th.
    """
    load = load_of({"rate": 1, "ttft": "1 s"})
    replica: Any = MadeUp()
    top = 0.85 * made(load, slots).server.capacity
    rates: list[float] = []

    def state(rate: float, server: Any) -> tuple[Any, ...]:
        assert server(((0.5,),)).capacity == pytest.approx(top / 0.85)
        rates.append(rate)
        within = np.array([1.0 if rate <= share * top else 0.5])
        seen = SimpleNamespace(
            saturated=np.array([False]), ttft_within=lambda which, limit: within, running=np.array([0.5 * slots]),
            slot_wait_s=np.zeros(1), wait=SimpleNamespace(mean=np.ones(1)),
        )  # fmt: skip
        return SimpleNamespace(shares=((0.25,),), rate=rate), SimpleNamespace(capacity=capacity * top / 0.85), seen

    cache: Any = SimpleNamespace(mix=load.mix, all_cached=((1.0,),), state=state)
    one = size_replica(replica, load, [(slots, BUDGET)], 8, prefix_cache=lambda budget: cache)
    assert one.max_rate == pytest.approx(expected * top)
    assert one.binds == binds
    assert (one.prefix_cache, one.slots) == (cache, slots)
    assert one.cache.rate == pytest.approx(max(expected, 1 / 90) * top)  # type: ignore[union-attr]
    assert replica.seen[-1]["shares"] == ((0.25,),)
    assert len(rates) == (2 if expected == 1 else 9)
    # clients find everything
    loop = size_replica(replica, load_of({"concurrency": 1}), [(slots, BUDGET)], 8, prefix_cache=lambda budget: cache)
    assert (loop.max_rate, loop.cache, loop.binds) == (pytest.approx(top), None, "throughput")
    # of settings that with the highest rate
    settings = [(slots - 1, BUDGET), (slots, BUDGET)]
    assert size_replica(replica, load_of({"concurrency": 1}), settings, 8, prefix_cache=lambda budget: cache).slots == slots
