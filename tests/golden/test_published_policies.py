"""What papers say of scheduling policies, in shape: who wins, in what, and what it costs. Their settings are others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from simulated import AffineStepTime, Event, serve

import roofline
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.queues import OUTPUT_WEIGHT, PROMPT_WEIGHT
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request


@cache
def run(**options: Any) -> Any:
    """Llama 3.1 8B on one A100 of 80 GB."""
    return roofline.simulate("llama-3.1-8b", "a100-sxm-80gb", **options)


def test_stall_free_batching() -> None:
    """Sarathi-Serve (Agrawal et al. 2024, arXiv:2403.02310, figure 1a): chunks within a small budget leave no stall.

    Where prompts go first, or beside decodes and whole, decodes stall for a prompt. TTFT pays for it.
    Prompts and outputs are about as long as those of openchat_sharegpt4 (table 2: medians 1,730 and 415).
    """
    load = {"rate": 3, "input_len": "lognormal:2300:2000:8000", "output_len": "lognormal:450:200:1500", "requests": 400}
    runs = {name: run(scheduler=name, **load) for name in ("vllm-v0", "orca", "sarathi")}
    step = runs["sarathi"].itl_s.p50
    assert runs["sarathi"].itl_s.max < 5 * step
    for name in ("vllm-v0", "orca"):
        assert runs[name].itl_s.max > 8 * runs["sarathi"].itl_s.max
        assert runs[name].itl_s.p99 > 2 * runs["sarathi"].itl_s.p99
        assert runs[name].ttft_s.p50 < runs["sarathi"].ttft_s.p50
        assert runs[name].throughput["output_tokens_per_s"] == pytest.approx(
            runs["sarathi"].throughput["output_tokens_per_s"], rel=0.02
        )


def test_iteration_level_scheduling() -> None:
    """Orca (Yu et al. 2022, OSDI, section 6.2): more throughput, and at the same latency several times more.

    Requests have 32 to 512 prompt tokens and 1 to 128 output tokens; the baseline runs batches until their last request ends.
    """
    lengths = {"input_len": "uniform:32:512", "output_len": "uniform:1:128", "requests": 400, "max_num_seqs": 32}
    offline = {name: run(workload="at-once", scheduler=name, **lengths) for name in ("static", "orca")}
    assert offline["orca"].throughput["requests_per_s"] > 1.4 * offline["static"].throughput["requests_per_s"]
    latencies = {
        (name, rate): run(rate=rate, scheduler=name, **lengths).e2e_s.mean for name in ("static", "orca") for rate in (4, 16)
    }
    assert latencies["orca", 16] < latencies["static", 4]
    assert latencies["orca", 4] < 0.7 * latencies["static", 4]


def services(policy: str) -> tuple[list[float], float]:
    """The difference in service between two clients after each step while both have requests that wait; and the bound."""
    prompts, outputs = (4, 20), (4, 30)
    requests = []
    for index in range(120):  # client 0 sends all of its requests first, and client 1 longer ones
        client = index // 60
        prompt = prompts[0] + (7 * index) % (prompts[1] - prompts[0] + 1)
        requests.append(Request(index, 0.0, prompt, outputs[0] + (5 * index + 9 * client) % (outputs[1] - outputs[0]), client))
    config = EngineConfig(60, 4, 16, 64)
    served, differences = [0.0, 0.0], []

    def watch(replica: Replica) -> Callable[[Event], None]:
        scheduler = replica.scheduler

        def listen(event: Event) -> None:
            if event[0] == "admit":
                one = requests[event[2]]
                served[one.class_index] += 0 if one.num_preemptions else PROMPT_WEIGHT * one.num_prompt_tokens
            elif event[0] == "token":
                served[requests[event[2]].class_index] += OUTPUT_WEIGHT
            elif event[0] in ("decode", "mixed"):
                for one in scheduler.running:
                    served[one.class_index] += OUTPUT_WEIGHT if one.final_step >= 0 else 0
            if {one.class_index for one in scheduler.waiting} == {0, 1}:
                differences.append(abs(served[0] - served[1]))

        return listen

    serve(policy, requests, AffineStepTime(1.0), config, stepwise=True, watch=watch)
    return differences, 2 * max(PROMPT_WEIGHT * prompts[1], OUTPUT_WEIGHT * 60 * 4)


def test_the_bound_of_virtual_token_counters() -> None:
    """VTC (Sheng et al. 2024, arXiv:2401.00588, theorem 4.4): the service of two backlogged clients differs by a bound.

    At most 2 max(w_p L_input, w_q M), with M tokens in the largest batch. First come, first served has no bound.
    """
    fair, bound = services("fair")
    assert len(fair) > 100
    assert max(fair) <= bound
    fcfs, _ = services("vllm-v1")
    assert max(fcfs) > bound
    assert max(fair) < max(fcfs) / 3


def test_shortest_first_and_what_errors_of_prediction_cost() -> None:
    """Learning to rank (Fu et al. 2024, arXiv:2408.15792, section 5): a burst with heavy-tailed outputs.

    Shortest first has half the mean latency or less; predictions that are off by half cost little, and the worse they are, the
    nearer they come to first come, first served.
    """
    load = {
        "workload": "at-once", "input_len": "lognormal:100:50", "output_len": "lognormal:300:600:4000", "requests": 1000,
        "max_num_seqs": 32,
    }  # fmt: skip
    fcfs = run(**load).e2e_s.mean
    means = [run(scheduler="sjf", length_error=error, **load).e2e_s.mean for error in (0, 0.5, 1, 2, 4)]
    assert means[0] < fcfs / 2
    assert means[1] < 1.15 * means[0]
    assert means == sorted(means)
    assert means[-1] < fcfs


def test_recomputation_and_swapping() -> None:
    """PagedAttention (Kwon et al. 2023, arXiv:2309.06180, section 7.3): recomputation costs the same in any block size.

    Swapping is dearer with small blocks; from 16 to 64 tokens per block both take about the same time end to end.
    """
    load = {"workload": "at-once", "requests": 150, "input_len": 200, "output_len": 300}
    costs: dict[str, list[float]] = {"recompute": [], "swap": []}
    for size in (8, 16, 32, 64):
        runs = {how: run(preemption=how, block_size=size, num_gpu_blocks_override=20_000 // size, **load) for how in costs}
        for how, one in runs.items():
            tokens = one.preemption["recomputed_tokens"] + one.preemption["swapped_tokens"]
            costs[how].append((one.preemption["recompute_s"] + one.preemption["swap_s"]) / tokens)
        if size >= 16:
            assert runs["recompute"].duration_s == pytest.approx(runs["swap"].duration_s, rel=0.1)
    assert max(costs["recompute"]) < 1.05 * min(costs["recompute"])
    assert costs["swap"] == sorted(costs["swap"], reverse=True)
    assert costs["swap"][0] > 3 * costs["swap"][-1]
    assert costs["swap"][0] > costs["recompute"][0]
    assert costs["recompute"][-1] > costs["swap"][-1]
