"""What papers claim about prefix caches and routers, in the simulator: the shape where no setting can be the same.

Claims about schedulers, pools, tiers of the cache and fleets stand in the tests of those.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import AffineStepTime

import roofline
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import ROUTERS, open_loop
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_log import END, StepLog


def _mean_time_in_system(router: str, load: float, num_replicas: int, num_requests: int) -> float:
    """Mean time from arrival to end, in units of the mean service time, after a warm-up of a fifth.

    Each replica serves one request at a time; a prompt takes exponentially distributed time, an answer of one token none.
    """
    rng = np.random.default_rng(5)
    arrived = np.cumsum(rng.exponential(1 / (load * num_replicas), num_requests))
    prompts = np.maximum(rng.exponential(1000, num_requests).round(), 1).astype(int)
    requests = [Request(i, float(arrived[i]), int(prompts[i]), 1) for i in range(num_requests)]
    log = StepLog()
    config = EngineConfig(10**9, 16, 1, 10**6)
    times = AffineStepTime(0.0, token=1e-3)
    replicas = [Replica(SCHEDULERS["vllm-v1"], times, config, log=log, index=index) for index in range(num_replicas)]
    open_loop(requests, replicas, ROUTERS[router].route(replicas), lambda request: False)
    ends = np.array(log.ends).reshape(-1, len(END))
    spent = (ends[:, END.index("ended")] - ends[:, END.index("arrived")])[ends[:, 0] >= num_requests / 5]
    return float(spent.mean())


@pytest.mark.parametrize(("load", "limit"), [(0.7, 1.6145), (0.9, 2.6141)])
def test_two_choices(load: float, limit: float) -> None:
    """Two choices bring the time in the system from 1/(1 - load) to about its logarithm.

    For infinitely many servers it is the sum of load^(2^i - 2) over i = 1, 2, ...; simulations of 100 servers in the paper are
    within a few percent of that. Source: Mitzenmacher 2001, The power of two choices in randomized load balancing, IEEE TPDS
    12(10), section 3. Least loaded of all is better still, one after the other worse than two choices at a high load.
    """
    assert limit == pytest.approx(sum(load ** (2**i - 2) for i in range(1, 12)), rel=1e-4)
    seen = {name: _mean_time_in_system(name, load, 100, 20_000) for name in ("power-of-two", "least-loaded", "round-robin")}
    assert seen["power-of-two"] == pytest.approx(limit, rel=0.04)
    assert 0.98 < seen["least-loaded"] < seen["power-of-two"] < 1 / (1 - load)
    if load == 0.9:
        assert seen["round-robin"] > 1.5 * seen["power-of-two"]


@pytest.mark.parametrize(("preamble", "question"), [(400, 400), (1600, 200), (3960, 40)])
def test_hits_of_few_shot_prompts(preamble: int, question: int) -> None:
    """Prompts with common examples have the hit rate of the closed form; what throughput gains follows from it.

    Hit rates are in the paper's range. Without prompt tokens that are cached throughput grows by 1/(1 - hits) at most.

    Source: SGLang, Zheng et al. 2024, arXiv:2312.07104, section 6.2 (hit rates from 50 to 99 %, throughput up to 6.4 times).
    """
    runs = {
        caching: roofline.simulate(
            "llama-3.1-8b", "a100-sxm-80gb", workload="at-once:400", system_prompt=preamble, input_len=question, output_len=1,
            enable_prefix_caching=caching,
        )
        for caching in (True, False)
    }  # fmt: skip
    hits = runs[True].to_dict()["prefix_hit_rate"]
    share = preamble // 16 * 16 / (preamble + question)
    # all but the prompts of the first step, which compute the examples
    assert share * (1 - 8 / 400) <= hits <= share
    assert 0.48 < hits < 0.99
    gain = runs[False].to_dict()["duration_s"] / runs[True].to_dict()["duration_s"]
    assert 1 + 0.6 * (share / (1 - share)) ** 0.5 < gain <= 1 / (1 - share)


def test_first_token_of_conversations() -> None:
    """At the hit rate of a chatbot, whose first token came 1.7 times as early, it comes 2.4 times as early here.

    What prompt tokens are left allow 3.9 times at most, without a queue.

    Source: SGLang, arXiv:2312.07104, section 6.2: Vicuna 33B in Chatbot Arena, hit rate 74.1 %, first-token latency 1.7 times
    shorter on average. Neither its lengths nor its load are published; these conversations have its hit rate.
    """
    load: dict[str, Any] = {
        "rate": 2, "requests": 1500, "system_prompt": 100, "turns": "uniform:1:4", "think": "exponential:20 s",
        "input_len": "lognormal:160:150", "output_len": "lognormal:210:160", "tensor_parallel_size": 2,
    }  # fmt: skip
    cached, computed = (
        roofline.simulate("qwen3-32b", "a100-sxm-80gb", enable_prefix_caching=caching, **load).to_dict()
        for caching in (True, False)
    )
    assert cached["prefix_hit_rate"] == pytest.approx(0.741, abs=0.04)
    assert 1.3 < computed["ttft_s"]["mean"] / cached["ttft_s"]["mean"] < 1 / (1 - 0.741)
