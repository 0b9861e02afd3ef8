"""From sized replicas to candidates, on deployments that are made up: how many replicas, what they cost, which come first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.formatting import duration
from roofline.serving.planning import candidates as module
from roofline.serving.planning import infeasible as why_not
from roofline.serving.planning import plan as planning
from roofline.serving.planning import simulated
from roofline.serving.planning.candidates import (
    CandidateDraft,
    EngineFlags,
    PoolSize,
    Ranked,
    _cost,
    _deployment,
    _finish,
    _mean_times,
    _notes,
    _notes_on_cache,
    _notes_on_formats,
    _performance,
    _pool,
    _scaled,
    _sglang_flags,
    _speculative_config,
    _trtllm_files,
    _trtllm_flags,
    _vllm_flags,
    candidate,
    drafts,
    order,
    start_up_s,
    typical_steps,
    watts,
)
from roofline.serving.planning.infeasible import _beyond_limits, _no_deployment, _ratios, _too_late, _too_slow, infeasible
from roofline.serving.planning.load import BatchWork, Load
from roofline.serving.planning.plan import _run, _within_limits, _without_pools
from roofline.serving.planning.search import RejectedLayout
from roofline.serving.queueing.replica import BatchServer, Demand
from roofline.serving.queueing.steady import steady
from roofline.serving.traffic.build import single
from roofline.serving.traffic.profile import parse_profile
from roofline.specs.library import load_engine, load_hardware
from roofline.specs.prices import Price
from roofline.specs.workload import decode, prefill


def price(value: float, low: float = 0.0, high: float = 0.0, count: int | None = None) -> Price:
    return Price(
        hardware="h100-sxm", currency="EUR", kind="rented", origin="given", low=low or value, high=high or value, value=value,
        assumed=False, count=count,
    )  # fmt: skip


class Prices(dict[str, Price]):
    """By name of hardware."""

    def of(self, hardware: Any, devices: float = 1) -> Price | None:
        """As `roofline.specs.prices.Prices`."""
        found = self.get(hardware.name)
        return None if found is None else found.for_devices(devices)


def query_of(load: Any, **others: Any) -> Any:
    """A query without limits; an hour of a device costs 3, from 2 to 5."""
    given = {"rank": "cost", "spare": 0, "batch": None, "start_up": 0.0, "max_cost": None, "fixed": {}, "simulate_top": 0}
    prices = Prices({"h100-sxm": price(3.0, 2.0, 5.0)})
    given |= {"prices": prices, "devices": lambda hardware: 2**60, "traffic": SimpleNamespace(profile=None), "load": load}
    return SimpleNamespace(**{**given, **others})


def load_of(**given: Any) -> Load:
    """Prompts of 1,000 tokens and outputs of 101."""
    return Load.of(single(**{"input_len": 1000, "output_len": 101, **given}))


def option(devices: int = 1, name: str = "h100-sxm", precision: str = "bf16", **rates: float) -> Any:
    """A deployment with the requests/s of a replica by role."""
    sized = {role: SimpleNamespace(max_rate=rate, role=role) for role, rate in rates.items()}
    hardware = SimpleNamespace(name=name)
    return SimpleNamespace(
        devices=devices, hardware=hardware, precision=precision, sized=sized, after_s=("transfer",), longest=1101
    )


def pools_of(query: Any, *options: Any) -> list[tuple[int, ...]]:
    """Devices of each pool of each draft."""
    return [tuple(pool.replicas * pool.option.devices for pool in draft.pools) for draft in drafts(query, options)]


def server(step_s: float = 0.02, slots: int = 8) -> BatchServer:
    """Prompts of 10 ms and 100 steps."""
    import numpy as np

    return BatchServer(
        np.full(slots, step_s), (Demand(1.0, np.ones(1), np.full((1, 1), 0.01), np.array([1000.0]), np.array([100.0])),), 4096
    )


# How many replicas


def test_as_many_replicas_as_the_rate_takes() -> None:
    """The rate over that of one, rounded up; what arithmetic of floats adds is no replica."""
    for rate, each, replicas in [
        (60, 16, 4), (60, 15, 4), (60, 14.9, 5), (0.1, 16, 1), (3, 0.5, 6), (3, 3 * 0.1 / 0.3, 3),
        (3 * (1 + 9e-10), 1, 3), (3 * (1 + 1.1e-9), 1, 4),
    ]:  # fmt: skip
        query = query_of(SimpleNamespace(rate=rate, concurrency=None), spare=2)
        (draft,) = drafts(query, [option(both=each), option(both=0.0)])
        assert draft.pools[0].replicas == replicas
        assert draft.max_rate == pytest.approx(each * replicas)
        assert draft.devices == replicas + 2


def test_pools_of_the_fewest_devices() -> None:
    """Of each role on the same hardware in the same precision; spares count, and of equal ones smaller replicas are better."""
    query = query_of(SimpleNamespace(rate=60.0, concurrency=None))
    small, large = option(1, prefill=10, decode=20), option(4, prefill=30, decode=40)
    assert pools_of(query, small, large) == [(6, 3)]
    assert pools_of(query, option(8, prefill=60, decode=30), option(8, prefill=30, decode=60)) == [(8, 8)]
    query.spare = 10  # 16 of one, 12 of four
    assert pools_of(query, small, large) == [(6, 3)]
    assert pools_of(query, option(1, prefill=1, decode=1), option(4, prefill=60, decode=60)) == [(4, 4)]
    query.spare = 0
    (draft,) = drafts(query, [option(4, prefill=60, decode=60), option(2, prefill=30, decode=30)])
    assert [pool.option.devices for pool in draft.pools] == [2, 2]
    assert [pool.role for pool in draft.pools] == ["prefill", "decode"]
    # neither two precisions nor two kinds of hardware are a pair, and a pool that serves nothing is none
    assert pools_of(query, option(prefill=10), option(precision="fp8", decode=10), option(name="l40s", decode=10)) == []
    assert pools_of(query, option(prefill=10, decode=0)) == []
    assert pools_of(query, option(prefill=0.5, decode=0.25)) == [(120, 240)]
    assert pools_of(query, option(both=30, prefill=10, decode=0)) == [(2,)]
    query.spare = 3
    (draft,) = drafts(query, [small])
    assert draft.devices == 6 + 3 + 3 + 3
    assert draft.max_rate == 60  # the tighter pool's, without spares: 6 x 10 and 3 x 20
    assert replace(draft, pools=(draft.pools[0]._replace(replicas=7), draft.pools[1])).max_rate == 60
    assert replace(draft, pools=(draft.pools[0], draft.pools[1]._replace(replicas=4))).max_rate == 60


def test_the_fewest_replicas_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica is within the objectives with up to ten clients; the search comes to it from any number of clients."""
    asked: list[float] = []

    def performance(sized: Any, load: Any, clients: float) -> Any:
        asked.append(clients)
        return SimpleNamespace(misses=lambda load: ["ttft"] if clients > 10 else [], clients=clients)

    monkeypatch.setattr(module, "closed_loop_performance", performance)
    for clients in (1, 10, 11, 25, 30, 31, 200, 1234, 54321):
        query = query_of(SimpleNamespace(concurrency=clients))
        asked.clear()
        (draft,) = drafts(query, [option(both=1)])
        assert draft.pools[0].replicas == math.ceil(clients / 10)
        assert draft.closed_loop is not None
        assert draft.closed_loop.clients == clients / draft.pools[0].replicas
        assert len(asked) < 45
    query = query_of(SimpleNamespace(concurrency=200), devices=lambda hardware: 43, spare=1)
    assert pools_of(query, option(2, both=1)) == [(40,)]  # 43 devices are 21 replicas, one of which is spare
    query.spare = 2
    assert pools_of(query, option(2, both=1)) == []
    query = query_of(SimpleNamespace(concurrency=1000), devices=lambda hardware: 403)
    assert pools_of(query, option(4, both=1)) == [(400,)]  # 403 devices are 100 replicas
    query = query_of(SimpleNamespace(concurrency=10), devices=lambda hardware: 1)
    assert pools_of(query, option(2, both=1)) == [(2,)]  # beyond the limit, and said to be
    query.load.concurrency = 11
    assert pools_of(query, option(2, both=1)) == []
    query = query_of(SimpleNamespace(concurrency=9))
    monkeypatch.setattr(module, "closed_loop_performance", lambda *given: SimpleNamespace(misses=lambda load: ["tpot"]))
    assert pools_of(query, option(both=1)) == []


# Which come first


def clients_draft(
    hour: float, rate: float, ttft: float | None = 1.0, tpot: float | None = 0.01, name: str = "h100-sxm", replicas: int = 1
) -> CandidateDraft:
    """`hour` devices, with the requests/s of a replica."""
    times = SimpleNamespace(ttft=SimpleNamespace(mean=ttft), tpot=SimpleNamespace(mean=tpot))
    loop: Any = SimpleNamespace(performance=times, rate=rate)
    one = option(int(hour / replicas), name=name, both=1)
    return CandidateDraft((PoolSize(one, "both", one.sized["both"], replicas),), 0, loop)


def test_drafts_in_order() -> None:
    """Two devices with 1 request/s, three with 6, six with 9, each at 3 an hour; without prices the devices count."""
    load = SimpleNamespace(concurrency=10, mean_output=101.0)
    few, best, fast = (
        clients_draft(2, 1.0, 5.0, 0.03),
        clients_draft(3, 2.0, 1.0, 0.02, replicas=3),
        clients_draft(6, 9.0, 2.0, 0.009),
    )
    given = [fast, best, few]

    def ranked(rank: str, **others: Any) -> list[tuple[Any, ...]]:
        return [(given.index(one.draft), one.value, one.measures) for one in order(query_of(load, rank=rank, **others), given)]

    # an hour: 6, 9 and 18; ten clients wait for each
    assert ranked("cost") == [(2, 6, (6, 5, 0.03)), (1, 9, (9, 1, 0.02)), (0, 18, (18, 2, 0.009))]
    # by request: 6, 1.5 and 2
    assert ranked("token-cost") == [(1, 1.5, (1.5, 1, 0.02)), (0, 2, (2, 2, 0.009)), (2, 6, (6, 5, 0.03))]
    assert ranked("gpus") == [(2, 2, (6, 5, 0.03)), (1, 3, (1.5, 1, 0.02)), (0, 6, (2, 2, 0.009))]
    # a mean request: 2 + 100 x 9 ms, 1 + 100 x 20 ms, 5 + 100 x 30 ms
    assert [(index, value) for index, value, _ in ranked("latency")] == [(0, 2.9), (1, 3), (2, 8)]
    assert [(index, value) for index, value, _ in ranked("cost", prices=Prices())] == [(2, 2), (1, 3), (0, 6)]
    assert ranked("token-cost", prices=Prices()) == [
        (1, 0.5, (0.5, 1, 0.02)), (0, pytest.approx(2 / 3), (pytest.approx(2 / 3), 2, 0.009)), (2, 2, (2, 5, 0.03)),
    ]  # fmt: skip


def test_ties_go_to_fewer_devices_then_to_shorter_times() -> None:
    """Equal costs of an hour, though one of them has two devices at half of the price."""
    load = SimpleNamespace(concurrency=10, mean_output=1.0)
    prices = Prices({"h100-sxm": price(3.0), "l40s": price(1.5)})
    two, quick = clients_draft(2, 1.0, name="l40s", ttft=0.1), clients_draft(1, 1.0)
    slow, late = clients_draft(1, 1.0, tpot=0.02), clients_draft(1, 1.0, ttft=2)
    given = [two, slow, late, quick]
    for rank in ("cost", "token-cost"):
        assert [one.draft for one in order(query_of(load, rank=rank, prices=prices), given)] == [quick, late, slow, two]
    assert [one.draft for one in order(query_of(load, rank="gpus", prices=prices), given)] == [quick, late, slow, two]
    assert order(query_of(load, rank="latency", prices=prices), given)[0].draft is two
    # of as many devices, and of as long a time, the cheaper one
    cheap = clients_draft(1, 1.0, name="l40s")
    for rank in ("gpus", "latency"):
        assert order(query_of(load, rank=rank, prices=prices), [quick, cheap])[0].draft is cheap
    # one without a price comes last by cost, is valued by its devices, and makes all be compared by devices
    unknown = clients_draft(1, 1.0, name="mi300x", ttft=0.01)
    last = order(query_of(load, prices=prices), [unknown, two])
    assert [(one.draft, one.value, one.measures[0]) for one in last] == [(two, 3, 2), (unknown, 1, 1)]


def test_what_was_simulated_counts() -> None:
    """Its times, and the rate of clients, instead of those that were predicted."""
    load = SimpleNamespace(concurrency=10, mean_output=101.0)
    draft = clients_draft(3, 1.0)
    run = SimpleNamespace(ttft_s=SimpleNamespace(mean=4.0), tpot_s=SimpleNamespace(mean=None))
    known: Any = {id(draft): SimpleNamespace(simulation=run, requests_per_s=2.0, finish_s=None)}
    (one,) = order(query_of(load, rank="token-cost"), [draft], known)
    assert one.measures == (9 / 2, 4, 0)
    known = {id(draft): SimpleNamespace(simulation=None, requests_per_s=None, finish_s=None)}
    (one,) = order(query_of(load, rank="token-cost"), [draft], known)
    assert one.measures == (9, 1, 0.01)


def test_offline_work_in_order() -> None:
    """Cost and finish time; by latency that which ends first."""
    load = SimpleNamespace(concurrency=100, mean_output=101.0)
    late, soon = (replace(clients_draft(n, n / 10.0), batch=SimpleNamespace(finish_s=1000.0 / n)) for n in (1, 2))
    query = query_of(load, rank="latency", batch=BatchWork(10100, 100, 2000.0))
    assert [(one.value, one.measures) for one in order(query, [late, soon])] == [(500, (30, 500)), (1000, (30, 1000))]
    run = SimpleNamespace(ttft_s=SimpleNamespace(mean=1.0), tpot_s=SimpleNamespace(mean=0.1))
    known: Any = {id(soon): SimpleNamespace(simulation=run, requests_per_s=None, finish_s=1200.0)}
    assert [one.value for one in order(query, [late, soon], known)] == [1000, 1200]


# What requests experience, and what they cost


def test_spare_replicas_share_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 requests/s on 3 and 2 replicas with a spare of each: 15 and 20; a transfer is between pools alone."""
    seen: list[Any] = []
    monkeypatch.setattr(module, "performance", lambda first, last, load, rates, after: seen.append((rates, after)))
    load = SimpleNamespace(rate=60.0, mean_rate=40.0)
    one = option(both=30, prefill=20, decode=30)
    pools = tuple(PoolSize(one, role, one.sized[role], count) for role, count in (("prefill", 3), ("decode", 2)))  # type: ignore[arg-type]
    assert _performance(query_of(load), CandidateDraft(pools, 1)) == (None, 60, 40)
    assert _performance(query_of(load), CandidateDraft((PoolSize(one, "both", one.sized["both"], 2),), 1)) == (None, 60, 40)
    assert seen == [((15, 20), ("transfer",)), ((20, 20), ())]
    loop = clients_draft(6, 2.5, replicas=3)
    assert _performance(query_of(load), loop) == (loop.closed_loop.performance, 7.5, 7.5)  # type: ignore[union-attr]


def test_mean_times_of_pools() -> None:
    """TTFT at the rate of a server of prompts, TPOT at that of one of outputs."""
    load = load_of(rate=6)
    first, last = server(), server(step_s=0.01)
    sized: Any = [
        SimpleNamespace(server=one, max_rate=3.0, at=lambda load, rate, one=one: SimpleNamespace(server=one))
        for one in (first, last)
    ]
    one = option(both=1)
    draft = CandidateDraft((PoolSize(one, "prefill", sized[0], 2), PoolSize(one, "decode", sized[1], 1)), 1)
    expected = steady(first, 2.0).ttft_mean(0)[0], steady(last, 3.0).tpot_mean(0)[0]
    assert _mean_times(query_of(load), draft) == pytest.approx(expected)
    colocated = CandidateDraft((PoolSize(one, "both", sized[0], 2),), 1)
    state = steady(first, 2.0)
    assert _mean_times(query_of(load), colocated) == pytest.approx((state.ttft_mean(0)[0], state.tpot_mean(0)[0]))
    assert _mean_times(query_of(load), clients_draft(1, 1.0, None, None)) == (0, 0)


def test_tokens_are_paid_by_the_time_that_they_take() -> None:
    """Four devices, 3 an hour each: a quarter for 2,000 prompt tokens/s, the rest for 500 output tokens/s."""
    load = SimpleNamespace(rate=60.0, mean_rate=None)
    one = option(2, both=30)
    draft = CandidateDraft((PoolSize(one, "both", one.sized["both"], 1),), 1)
    seen: Any = SimpleNamespace(prompt_share=0.25)
    cost = _cost(query_of(load), draft, seen, 2000.0, 500.0)
    second = 12 / 3600
    assert (cost.per_hour, cost.low, cost.high, cost.currency) == (12, 8, 20, "EUR")
    assert (cost.input, cost.output) == pytest.approx((second * 0.25 / 0.002, second * 0.75 / 0.0005))
    assert cost.total == pytest.approx(second / 0.0025)
    assert cost.scaled_per_hour is None
    assert (cost.price, cost.offers) == (price(3.0, 2.0, 5.0).describe(), ())
    alone = _cost(query_of(load), draft, seen, 2000.0, 0.0)
    assert (alone.output, alone.total) == (None, pytest.approx(second / 0.002))
    assert _cost(query_of(load), draft, seen, 0.0, 500.0).input is None
    assert _cost(query_of(load, prices=Prices()), draft, seen, 1.0, 1.0).per_hour is None
    # pools: each pays for its own tokens, 2 x (2 + 1) devices of prompts and 1 + 1 of outputs
    pools = CandidateDraft(
        (PoolSize(one, "prefill", one.sized["both"], 2), PoolSize(option(1, both=1), "decode", one.sized["both"], 1)), 1
    )
    cost = _cost(query_of(load), pools, seen, 2000.0, 500.0)
    assert (cost.input, cost.output) == pytest.approx((18 / 3600 / 0.002, 6 / 3600 / 0.0005))


def test_offline_work_is_paid_until_it_ends() -> None:
    """Six devices for half an hour at 3, from 2 to 5: 9, and 10,000 requests of 100 output tokens are a million."""
    one = option(2, both=1)
    batch: Any = SimpleNamespace(finish_s=1800.0, low_s=1600.0, high_s=2000.0, bound_s=900.0)
    draft = CandidateDraft((PoolSize(one, "both", one.sized["both"], 3),), 0, None, batch)
    query = query_of(SimpleNamespace(mean_output=100.0), batch=BatchWork(10**6, 10_000, 3600.0))
    finish = _finish(query, draft, batch)
    assert (finish.mean, finish.low, finish.high, finish.bound) == (1800, 1600, 2000, 900)
    assert (finish.cost, finish.cost_low, finish.cost_high, finish.per_million_output) == (9, 6, 15, pytest.approx(9))
    query.load.mean_output = 50.0
    assert _finish(query, draft, batch).per_million_output == pytest.approx(18)
    query.prices = Prices()
    assert (_finish(query, draft, batch).mean, _finish(query, draft, batch).cost) == (1800, None)


def test_a_fleet_that_follows_the_day() -> None:
    """20 requests/s in the first half of a day and 60 in the second: two and four replicas of 2 devices, and a spare.

    The first four devices cost 1 an hour, others 2.
    """
    offers = replace(price(1.0), offers=(price(1.0, count=4), price(2.0)))
    traffic = SimpleNamespace(profile=parse_profile([1, 3]))
    query = query_of(SimpleNamespace(mean_rate=40.0), spare=1, prices=Prices({"h100-sxm": offers}), traffic=traffic)
    one = option(2, both=15)
    draft = CandidateDraft((PoolSize(one, "both", one.sized["both"], 4),), 1)
    night, day = 4 * 1 + 2 * 2, 4 * 1 + 6 * 2
    assert _scaled(query, draft, offers) == pytest.approx((night + day) / 2)
    cost = _cost(query, draft, SimpleNamespace(prompt_share=0.5), 1.0, 1.0)  # type: ignore[arg-type]
    assert (cost.per_hour, cost.scaled_per_hour, cost.offers) == (16, (night + day) / 2, offers.offers)
    query.start_up = 6 * 3600.0  # half of the night too
    assert _scaled(query, draft, offers) == pytest.approx(0.25 * night + 0.75 * day)
    query.start_up, query.traffic.profile = 0.0, parse_profile([0, 1])  # a replica stays through a night without requests
    assert _scaled(query, draft, offers) == pytest.approx((4 * 1 + (4 * 1 + 10 * 2)) / 2)  # 80 by day: seven
    assert _scaled(query_of(SimpleNamespace(mean_rate=None), traffic=traffic), draft, offers) is None
    assert _scaled(query_of(SimpleNamespace(mean_rate=40.0)), draft, offers) is None


def test_steps_that_are_typical() -> None:
    """A full decode step at the end of a mean request, and a mean prompt on each rank; one sequence without a limit."""

    def request(slots: int | None, ranks: int = 2) -> Any:
        return SimpleNamespace(deployment=SimpleNamespace(data_parallel_size=ranks, max_num_seqs=slots))

    load: Any = SimpleNamespace(mean_input=1000.4, mean_output=100.4)
    assert typical_steps(request(64), load) == (decode(128, 1101), prefill(2, 1000))
    assert typical_steps(request(None), load)[0] == decode(2, 1101)
    short: Any = SimpleNamespace(mean_input=1.4, mean_output=1.4)
    assert typical_steps(request(1, 1), short) == (decode(1, 3), prefill(1, 1))


def test_watts_are_those_of_all_devices() -> None:
    """A TDP of 700 W each; some files have none."""
    hardware = load_hardware("h100-sxm")[0]
    assert (watts(hardware), watts(hardware, 3)) == (700, 2100)
    assert watts(replace(hardware, accelerator=hardware.accelerator.model_copy(update={"power": None}))) is None


def test_what_is_noted() -> None:
    """Beyond 75 % of what saturates waits are longer; longer requests than planned for are refused; a slow end that is late."""

    def notes(
        utilisation: float = 0.5, pools: int = 1, batch: Any = None, longest: int = 1101, beyond: int | None = 1101, **load: Any
    ) -> str:
        given = {"concurrency": None, "rate": None, "retained": (), "longest": longest, "beyond": beyond, **load}
        one = option(both=1)
        one.hardware = load_hardware("dgx-h100")[0]
        model = SimpleNamespace(name="m", hf_id=None, quantization=())
        request = SimpleNamespace(model=model, deployment=SimpleNamespace(quantization=None, kv_cache_dtype=None))
        sized: Any = SimpleNamespace(
            replica=SimpleNamespace(basis="estimate", request=request, speculation=None), prefix_cache=None
        )
        draft = CandidateDraft((PoolSize(one, "both", sized, 1),) * pools, 0, None, batch)
        query = query_of(SimpleNamespace(**given), batch=BatchWork(1, 1, 100.0) if batch else None, model=model)
        return "\n".join(_notes(query, draft, SimpleNamespace(utilisation=utilisation, cache=None)))  # type: ignore[arg-type]

    assert notes() == notes(0.75) == ""
    assert "beyond 75 % of the saturation rate" in notes(0.76)
    assert notes(0.76, concurrency=4) == ""
    assert (
        notes(beyond=1102)
        == notes(longest=1102, beyond=None)
        == "requests of more than 1,101 tokens are refused by --max-model-len"
    )
    assert notes(beyond=1101, longest=1102) == ""
    assert notes(batch=SimpleNamespace(high_s=100.0)) == notes(batch=SimpleNamespace(high_s=None)) == ""
    assert "ends after the deadline" in notes(batch=SimpleNamespace(high_s=100.1))
    assert "caches move over" in notes(pools=2)
    assert "at 50 GB/s per device" in notes(pools=2)  # a 400 Gb/s port each


def test_what_is_noted_of_the_cache() -> None:
    """Two ranks with 100 blocks of 16 tokens each, of which requests that run take 60: 40 are free, 1,280 tokens."""
    one, pool = option(both=1), SimpleNamespace(num_blocks=100, block_size=16, ranks=2, given=True, none_cached="nothing")

    def notes(needed: float | None, empty: float = 2.0, **others: Any) -> list[str]:
        """With six requests/s on two replicas and a spare; `empty`: requests/s of a replica whose cache has nothing."""
        given = {"needed": needed, "running": 60.0, "max_hit_rate": 0.5, "achievable_hit_rate": 0.3, "cache": pool}
        state: Any = SimpleNamespace(cache=SimpleNamespace(**given)) if "cache" not in others else SimpleNamespace(**others)
        served = {"nothing": SimpleNamespace(capacity=empty)}
        sized: Any = SimpleNamespace(prefix_cache=others.get("prefix_cache"), server_of=lambda load, shares: served[shares])
        load = SimpleNamespace(rate=others.get("rate", 6.0), retained=others.get("retained", ()))
        return list(_notes_on_cache(query_of(load), CandidateDraft((PoolSize(one, "both", sized, 2),), 1), state))

    assert notes(40.0) == []
    (more,) = notes(50.0)
    assert "needs 1,600 tokens of KV cache beside the running requests, which leave 1,280: enough for 30 %" in more
    (beyond,) = notes(None)
    assert "more than the 50 % that turns have in common" in beyond
    (empty,) = notes(40.0, 1.9)
    assert "serves 1.9 requests/s, less than its 2:" in empty
    assert notes(50.0, 1.9, rate=None) == notes(50.0, 1.9, cache=None) == []
    pool.given = False
    assert notes(None) == []
    assert notes(None, retained=("some",), prefix_cache=pool) == []
    (none,) = notes(None, retained=("some",), cache=None)
    assert "no prefixes are retained" in none


def test_the_cheapest_way_that_the_devices_allow() -> None:
    """Three H100 at 3 an hour, or four L40S at 1.5, of which there are two: 9 an hour; 6 where H100 are too few as well."""
    drafted = [clients_draft(3, 1.0), clients_draft(4, 1.0, name="l40s")]
    for draft in drafted:
        draft.option.layout = {}
    there = {"h100-sxm": 8, "l40s": 2}
    query = query_of(
        SimpleNamespace(concurrency=8), prices=Prices({"h100-sxm": price(3.0), "l40s": price(1.5)}), max_cost=5.0,
        max_gpus=None, inventory=there, devices=lambda hardware: there[hardware.name],
    )  # fmt: skip

    def relaxed() -> tuple[str, list[tuple[str, float, float]]]:
        found = _beyond_limits(query, drafted)
        return found["nearest"]["hardware"], [(one["constraint"], one["from"], one["to"]) for one in found["relax"]]

    assert relaxed() == ("h100-sxm", [("max_cost", 5, 9)])
    there["h100-sxm"] = 2
    assert relaxed() == ("l40s", [("max_cost", 5, 6), ("inventory", 2, 3)])
    query.max_cost, query.max_gpus = None, 2
    assert relaxed() == ("h100-sxm", [("max_gpus", 2, 3), ("inventory", 2, 3)])
    query.max_cost, query.prices = 5.0, Prices()
    assert relaxed() == ("h100-sxm", [("price", None, None), ("max_gpus", 2, 3), ("inventory", 2, 3)])


def test_when_offline_work_could_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 requests of a second on two H100, or of three on an L40S, one replica of each spare: the earliest end."""
    monkeypatch.setattr(
        why_not, "batch_performance", lambda sized, load, share: SimpleNamespace(finish_s=share * sized.seconds)
    )
    two, one = option(2, both=1), option(1, name="l40s", both=1)
    for each, seconds, layout in ((two, 1.0, {"tp": 2}), (one, 3.0, {})):
        each.sized["both"].seconds, each.layout = seconds, layout
    there = {"h100-sxm": 8, "l40s": 50}
    query = query_of(None, batch=BatchWork(1, 600, 10.0), spare=1, devices=lambda hardware: there[hardware.name])
    query.prices = Prices({"h100-sxm": price(3.0), "l40s": price(1.5)})

    def end() -> tuple[str, int, float]:
        seen = _too_late(query, [two, one])
        (relax,) = seen["relax"]
        assert (relax["constraint"], relax["from"]) == ("deadline", 10)
        assert relax["to"] == pytest.approx(1.001 * seen["nearest"]["finish_s"])
        return seen["nearest"]["hardware"], seen["nearest"]["devices"], seen["nearest"]["finish_s"]

    assert end() == ("l40s", 49, pytest.approx(3 * 600 / 49))
    there["l40s"] = 9
    assert end() == ("h100-sxm", 6, 200)  # 8 of L40S take 225
    there["l40s"] = 10
    assert end() == ("h100-sxm", 6, 200)  # as long on 9 of the others
    query.max_cost = 12.0  # 4 of one or 8 of the other
    assert end() == ("l40s", 7, pytest.approx(3 * 600 / 7))
    query.prices = Prices({"h100-sxm": price(3.0)})
    assert end() == ("h100-sxm", 2, 600)
    query.max_cost, query.batch = None, BatchWork(1, 3, 10.0)  # a replica for every request
    there["l40s"] = 50
    assert end() == ("h100-sxm", 6, 1)
    query.batch, query.max_cost, query.prices = BatchWork(1, 600, 10.0), 1000.0, Prices({"h100-sxm": price(3.0)})
    assert end() == ("h100-sxm", 6, 200)  # money for more than there are
    there["h100-sxm"], there["l40s"] = 3, 1
    assert _too_late(query, [two, one]) == {"nearest": None, "relax": []}


def test_what_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deployment with the least part of its weights too many; one that memory holds has another reason."""
    hardware: Any = SimpleNamespace(name="l40s")

    def no(
        why: str, weights: float | None = None, budget: float | None = None, fits: bool = False, **layout: int
    ) -> RejectedLayout:
        return RejectedLayout(hardware, "bf16", layout, why, weights, budget, fits=fits)

    much, less, other = no("much", 90.0, 40.0), no("less", 50.0, 30.0, tp=2), no("other")
    seen = _no_deployment([other, much, less])
    assert (seen["constraint"], seen["from"], seen["to"]) == ("memory", 30, 50)
    assert "less" in seen["why"]
    assert "tp=2" in seen["why"]
    for given, why in (
        ([other], "l40s: other"),
        ([much, no("fits", 9.0, 40.0, fits=True)], "l40s: fits"),
        ([], "no hardware is left"),
    ):
        seen = _no_deployment(given)
        assert (seen["constraint"], seen["from"], seen["to"]) == ("hardware", None, None)
        assert why in seen["why"]
    # which of the reasons counts
    for name in ("_beyond_limits", "_too_late", "_too_slow"):
        monkeypatch.setattr(why_not, name, lambda query, given, name=name: (name, given))
    able, unable, query = option(both=1), option(both=0), query_of(None)
    assert infeasible(query, [], [much], []) == {"nearest": None, "relax": [_no_deployment([much])]}
    assert infeasible(query, [able], [], [1]) == ("_beyond_limits", [1])  # type: ignore[list-item, comparison-overlap]
    assert infeasible(query, [able], [], []) == ("_too_slow", [able])  # type: ignore[comparison-overlap]
    query.batch = BatchWork(1, 1, 1.0)
    assert infeasible(query, [able, unable], [], []) == ("_too_late", [able])  # type: ignore[comparison-overlap]
    assert infeasible(query, [unable], [], []) == ("_too_slow", [unable])  # type: ignore[comparison-overlap]


def test_objectives_that_nothing_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three deployments, what is achieved over the objectives: that with the least of the worst, then of the sum."""
    load = Load.of(
        replace(
            single(rate=1, input_len=9, output_len=9, ttft="1 s", tpot="50 ms"),
            classes=tuple(
                replace(single(rate=1, input_len=9, output_len=9, ttft=ttft, tpot=tpot, percentile=at).classes[0], name=ttft)
                for ttft, tpot, at in (("1 s", "50 ms", 90), ("2 s", "40 ms", 99))
            ),
        )
    )
    monkeypatch.setattr(why_not, "unloaded", lambda sized, load: dict(zip(("ttft", "tpot"), sized.ratios, strict=True)))

    def of(name: str, **ratios: tuple[float, float]) -> Any:
        one = option(name=name, **dict.fromkeys(ratios, 1.0))
        one.layout = {}
        for role, ratio in ratios.items():
            one.sized[role] = SimpleNamespace(ratios=ratio, slots=8, budget=len(name))
        return one

    def nearest(*options: Any) -> tuple[Any, ...]:
        seen = _too_slow(query_of(load), options)
        relax = [(each["constraint"], each["from"], pytest.approx(each["to"])) for each in seen["relax"]]
        near = seen["nearest"]
        return near["hardware"], pytest.approx((near["ttft_s"], near["tpot_s"])), relax

    slow, wide, even = of("slow", both=(3.0, 0.5)), of("wide", both=(2.0, 1.9)), of("even", both=(2.0, 0.5))
    assert nearest(slow, wide) == (
        "wide",
        (2.002, 0.04 * 1.9 * 1.001),
        [("ttft", 1, 2.002), ("tpot", 0.04, 0.04 * 1.9 * 1.001)],
    )
    assert nearest(slow, wide, even) == ("even", (2.002, 0.04), [("ttft", 1, 2.002)])
    fine = of("fine", both=(1.0, 1.0))
    assert nearest(fine) == ("fine", (1.001, 0.04004), [("percentile", 0.99, 0.5)])
    # pools: the worse of the two, of the best deployment of each role
    pools = [of("h", prefill=(1.5, 0.0), decode=(0.5, 9.0)), of("h", prefill=(1.6, 0.0), decode=(0.0, 1.2))]
    assert nearest(slow, *pools) == (
        "h",
        (1.5015, 0.04 * 1.2 * 1.001),
        [("ttft", 1, 1.5015), ("tpot", 0.04, 0.04 * 1.2 * 1.001)],
    )
    assert _too_slow(query_of(load), [*pools])["nearest"]["settings"] == {"max_num_seqs": 8, "max_num_batched_tokens": 1}
    assert nearest(of("slow", both=(1.5, 0.5)), of("h", prefill=(1.5, 0.0), decode=(0.0, 1.2)))[0] == "slow"
    # of clients: one alone, the worst class, and without an end none does
    times = {"1 s": (0.8, 0.06), "2 s": (1.0, None)}
    classes = {name: tuple(SimpleNamespace(at=at) for at in each) for name, each in times.items()}
    asked: list[float] = []
    monkeypatch.setattr(
        why_not, "closed_loop_performance",
        lambda sized, load, clients: asked.append(clients) or SimpleNamespace(performance=SimpleNamespace(classes=classes)),
    )  # fmt: skip
    loop: Any = SimpleNamespace(load=SimpleNamespace(services=load.services, concurrency=9))
    assert _ratios(loop, fine.sized["both"]) == {"ttft": pytest.approx(0.8), "tpot": math.inf}
    classes["2 s"][1].at = 0.044
    assert _ratios(loop, fine.sized["both"]) == {"ttft": pytest.approx(0.8), "tpot": pytest.approx(1.2)}
    assert asked == [1, 1]
    loop.load = replace(load, services=load_of(rate=1, tpot="1 s").services)
    assert _ratios(loop, fine.sized["both"]) == {"tpot": 1}


# Candidates, and which of them are listed


def test_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 requests/s at the peak and 40 on average, of 1,000 and 100 tokens; three devices of 700 W with a PUE of 1.5."""
    monkeypatch.setattr(module, "_performance", lambda query, draft: ("seen", 60.0, 40.0))
    monkeypatch.setattr(module, "_pool", lambda query, draft, pool, seen: (pool.role, seen))
    monkeypatch.setattr(module, "_cost", lambda query, draft, seen, inputs, outputs: (seen, inputs, outputs))
    monkeypatch.setattr(module, "_finish", lambda query, draft, batch: (batch, "finish"))
    monkeypatch.setattr(module, "_notes", lambda query, draft, seen: ["note"])
    monkeypatch.setattr(module, "typical_steps", lambda request, load: "steps")
    monkeypatch.setattr(module, "estimate_basis", lambda request, steps: (request, steps))
    one = option(1, both=36.0)
    one.sized["both"].replica = SimpleNamespace(request="request", basis="estimate")
    load = SimpleNamespace(mean_input=1000.0, mean_output=100.0)
    for name, title in (("h100-sxm", "of"), ("dgx-h100", " of ")):
        one.hardware = load_hardware(name)[0]
        draft = CandidateDraft((PoolSize(one, "both", one.sized["both"], 2),), 1)
        seen = candidate(query_of(load, pue=1.5), draft)
        assert (seen.hardware, seen.mode, seen.precision, seen.pools) == (name, "colocated", "bf16", (("both", "seen"),))
        assert (title in seen.title) == (name == "dgx-h100")
        assert (seen.requests_per_s, seen.output_tokens_per_s, seen.input_tokens_per_s) == (60, 6000, 60_000)
        assert seen.cost == ("seen", 40_000, 4000)
        assert (seen.power.watts, seen.power.joules_per_output_token, seen.power.pue) == (2100, 2100 * 1.5 / 4000, 1.5)
        assert (seen.headroom, seen.breaks_at) == (pytest.approx(0.2), 72)  # two replicas of 36/s
        assert (seen.basis, seen.finish_s, seen.notes) == ("estimate", None, ("note",))
        assert seen.estimate_basis == ("request", "steps")
    loop: Any = "loop"
    batch: Any = "batch"
    closed = candidate(query_of(load, pue=1.5), replace(draft, pools=draft.pools * 2, closed_loop=loop, batch=batch))
    assert (closed.mode, closed.headroom, closed.breaks_at, closed.finish_s) == (
        "disaggregated",
        None,
        None,
        ("batch", "finish"),
    )
    assert (
        candidate(query_of(SimpleNamespace(mean_input=1.0, mean_output=0.0), pue=1.0), draft).power.joules_per_output_token
        is None
    )


@dataclass
class Request:
    """A deployment of two ranks of two devices."""

    workload: Any
    engine: Any = None
    deployment: Any = None


@dataclass
class Workload:
    """What is run on it."""

    batch: int = 0
    steps: Any = ()


def test_a_pool_and_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full steps of 8 sequences on each rank; the engine that was asked for is first, and files are of those with a command."""
    started: list[Any] = []

    def engine(name: str, able: bool = True) -> EngineFlags:
        return EngineFlags(
            name, lambda start: started.append(start) or ([name] if able else None), "1", lambda start: {"file": name}
        )

    engines = [engine("a"), engine("b"), engine("c", able=False), EngineFlags("d", lambda start: ["d"], "1")]
    monkeypatch.setattr(module, "ENGINES", SimpleNamespace(values=lambda: engines))
    monkeypatch.setattr(module, "_deployment", lambda size: {"size": size.replicas})
    monkeypatch.setattr(EngineFlags, "label", lambda self, request: self.name)
    request = Request(Workload(), SimpleNamespace(name="b"), SimpleNamespace(data_parallel_size=2, devices=4))
    one = option(4, both=9.0, prefill=9.0)
    seen: Any = SimpleNamespace(running=5.0)
    for role, hits, cached in (("both", False, None), ("prefill", True, None), ("both", False, "cache")):
        sized = one.sized[role]
        sized.replica, sized.prefix_cache, sized.slots, sized.binds = (
            SimpleNamespace(request=request, speculation="s"),
            cached,
            8,
            "ttft",
        )
        services = [SimpleNamespace(mix=SimpleNamespace(cached=False)), SimpleNamespace(mix=SimpleNamespace(cached=hits))]
        draft = CandidateDraft((PoolSize(one, role, sized, 3),), 2)  # type: ignore[arg-type]
        pool = _pool(query_of(SimpleNamespace(services=services)), draft, draft.pools[0], seen)
        assert list(pool.engine_flags.items()) == [("b", ["b"]), ("a", ["a"]), ("d", ["d"])]
        assert pool.engine_files == {"a": {"file": "a"}, "b": {"file": "b"}}
        assert (pool.role, pool.replicas, pool.spare, pool.devices, pool.max_rate) == (role, 5, 2, 4, 9)
        assert (pool.deployment, pool.binds, pool.running) == ({"size": 3}, "ttft", 5 if role == "both" else 0)
        start = started[-1]
        assert start.request.workload == Workload(16, (("decode", decode(16, 1)),))
        assert (start.longest, start.speculation) == (1101, "s")
        assert (start.pool, start.prefix_caching) == (None if role == "both" else role, hits or cached is not None)


def test_commands_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefix caching where the engine does not decide; the role of a pool; the draft with its own parallel size."""
    monkeypatch.setattr(module, "vllm_command", lambda request, longest: ["vllm", str(longest)])

    def words(decided: bool | None = None, **given: Any) -> list[str]:
        return _vllm_flags(module.ReplicaLaunch(request=SimpleNamespace(prefix_caching=decided), longest=9, **given))  # type: ignore[arg-type]

    assert words() == words(True, prefix_caching=True) == words(False, prefix_caching=True) == ["vllm", "9"]
    assert words(prefix_caching=True) == ["vllm", "9", "--enable-prefix-caching"]
    for pool, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        assert words(pool=pool)[-2:] == ["--kv-transfer-config", f'{{"kv_connector": "NixlConnector", "kv_role": "{role}"}}']
    options = SimpleNamespace(method="eagle3", tokens=3, model="draft", draft_tensor_parallel_size=None)
    draft = SimpleNamespace(request=SimpleNamespace(model=SimpleNamespace(hf_id=None, name="small")))
    drafted: Any = SimpleNamespace(options=options, draft=draft)
    base = {"method": "eagle3", "num_speculative_tokens": 3}
    assert _speculative_config(drafted) == {**base, "model": "small"}
    draft.request.model.hf_id, options.draft_tensor_parallel_size = "org/small", 2
    assert _speculative_config(drafted) == {**base, "model": "org/small", "draft_tensor_parallel_size": 2}
    assert words(speculation=drafted)[-2] == "--speculative-config"
    options.model = None
    assert _speculative_config(drafted) == base
    options.model, draft.request = "draft", None
    assert _speculative_config(drafted) == base


def test_commands_of_other_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of drafts, nor where an option has no counterpart; pools by a flag, or by the file of options."""
    words: list[str] = ["serve"]
    for name in ("sglang", "trtllm"):
        monkeypatch.setattr(module, f"{name}_command", lambda request, longest: words)
    monkeypatch.setattr(module, "trtllm_options", lambda request, longest: "{a: {b: 1}}")
    sglang, trtllm = _sglang_flags, _trtllm_flags

    def start(**given: Any) -> Any:
        return module.ReplicaLaunch(request="request", longest=9, **given)  # type: ignore[arg-type]

    assert [flags(start()) for flags in (sglang, trtllm)] == [["serve"], ["serve"]]
    assert [flags(start(speculation="some")) for flags in (sglang, trtllm)] == [None, None]
    assert sglang(start(pool="decode")) == ["serve", "--disaggregation-mode", "decode"]
    assert trtllm(start(pool="decode")) == ["serve"]
    for pool, more in (
        (None, ""), ("decode", ", cache_transceiver_config: {backend: DEFAULT}"),
        ("prefill", ", cache_transceiver_config: {backend: DEFAULT}, disable_overlap_scheduler: true"),
    ):  # fmt: skip
        assert list(_trtllm_files(start(pool=pool)).values()) == ["{a: {b: 1}" + more + "}"]
    words.clear()
    assert [flags(start(pool="decode")) for flags in (sglang, trtllm)] == [None, None]
    # of which version: the engine's own, or that of the request where it is the same
    request: Any = SimpleNamespace(engine=SimpleNamespace(name="vllm", version="0.5"))
    assert EngineFlags("vllm", sglang).label(request) == "vllm@0.5"
    assert EngineFlags("vllm", sglang, "1.2").label(request) == "vllm@1.2"
    request.engine.name = "other"
    assert EngineFlags("vllm", sglang).label(request) == f"vllm@{load_engine('vllm')[0].version}"


def test_a_deployment_has_its_settings() -> None:
    """As in the JSON output; formats of a checkpoint unless they are chosen, and the draft beside."""
    sizes = {"tensor": 2, "pipeline": 3, "data": 4, "expert": 5, "context": 6}
    chosen = SimpleNamespace(
        quantization=None, backend="flash", **{f"{name}_parallel_size": size for name, size in sizes.items()}
    )
    linear = SimpleNamespace(weight=SimpleNamespace(name="fp8"))
    request: Any = SimpleNamespace(
        model=SimpleNamespace(hf_id="org/m", name="m", quantization=(SimpleNamespace(name="awq"),)), deployment=chosen,
        precision=SimpleNamespace(
            dtypes=lambda kind: linear if kind == "linear" else None, activation=SimpleNamespace(name="bf16"),
            kv=SimpleNamespace(name="e4m3"),
        ),
        memory=SimpleNamespace(utilization=0.8, block_size=32), engine=SimpleNamespace(name="vllm", version="0.5"),
    )  # fmt: skip
    sized: Any = SimpleNamespace(slots=8, budget=512, replica=SimpleNamespace(request=request, speculation=None))
    size = PoolSize(option(both=1), "both", sized, 1)
    expected = {
        "checkpoint": "org/m", "weight_dtype": "fp8", "activation_dtype": "bf16", "kv_dtype": "e4m3", "quantization": "awq",
        **{f"{name}_parallel": size for name, size in sizes.items()}, "max_num_seqs": 8, "max_num_batched_tokens": 512,
        "max_model_len": 1101, "gpu_memory_utilization": 0.8, "block_size": 32, "engine": "vllm@0.5", "backend": "flash",
    }  # fmt: skip
    assert _deployment(size) == expected
    chosen.quantization, request.model.hf_id = "fp8", None
    assert _deployment(size) == {**expected, "quantization": "fp8", "checkpoint": "m"}
    chosen.quantization, request.model.quantization = None, ()
    assert _deployment(size)["quantization"] is None
    sized.replica.speculation = SimpleNamespace(
        options=SimpleNamespace(method="ngram", tokens=3, acceptance=0.7), draft=SimpleNamespace(name="d"), tokens=2.5
    )
    assert _deployment(size)["speculative"] == {
        "method": "ngram", "draft": "d", "num_speculative_tokens": 3, "acceptance": 0.7, "tokens_per_round": 2.5
    }  # fmt: skip


def test_the_slowest_start_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pools that start in 40 and 90 s; only where the fleet follows a profile, of requests at a rate."""
    for name in ("_notes_on_cache", "_notes_on_formats"):
        monkeypatch.setattr(module, name, lambda *given: ())
    monkeypatch.setattr(module, "start_up_s", lambda query, sized: sized.seconds)
    monkeypatch.setattr(module, "cache_link", lambda hardware: ("links", 1e9))
    one = option(both=1)
    replica = SimpleNamespace(basis="estimate", request=None, speculation=None)
    pools = tuple(PoolSize(one, "both", SimpleNamespace(replica=replica, seconds=each), 1) for each in (40.0, 90.0, 40.0))  # type: ignore[arg-type]
    for profile, mean_rate, pair in (
        ("day", 4.0, pools[:2]),
        ("day", 4.0, pools[1:]),
        (None, 4.0, pools[:2]),
        ("day", None, pools[:2]),
    ):
        load = SimpleNamespace(concurrency=None, rate=None, retained=(), longest=1101, beyond=1101, mean_rate=mean_rate)
        query = query_of(load, traffic=SimpleNamespace(profile=profile))
        notes = "".join(_notes(query, CandidateDraft(pair, 0), SimpleNamespace(utilisation=0.5)))  # type: ignore[arg-type]
        assert (f"requests replicas {duration(90.0)} before" in notes) is (profile is not None and mean_rate is not None)
        assert ("follows the profile" in notes) is (profile is not None and mean_rate is not None)


def test_what_is_noted_of_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and caches in fp8 that no checkpoint has; a folder in the command; another checkpoint; drafts and bounds."""
    monkeypatch.setattr(module, "engine_command", lambda request, longest: ["serve", "./m-awq"])
    own = SimpleNamespace(name="m", hf_id="org/m", quantization=())

    def notes(
        quantization: str | None = None, cache: str | None = None, of: Any = own, fixed: tuple[str, ...] = ()
    ) -> list[str]:
        chosen = SimpleNamespace(quantization=quantization, kv_cache_dtype=cache)
        query = query_of(None, model=own, fixed=dict.fromkeys(fixed))
        return [note.split()[2] for note in _notes_on_formats(query, SimpleNamespace(model=of, deployment=chosen))]  # type: ignore[arg-type]

    checkpoint = SimpleNamespace(name="m", hf_id="org/fp8", quantization=("fp8",))
    assert notes() == notes("none") == notes("fp8", fixed=("quantization",)) == notes("int4") == []
    assert notes("fp8") == ["is"]  # the checkpoint is not in fp8
    assert notes("awq") == ["loads"]  # the engine loads the format that a checkpoint has
    assert notes(of=checkpoint) == notes("fp8", of=checkpoint) == ["those"]  # weights are those of another
    assert notes(cache="fp8") == ["cache"]
    assert notes(cache="fp8", fixed=("kv_cache_dtype",)) == notes(cache="bf16") == []


def test_the_time_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "start_up", lambda request, given, notes: 77.0 if (request, given, notes) == ("r", {}, []) else 0
    )
    sized: Any = SimpleNamespace(replica=SimpleNamespace(request="r"))
    assert [start_up_s(query_of(None, start_up=given), sized) for given in (None, 0.0, 5.0)] == [77, 0, 5]


def test_limits_of_a_plan() -> None:
    """Three devices at 3 an hour: 9, and not without a price."""
    draft = clients_draft(3, 1.0)
    for limits, within in (
        ({}, True), ({"devices": lambda hardware: 3}, True), ({"devices": lambda hardware: 2}, False),
        ({"max_cost": 9.0}, True), ({"max_cost": 8.9}, False), ({"max_cost": 9.0, "prices": Prices()}, False),
        ({"prices": Prices()}, True),
    ):  # fmt: skip
        assert _within_limits(query_of(None, **limits), draft) is within


def test_pools_have_to_be_better() -> None:
    """Than the best colocated deployment, of 10: by a fifth 7.9 is, and 8 just so; 8.1 is left out."""
    one, many = clients_draft(2, 1.0), clients_draft(4, 1.0)
    pools = [replace(clients_draft(hour, 1.0, replicas=hour), spare=1) for hour in (1, 3)]
    for draft in (one, many, *pools):
        draft.option.layout = {"tp": 2}
    pools = [replace(draft, pools=draft.pools * 2) for draft in pools]
    ranked = [Ranked(pools[0], (), 7.9), Ranked(pools[1], (), 8.1), Ranked(one, (), 10.0), Ranked(many, (), 12.0)]
    left, passed_over = _without_pools(query_of(None, margin=0.2), ranked)
    assert left == [ranked[0], *ranked[2:]]
    (over,) = passed_over
    assert over["saves"] == pytest.approx(0.19)
    assert (over["margin"], over["devices"], over["cost_per_hour"]) == (0.2, 8, 24)
    assert over["pools"] == [{"role": "both", "replicas": 4, "layout": {"tp": 2}}] * 2
    assert "19 % better than the best" in over["why"].replace("\u202f", " ").replace("\xa0", " ").replace("19%", "19 %")
    for value, out in ((7.999, False), (8 * (1 + 9e-10), False), (8 * (1 + 1.1e-9), True)):
        left, passed_over = _without_pools(query_of(None, margin=0.2), [ranked[2], Ranked(pools[0], (), value)])
        assert bool(passed_over) is out
    for value, text in ((9.996, "no better than"), (10.004, "no better than"), (9.99, "0.1"), (11.0, "worse than")):
        _, (over,) = _without_pools(query_of(None, margin=0.2), [ranked[2], Ranked(pools[0], (), value)])
        assert text in over["why"]
    assert _without_pools(query_of(None, margin=0.2), ranked[:2]) == (ranked[:2], ())
    assert _without_pools(query_of(None, margin=0.0), ranked) == (ranked, ())


def test_the_front_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two, and of the others those that none is better than in all measures, up to three times the least cost."""
    measures = [(2.0, 5.0), (1.0, 9.0), (2.5, 5.0), (3.0, 4.0), (3.1, 3.0), (4.0, 6.0)]
    drafted = [clients_draft(hour, 1.0) for hour in (1, 2, 3, 4, 5, 6, 99)]
    for draft in drafted:
        draft.option.sized["both"].replica = SimpleNamespace(request=draft.devices)
    ranked = [Ranked(draft, point, 0.0) for draft, point in zip(drafted, measures, strict=False)]

    @dataclass
    class Listed:
        devices: int
        simulated: Any = None

    refused = RejectedLayout(SimpleNamespace(name="l40s"), "bf16", {"tp": 2}, "too small")  # type: ignore[arg-type]
    options = [SimpleNamespace(), refused, SimpleNamespace()]
    monkeypatch.setattr(planning, "Option", SimpleNamespace)
    monkeypatch.setattr(planning, "search", lambda query: options)
    monkeypatch.setattr(planning, "drafts", lambda query, options: drafted)
    monkeypatch.setattr(planning, "order", lambda query, within: ranked[: len(within)])
    monkeypatch.setattr(planning, "candidate", lambda query, draft: Listed(draft.devices))
    monkeypatch.setattr(planning, "infeasible", lambda *given: given)
    monkeypatch.setattr(
        planning, "assemble", lambda query, candidates, first, **others: {"first": first, "all": candidates, **others}
    )
    query = query_of(None, top=2, margin=0.0, devices=lambda hardware: 6)

    def run() -> tuple[list[int], tuple[int, ...]]:
        seen: Any = _run(query)
        assert seen["considered"] == {"deployments": 3, "fit": 2, "meet": 7, "within_limits": 6}
        assert seen["refused"] == ({"hardware": "l40s", "precision": "bf16", "layout": {"tp": 2}, "why": "too small"},)
        assert (seen["first"], seen["infeasible"], seen["passed_over"]) == (1, None, ())
        return [one.devices for one in seen["all"]], seen["pareto"]

    assert run() == ([1, 2, 4], (0, 1, 2))
    query.top = 3
    assert run() == ([1, 2, 3, 4], (0, 1, 3))
    query.top = 10
    assert run() == ([1, 2, 3, 4, 5, 6], (0, 1, 3))
    # one whose simulation misses an objective is not on the front, but what it hid is
    query.simulate_top = 1
    verdicts = {id(draft): SimpleNamespace(holds=holds) for draft, holds in zip(drafted, (False, None, True), strict=False)}
    monkeypatch.setattr(simulated, "simulate_first", lambda query, given: (given, verdicts, "summary"))
    assert run() == ([1, 2, 3, 4, 5, 6], (1, 2, 3))
    seen: Any = _run(query)
    assert [one.simulated for one in seen["all"]] == [*verdicts.values(), None, None, None]
    assert seen["simulation"] == "summary"
    query.devices = lambda hardware: 0
    seen = _run(query)
    assert (seen["first"], seen["all"]) == (None, ())
    assert seen["infeasible"] == (query, [options[0], options[2]], [refused], drafted)


# Other numbers of replicas, for a simulation


def test_simulated_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own performance: of clients and of offline work it is computed again, at a rate they share it."""
    one = option(both=30)
    draft = CandidateDraft((PoolSize(one, "both", load_sized(30.0), 2),), 1)
    query = query_of(SimpleNamespace(rate=60.0, concurrency=None), spare=1)
    at_rate = simulated._Server(query, draft).draft(3)
    assert (at_rate.pools[0].replicas, at_rate.pools[0].sized.max_rate, at_rate.devices) == (3, 20, 4)
    made: list[Any] = []
    for name in ("batch_draft", "closed_loop_draft"):
        monkeypatch.setattr(simulated, name, lambda query, option, replicas, name=name: made.append(name) or (name, replicas))
    assert simulated._Server(query_of(SimpleNamespace(rate=None, concurrency=9)), draft).draft(3) == ("closed_loop_draft", 3)
    work = BatchWork(1, 1, 1.0)
    query = query_of(SimpleNamespace(rate=None, concurrency=9), batch=work)
    assert simulated._Server(query, draft).draft(3) == ("batch_draft", 3)
    monkeypatch.setattr(simulated, "batch_draft", lambda query, option, replicas: None)
    assert simulated._Server(query, draft).draft(3) is draft


def load_sized(rate: float) -> Any:
    from roofline.serving.planning.sizing import SizedReplica

    return SizedReplica(SimpleNamespace(ranks=1), server(), "both", 8, 4096, rate, "throughput")  # type: ignore[arg-type]
