"""The result of a plan: totals over pools, what a simulation shows, and each value under its key."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.serving.planning.performance import LatencyStats, Performance
from roofline.serving.planning.prefix_cache import KVCacheUse
from roofline.serving.planning.result import NO_FINISH, Candidate, Cost, Finish, Plan, Pool, Power, Simulated
from roofline.specs.prices import Price

TTFT = LatencyStats(1.0, 1.1, 1.2, 0.9, 1.3, 0.8, 0.99)
TPOT = LatencyStats(2.0, 2.1, 2.2, 1.9, 2.3, 1.8, 0.9)
SIZES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "max_num_seqs", "max_num_batched_tokens")


def pool(role: str, replicas: int, spare: int, devices: int, max_rate: float, binds: Any) -> Pool:
    flags, files = {"engine": [role]}, {"engine": {"file": role}}
    deployment = {name: number + devices for number, name in enumerate(SIZES)}
    return Pool(role, replicas, spare, devices, deployment, flags, files, max_rate, binds, 3.0)


def price() -> Price:
    return Price(
        hardware="h100-sxm", currency="EUR", kind="rented", origin="given", low=2.0, high=5.0, value=3.0, assumed=False, count=8
    )  # fmt: skip


def made(**given: Any) -> Candidate:
    """Four servers of prompts and three of outputs, of which a spare each, with two and eight devices."""
    pools = (pool("prefill", 4, 1, 2, 5.0, "ttft"), pool("decode", 3, 1, 8, 8.0, "tpot"))
    seen = Performance(TTFT, TPOT, {"a": (TTFT, TPOT)}, 17.0, 0.5, 0.6, 0.25)
    cost = Cost(96.0, 64.0, 160.0, 0.1, 0.2, 0.3, "EUR", "3 EUR/h", 77.0, (price(),))
    one = Candidate(
        "h100-sxm", "H100", "disaggregated", "bf16", pools, seen, 10.0, 1000.0, 10_000.0, cost, Power(700.0, 7.0, 1.5), 0.2,
        12.0, "estimate", ("note",), "measured",
    )  # fmt: skip
    return replace(one, **given)


def test_totals_over_pools() -> None:
    """Spares are devices, but serve nothing: 3 x 5 requests/s of prompts, and 2 x 8 of outputs."""
    one = made()
    assert (one.devices, one.replicas, one.to_dict()["spare"]) == (4 * 2 + 3 * 8, 7, 2)
    assert (one.tightest.role, one.binds) == ("prefill", "ttft")
    prompts, outputs = one.pools
    assert made(pools=(prompts, replace(outputs, max_rate=7.4))).binds == "tpot"
    assert made(pools=(replace(prompts, spare=0), outputs)).binds == "tpot"


FINISH = Finish(100.0, 90.0, 120.0, 80.0, 9.0, 6.0, 15.0, 4.5)


def test_money_of_offline_work() -> None:
    one, free = made(finish_s=FINISH), made(finish_s=Finish(100.0, None, None, 80.0))
    assert (one.cost_total, one.cost_total_range, one.cost_per_million_output_tokens, one.cost_per_hour) == (
        9,
        [6, 15],
        4.5,
        96,
    )
    assert one.cost_per_million_tokens is one.cost
    for other in (free, made()):
        assert (other.cost_total, other.cost_total_range, other.cost_per_million_output_tokens) == (None, None, None)
    finish = {
        "finish_s": {"mean": 100, "low": 90, "high": 120, "bound": 80}, "cost_total": 9, "cost_total_range": [6, 15],
        "cost_per_million_output_tokens": 4.5,
    }  # fmt: skip
    assert FINISH.to_dict() == finish
    assert free.to_dict()["cost_total_range"] is None
    assert {name: one.to_dict()[name] for name in NO_FINISH} == finish
    assert {made().to_dict()[name] for name in NO_FINISH} == {None}


def test_each_value_has_its_key() -> None:
    """Settings and commands are those of the pool that decodes."""
    data = made().to_dict()
    for stats, name, key, at in ((TTFT, "ttft_s", "p99", 1.2), (TPOT, "tpot_s", "p90", 2.2)):
        ends = {"mean": stats.mean, "p50": stats.p50, "low": stats.low, "high": stats.high, "bound": stats.bound}
        assert data[name] == data["classes"]["a"][name] == {**ends, "pP": at, key: at}
    outputs = made().pools[1]
    assert (data["deployment"], data["engine_flags"], data["engine_files"]) == (
        outputs.deployment, {"engine": ["decode"]}, {"engine": {"file": "decode"}},
    )  # fmt: skip
    assert [one["role"] for one in data["pools"]] == ["prefill", "decode"]
    assert data["throughput"] == {"requests_per_s": 10, "output_tokens_per_s": 1000, "input_tokens_per_s": 10_000}
    assert (data["utilisation"], data["running"], data["kv_cache"], data["simulated"]) == (0.6, 17, None, None)
    assert (data["cost_per_hour"], data["cost_per_hour_range"], data["cost_per_hour_scaled"]) == (96, [64, 160], 77)
    assert data["cost_per_million_tokens"] == {"input": 0.1, "output": 0.2, "total": 0.3}
    assert data["offers"] == [{"count": 8, "price": 3, "range": [2, 5], "kind": "rented", "note": price().note}]
    assert data["power"] == {"watts_at_most": 700, "joules_per_output_token_at_most": 7, "pue": 1.5}
    assert (data["binds"], data["breaks_first"], data["headroom"]) == ("ttft", {"what": "ttft", "rate": 12}, 0.2)
    assert (data["basis"], data["estimate_basis"], data["notes"]) == ("estimate", "measured", ["note"])
    assert made(cost=Cost()).to_dict()["cost_per_hour_range"] is None
    use = KVCacheUse(**dict.fromkeys(KVCacheUse.__dataclass_fields__, 1))  # type: ignore[arg-type]
    cached = made(performance=replace(made().performance, cache=SimpleNamespace(use=lambda: use)))  # type: ignore[arg-type]
    assert cached.kv_cache is use
    assert cached.to_dict()["kv_cache"] == dict.fromkeys(KVCacheUse.__dataclass_fields__, 1)


def test_rows() -> None:
    plan = Plan({}, {}, {}, {}, "cost", (made(), made(finish_s=FINISH)), (1,), None, {}, (), ())
    assert plan.best is plan.candidates[0]
    assert replace(plan, candidates=()).best is None
    first, second = plan.flat()
    assert (first["rank"], first["pareto"], second["rank"], second["pareto"]) == (1, False, 2, True)
    assert (first["finish_s"], first["cost_total"], second["finish_s"], second["cost_total"]) == (None, None, 100, 9)
    times = {
        f"{name}_{key}_s": value for name, stats in (("ttft", TTFT), ("tpot", TPOT))
        for key, value in (("mean", stats.mean), ("p50", stats.p50), ("pP", stats.at), ("low", stats.low), ("high", stats.high))
    }  # fmt: skip
    assert times.items() <= first.items()
    assert {name: first[name] for name in SIZES} == made().pools[1].deployment
    rest = {
        "hardware": "h100-sxm", "devices": 32, "replicas": 7, "mode": "disaggregated", "precision": "bf16",
        "requests_per_s": 10, "output_tokens_per_s": 1000, "utilisation": 0.6, "cost_per_hour": 96,
        "cost_per_million_tokens": 0.3, "cost_per_million_input_tokens": 0.1, "cost_per_million_output_tokens": 0.2,
        "currency": "EUR", "binds": "ttft",
        "breaks_at_requests_per_s": 12, "headroom": 0.2, "basis": "estimate",
    }  # fmt: skip
    assert rest.items() <= first.items()
    assert len(first) == len(rest) + len(times) + len(SIZES) + len(("rank", "pareto", "finish_s", "cost_total"))


def simulation(**given: Any) -> Any:
    """TTFT of 3 s at 99 %, from 2 to 4, and TPOT of 30 ms without an interval."""

    def times(mean: float, at: float, ends: Any) -> Any:
        return SimpleNamespace(mean=mean, p99=at, interval=lambda name: ends if name == "p99" else (0, 0))

    return SimpleNamespace(
        **{
            "ttft_s": times(1.0, 3.0, (2.0, 4.0)), "tpot_s": times(0.02, 0.03, None), "duration_s": 50.0, "within_slo": 0.97,
            "confidence": {"level": 0.95, "within_slo": "interval"}, "requests": SimpleNamespace(preemptions=6), **given,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("finish", "whole"), [(None, True), (50.0, True), (60.0, False)])
def test_what_a_simulation_shows(finish: float | None, whole: bool) -> None:
    """Offline work of which a part was simulated has no TTFT."""
    run: Any = SimpleNamespace(to_dict=lambda: "run")
    one = Simulated(
        planned_replicas=3, holds=True, replicas=2, requests_per_s=8.0, finish_s=finish, requests=700, runs=(run,),
        simulation=simulation(),
    )  # fmt: skip
    assert one.latency("ttft", 0.99) == ((3, 2, 4) if whole else (None, None, None))
    assert one.latency("tpot", 0.99) == (0.03, None, None)
    assert one.latency("tpot", 0.5)[0] is None
    assert one.to_dict(0.99) == {
        "holds": True, "why": None, "replicas": 2, "planned_replicas": 3,
        "ttft_s": {"mean": 1, "pP": 3, "low": 2, "high": 4} if whole else dict.fromkeys(("mean", "pP", "low", "high")),
        "tpot_s": {"mean": 0.02, "pP": 0.03, "low": None, "high": None}, "percentile": 0.99, "confidence": 0.95,
        "within_slo": 0.97, "within_slo_interval": "interval", "requests_per_s": 8, "finish_s": finish, "preemptions": 6,
        "requests": 700, "runs": ["run"],
    }  # fmt: skip
    skipped = Simulated(planned_replicas=3, why="pools")
    assert skipped.latency("tpot", 0.99) == (None, None, None)
    data = skipped.to_dict(0.99)
    assert (data["why"], data["planned_replicas"], data["requests"], data["runs"]) == ("pools", 3, 0, [])
    nothing = dict.fromkeys(("mean", "pP", "low", "high"))
    assert (data["ttft_s"], data["tpot_s"], data["within_slo"], data["preemptions"]) == (nothing, nothing, None, None)
