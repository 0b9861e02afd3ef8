"""Candidates that are simulated: replicas that are added or taken away, the order, and what cannot be simulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.planning import simulated as module
from roofline.serving.planning.candidates import CandidateDraft, PoolSize, Ranked
from roofline.serving.planning.load import BatchWork
from roofline.serving.planning.result import Plan, Simulated, SimulatedRun
from roofline.serving.planning.simulated import _margins, _of_draft, _rate, _Server, simulate_first

ONE: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16", "mode": "colocated"}
CHAT: dict[str, Any] = {"input_len": "lognormal:1155:900", "output_len": "lognormal:211:160"}


def planned(**options: Any) -> Plan:
    return roofline.plan("llama-3.1-8b", **{**ONE, **CHAT, **options})


def simulated(result: Plan) -> Simulated:
    assert result.best is not None
    assert result.best.simulated is not None
    return result.best.simulated


@pytest.mark.slow
def test_predicted_and_simulated_beside_each_other() -> None:
    """At a third of saturation the two agree: TTFT and TPOT within 15 % at p95, no replica more or less."""
    result = planned(rate=8, ttft="2 s", tpot="50 ms", simulate=True)
    one = simulated(result)
    assert one.holds
    assert one.replicas == one.planned_replicas == 1
    best = result.best
    assert best is not None
    for name, times in (("ttft", best.ttft_s), ("tpot", best.tpot_s)):
        at, low, high = one.latency(name, 0.95)
        assert at == pytest.approx(times.at, rel=0.15)
        assert low is None or high is None or low < at < high
    assert result.simulation is not None
    assert result.simulation["holds"] == 1
    assert result.simulation["requests"] == one.requests >= 10_000
    document = result.to_dict()["candidates"][0]["simulated"]
    assert document["runs"][0]["holds"]
    assert document["tpot_s"]["pP"] == one.latency("tpot", 0.95)[0]


@pytest.mark.slow
def test_replicas_without_need_are_taken_away() -> None:
    """The cap of 0.85 plans a replica more than the objectives need; fewer hold with three seeds, and the next fewer do not."""
    result = planned(rate=50, quantization="fp8", dtype=None, ttft="2 s", tpot="50 ms", simulate=True)
    one = simulated(result)
    assert one.holds
    assert (one.planned_replicas, one.replicas) == (3, 2)
    best = result.best
    assert best is not None
    assert best.devices == 2
    assert best.cost.per_hour == pytest.approx(2 * 2.95)
    assert best.breaks_at == pytest.approx(50)  # no more is known
    by_replicas = {run.replicas: run for run in one.runs}
    assert by_replicas[2].requests == 3 * by_replicas[3].requests


@pytest.mark.slow
def test_one_that_misses_gets_more_replicas() -> None:
    """Bursts that the closed form does not hold for: more replicas until the simulation holds, and it is ranked by them."""
    result = planned(rate=20, burstiness=4, ttft="250 ms", tpot="60 ms", simulate=True)
    one = simulated(result)
    assert one.holds
    assert one.replicas is not None
    assert one.replicas > one.planned_replicas
    assert [run.holds for run in one.runs][-1]
    assert not one.runs[0].holds
    assert result.best is not None
    assert result.best.devices == one.replicas


def test_none_that_holds_is_the_answer_no() -> None:
    """No more devices than are planned: no replica can be added."""
    options = {"rate": 20, "burstiness": 4, "ttft": "250 ms", "tpot": "60 ms"}
    best = planned(**options).best
    assert best is not None
    result = planned(**options, simulate=True, max_gpus=best.devices)
    assert result.simulation is not None
    assert result.simulation["holds"] == 0
    one = simulated(result)
    assert one.holds is False
    assert result.pareto == ()


@pytest.mark.slow
def test_pools_are_skipped_and_named() -> None:
    result = planned(rate=60, ttft="300 ms", tpot="14 ms", mode="any", allow_disaggregated=0, simulate_top=1)
    assert result.simulation is not None
    assert result.simulation["skipped"] >= 1
    skipped = next(one for one in result.candidates if one.mode == "disaggregated" and one.simulated is not None)
    assert skipped.simulated is not None
    assert skipped.simulated.holds is None
    assert "pools are not simulated" in skipped.simulated.why
    assert result.candidates[0].mode == "colocated"  # simulated ones first


@pytest.mark.slow
def test_clients_are_ranked_by_the_rate_that_the_simulation_shows() -> None:
    result = planned(concurrency=64, simulate=True)
    one = simulated(result)
    assert result.best is not None
    assert one.requests_per_s == pytest.approx(result.best.requests_per_s, rel=0.1)


@pytest.mark.slow
def test_offline_work_of_which_a_part_is_simulated() -> None:
    """100,000 requests on one replica: the finish time of the first 20,000 and of the rest at their rate; within 4 %."""
    result = planned(tokens=211 * 100_000, deadline="3 h", simulate=True, input_len=300, output_len=211, mode=None)
    one = simulated(result)
    assert result.best is not None
    assert result.best.finish_s is not None
    assert one.requests < 100_000
    assert one.finish_s == pytest.approx(result.best.finish_s.mean, rel=0.04)


def test_a_run_as_plain_data() -> None:
    run = SimulatedRun(
        replicas=2, simulated_replicas=2, requests=10, holds=True, safe=False, saturated=False, within={"ttft": 0.9}
    )
    assert run.to_dict() == {
        "replicas": 2, "simulated_replicas": 2, "requests": 10, "holds": True, "saturated": False, "within_ttft": 0.9,
        "within_tpot": None, "finish_s": None,
    }  # fmt: skip


@pytest.mark.slow
def test_candidates_do_not_share_the_times_of_their_steps() -> None:
    """Three kinds of hardware with the same slots, one after another: each has the TPOT of a simulation of its own."""
    result = planned(
        rate=4, ttft="5 s", tpot="200 ms", hardware="h100-sxm,a100-sxm-80gb,l40s", simulate_top=3, max_num_seqs=64, pp=1
    )
    tpots = {}
    for one in result.candidates:
        assert one.simulated is not None
        tpots[one.hardware] = one.simulated.latency("tpot", 0.95)[0]
        run = roofline.simulate(
            "llama-3.1-8b", one.hardware, tp=1, dtype="bf16", rate=4, requests=one.simulated.requests, max_num_seqs=64, seed=0,
            replicas=one.replicas, ttft="5 s", tpot="200 ms", **CHAT, max_model_len=one.pools[0].deployment["max_model_len"],
            max_num_batched_tokens=one.pools[0].deployment["max_num_batched_tokens"],
        )  # fmt: skip
        assert tpots[one.hardware] == run.tpot_s.p95
    assert len(set(tpots.values())) == 3


# By hand, with runs that are made up


@dataclass
class MadeUp:
    """A replica of 100 steps of 20 ms, in 8 slots on each rank."""

    capacity: float = 1.0
    ranks: int = 1
    slots: int = 8
    max_rate: float = 1.0
    budget: int = 4096
    mean_steps: float = 100.0
    decode_s: tuple[float, ...] = (0.01, 0.02)

    @property
    def server(self) -> Any:
        """As of `SizedReplica`."""
        return self

    @property
    def request(self) -> Any:
        """As of `Replica`."""
        return SimpleNamespace(model="model")

    @property
    def replica(self) -> Any:
        """As of `SizedReplica`."""
        return self


def query_of(
    rate: float | None = None, clients: int | None = None, batch: BatchWork | None = None, most: int = 10**6, **others: Any
) -> Any:
    """With an objective, and `most` devices at 3 an hour each."""
    services = [SimpleNamespace(objectives={"ttft": 1.0}, percentile=share) for share in (0.9, 0.95)]
    load = SimpleNamespace(rate=rate, concurrency=clients, services=services, retained=())
    prices = SimpleNamespace(of=lambda hardware, devices: SimpleNamespace(value=3.0))
    given = {"load": load, "batch": batch, "max_cost": None, "spare": 0, "prices": prices, "devices": lambda hardware: most}
    return SimpleNamespace(**{**given, "attention_dp_balance": False, "simulate_top": 2, **others})


def draft_of(replicas: int, devices: int = 1, pools: int = 1, **sized: Any) -> CandidateDraft:
    one: Any = SimpleNamespace(devices=devices, hardware="hardware", longest=1101, fixed={"tensor_parallel_size": devices})
    made_up: Any = MadeUp(**sized)
    return CandidateDraft((PoolSize(one, "both", made_up, replicas),) * pools, 0)


@pytest.mark.parametrize(
    ("query", "planned", "holds", "safe", "replicas", "tried"),
    [
        # 5 % of 100 are added six times, of 30 two replicas, of 10 one; then what lies between is bisected
        (query_of(95), 100, 103, 103, 103, [100, 102, 103, 105]),
        (query_of(95), 100, 105, 105, 105, [100, 102, 103, 104, 105]),
        (query_of(95), 100, 106, 106, 106, [100, 105, 106, 107, 110]),
        (query_of(95), 100, 130, 130, 130, [100, 105, 110, 115, 120, 125, 127, 128, 129, 130]),
        (query_of(95), 100, 131, 131, 130, [100, 105, 110, 115, 120, 125, 130]),
        (query_of(28), 30, 31, 31, 31, [30, 31, 32]),
        (query_of(28), 30, 99, 99, 42, [30, 32, 34, 36, 38, 40, 42]),
        (query_of(9), 10, 13, 13, 13, [10, 11, 12, 13]),
        # no more devices than there are
        (query_of(95, most=105), 100, 109, 109, 105, [100, 105]),
        (query_of(95, most=104), 100, 102, 102, 100, [100]),
        # as many as 0.95 of what saturates them take: 60 of 57 requests/s, 100 of 95
        (query_of(95), 100, 1, 1, 100, [100]),
        (query_of(94.9), 101, 1, 1, 100, [100, 101]),
        (query_of(57), 100, 1, 100, 100, [99, 100]),
        (query_of(57), 100, 1, 99, 99, [79, 89, 94, 96, 97, 98, 99, 100]),
        (query_of(57), 100, 1, 75, 75, [69, 74, 75, 76, 79, 99, 100]),
        (query_of(57), 100, 1, 1, 60, [60, 61, 64, 69, 79, 99, 100]),
        # of clients any number; of offline work 6,600 requests, and 110 of a replica in time
        (query_of(clients=100), 3, 1, 1, 1, [1, 2, 3]),
        (query_of(clients=100), 3, 1, 2, 2, [1, 2, 3]),
        (query_of(batch=BatchWork(1, 6600, 100.0)), 61, 1, 1, 60, [60, 61]),
        (query_of(batch=BatchWork(1, 66, 100.0)), 2, 1, 1, 1, [1, 2]),
    ],
)  # fmt: skip
def test_the_fewest_replicas(query: Any, planned: int, holds: int, safe: int, replicas: int, tried: list[int]) -> None:
    """Objectives hold with `holds` replicas or more, and safely with `safe`; `tried`: which are simulated."""
    seen: set[int] = set()
    server: Any = _Server(query, draft_of(planned))
    server.run = lambda count: (seen.add(count), (SimpleNamespace(holds=count >= holds, safe=count >= safe), None))[1]
    assert server.fewest(planned) == replicas
    assert sorted(seen) == tried


def test_without_objectives_nothing_is_taken_away() -> None:
    query = query_of(57)
    for objectives, batch, replicas in (({}, None, 100), ({}, BatchWork(1, 6600, 100.0), 60), ({"tpot": 1.0}, None, 60)):
        query.load.services = [SimpleNamespace(objectives={}), SimpleNamespace(objectives=objectives)]
        query.batch = batch
        server: Any = _Server(query, draft_of(100))
        server.run = lambda count: (SimpleNamespace(holds=True, safe=True), None)
        assert server.fewest(100) == replicas


def test_replicas_that_are_needed_at_least() -> None:
    """0.95 of 1 request/s each; 110 requests in 100 s; one of clients."""
    for query, fewest in (
        (query_of(57.0), 60), (query_of(0.1), 1), (query_of(0.96), 2), (query_of(clients=9), 1),
        (query_of(batch=BatchWork(1, 1111, 100.0)), 11), (query_of(batch=BatchWork(1, 9, 100.0)), 1),
    ):  # fmt: skip
        assert _Server(query, draft_of(3))._lowest() == fewest


def test_devices_and_money_that_are_allowed() -> None:
    """Four devices each, and a spare: 5 replicas are 24 devices, and cost 72 an hour."""
    for limits, allowed in (
        ({"most": 24}, True), ({"most": 23}, False), ({"max_cost": 72.0}, True), ({"max_cost": 71.0}, False),
        ({"max_cost": 71.0, "prices": SimpleNamespace(of=lambda hardware, devices: None)}, True),
    ):  # fmt: skip
        query = query_of(10.0, spare=1, **limits)  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Server, "draft", lambda self, replicas: replace(self.drafted, spare=1))
            assert _Server(query, draft_of(5, 4))._allowed(5) is allowed


def run_of(**given: Any) -> Any:
    """A simulation with shares of requests within the objectives of classes, at percentiles of 90 and 95."""
    shares = given.pop("shares", ((0.97, None), (0.96, 0.98)))
    return SimpleNamespace(
        classes=[{"within_ttft": ttft, "within_tpot": tpot} for ttft, tpot in shares],
        workload={"classes": [{"percentile": 0.9}, {"percentile": 0.95}]}, requests=SimpleNamespace(arrived=777),
        **{"saturated": False, "confidence": {}, "within_slo": 0.98, "duration_s": 50.0, **given},
    )  # fmt: skip


def test_margins_of_classes() -> None:
    margins, within = _margins(run_of())
    assert margins == pytest.approx([0.97 - 0.9, 0.96 - 0.95, 0.98 - 0.95])
    assert within == {"ttft": 0.96, "tpot": 0.98}
    assert _margins(run_of(shares=((0.5, 1.0), (0.7, None))))[1] == {"ttft": 0.5, "tpot": 1.0}


def of_server(query: Any, draft: CandidateDraft, results: Callable[..., Any]) -> tuple[_Server, list[Any]]:
    asked: list[Any] = []
    server: Any = _Server(query, draft)

    def simulate(workload: Any, replicas: int, requests: int | None, replications: int | None = None) -> Any:
        asked.append((workload, replicas, requests, replications))
        return results(workload)

    server._simulate = simulate
    return server, asked


def classes_of(**given: Any) -> Any:
    from roofline.serving.traffic.build import single

    return single(**{"input_len": 1000, "output_len": 101, **given})


@pytest.mark.parametrize(
    ("rate", "clients", "replicas", "sized", "together", "requests"),
    [
        # 100 steps of 20 ms: as long as 2 s, of 8 slots at most
        (4.0, None, 1, {}, 1, 10_000),  # 8 at a time, twenty times 160; a thousand per replica
        (4.0, None, 12, {}, 12, 12_000),
        (400.0, None, 4, {"slots": 256}, 4, 20 * 4 * 200),  # 100 requests/s each, for 2 s
        (400.0, None, 4, {"slots": 150}, 4, 20 * 4 * 150),
        (400.0, None, 4, {"slots": 75, "ranks": 2}, 4, 20 * 4 * 150),
        (4000.0, None, 40, {"slots": 151}, 32, 20 * 32 * 151),  # of the first 32
        (4000.0, None, 40, {"slots": 256}, 32, 100_000),
        (None, 1000, 2, {"slots": 800}, 2, 20 * 1000),
        (None, 1000, 2, {"slots": 300}, 2, 20 * 600),
        (None, 10, 3, {}, 3, 10_000),
    ],
)  # fmt: skip
def test_requests_of_a_run(
    rate: float | None, clients: int | None, replicas: int, sized: dict[str, int], together: int, requests: int
) -> None:
    """At least 10,000, a thousand per replica, twenty times those that run; at most 100,000. Of 32 replicas at the most."""
    query = query_of(rate, clients, traffic=classes_of(rate=rate, concurrency=clients))
    server, asked = of_server(query, draft_of(replicas, **sized), lambda workload: run_of())
    run, _ = server.run(replicas)
    (workload, count, number, seeds) = asked[0]
    assert (count, number, seeds) == (together, requests, None)
    assert (run.replicas, run.simulated_replicas, run.requests) == (replicas, together, 777)
    if rate is not None:
        assert workload.classes[0].rate == pytest.approx(rate * together / replicas)
    assert server.run(replicas)[0] is run
    assert len(asked) == 1
    server.run(replicas + 1)
    assert asked[1][3] is None
    if replicas > 1:  # fewer than planned: with three seeds
        server.run(replicas - 1)
        assert asked[2][3] == 3
        assert [one.replicas for one in server.tried] == [replicas - 1, replicas, replicas + 1]


@pytest.mark.parametrize(
    ("given", "holds", "safe"),
    [
        ({"confidence": {"within_slo": {"low": 0.95}}}, True, True),
        ({"confidence": {"within_slo": {"low": 0.949}}}, True, False),
        ({"within_slo": 0.976}, True, True),  # 2.4 % miss, and with as many again 95.2 % do not
        ({"within_slo": 0.974}, True, False),
        ({"within_slo": None}, True, False),
        ({"saturated": True}, False, False),
        ({"shares": ((0.9, None), (0.95, 0.95))}, True, True),
        ({"shares": ((0.97, None), (0.96, 0.949))}, False, False),
        ({"shares": ((0.899, None), (0.96, 0.96))}, False, False),
    ],
)  # fmt: skip
def test_what_holds(given: dict[str, Any], holds: bool, safe: bool) -> None:
    """Every objective at its percentile; safely if the interval is above the highest of them."""
    server, _ = of_server(query_of(4.0, traffic=classes_of(rate=4)), draft_of(1), lambda workload: run_of(**given))
    run, _ = server.run(1)
    assert (run.holds, run.safe, run.saturated) == (holds, safe, given.get("saturated", False))


def test_offline_work_is_simulated_in_part() -> None:
    """A replica computes r requests in 5 s + r/100 s: 20,000 take 205 s, and the rest at 100/s.

    Up to 20,000, or 20 times those that run, all of them are simulated.
    """

    def results(workload: Any) -> Any:
        (arrivals,) = workload.arrivals
        assert workload.classes[0].concurrency == 1
        return run_of(duration_s=5 + arrivals.num_requests / 100)

    for requests, replicas, slots, simulated in [
        (100, 1, 8, [100]), (100, 3, 8, [34]), (20_000, 1, 8, [20_000]), (20_001, 1, 8, [10_000, 20_000]),
        (90_000, 4, 8, [10_000, 20_000]), (30_000, 1, 1500, [30_000]), (30_001, 1, 1500, [15_000, 30_000]),
        (50_000, 1, 1250, [12_500, 25_000]), (50_001, 1, 2500, [25_000, 50_000]),
    ]:  # fmt: skip
        share = math.ceil(requests / replicas)
        finish = 5 + share / 100
        for deadline, holds in ((finish * 1.001, True), (finish * 0.999, False)):
            query = query_of(batch=BatchWork(1, requests, deadline), traffic=classes_of(concurrency=requests))
            server, asked = of_server(query, draft_of(replicas, slots=slots), results)
            run, _ = server.run(replicas)
            assert [one[0].arrivals[0].num_requests for one in asked] == simulated
            assert {one[1:] for one in asked} == {(1, None, None)}
            assert run.finish_s == pytest.approx(finish)
            assert (run.holds, run.safe, run.saturated, run.simulated_replicas) == (holds, holds, False, 1)
            assert (run.replicas, run.requests) == (replicas, sum(simulated))
    query = query_of(batch=BatchWork(1, 100, 6.0), traffic=classes_of(concurrency=100))
    server, _ = of_server(query, draft_of(1), lambda workload: run_of(duration_s=6.0))
    assert server.run(1)[0].holds
    server, _ = of_server(query, draft_of(1), lambda workload: run_of(duration_s=6.0, shares=((0.8, None), (1.0, 1.0))))
    assert not server.run(1)[0].holds
    server, asked = of_server(query, draft_of(1, slots=1250, ranks=2), results)  # as many slots on two ranks
    server.query.batch = BatchWork(1, 50_001, 1e6)
    server.run(1)
    assert [one[0].arrivals[0].num_requests for one in asked] == [25_000, 50_000]


def test_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the replica; turns of conversations go to the replica that has them."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "simulate", lambda *names, **given: asked.append({"names": names, **given}))
    query = query_of(4.0, attention_dp_balance=True)
    server = _Server(query, draft_of(3, 2))
    server._simulate("workload", 3, 10, 5)  # type: ignore[arg-type]
    settings = {"max_num_seqs": 8, "max_num_batched_tokens": 4096, "max_model_len": 1101, "tensor_parallel_size": 2}
    assert asked[0] == {
        "names": ("model", "hardware"), "workload": "workload", "requests": 10, "replicas": 3, "seed": 0, "replications": 5,
        "attention_dp_balance": True, **settings,
    }  # fmt: skip
    for turns, router in ((None, None), ("some", "session-sticky")):
        query.load.retained = (("mix", SimpleNamespace(conversation=SimpleNamespace(turns=turns))),)
        server._simulate("workload", 3, None)  # type: ignore[arg-type]
        assert (asked[-1].get("router"), asked[-1]["replications"]) == (router, None)


def test_rates_of_all_replicas() -> None:
    """Of offline work its requests over the time; of clients Little's law; else 7/s of 32 replicas are 8.75 of 40."""
    result: Any = SimpleNamespace(throughput={"requests_per_s": 7.0}, e2e_s=SimpleNamespace(mean=2.5))
    run: Any = SimpleNamespace(finish_s=None, replicas=40, simulated_replicas=32)
    assert _rate(query_of(4.0), run, result) == 8.75
    assert _rate(query_of(clients=100), run, result) == 40
    assert _rate(query_of(clients=100), run, SimpleNamespace(**{**vars(result), "e2e_s": SimpleNamespace(mean=None)})) == 8.75  # type: ignore[arg-type]
    run.finish_s = 50.0
    assert _rate(query_of(batch=BatchWork(1, 600, 1.0)), run, result) == 12
    assert _rate(query_of(4.0), run, result) == 8.75


def test_a_candidate_and_its_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown with its spares; held to its objectives without. What cannot be simulated says why."""

    def run(self: Any, replicas: int) -> Any:
        if replicas > 8:
            raise InputError("too long")
        self.known[replicas] = (
            SimpleNamespace(holds=replicas >= holds, finish_s=None, requests=10 * replicas),
            f"with {replicas}",
        )
        return self.known[replicas]

    monkeypatch.setattr(_Server, "run", run)
    monkeypatch.setattr(_Server, "fewest", lambda self, planned: planned - taken)
    monkeypatch.setattr(module, "_rate", lambda query, last, result: (last.requests, result))
    monkeypatch.setattr(_Server, "draft", lambda self, replicas: ("draft", replicas))
    given = draft_of(4)
    for taken, holds, draft in ((0, 4, given), (1, 3, ("draft", 3)), (1, 4, ("draft", 3))):
        seen, made = _of_draft(query_of(4.0, spare=2), given)
        replicas = 4 - taken
        assert made == draft
        assert (seen.holds, seen.replicas, seen.planned_replicas) == (replicas >= holds, replicas, 4)
        assert (seen.simulation, seen.requests) == (f"with {replicas + 2}", 10 * (replicas + 2))
        assert seen.requests_per_s == (10 * (replicas + 2), f"with {replicas + 2}")
        assert [one.requests for one in seen.runs] == [10 * replicas, 10 * (replicas + 2)]
    taken = 0
    for draft, why in ((draft_of(9), "too long"), (draft_of(4, pools=2), "prefill and decode pools are not simulated")):
        seen, made = _of_draft(query_of(4.0), draft)
        assert made is draft
        assert (seen.holds, seen.why, seen.planned_replicas) == (None, why, draft.pools[0].replicas)


def test_candidates_that_hold_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are simulated, and one that cannot be: first what holds, in its new order, then the rest, then what misses."""
    ranked = [Ranked(draft_of(count), (float(count),), 10.0 * count) for count in (1, 2, 3, 4, 5)]
    verdicts = {1: None, 2: False, 3: True}

    def of_draft(query: Any, draft: CandidateDraft) -> Any:
        count = draft.pools[0].replicas
        runs = (
            SimulatedRun(
                replicas=1, simulated_replicas=1, requests=10 * count, holds=True, safe=True, saturated=False, within={}
            ),
        )
        return Simulated(planned_replicas=count, holds=verdicts[count], runs=runs * count), changed[count]

    changed = {count: draft_of(count + 10) for count in verdicts}
    monkeypatch.setattr(module, "_of_draft", of_draft)
    monkeypatch.setattr(module, "order", lambda query, held, known: [("held", draft, known[id(draft)].holds) for draft in held])
    order, known, summary = simulate_first(query_of(4.0), ranked)
    assert order == [("held", changed[3], True), ranked[0], ranked[3], ranked[4], Ranked(changed[2], (2.0,), 20.0)]
    assert {key: one.planned_replicas for key, one in known.items()} == {id(changed[count]): count for count in (1, 2, 3)}
    assert summary == {
        "top": 2, "candidates": 2, "holds": 1, "skipped": 1, "runs": 1 + 2 + 3, "requests": 10 + 2 * 20 + 3 * 30, "seed": 0
    }  # fmt: skip
