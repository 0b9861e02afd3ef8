"""`plan`: what is searched, what is counted, what is refused. Small searches, so that each takes a second."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, RooflineError
from roofline.serving.planning import plan as planning
from roofline.serving.planning.load import Query
from roofline.serving.planning.plan import _assumptions, _inputs, _margin, _positive, _simulated, _traffic, resolve
from roofline.serving.planning.result import Plan
from roofline.serving.planning.search import layouts
from roofline.serving.traffic import load_traffic
from roofline.specs.library import load_hardware

CHAT: dict[str, Any] = {"input_len": "lognormal:1155:900", "output_len": "lognormal:211:160", "ttft": "2 s", "tpot": "50 ms"}
ONE: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16", "mode": "colocated"}


def planned(**options: Any) -> Plan:
    return roofline.plan("llama-3.1-8b", **{**ONE, "rate": 60, **CHAT, **options})


def first(**options: Any) -> Any:
    found = planned(**options)
    assert found.best is not None
    return found.best


def test_sizes_that_are_tried() -> None:
    def tried(model: str, hardware: str, most: int = 8, **fixed: int) -> list[dict[str, int]]:
        return list(layouts(load_model(model)[0], load_hardware(hardware)[0], fixed, most))

    assert tried("llama-3.1-8b", "h100-sxm") == [{}, {"tp": 2}, {"tp": 4}, {"tp": 8}]
    assert tried("llama-3.1-8b", "h100-sxm", 4) == [{}, {"tp": 2}, {"tp": 4}]
    assert {"pp": 2} in tried("llama-3.1-8b", "l40s")  # no link of its own: stages exchange least
    assert {"dp": 8, "ep": 8} in tried("deepseek-v3", "h200-sxm")
    assert {"tp": 8, "pp": 2} in tried("deepseek-v3", "dgx-h200", 16)  # whole nodes
    assert tried("llama-3.1-8b", "h100-sxm", tensor_parallel_size=4) == [{"tp": 4}]
    assert tried("falcon-7b", "h100-sxm") == [{}]  # 71 heads


def test_replicas_by_hand() -> None:
    """As many as the rate that one serves goes into the rate, and one spare; cost by the hour and by the token."""
    best = first(spare=1, top=1)
    (pool,) = best.pools
    assert pool.replicas == math.ceil(60 / pool.max_rate) + 1
    assert best.devices == pool.replicas
    assert best.headroom == pytest.approx(pool.max_rate * (pool.replicas - 1) / 60 - 1)
    assert best.cost.per_hour == pytest.approx(2.95 * best.devices)
    assert best.cost.total == pytest.approx(2.95 * best.devices / 3600 / (60 * (1155 + 211)) * 1e6, rel=1e-3)
    spent = (best.cost.input * 1155 + best.cost.output * 211) / (1155 + 211)
    assert spent == pytest.approx(best.cost.total, rel=1e-3)
    assert best.power.watts == 700 * best.devices
    assert best.output_tokens_per_s == pytest.approx(60 * 211, rel=1e-3)


def test_the_peak_is_planned_for_and_the_mean_is_paid_by() -> None:
    """Twice the rate at the peak: the replicas of twice the rate, and a token at twice the cost."""
    peak, twice = first(peak_factor=2), first(rate=120)
    assert peak.devices == twice.devices
    assert peak.requests_per_s == twice.requests_per_s == 120
    assert peak.cost.total == pytest.approx(2 * twice.cost.total)


@pytest.mark.slow
def test_a_day_with_fewer_replicas_at_night() -> None:
    """Half of the day 1.5 times the mean, half of it half the mean: each half with the replicas that it needs."""
    day = first(profile="1,3", start_up=0)
    most = day.pools[0].max_rate
    assert day.requests_per_s == pytest.approx(90)
    by_day, by_night = math.ceil(90 / most), math.ceil(30 / most)
    assert day.cost.scaled_per_hour == pytest.approx(2.95 * (by_day + by_night) / 2)
    # two hours ahead: of 24, in 14 those of the day
    early = first(profile="1,3", start_up="2 h")
    assert early.cost.scaled_per_hour == pytest.approx(2.95 * (14 * by_day + 10 * by_night) / 24)
    assert any("requests replicas 2 h before they serve" in note for note in early.notes)
    # the weights of one device at 1.55 GB/s, and the engine
    usual = first(profile="1,3")
    ahead = 16.06e9 / 1.55e9 + 30
    assert usual.cost.scaled_per_hour == pytest.approx(
        2.95 * (by_night + (by_day - by_night) * (0.5 + ahead / 86400)), rel=1e-4
    )
    with pytest.raises(InputError, match="give --profile"):
        first(start_up="2 min")


@pytest.mark.parametrize(
    ("options", "origin", "value", "why"),
    [
        ({}, "assumed", "40.4 s", "arXiv:2401.14351"),
        ({"start_up": 0}, "given", "0 s", ""),
        ({"start_up": "2 min"}, "given", "120 s", ""),
    ],
)
def test_the_time_of_a_start_is_stated_with_its_source(options: dict[str, Any], origin: str, value: str, why: str) -> None:
    found = planned(profile="1,3", **options)
    (note,) = [note for note in found.assumptions if note.name == "start_up"]
    assert (note.origin, note.value) == (origin, value)
    assert why in note.why


def test_a_prefix_cache_saves_prompts() -> None:
    none, most = first(), first(prefix_hit=0.8)
    assert most.pools[0].max_rate > 1.5 * none.pools[0].max_rate
    assert "--enable-prefix-caching" in most.pools[0].engine_flags["vllm@0.19"]


@pytest.mark.slow
def test_bursts_and_percentiles_cost() -> None:
    """Answers that keep to 25 ms."""
    calm, bursty, strict = (
        first(tpot="25 ms", **more).pools[0].max_rate for more in ({}, {"burstiness": 2}, {"percentile": 99})
    )
    assert bursty < calm
    assert strict < calm
    assert any(note.name == "burstiness" for note in planned(burstiness=2).assumptions)


def test_pools_apart() -> None:
    """Prompts on one pool, answers on another: each with its own replicas, the cache moves between them."""
    best = first(mode="disaggregated", hardware="dgx-h100")
    prefill, decode = best.pools
    assert (prefill.role, decode.role) == ("prefill", "decode")
    for pool in best.pools:
        assert pool.replicas == math.ceil(60 / pool.max_rate)
    assert any("50 GB/s" in note for note in best.notes)  # the node's network, a device's share
    assert "kv_producer" in prefill.engine_flags["vllm@0.19"][-1]
    assert "--disaggregation-mode" in decode.engine_flags["sglang@0.5"]
    assert best.cost.input / best.cost.output == pytest.approx(
        (prefill.replicas / 1155) / (decode.replicas / 211), rel=1e-3
    )  # each pool's cost on its own tokens


@pytest.mark.slow
def test_the_engine_of_the_plan_is_first() -> None:
    """Its command line and the file that it names; with another engine's share of memory, others leave theirs out."""
    best = first(engine="trtllm", kv_cache_dtype="fp8")
    pool = best.pools[0]
    assert list(pool.engine_flags) == ["trtllm@1.0", "sglang@0.5", "vllm@0.19"]
    assert pool.engine_flags["trtllm@1.0"][0] == "trtllm-serve"
    assert "dtype: fp8, free_gpu_memory_fraction: 0.9" in pool.engine_files["trtllm@1.0"]["trtllm.yaml"]
    assert "--mem-fraction-static" not in pool.engine_flags["sglang@0.5"]
    assert next(iter(first(engine="sglang").pools[0].engine_flags)) == "sglang@0.5"
    assert next(iter(first().pools[0].engine_flags)) == "vllm@0.19"


def test_pools_of_tensorrt_llm() -> None:
    """Both move their caches; a server of prompts has no overlap scheduler."""
    prefill, decode = first(mode="disaggregated", hardware="dgx-h100", engine="trtllm").pools
    for pool, overlap in ((prefill, True), (decode, False)):
        content = pool.engine_files["trtllm@1.0"]["trtllm.yaml"]
        assert "cache_transceiver_config: {backend: DEFAULT}" in content
        assert ("disable_overlap_scheduler: true" in content) is overlap


def test_what_is_fixed_is_not_searched() -> None:
    found = planned(tp=2, max_num_seqs=64, max_num_batched_tokens=4096, kv_cache_dtype="fp8", max_model_len="16k")
    for one in found.candidates:
        ours = one.pools[0].deployment
        assert (ours["tensor_parallel"], ours["max_num_seqs"], ours["max_num_batched_tokens"]) == (2, 64, 4096)
        assert (ours["kv_dtype"], ours["max_model_len"]) == ("fp8", 16384)
    line = found.candidates[0].pools[0].engine_flags["vllm@0.19"]
    for flag in ("--tensor-parallel-size 2", "--max-num-seqs 64", "--max-num-batched-tokens 4096", "--max-model-len 16384"):
        assert flag in " ".join(line)


@pytest.mark.slow
def test_classes_have_their_own_objectives(tmp_path: Path) -> None:
    """A class that asks for little does not loosen the other; both are told of."""
    path = tmp_path / "traffic.yaml"
    path.write_text(
        "classes:\n"
        "  - {name: chat, rate: 30, input_len: 'lognormal:1155:900', output_len: 'lognormal:211:160', ttft: 2 s, tpot: 20 ms}\n"
        "  - {name: batch, rate: 30, input_len: 'lognormal:1155:900', output_len: 'lognormal:211:160', ttft: 60 s}\n"
    )
    both = roofline.plan("llama-3.1-8b", **ONE, traffic=load_traffic(path))
    assert both.best is not None
    assert set(both.best.performance.classes) == {"chat", "batch"}
    same = first(tpot="20 ms")
    assert both.best.pools[0].max_rate == pytest.approx(same.pools[0].max_rate, rel=1e-6)
    with pytest.raises(InputError, match="leave out --ttft"):
        roofline.plan("llama-3.1-8b", **ONE, traffic=str(path), ttft="1 s")


def test_offers_are_paid_one_after_another(tmp_path: Path) -> None:
    """One H100 at 1, then any number at 4: n take 1 + 4 (n - 1) an hour. Of a single offer of one there is no second."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("h100-sxm: {offers: [{rent: 1 USD/h, count: 1}, {rent: 4 USD/h}]}")
    best = first(spare=1, top=1, price=str(prices))
    assert best.devices > 1
    assert best.cost.per_hour == pytest.approx(1 + 4 * (best.devices - 1))
    prices.write_text("h100-sxm: {offers: [{rent: 1 USD/h, count: 1}]}")
    for limits in ({}, {"max_cost": 100}):
        found = planned(spare=1, top=1, price=str(prices), **limits)
        assert found.best is None
        assert found.infeasible is not None
        (relax,) = found.infeasible["relax"]
        assert (relax["constraint"], relax["from"], relax["to"]) == ("offers", 1, best.devices)


@pytest.mark.slow
def test_infeasible_objectives_name_what_would_do() -> None:
    """What is named as the nearest feasible objective is feasible."""
    none = planned(tpot="2 ms")
    assert none.candidates == ()
    assert none.infeasible is not None
    (relax,) = none.infeasible["relax"]
    assert relax["constraint"] == "tpot"
    assert relax["from"] == 0.002
    assert planned(tpot=relax["to"]).best is not None
    assert planned(tpot=relax["to"] * 0.8).best is None


@pytest.mark.parametrize(
    ("options", "constraint", "needed"),
    [({"max_cost": 3}, "max_cost", 4 * 2.95), ({"max_gpus": 2}, "max_gpus", 4), ({"inventory": "h100-sxm=3"}, "inventory", 4)],
)
def test_infeasible_limits_name_what_would_do(options: dict[str, Any], constraint: str, needed: float) -> None:
    """60 requests/s take four H100, as `test_replicas_by_hand` has it without the spare."""
    assert first().devices == 4
    none = planned(**options)
    assert none.infeasible is not None
    relax = {one["constraint"]: one["to"] for one in none.infeasible["relax"]}
    assert relax[constraint] == pytest.approx(needed)


def test_what_fits_nowhere() -> None:
    none = roofline.plan("deepseek-v3", hardware="l40s", rate=1, max_gpus=4, **CHAT)
    assert none.infeasible is not None
    assert none.infeasible["relax"][0]["constraint"] == "memory"
    assert len(none.refused) == none.considered["deployments"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "--rate"), ({"rate": "inf"}, "--rate"), ({"rate": -3}, "--rate"),
        ({"input_len": "normal:3"}, "--input-len"),
        ({"output_len": 0}, "--output-len"), ({"max_cost": -1}, "--max-cost"), ({"max_cost": "nan"}, "--max-cost"),
        ({"max_gpus": 0}, "max-gpus"), ({"percentile": 101}, "--percentile"), ({"prefix_hit": 1}, "--prefix-hit"),
        ({"rank": "speed"}, "rank"), ({"mode": "both"}, "mode"), ({"tp": 3}, "Sizes that work"),
        ({"hardware": "h100"}, "ambiguous"),
        ({"hardware": ""}, "--hardware"), ({"batch": 4}, "batch"), ({"input_len": "200k"}, "131,072"), ({"pue": 0.5}, "--pue"),
        ({"ttft": "2"}, "--ttft"), ({"dtype": "fp88"}, "fp8"), ({"price": "nowhere.yaml"}, "nowhere.yaml"),
        ({"concurrency": 4}, "--concurrency"), ({"top": 0}, "top"), ({"spare": -1}, "spare"),
    ],
)  # fmt: skip
def test_wrong_questions(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        planned(**options)


@pytest.mark.slow
def test_a_closed_loop_is_little_s_law() -> None:
    """Clients are those who run and those who wait: n = rate x (TTFT + E[m] TPOT)."""
    best = first(rate=None, concurrency=48)
    assert best.replicas == 1
    held = best.requests_per_s * (best.performance.ttft.mean + 210 * best.performance.tpot.mean)
    assert held == pytest.approx(48, rel=0.02)
    more = first(rate=None, concurrency=400)
    assert more.replicas > 1 or more.performance.ttft.mean > best.performance.ttft.mean


@pytest.mark.slow
def test_clients_who_want_one_token_are_served_no_faster_than_the_server_can() -> None:
    """Answers without decode steps: the rate is what prompts allow, and Little's law holds with TTFT alone."""
    for clients in (2, 64):
        best = first(rate=None, concurrency=clients, output_len=1, input_len=1024, tpot=None, ttft=None)
        assert best.requests_per_s <= best.pools[0].max_rate / 0.85 * 1.001  # a plan stops at 0.85 of what saturates
        assert best.requests_per_s * best.performance.ttft.mean == pytest.approx(clients, rel=0.02)


def test_a_given_price_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("h100-sxm: 1 USD/h\n")
    found = planned(price=str(path))
    assert found.best is not None
    assert found.best.cost.per_hour == found.best.devices
    assert found.best.cost.low == found.best.cost.high
    assert next(note for note in found.assumptions if note.name == "price.h100-sxm").origin == "given"


def test_hardware_without_a_price_is_ranked_last() -> None:
    found = planned(hardware="mi300x,h100-sxm", dtype="bf16", top=20)
    costs = [one.cost.per_hour for one in found.candidates]
    assert costs[0] is not None
    assert costs[-1] is None
    assert found.candidates[-1].cost.total is None


def test_the_result_is_plain_data() -> None:
    found = planned(top=2)
    data = json.loads(found.to_json())
    assert list(data)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    one = data["candidates"][0]
    for key in (
        "hardware", "devices", "replicas", "deployment", "engine_flags", "ttft_s", "tpot_s", "throughput", "cost_per_hour",
        "cost_per_million_tokens", "binds", "headroom",
    ):  # fmt: skip
        assert key in one
    assert {"mean", "p50", "pP", "low", "high"} <= set(one["ttft_s"])
    assert one["ttft_s"]["low"] <= one["ttft_s"]["mean"] <= one["ttft_s"]["high"]
    assert one["ttft_s"]["bound"] < one["ttft_s"]["mean"]
    assert data["pareto"]
    assert data["infeasible"] is None
    assert "start_up" not in {note["name"] for note in data["assumptions"]}  # no fleet follows a profile
    assert len(found.to_frame()) == len(found.candidates)


def test_no_time_of_a_plan_is_below_its_bound() -> None:
    """Where nothing was measured on the accelerator the band is wide, and its quick end is held at the bound of every time."""
    load: dict[str, Any] = {"rate": 2, "input_len": 1000, "output_len": 200, "ttft": "20 s", "tpot": "500 ms"}
    found = roofline.plan("qwen3-8b", **{**ONE, "hardware": "mi300x"}, **load)
    times = [one[name] for one in found.to_dict()["candidates"] for name in ("ttft_s", "tpot_s")]
    assert times
    assert all(time["bound"] <= time["low"] <= time["mean"] <= time["high"] for time in times)


BATCH: dict[str, Any] = {"hardware": "h100-sxm,l40s", "tp": 1, "mode": "colocated", "concurrency": 2000}


@pytest.mark.night
def test_clients_are_ranked_by_the_cost_of_a_token() -> None:
    """With clients the rate is not given: the cheapest hour is that of the slowest machine, whatever work it does."""
    found = planned(**{**BATCH, "rate": None, "ttft": None, "tpot": None})
    costs = [one.cost.total for one in found.candidates]
    assert found.rank == "token-cost"
    assert costs == sorted(costs)
    by_hour = planned(**{**BATCH, "rate": None, "ttft": None, "tpot": None, "rank": "cost"})
    assert by_hour.best.cost.per_hour < found.best.cost.per_hour  # type: ignore[union-attr]
    assert by_hour.best.cost.total > 2 * found.best.cost.total  # type: ignore[union-attr, operator]
    assert planned(top=1).rank == "cost"
    # at a given rate the two are the same order
    hourly, by_token = (planned(rank=rank, hardware="h100-sxm,l40s", tp=None) for rank in ("cost", "token-cost"))
    assert [one.hardware for one in hourly.candidates] == [one.hardware for one in by_token.candidates]


@pytest.mark.slow
def test_the_front_leaves_out_what_costs_several_times_as_much() -> None:
    """At most three times the cheapest, however short its times are; `--top` may list others."""
    found = roofline.plan("llama-3.1-8b", hardware="h100-sxm,a100-sxm-80gb,l40s", rate=60, mode="colocated", top=3, **CHAT)
    costs = [found.candidates[index].cost.per_hour for index in found.pareto]
    assert max(costs) <= 3 * min(costs)  # type: ignore[type-var, operator]


def test_pools_without_a_link_are_no_question_of_memory() -> None:
    """A TPU v5e is shipped without a link to a host or a network: disaggregation cannot be evaluated, and memory is not why."""
    found = roofline.plan(
        "llama-3.1-70b", hardware="tpu-v5e", mode="disaggregated", tp=16, rate=1, input_len=100, output_len=100
    )
    assert found.best is None
    assert found.infeasible is not None
    (relax,) = found.infeasible["relax"]
    assert relax["constraint"] == "hardware"
    assert "no known link" in relax["why"]
    assert "--mode colocated" in relax["why"]


@pytest.mark.parametrize(
    ("model", "hardware", "options", "tried"),
    [
        ("qwen3-8b", "b200-sxm", {}, {"bf16": "", "fp8_block": "Qwen/Qwen3-8B-FP8", "nvfp4": "nvidia/Qwen3-8B-NVFP4"}),
        ("qwen3-8b", "h100-sxm", {}, {"bf16": "", "fp8_block": "Qwen/Qwen3-8B-FP8"}),
        ("qwen3-8b", "a100-sxm-80gb", {}, {"bf16": ""}),
        ("mixtral-8x7b", "h200-sxm", {}, {"bf16": "", "fp8": ""}),
        ("qwen3-8b", "h100-sxm", {"quantization": "fp8"}, {"fp8": ""}),
        (
            "qwen3-8b", "b200-sxm", {"fp8_kv_cache": True},
            # the checkpoint in nvfp4 has an fp8 cache of its own
            {
                "bf16": "", "bf16, fp8 KV": "", "fp8_block": "Qwen/Qwen3-8B-FP8",
                "fp8_block, fp8 KV": "Qwen/Qwen3-8B-FP8", "nvfp4": "nvidia/Qwen3-8B-NVFP4",
            },
        ),
    ],
)  # fmt: skip
def test_formats_that_are_tried(model: str, hardware: str, options: dict[str, Any], tried: dict[str, str]) -> None:
    """The model as published, checkpoints that the hardware multiplies, else fp8 on loading; a cache in fp8 on request.

    The command names the checkpoint; caches are in fp8 where the checkpoint or the option says so.
    """
    found = roofline.plan(model, hardware=hardware, rate=1, input_len=500, output_len=100, tp=2, mode="colocated", **options)
    hf_id = load_model(model)[0].hf_id
    assert {one.precision for one in found.candidates} == set(tried)
    for one in found.candidates:
        (pool,) = one.pools
        assert pool.engine_flags["vllm@0.19"][2] == (tried[one.precision] or hf_id)
        assert (pool.deployment["kv_dtype"] == "fp8") == ("fp8 KV" in one.precision or one.precision == "nvfp4")
        assert any("check the output quality" in note for note in one.notes) == (
            "fp8 KV" in one.precision or (one.precision == "fp8" and not options)
        )


def test_a_cache_that_is_given_is_not_searched() -> None:
    with pytest.raises(InputError, match="leave out --fp8-kv-cache"):
        planned(kv_cache_dtype="bf16", fp8_kv_cache=True)


# What is asked, without a search


def query_of(**given: Any) -> Query:
    """Of 1,000 prompt and 100 output tokens."""
    names = (
        "traffic", "price", "inventory", "max_gpus", "max_cost", "spare", "rank", "mode", "pue", "top", "tokens", "deadline",
        "margin", "simulate_top",
    )  # fmt: skip
    options = {"input_len": 1000, "output_len": 100, **given}
    main = {name: options.pop(name, None) for name in names}
    main["simulate_top"] = main["simulate_top"] or 0
    return resolve("llama-3.1-8b", options.pop("hardware", "h100-sxm"), **main, skip_bad_rows=False, options=options)


def test_a_query_has_its_defaults() -> None:
    """By cost at a rate, by the cost of a token with clients; both modes, of clients, turns and offline work one."""
    one = query_of(rate=5)
    assert (one.rank, one.modes, one.spare, one.max_gpus, one.max_cost) == (
        "cost",
        ("colocated", "disaggregated"),
        0,
        None,
        None,
    )
    assert (one.pue, one.top, one.margin, one.simulate_top, one.batch, one.inventory) == (1, 10, 0.1, 0, None, None)
    loop = query_of(concurrency=5)
    assert (loop.rank, loop.modes, loop.load.concurrency) == ("token-cost", ("colocated", "disaggregated"), 5)
    assert query_of(rate=5, system_prompt=64).modes == query_of(rate=5, mode="colocated").modes == ("colocated",)
    given = query_of(
        rate=5, rank="gpus", mode="any", spare="2", max_gpus="12", max_cost="9.5", pue="1.25", top=3, margin=0.25, tp=2,
        enforce_eager=False, hardware="8xh100-sxm,2xdgx-h100", simulate_top=4,
    )  # fmt: skip
    assert (given.rank, given.spare, given.max_gpus, given.max_cost, given.pue) == ("gpus", 2, 12, 9.5, 1.25)
    assert (given.top, given.margin, given.simulate_top, given.fixed) == (3, 0.25, 4, {"tensor_parallel_size": 2})
    assert given.inventory == {"h100-sxm": 8, "dgx-h100": 16}
    assert query_of(rate=5, hardware="h100-sxm,l40s", inventory={"l40s": 3}).inventory == {"l40s": 3}
    for wrong, message in (
        ({"hardware": "8xh100-sxm,l40s"}, "hardware without one"),
        ({"hardware": "8xh100-sxm", "inventory": "l40s=2"}, "--inventory"),
        ({"mode": "disaggregated", "system_prompt": 64}, "--mode disaggregated"),
        ({"margin": 0.2, "mode": "colocated"}, "has one"),
        ({"mode": "disaggregated", "concurrency": 5, "rate": None}, "colocated replicas"),
        ({"context": 9}, "--context is no option"),
        ({"num_gpus": 4, "max_gpus": 2}, "the same option"),
        ({"max_gpus": 0}, "max-gpus"), ({"top": 0}, "top"), ({"spare": -1}, "spare"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            query_of(**{"rate": 5, **wrong})  # type: ignore[dict-item]


@pytest.mark.parametrize(("tokens", "requests"), [(1000, 10), (1001, 11), (100, 1), (1, 1), (1_000_000, 10_000), (900, 9)])
def test_requests_of_offline_work(tokens: Any, requests: int) -> None:
    """Of 100 output tokens each, rounded up; they are clients."""
    one = query_of(tokens=tokens, deadline="2 h")
    assert one.batch is not None
    assert (one.batch.requests, one.batch.deadline_s, one.load.concurrency) == (requests, 7200, requests)
    assert (one.modes, one.rank) == (("colocated",), "token-cost")
    traffic = _traffic(one)
    assert (traffic["concurrency"], traffic["classes"][0]["concurrency"]) == (None, None)
    assert traffic["batch"]["requests"] == requests


def test_numbers_of_options() -> None:
    assert [_simulated(*given) for given in ((False, None), (True, None), (False, 5), (True, "7"), (False, 100))] == [
        0,
        3,
        5,
        7,
        100,
    ]
    for top in (0, 101):
        with pytest.raises(InputError):
            _simulated(True, top)
    assert [_positive("x", *given) for given in (("2.5", ""), (1, "", 1.0), (1e-9, ""))] == [2.5, 1, 1e-9]
    for value, least in ((0, 0.0), (-1, 0.0), ("inf", 0.0), ("nan", 0.0), (None, 0.0), ("a", 0.0), (0.99, 1.0)):
        with pytest.raises(InputError, match="--x must be"):
            _positive("x", value, "", least)
    assert _margin("0.2", ("colocated", "disaggregated")) == 0.2
    assert _margin(0, ("colocated", "disaggregated")) == 0
    with pytest.raises(InputError, match="--allow-disaggregated"):
        _margin(2, ("colocated", "disaggregated"))


def test_traffic_of_a_result() -> None:
    one = query_of(rate=4, peak_factor=1.5, prefix_hit=0.25, ttft="1 s", percentile=90, burstiness=2)
    data = _traffic(one)
    assert (data["rate"], data["mean_rate"], data["concurrency"], data["batch"]) == (6, 4, None, None)
    assert (data["peak_factor"], data["profile"]) == (1.5, None)
    (given,) = data["classes"]
    assert (given["rate"], given["mean_input"], given["mean_output"]) == (4, 1000, 100)
    assert (given["ttft_s"], given["tpot_s"], given["percentile"], given["burstiness"]) == (1, None, 0.9, 2)
    assert (given["prefix_hit"], given["cached_prefix"], given["conversation"]) == (0.25, None, None)
    shared = _traffic(query_of(rate=4, system_prompt=64, cached_prefix=10))["classes"][0]
    assert (shared["mean_input"], shared["cached_prefix"], shared["conversation"]["system_prompt"]) == (1064, 10, 64)
    assert _traffic(query_of(concurrency=4))["classes"][0]["concurrency"] == 4


def test_assumptions_of_a_query() -> None:
    """Each with its value; of what is not asked none."""

    def values(candidates: Any = (), **given: Any) -> dict[str, Any]:
        query = query_of(**given)
        own = len(query.traffic.assumptions)
        return {one.name: one.value for one in list(_assumptions(query, candidates))[own:]}

    memory, queueing = {"memory": "mean lengths"}, {"queueing": "processor sharing with prompt cycles"}
    assert values(rate=5) == values(rate=5, burstiness=1.2) == {**queueing, **memory}
    assert values(rate=5, burstiness=1.3) == {**queueing, **memory, "burstiness": 1.3}
    assert values(concurrency=5) == {"closed loop": 5, **memory}
    assert values(tokens=500, deadline="1 h") == {"tokens": 500, "batch work": "all at once", **memory}
    assert values(rate=5, prefix_hit=0.3) == {**queueing, **memory, "prefix_hit": 0.3}
    assert values(rate=5, cached_prefix=30) == {**queueing, **memory, "cached_prefix": 30}
    talk = {"turns": 3, "think": "1 s", "input_len": 100}
    lru = {"prefix_caching": "least recently used"}
    assert values(rate=5, system_prompt=64) == {**queueing, **memory, **lru}
    assert values(rate=5, **talk) == {**queueing, **memory, **lru, "router": "session-sticky"}
    assert values(concurrency=5, system_prompt=64) == {"closed loop": 5, **memory, "prefix_caching": "system prompts"}
    one, dark = (SimpleNamespace(hardware="h100-sxm", power=SimpleNamespace(watts=watts)) for watts in (700.0, None))
    price = query_of(rate=5).prices.of(load_hardware("h100-sxm")[0])
    assert price is not None
    ends = f" ({price.low:g} to {price.high:g})" if price.low < price.high else ""
    priced = {**queueing, **memory, "price.h100-sxm": f"{price.value:g} {price.currency}/h{ends}"}
    assert values([dark], rate=5) == priced
    assert values([dark, one], rate=5) == {**priced, "power": "TDP"}


def test_options_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not given is off; seconds of a start are of a fleet that follows a profile."""
    monkeypatch.setattr(planning, "_run", lambda query: query)
    asked: list[dict[str, Any]] = []

    def resolved(*names: Any, **given: Any) -> Query:
        asked.append(given)
        return resolve(*names, **given)

    monkeypatch.setattr(planning, "resolve", resolved)
    lengths = {"hardware": "h100-sxm", "input_len": 1000, "output_len": 100}

    def plan(**given: Any) -> Any:
        return roofline.plan("llama-3.1-8b", **{**lengths, "rate": 5, **given})

    query = plan()
    assert (query.attention_dp_balance, query.fp8_kv_cache, query.simulate_top, query.start_up) == (False, False, 0, None)
    assert asked[0]["skip_bad_rows"] is False
    query = plan(
        attention_dp_balance=True, fp8_kv_cache=True, simulate=True, profile="1,3", start_up="2 min", skip_bad_rows=True
    )
    assert (query.attention_dp_balance, query.fp8_kv_cache, query.simulate_top, query.start_up) == (True, True, 3, 120)
    assert asked[1]["skip_bad_rows"] is True
    for wrong, message in (
        ({"fp8_kv_cache": True, "kv_cache_dtype": "fp8"}, "leave out --fp8-kv-cache"), ({"start_up": 5}, "give --profile too"),
        ({"profile": "1,3", "start_up": -5}, "--start-up: "),
        ({"rate": None, "tokens": 5, "deadline": "1 h", "num_speculative_tokens": 3}, "not planned with speculative decoding"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            plan(**wrong)
    assert plan(kv_cache_dtype="fp8").fixed == {"kv_cache_dtype": "fp8"}


def test_files_by_their_role() -> None:
    """The first of a role by itself, others with their name; each once."""
    query = query_of(rate=5)
    (model, *_) = query.inputs
    other = replace(model, name="other")
    names = list(_inputs(replace(query, inputs=(model, model, other))))
    assert names == [model.role, f"{model.role}.other"]
    assert list(_inputs(replace(query, inputs=(model,)), [other])) == names
