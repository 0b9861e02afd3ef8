"""Candidates that are simulated: replicas that are added or taken away, the order, and what cannot be simulated."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.serving.planning.result import Plan, Simulated, SimulatedRun

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
