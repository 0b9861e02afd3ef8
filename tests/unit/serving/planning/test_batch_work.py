"""Plans of offline batch work: what is counted, how many replicas, what is refused; and the margin of pools."""

from __future__ import annotations

import math
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.planning.result import Plan

LENGTHS: dict[str, Any] = {"input_len": "lognormal:1155:900:8k", "output_len": 200}
ONE: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16"}


def planned(**options: Any) -> Plan:
    return roofline.plan("llama-3.1-8b", **{**ONE, **LENGTHS, "tokens": 2_000_000, "deadline": "10 min", **options})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned()


def test_tokens_are_output_tokens(plan: Plan) -> None:
    """2,000,000 output tokens in requests of 200 are 10,000 requests."""
    assert plan.traffic["batch"] == {"output_tokens": 2_000_000, "requests": 10_000, "deadline_s": 600}
    assert plan.traffic["rate"] is None
    assert plan.traffic["concurrency"] is None
    assert plan.rank == "token-cost"


def test_money_by_hand(plan: Plan) -> None:
    """Every device is paid until the last request has ended."""
    best = plan.best
    assert best is not None
    assert best.finish_s is not None
    hours = best.finish_s.mean / 3600
    assert best.cost_total == pytest.approx(2.95 * best.devices * hours)
    assert best.cost_per_million_output_tokens == pytest.approx(best.cost_total / 2)
    tokens = 10_000 * (200 + best.input_tokens_per_s / best.requests_per_s) / 1e6
    assert best.cost.total == pytest.approx(best.cost_total / tokens, rel=1e-3)
    assert best.requests_per_s == pytest.approx(10_000 / best.finish_s.mean)
    assert best.finish_s.bound < best.finish_s.low < best.finish_s.mean < best.finish_s.high
    assert best.performance.utilisation > 0.9  # no cap


@pytest.mark.slow
def test_the_fewest_replicas_that_end_in_time(plan: Plan) -> None:
    best = plan.best
    assert best is not None
    assert best.finish_s is not None
    assert best.finish_s.mean <= 600
    half = planned(deadline=best.finish_s.mean * 1.0001).best
    assert half is not None
    assert half.replicas == best.replicas
    sooner = planned(deadline=best.finish_s.mean * 0.999).best
    assert sooner is not None
    assert sooner.replicas == best.replicas + 1


@pytest.mark.slow
def test_a_deadline_that_no_number_of_replicas_meets() -> None:
    result = planned(deadline="100 ms")
    assert result.best is None
    assert result.infeasible is not None
    (relax,) = result.infeasible["relax"]
    assert relax["constraint"] == "deadline"
    assert planned(deadline=relax["to"]).best is not None


@pytest.mark.slow
def test_a_limit_on_devices_says_which_deadline_would_do() -> None:
    result = planned(deadline="30 s", max_gpus=2)
    assert result.best is None
    assert result.infeasible is not None
    relax = {one["constraint"]: one for one in result.infeasible["relax"]}
    assert relax["max_gpus"]["to"] > 2
    best = planned(deadline=relax["deadline"]["to"], max_gpus=2).best
    assert best is not None
    assert best.devices == 2


@pytest.mark.slow
def test_an_objective_for_tpot_limits_the_batch(plan: Plan) -> None:
    best, strict = plan.best, planned(tpot="12 ms", deadline="1 h").best
    assert best is not None
    assert strict is not None
    assert strict.tpot_s.at is not None
    assert strict.tpot_s.at <= 0.012 < (best.tpot_s.at or 0)
    assert strict.pools[0].deployment["max_num_seqs"] < best.pools[0].deployment["max_num_seqs"]
    assert strict.binds == "tpot"
    assert strict.cost.total > best.cost.total


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline": None}, "--tokens needs --deadline"),
        ({"tokens": None}, "--deadline needs --tokens"),
        ({"rate": 5}, "--tokens and --rate do not go together"),
        ({"concurrency": 5}, "--max-num-seqs"),
        ({"ttft": "2 s"}, "--tokens and --ttft do not go together"),
        ({"peak_factor": 2}, "--peak-factor"),
        ({"mode": "disaggregated"}, "--mode disaggregated"),
        ({"deadline": "12"}, "--deadline"),
        ({"tokens": 0}, "tokens"),
        ({"allow_disaggregated": 2}, "--allow-disaggregated"),
        ({"allow_disaggregated": 0.2, "mode": "colocated"}, "leave one of them out"),
        ({"simulate_top": 0}, "simulate-top"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned(**options)


CHAT: dict[str, Any] = {"rate": 60, "input_len": "lognormal:1155:900", "output_len": "lognormal:211:160"}


@pytest.mark.slow
def test_pools_have_to_be_cheaper_by_the_margin() -> None:
    """On a rate where pools take fewer devices they are proposed, unless the margin is larger than what they save."""

    def chat(**options: Any) -> Plan:
        return roofline.plan(
            "llama-3.1-8b", hardware="h100-sxm", tp=1, dtype="bf16", ttft="300 ms", tpot="14 ms", **CHAT, **options
        )

    free = chat(allow_disaggregated=0)
    assert free.passed_over == ()
    pools = next(one for one in free.candidates if one.mode == "disaggregated")
    whole = next(one for one in free.candidates if one.mode == "colocated")
    saves = 1 - pools.cost.per_hour / whole.cost.per_hour
    assert saves > 0
    held = chat(allow_disaggregated=saves + 0.01)
    assert all(one.mode == "colocated" for one in held.candidates)
    (passed,) = held.passed_over
    assert passed["devices"] == pools.devices
    assert passed["saves"] == pytest.approx(saves)
    assert chat(allow_disaggregated=saves - 0.01).candidates[0].mode == "disaggregated"
    assert math.isclose(held.limits["allow_disaggregated"], saves + 0.01)
