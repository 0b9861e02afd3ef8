"""Prefill and decode in pools of their own: scenarios worked out by hand, random worlds, and the command's options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime, Link, PoolsServed, pools_world, serve_pools

import roofline
from roofline.errors import InputError, RooflineError, SpecError
from roofline.predict.request import prepare
from roofline.serving.kv_transfer import cache_bytes, cache_link
from roofline.serving.simulation.disaggregation import FIRST_TOKENS, FirstToken
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.result import Simulation

TIMES = AffineStepTime(1.0, sequence=0.5, cached=0.25, token=0.125)
"""A prompt of 8 takes 1 + 8/8 = 2 s alone; a step of one sequence with c tokens cached 1.5 + c/4."""
LINK = Link(rate=10.0, latency=0.5, token_bytes=2.0)
LARGE = EngineConfig(100, 4, 8, 64)


def served(requests: list[tuple[float, int, int]], **options: Any) -> PoolsServed:
    """Requests (arrival, prompt, output) served under vllm-v1."""
    configs = options.pop("configs", (LARGE, LARGE))
    made = [Request(index, *one) for index, one in enumerate(requests)]
    return serve_pools(("vllm-v1", "vllm-v1"), made, TIMES, configs, LINK, **options)


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize(
    ("first_token", "sent", "arrives", "first", "ended"),
    [
        # prompt to 2; 8 tokens in 0.8 s and 0.5 s; steps of 8, 9 and 10 cached tokens: 3.5, 3.75 and 4 s
        ("prefill", 8, 3.3, 2.0, 14.55),
        ("transfer", 8, 3.3, 3.3, 14.55),
        # 7 tokens in 0.7 s and 0.5 s; the first token with a step of 7 cached tokens: 3.25 s; then the same three
        ("decode", 7, 3.2, 6.45, 17.7),
    ],
)
def test_one_request_alone(
    first_token: FirstToken, sent: int, arrives: float, first: float, ended: float, stepwise: bool
) -> None:
    """A prompt of 8 and an output of 4 tokens: TTFT, transfer, and TPOT, which is (E2E - TTFT)/3."""
    result = served([(0.0, 8, 4)], first_token=first_token, stepwise=stepwise)
    (transfer,) = result.sent()
    assert transfer == pytest.approx(
        {"handed": 2.0, "reserved": 2.0, "begins": 2.0, "ends": arrives, "bytes": 2.0 * sent, "link": sent / 10}
    )
    end = result.ends()[0]
    assert (end["first"], end["ended"]) == pytest.approx((first, ended))


def test_gaps_between_tokens_hold_the_transfer() -> None:
    """The second token comes a transfer and a step after the first: 6.8 - 2, or 6.8 - 3.3 where the first comes with it."""
    for first_token, gap in (("prefill", 4.8), ("transfer", 3.5)):
        log = served([(0.0, 8, 2)], first_token=first_token).logs[1]
        assert log.gaps == pytest.approx([gap, 1])
    assert served([(0.0, 8, 2)], first_token="decode").logs[1].gaps == []  # noqa: S106 - a way, no password


def test_two_caches_share_the_receiver() -> None:
    """Two prompts end at 2 on two replicas: the receiver's link has the first cache to 2.8, the second to 3.6.

    They arrive at 3.3 and 4.1. The first decodes alone to 6.8; the second is seen then, and decodes alone to 10.3.
    """
    result = served([(0.0, 8, 2), (0.0, 8, 2)], replicas=(2, 1))
    begins, ends = ([one[name] for one in result.sent()] for name in ("begins", "ends"))
    assert begins == pytest.approx([2.0, 2.8])
    assert ends == pytest.approx([3.3, 4.1])
    assert [result.ends()[index]["ended"] for index in (0, 1)] == pytest.approx([6.8, 10.3])


def test_two_caches_share_the_sender() -> None:
    """One replica computes both prompts in a step of 1 + 16/8 = 3 s; two receivers, and still one cache after the other."""
    result = served([(0.0, 8, 2), (0.0, 8, 2)], replicas=(1, 2))
    assert [one["begins"] for one in result.sent()] == pytest.approx([3.0, 3.8])
    assert {end["replica"] for end in result.ends().values()} == {1, 2}
    assert [result.ends()[index]["ended"] for index in (0, 1)] == pytest.approx([3 + 1.3 + 3.5, 3.8 + 1.3 + 3.5])


def test_a_full_decode_replica_holds_blocks_on_the_prefill_replica() -> None:
    """Two blocks of 4 for prompts of 8, three for decoding 9 tokens: one request at a time on each side.

    The first: prompt to 2, cache to 3.3, its only decode step to 6.8. Only at 3.3 the prefill replica has blocks again: the
    second prompt takes from then to 5.3, waits for blocks until 6.8, arrives at 8.1, ends at 11.6. The third: 8.1 to 10.1,
    blocks at 11.6, arrives at 12.9, ends at 16.4.
    """
    configs = EngineConfig(2, 4, 8, 64), EngineConfig(3, 4, 8, 64)
    for stepwise in (False, True):
        result = served([(0.0, 8, 2)] * 3, configs=configs, stepwise=stepwise)
        ends = result.ends()
        assert [ends[index]["first"] for index in range(3)] == pytest.approx([2.0, 5.3, 10.1])
        assert [ends[index]["ended"] for index in range(3)] == pytest.approx([6.8, 11.6, 16.4])
        assert [one["reserved"] for one in result.sent()] == pytest.approx([2.0, 6.8, 11.6])


def test_a_cached_prefix_is_not_sent() -> None:
    """The second request has the first 8 of 12 prompt tokens of the first, which the decode replica has in two blocks."""
    config = EngineConfig(100, 4, 8, 64, enable_prefix_caching=True)
    content = ((-1, 8), (7, 1 << 60)), ((-1, 8), (8, 1 << 60))
    made = [Request(index, 50.0 * index, 12, 2, content=one) for index, one in enumerate(content)]
    result = serve_pools(("vllm-v1", "vllm-v1"), made, TIMES, (config, config), LINK)
    assert [one["bytes"] for one in result.sent()] == [24.0, 8.0]
    assert [result.ends()[index]["cached"] for index in (0, 1)] == [0, 8]


def test_a_request_of_one_token_stays() -> None:
    """It ends with its prompt; where the decode replica gives the first token, it goes there all the same."""
    assert served([(0.0, 8, 1)]).sent() == []
    assert served([(0.0, 8, 1)]).ends()[0]["ended"] == pytest.approx(2.0)
    assert served([(0.0, 8, 1)], first_token="decode").ends()[0]["ended"] == pytest.approx(6.45)  # noqa: S106


@pytest.mark.parametrize("seed", range(150))
def test_random_worlds(seed: int) -> None:
    """Every request ends once with all its tokens, all blocks are free then, and every step on its own gives the same."""
    world = pools_world(seed)
    quick, slow = world.run(False), world.run(True)
    for result in (quick, slow):
        assert sorted([*result.ends(), *result.refused]) == list(range(len(world.requests)))
        for index, end in result.ends().items():
            assert (end["prompt"], end["output"]) == world.requests[index][1:3]
            assert end["arrived"] <= end["first"] <= end["ended"]
        sent = sum(end["output"] > 1 or world.first_token == FIRST_TOKENS[2] for end in result.ends().values())
        assert len(result.sent()) == sent
        for one in result.sent():
            assert one["handed"] <= one["reserved"] <= one["begins"] <= one["ends"]
        for replica in (*result.prefill, *result.decode):
            scheduler = replica.scheduler
            assert (scheduler.num_unfinished, scheduler.num_held_blocks, scheduler.num_prompt_tokens) == (0, 0, 0)
            assert scheduler.kv_cache.num_taken_blocks == scheduler.kv_cache.num_pending_blocks
    for first, second in zip(quick.sent(), slow.sent(), strict=True):
        assert first == pytest.approx(second, rel=1e-9)
    for index, end in quick.ends().items():
        assert end == pytest.approx(slow.ends()[index], rel=1e-9)


# The command's options

SMALL = {"rate": 4, "input_len": 500, "output_len": 50, "requests": 60}


def simulated(**options: Any) -> Simulation:
    """Sixty requests of Llama 3.1 8B, on H100 unless it says something else."""
    return roofline.simulate("llama-3.1-8b", "h100-sxm", **{**SMALL, **options})


def test_one_request_end_to_end() -> None:
    """Prompt step, cache over the card's PCIe link, decode steps: the sum of what `analyze` has for each, to 1 %."""
    one = simulated(requests=1, disaggregated=True, first_token="prefill", transfer_latency="1 ms")  # noqa: S106
    seen = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=500, output_len=50)
    request = prepare("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1)
    link = cache_link(request.hardware)
    assert link is not None
    # 2 x 8 KV heads x 128 x 2 bytes in each of 32 layers
    assert cache_bytes(request, 500) == 500 * 2 * 8 * 128 * 2 * 32
    sent = cache_bytes(request, 500) / link[1]
    assert one.transfer is not None
    assert one.transfer["link_s"]["mean"] == pytest.approx(sent, rel=1e-3)
    assert one.transfer["transfer_s"]["mean"] == pytest.approx(sent + 1e-3, rel=2e-3)
    assert seen.prefill is not None
    assert seen.decode is not None
    assert one.ttft_s.mean == pytest.approx(seen.prefill.time.estimate, rel=0.01)
    step = roofline.analyze("llama-3.1-8b", "h100-sxm", phase="decode", batch=1, context=525).decode
    assert step is not None
    assert one.tpot_s.mean == pytest.approx(step.time.estimate + (sent + 1e-3) / 49, rel=0.01)


def test_results_have_both_pools() -> None:
    """Pools, transfers, goodput per GPU; the same by hand-set numbers of replicas; none of it without pools."""
    result = simulated(disaggregated=True, prefill_replicas=1, decode_replicas=3, ttft="1 s", tpot="50 ms")
    content = json.loads(result.to_json())
    assert [(one["name"], one["replicas"]) for one in content["pools"]] == [("prefill", 1), ("decode", 3)]
    assert content["server"]["replicas"] == 4
    assert content["transfer"]["transfers"] == 60
    assert content["goodput_per_gpu"] == pytest.approx(content["goodput"] / 4)
    assert Simulation.from_dict(content).to_dict() == result.to_dict()
    assert not {"pools", "transfer", "goodput_per_gpu"} & set(simulated().to_dict())
    again = simulated(disaggregated=True, replicas=4, decode_replicas=3, ttft="1 s", tpot="50 ms")
    assert again.ttft_s == result.ttft_s


@pytest.mark.parametrize("first_token", FIRST_TOKENS)
def test_stepwise_and_seeds(first_token: str) -> None:
    """Every step on its own gives the same; so does the same seed."""
    options = {"disaggregated": True, "replicas": 3, "rate": 30, "output_len": "lognormal:60:30", "first_token": first_token}
    one, other, again = (simulated(**options, stepwise=stepwise) for stepwise in (False, True, False))
    assert one.to_dict() == again.to_dict()
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert getattr(one, name).mean == pytest.approx(getattr(other, name).mean, rel=1e-9)


@pytest.mark.slow
def test_data_parallel_pools() -> None:
    """Attention of 8 data-parallel ranks in decode, tensor parallelism in prefill: what no rank has is not sent twice."""
    path_free = {"rate": 8, "input_len": 1000, "output_len": 40, "requests": 40}
    result = roofline.simulate(
        "deepseek-v3", "dgx-h200", **path_free, dp=8, ep=8, quantization="fp8_block", kv_cache_dtype="fp8", disaggregated=True,
        prefill_replicas=1, decode_replicas=1,
    )  # fmt: skip
    slow = roofline.simulate(
        "deepseek-v3", "dgx-h200", **path_free, dp=8, ep=8, quantization="fp8_block", kv_cache_dtype="fp8", disaggregated=True,
        prefill_replicas=1, decode_replicas=1, stepwise=True,
    )  # fmt: skip
    assert result.requests.completed == 40
    assert result.e2e_s.mean == pytest.approx(slow.e2e_s.mean, rel=1e-9)
    assert [one["devices"] for one in result.pools] == [8, 8]


@pytest.mark.slow
def test_rate_matching_takes_the_best_split() -> None:
    """Of five replicas the division with the highest rate under saturation is the one that is found, or as good as it."""
    options = {"rate": None, "workload": "at-once:400", "requests": None, "input_len": 2000, "output_len": 100}
    rates = {
        number: simulated(**options, disaggregated=True, prefill_replicas=number, decode_replicas=5 - number)
        .throughput["requests_per_s"]
        for number in range(1, 5)
    }  # fmt: skip
    found = simulated(**options, disaggregated=True, replicas=5)
    assert found.throughput["requests_per_s"] >= 0.97 * max(rates.values())
    assert any(note.name == "prefill_replicas" and "rate matching" in note.why for note in found.assumptions)


def test_rate_matching_computes_as_many_prompts_as_the_cache_holds() -> None:
    """64 blocks of 16 tokens hold 21 prompts of 40 tokens, three blocks each: as of at most 21 sequences."""
    why = [
        next(
            note.why
            for note in roofline.simulate(
                "gpt2", "h100-sxm", mfu=0.5, rate=9, requests=8, input_len=40, output_len=5, disaggregated=True, **limit
            ).assumptions
            if note.name == "prefill_replicas"
        )
        for limit in ({"num_gpu_blocks_override": 64}, {"max_num_seqs": 21}, {"max_num_seqs": 20})
    ]
    assert why[0].split(" and ")[0] == why[1].split(" and ")[0] != why[2].split(" and ")[0]


POOLS = """kind: pools
prefill: {replicas: 2, tensor-parallel-size: 2}
decode: {replicas: 1, hardware: h200-sxm, max_num_seqs: 64}
transfer: {bandwidth: 25 GB/s, latency: 2 ms, first_token: transfer}
"""


def test_pools_of_other_hardware(tmp_path: Path) -> None:
    """A file has hardware, parallelism and limits of each pool; its devices count."""
    path = tmp_path / "pools.yaml"
    path.write_text(POOLS)
    result = simulated(pools=path, ttft="1 s")
    assert [(one["hardware"]["name"], one["devices"]) for one in result.pools] == [("h100-sxm", 4), ("h200-sxm", 1)]
    assert result.pools[1]["server"]["max_num_seqs"] == 64
    assert result.transfer is not None
    assert (result.transfer["latency_s"], result.transfer["first_token"]) == (0.002, "transfer")
    # of the one device that decodes: all of the cache; each of two that prefill sends half of it
    assert result.transfer["link_s"]["mean"] == pytest.approx(500 * 131072 / 25e9, rel=2e-3)
    assert result.inputs["pools"]["name"] == "pools.yaml"


def test_colocated_pools(tmp_path: Path) -> None:
    """Replicas of two kinds behind one router: each serves whole requests."""
    path = tmp_path / "pools.yaml"
    path.write_text("kind: pools\ncolocated:\n  new: {replicas: 2}\n  old: {hardware: a100-sxm-80gb}\n")
    result = simulated(pools=path, router="least-loaded", ttft="1 s")
    assert (result.requests.completed, result.transfer) == (60, None)
    assert [(one["name"], one["devices"]) for one in result.pools] == [("new", 2), ("old", 1)]
    alike = tmp_path / "alike.yaml"
    alike.write_text("kind: pools\ncolocated:\n  one: {replicas: 2}\n  other: {}\n")
    assert simulated(pools=alike).ttft_s == simulated(replicas=3).ttft_s


@pytest.mark.slow
def test_find_rate_and_goodput_per_gpu() -> None:
    """The highest rate of two pools is more than that of a pool with a replica of each."""
    options = {**SMALL, "rate": None, "requests": 200, "ttft": "300 ms", "tpot": "15 ms", "replications": 1}
    two, four = (simulated(**options, find_rate=True, disaggregated=True, replicas=number) for number in (2, 4))
    assert two.find_rate is not None
    assert four.find_rate is not None
    assert 0 < two.find_rate["rate"] < four.find_rate["rate"]


@pytest.mark.slow
def test_a_study_counts_the_devices_of_all_pools(tmp_path: Path) -> None:
    """Deployments with and without pools side by side, each with its own step times, devices and cost."""
    path = tmp_path / "pools.yaml"
    path.write_text(POOLS)
    study = {
        "options": {
            "model": "llama-3.1-8b", "hardware": "h100-sxm", "input_len": 500, "output_len": 50, "requests": 60, "ttft": "1 s",
        },
        "policies": ["vllm-v1"], "rates": [4],
        "deployments": {
            "shared": {"replicas": 3}, "separate": {"disaggregated": True, "replicas": 3}, "mixed": {"pools": str(path)},
        },
    }  # fmt: skip
    table = {row["deployment"]: row for row in roofline.study(study).table}
    assert {name: row["devices"] for name, row in table.items()} == {"shared": 3, "separate": 3, "mixed": 5}
    assert all(row["failed"] is None and row["cost_per_hour"] > 0 for row in table.values())
    alone = simulated(pools=path, ttft="1 s")
    assert table["mixed"]["tpot_s"]["mean"] == pytest.approx(alone.tpot_s.mean, rel=1e-12)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prefill_replicas": 2}, "give --disaggregated too"),
    ({"first_token": "decode"}, "--first-token is of separate"),
    ({"disaggregated": True, "replicas": 1}, "at least one replica each"),
    ({"disaggregated": True, "prefill_replicas": 2}, "give --decode-replicas too"),
    ({"disaggregated": True, "prefill_replicas": 2, "decode_replicas": 2, "replicas": 5}, "leave it out"),
    ({"disaggregated": True, "scheduler": "static"}, "static batch"),
    ({"disaggregated": True, "transfer_bandwidth": "0 GB/s"}, "--transfer-bandwidth"),
    ({"disaggregated": True, "transfer_latency": "-1 s"}, "--transfer-latency"),
    ({"disaggregated": True, "first_token": "prefil"}, "prefill"),
    ({"disaggregated": True, "decode_replicas": 0}, "--decode-replicas"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    """One error that says what is wrong."""
    with pytest.raises(RooflineError) as error:
        simulated(**options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: pools\nprefill: {}\n", "has no `decode`"),
        ("kind: pool\n", "kind: pools"),
        ("kind: pools\nprefill: {tensor_paralel_size: 2}\ndecode: {}\n", "tensor_parallel_size"),
        ("kind: pools\nprefill: {kv_cache_dtype: fp8}\ndecode: {}\n", "one --kv-cache-dtype"),
        ("kind: pools\ncolocated: {a: {}}\ndecode: {}\n", "leave out one or the other"),
        ("kind: pools\nprefill: {tp: 2, tensor-parallel-size: 4}\ndecode: {}\n", "given twice"),
        ("kind: pools\ncolocated: {a: {router: round-robin}, b: {}}\n", "give --router"),
    ],
)
def test_wrong_files(text: str, words: str, tmp_path: Path) -> None:
    """One error with the place in the file."""
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    with pytest.raises((SpecError, InputError)) as error:
        simulated(pools=path)
    assert words in str(error.value)


def test_a_request_that_one_pool_cannot_hold_is_refused() -> None:
    """The reason names the pool."""
    result = simulated(disaggregated=True, requests=2, num_gpu_blocks_override=34, output_len=100)
    assert result.requests.refused == 2
    assert "the decode pool: needs 38 blocks" in result.refusals[0]["why"]


def test_perfetto_shows_transfers(tmp_path: Path) -> None:
    """A slice per cache on the track of its sender, and processes that are called by their pool."""
    path = tmp_path / "trace.json"
    simulated(disaggregated=True, prefill_replicas=2, decode_replicas=1, perfetto=path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"prefill 0", "prefill 1", "decode 2", "KV cache transfers"}
    sent = [event for event in events if event["name"] == "transfer"]
    assert sorted(event["args"]["request"] for event in sent) == list(range(60))
    assert {event["tid"] for event in sent} == {1, 2}
    decodes = [event for event in events if event["name"] == "decode" and event["tid"] > 1]
    assert {event["pid"] for event in decodes} == {3}
