"""Measured runs served again: what was measured beside what is simulated, and the card that is fitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.audit.replay.fit import DeviceRates, fit_rates, mean_squared_log_ratio, profile_link
from roofline.audit.replay.replay import Replayer, replay, serve
from roofline.audit.replay.result import Latencies
from roofline.errors import InputError, UnknownNameError
from roofline.serving.traffic import read_run

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
TRUE = DeviceRates(0.8 * 312e12, 0.7 * 2039e9)  # of the datasheet's
META = {
    "model": "meta-llama/Llama-3.1-8B", "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 48, "max_num_batched_tokens": 2048, "max_model_len": 8192, "dtype": "bfloat16"},
    "hardware": {"device_name": "NVIDIA A100-SXM4-80GB"},
}  # fmt: skip


def write(place: Path, requests: list[tuple[float, float, float, int, int]], meta: Any = META) -> Path:
    """A run of requests (queued, first, last, prompt, answer)."""
    names = ("queued_ts", "first_token_ts", "last_token_ts", "input_toks", "output_toks")
    lines = [json.dumps(dict(zip(names, one, strict=True))) for one in requests]
    (place / "requests.jsonl").write_text("\n".join(lines) + "\n")
    (place / "meta.json").write_text(json.dumps(meta))
    return place


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a card whose constants are known, made by the simulator itself: 150 requests, 12 a second."""
    import numpy as np

    rng = np.random.default_rng(7)
    many = 150
    arrived = np.cumsum(rng.exponential(1 / 12, many)).tolist()
    prompts, answers = rng.integers(100, 3000, many).tolist(), rng.integers(20, 400, many).tolist()
    place = tmp_path_factory.mktemp("asked")
    write(place, [(at, at, at, *tokens) for at, *tokens in zip(arrived, prompts, answers, strict=True)])
    run = read_run(place)
    found = serve(run, Replayer(run, None, None, None, None, None, {}, []).server(TRUE, [])).latencies
    rows = zip(run.arrived.tolist(), found.ttft.tolist(), found.e2e.tolist(), prompts, answers, strict=True)
    whole = tmp_path_factory.mktemp("measured")
    return write(whole, [(at, at + ttft, at + e2e, *tokens) for at, ttft, e2e, *tokens in rows])


@pytest.mark.slow
def test_the_card_is_found_again(served: Path) -> None:
    """From the first 60 requests: both constants within 4 %, and the requests that the fit has not seen within 2 %."""
    found = replay(served, fit_first=60)
    assert found.card is not None
    assert found.fitted is not None
    assert found.card["peak_flops"] == pytest.approx(TRUE.peak_flops, rel=0.04)
    assert found.card["bandwidth"] == pytest.approx(TRUE.bandwidth, rel=0.04)
    assert found.card["holds_for"] == {
        "run": served.name, "model": MODEL, "hardware": HARDWARE, "tensor_parallel": 1,
        "text": f"of this run, {MODEL} and TP 1: not of the card, and not to be used for another model or TP",
    }  # fmt: skip
    assert found.card["link"] is None  # one device exchanges nothing
    notes = [note.why for note in found.assumptions if note.name == "bandwidth"]
    assert any("not to be used for another model or TP" in why for why in notes)
    assert found.fitted.requests == 90
    for latency in ("ttft_s", "tpot_s", "e2e_s"):
        error = found.fitted.error(latency, "mean")
        assert error is not None
        assert abs(error) < 0.02
    unfitted = found.unfitted.error("tpot_s", "mean")
    assert unfitted is not None
    assert unfitted < -0.1  # the datasheet's card is faster


def test_given_constants(served: Path) -> None:
    """What the fit prints can be handed back: with the card's own constants nothing is off."""
    found = replay(served, peak_flops=TRUE.peak_flops, bandwidth=TRUE.bandwidth)
    for latency in ("ttft_s", "tpot_s", "e2e_s"):
        for figure in ("mean", "p50", "p90", "p99"):
            assert found.unfitted.error(latency, figure) == pytest.approx(0, abs=0.01)
    assert found.card is None
    assert found.fitted is None


def test_what_the_run_says(served: Path) -> None:
    """Model, device, limits, and how steps are formed; what is given comes first."""
    found = replay(served)
    assert (found.model["name"], found.hardware["name"]) == (MODEL, HARDWARE)
    assert (found.server["max_num_seqs"], found.server["max_num_batched_tokens"]) == (48, 2048)
    assert found.server["scheduler"] == "vllm-v1-async"  # vLLM 0.19 forms steps ahead
    assert found.server["prefix_caching"] is True
    notes = {note.name: note for note in found.assumptions}
    assert notes["async_scheduling"].origin == "assumed"
    assert notes["model"].why == "the run names meta-llama/Llama-3.1-8B: the same dimensions"
    other = replay(served, scheduler="vllm-v1", max_num_seqs=16, num_gpu_blocks_override=900, tp=2)
    assert (other.server["scheduler"], other.server["max_num_seqs"], other.server["blocks"]) == ("vllm-v1", 16, 900)
    assert other.deployment["tensor_parallel"] == 2


def test_figures(tmp_path: Path) -> None:
    """Two requests: TPOT = (last - first)/(tokens - 1), of one token none. Measured 1 s and 2 s to the first token."""
    run = replay(write(tmp_path, [(0, 1, 6, 10, 11), (10, 12, 12, 10, 1)]))
    assert run.unfitted.measured["ttft_s"]["mean"] == 1.5
    assert run.unfitted.measured["tpot_s"] == {"mean": 0.5, "p50": 0.5, "p90": 0.5, "p99": 0.5}
    assert run.unfitted.measured["e2e_s"]["mean"] == 4
    rows = run.rows()
    assert len(rows) == 12
    assert rows[0]["error"] == pytest.approx(rows[0]["simulated_s"] / 1.5 - 1)
    assert json.loads(run.to_json())["unfitted"]["error"]["ttft_s"]["mean"] == pytest.approx(rows[0]["error"])


def test_refusals(tmp_path: Path) -> None:
    """By what is missing or wrong."""
    few = [(float(at), at + 1.0, at + 2.0, 10, 5) for at in range(12)]
    place = write(tmp_path, few)
    with pytest.raises(InputError, match="12 requests, and some have to be left"):
        replay(place, fit_first=12)
    with pytest.raises(InputError, match="--fit-first"):
        replay(place, fit_first=2)
    with pytest.raises(UnknownNameError, match="unknown option"):
        replay(place, tensor_paralel_size=2)
    with pytest.raises(InputError, match=r"names 'A card', which is no accelerator that is shipped: give --hardware"):
        replay(write(tmp_path, few, {**META, "hardware": {"device_name": "A card"}}))
    with pytest.raises(InputError, match="nothing beside it names the model"):
        replay(write(tmp_path, few, {}), hardware=HARDWARE)
    with pytest.raises(InputError, match="request 0 has 15 tokens, and a sequence at most 14"):
        replay(write(tmp_path, few), max_model_len=14)
    with pytest.raises(InputError, match="--num-gpu-blocks-override 9,999,999"):
        replay(write(tmp_path, few), num_gpu_blocks_override=9_999_999)


def test_data_parallel_ranks(tmp_path: Path) -> None:
    """A dense model is on two replicas, a mixture of experts on one of two ranks that step together and share the experts.

    64 requests at once on 32 slots: with twice as many slots none waits for another to end.
    """
    at_once = [(0.0, 1.0, 9.0, 100, 200)] * 64
    arguments = {**META["engine_kwargs"], "max_num_seqs": 32}
    wide = {**arguments, "data_parallel_size": 2, "enable_expert_parallel": True}
    ttft = {}
    for model in ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B-Instruct-2507"):
        for kwargs in (arguments, wide):
            meta = {**META, "model": model, "hardware": {"device_name": "NVIDIA H100 80GB HBM3"}, "engine_kwargs": kwargs}
            run = replay(write(tmp_path, at_once, meta))
            ttft[model, kwargs is wide] = run.unfitted.simulated["ttft_s"]["p99"]
            assert (run.deployment["data_parallel"], run.deployment["expert_parallel"]) == (
                (2, 2) if kwargs is wide and "A3B" in model else (1, 1)
            )
        assert ttft[model, True] < 0.3 * ttft[model, False]


def test_the_device_of_a_simulated_cluster(tmp_path: Path) -> None:
    """`config.json` of LLMServingSim names it without separators; two cards of that name are told to the user."""
    meta = {**META, "hardware": {}}
    cluster = {"nodes": [{"instances": [{"hardware": "RTX4090"}]}]}
    place = write(tmp_path, [(0.0, 1.0, 2.0, 10, 5)], meta)
    (place / "config.json").write_text(json.dumps(cluster))
    assert replay(place).inputs["hardware"]["name"] == "rtx-4090"
    cluster["nodes"][0]["instances"][0]["hardware"] = "RTXPRO6000"
    (place / "config.json").write_text(json.dumps(cluster))
    with pytest.raises(InputError, match="may be rtx-pro-6000-server or rtx-pro-6000-ws: give --hardware"):
        replay(place)


def _times(ttft: list[float], tpot: list[float], e2e: list[float]) -> Latencies:
    import numpy as np

    return Latencies(np.array(ttft), np.array(tpot), np.array(e2e))


def test_distance() -> None:
    """Twice as long in one of three latencies: log(2)^2/3; an answer of one token has no TPOT."""
    from math import log, nan

    measured = _times([1, 1], [1, nan], [1, 1])
    assert mean_squared_log_ratio(measured, measured) == 0
    assert mean_squared_log_ratio(_times([2, 2], [1, nan], [1, 1]), measured) == pytest.approx(log(2) ** 2 / 3)
    assert mean_squared_log_ratio(_times([1, 1], [0.5, nan], [1, 1]), measured) == pytest.approx(log(2) ** 2 / 3)


def test_a_fit_of_plain_times() -> None:
    """TTFT is work over FLOP/s, TPOT bytes over bandwidth: both are found, from three times too fast and too slow."""
    import numpy as np

    def serve(card: DeviceRates) -> Latencies:
        first, later = np.array([2.0, 3.0]) / card.peak_flops, np.array([5.0, 7.0]) / card.bandwidth
        return Latencies(first, later, first + 9 * later)

    found = fit_rates(serve, serve(DeviceRates(2.0, 4.0)), DeviceRates(6.0, 1.5))
    assert found.rates.peak_flops == pytest.approx(2.0, rel=0.005)
    assert found.rates.bandwidth == pytest.approx(4.0, rel=0.005)
    assert found.error < 0.005


def _linked(sent: Any, computed: Any) -> Any:
    """A server without a queue: TTFT is work over FLOP/s and bytes sent over the link, TPOT bytes over bandwidth."""

    def serve(card: DeviceRates) -> Latencies:
        assert card.allreduce_bandwidth is not None
        first, later = computed / card.peak_flops + sent / card.allreduce_bandwidth, sent / card.bandwidth
        return Latencies(first, later, first + 9 * later)

    return serve


def test_a_link_that_the_run_determines() -> None:
    """What is sent and what is computed vary apart: with the other rates free, only the true one explains both.

    Stated eight times too fast, as links over the host can be: the profile goes on downwards to 16 times.
    """
    import numpy as np

    rng = np.random.default_rng(3)
    serve = _linked(rng.uniform(1, 10, 60), rng.uniform(1, 10, 60))
    true = DeviceRates(2.0, 4.0, 1.0)
    profile = profile_link(serve, serve(true), DeviceRates(3.0, 3.0, 8.0))
    assert profile.determined
    assert profile.low < 1.0 < profile.high
    assert profile.best.rates.allreduce_bandwidth == 1.0  # 8 halved three times
    fitted = fit_rates(serve, serve(true), profile.best.rates)
    assert fitted.rates.allreduce_bandwidth == pytest.approx(1.0, rel=0.01)
    assert fitted.rates.peak_flops == pytest.approx(2.0, rel=0.01)


def test_a_link_that_compute_stands_for() -> None:
    """What is sent is in proportion to what is computed: 1/FLOP/s + 1/link is all that TTFT tells.

    With every rate of the link from the one that takes all of it (here 4/3) upwards there is a FLOP/s that fits.
    """
    import numpy as np

    work = np.random.default_rng(3).uniform(1, 10, 60)
    serve = _linked(work, work)
    true = DeviceRates(2.0, 4.0, 4.0)
    measured = serve(true)
    noise = np.exp(np.random.default_rng(5).normal(0, 0.05, (3, 60)))
    measured = Latencies(measured.ttft * noise[0], measured.tpot * noise[1], measured.e2e * noise[2])
    profile = profile_link(serve, measured, DeviceRates(3.0, 3.0, 4.0))
    assert not profile.determined
    for fit in profile.fits:
        rates = fit.rates
        assert rates.allreduce_bandwidth is not None
        if rates.allreduce_bandwidth > 1.5:
            assert 1 / rates.peak_flops + 1 / rates.allreduce_bandwidth == pytest.approx(1 / 2 + 1 / 4, rel=0.03)


@pytest.mark.slow
def test_a_given_link_is_kept(tmp_path: Path) -> None:
    """With `--allreduce-bandwidth` two rates are fitted; with the bound as the basis links have their own."""
    meta = {**META, "engine_kwargs": {**META["engine_kwargs"], "tensor_parallel_size": 2}}
    place = write(tmp_path, [(at, at + 0.1, at + 0.5, 500, 21) for at in range(14)], meta)
    card = replay(place, fit_first=10, allreduce_bandwidth="100 GB/s").card
    assert card is not None
    assert (card["link"]["origin"], card["link"]["stated"]) == ("given", 100e9)
    assert "allreduce_bandwidth" not in card
    assert card["holds_for"]["tensor_parallel"] == 2
    bound = replay(place, fit_first=10, basis="bound").card
    assert bound is not None
    assert bound["link"] is None
