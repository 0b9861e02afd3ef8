"""Data-parallel ranks that step together: by hand, against the formulas of a step, and against published throughput."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime

import roofline
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.serving.queueing.replica import HOLD_STEPS
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import ROUTERS, open_loop
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_log import StepLog
from roofline.serving.simulation.step_tables import StepTables
from roofline.specs.workload import Segment

CONFIG = EngineConfig(num_gpu_blocks=1000, block_size=16, max_num_seqs=8, max_num_batched_tokens=100)
NODE: dict[str, Any] = {"dp": 8, "ep": 8, "max_num_seqs": 128, "max_num_batched_tokens": 8192}


class Tables(AffineStepTime):
    """A step takes 1 s, and each token of prompts of the fullest rank 0.01 s, of which 0.002 s are shared by all ranks."""

    def shared_excess(self, fullest: int, mean: float) -> float:
        """Seconds less where the mean rank has fewer tokens than the fullest."""
        return 0.002 * (fullest - mean)


def serve(requests: list[Request], *, balanced: bool = False, stepwise: bool = False, ranks: int = 2) -> dict[int, float]:
    """When each request has its first token."""
    log, times = StepLog(), Tables(1.0, token=0.01)
    each = [Replica(SCHEDULERS["vllm-v1"], times, CONFIG, log=log, index=index, stepwise=stepwise) for index in range(ranks)]
    group = RankGroup(each, times, ROUTERS["round-robin"].route(each), balanced=balanced)  # type: ignore[arg-type]
    open_loop(requests, [group], ROUTERS["round-robin"].route([group]), lambda _: False)
    return {request.index: request.first_token_time for request in requests}


def test_prompts_of_two_ranks_are_computed_in_the_same_step() -> None:
    """100 tokens on each rank: 1 + 100 * 0.01 = 2 s, not 2 and then 4 (a step takes 100 tokens of a rank)."""
    assert serve([Request(0, 0.0, 100, 3), Request(1, 0.0, 100, 3)]) == {0: pytest.approx(2.0), 1: pytest.approx(2.0)}


def test_a_prompt_alone_stops_the_other_rank_and_leaves_it_its_share() -> None:
    """100 tokens on one of two ranks: 1 + 1 - 0.002 * (100 - 50) = 1.9 s.

    The next, at 1.95 s on the other rank, waits for the decode step of the first, from 1.9 to 2.9 - 0.002 * (1 - 0.5), and
    takes 1 + 1 - 0.002 * (100 - 101/2) s.
    """
    first = serve([Request(0, 0.0, 100, 9), Request(1, 1.95, 100, 9)])
    assert first[0] == pytest.approx(1.9)
    assert first[1] == pytest.approx(2.9 - 0.001 + 2 - 0.002 * (100 - 50.5))


@pytest.mark.parametrize("stepwise", [False, True])
def test_balanced_prompts_are_held_until_every_rank_has_one(stepwise: bool) -> None:
    """Both ranks decode. A prompt for rank 0 at 5 s waits for that of rank 1 at 10 s; without balancing it does not.

    Alone, it is held for 50 steps of about 1 s.
    """

    def requests(last: float) -> list[Request]:
        running = [Request(0, 0.0, 100, 300), Request(1, 0.0, 100, 300)]
        return [*running, Request(2, 5.0, 100, 9), Request(3, last, 100, 9)]

    free, held = (serve(requests(10.0), balanced=balanced, stepwise=stepwise) for balanced in (False, True))
    assert free[2] < 8
    assert free[3] > free[2] + 2
    assert held[2] == held[3] == pytest.approx(13, abs=1)
    alone = serve(requests(100.0), balanced=True, stepwise=stepwise)
    assert alone[2] == pytest.approx(5 + HOLD_STEPS + 2, abs=1.5)


def test_one_step_at_a_time_is_the_same() -> None:
    """Runs of steps are cut where a step would change."""

    def requests() -> list[Request]:
        return [Request(k, 0.7 * k, 30 + 17 * k % 90, 5 + k % 13) for k in range(60)]

    runs, steps = serve(requests(), ranks=4), serve(requests(), ranks=4, stepwise=True)
    assert runs == {index: pytest.approx(time, rel=1e-9) for index, time in steps.items()}


def test_tables_are_those_of_analyze() -> None:
    """Eight ranks of DeepSeek-V3 on a node: a prompt on each, and on one of them, beside 32 sequences on each: within 2 %."""
    request = prepare("deepseek-v3", "dgx-h200", input_len=1, phase="decode", **NODE)
    tables = StepTables(request, "estimate", 16_000, 128)
    decoding = Segment(8 * 32, 1, 2000, decode=True)
    for prompts, mean in ((8, 4032.0), (1, 32 + 500.0)):
        step = (decoding, Segment(prompts, 4000, 0))
        expected = pipeline(request, step).estimate
        seconds = tables.mixed(32, 32 * 2000, [(4000, 0)]) - tables.shared_excess(4032, mean)
        assert expected == pytest.approx(seconds, rel=0.02)


def simulated(**options: Any) -> dict[str, Any]:
    return roofline.simulate("deepseek-v3", "dgx-h200", **{**NODE, **options}).to_dict()


@pytest.mark.slow
def test_balancing_pays_where_lengths_vary() -> None:
    """Closed loop, prompts of 4,000 tokens: at random all ranks wait for each prompt; held, they start together."""
    load = {"workload": "closed:512", "input_len": "lognormal:4000:400", "output_len": "lognormal:300:200", "requests": 3000}
    free, held = simulated(**load, warm_up=0.2), simulated(**load, warm_up=0.2, attention_dp_balance=True)
    assert held["server"]["attention_dp_balance"] is True
    assert held["throughput"]["requests_per_s"] > 1.3 * free["throughput"]["requests_per_s"]
    assert held["requests"]["completed"] == 3000


def test_utilisation_is_of_all_ranks() -> None:
    """KV blocks of eight ranks, each a share of its own: between 0 and 1, and as full with 512 clients as 64 on each would."""
    result = simulated(workload="closed:512", input_len=2000, output_len=300, requests=2000)
    assert 0.01 < result["utilisation"]["kv"] < 0.5
    assert 0.01 < result["utilisation"]["compute"] < 1


def test_what_is_not_simulated_is_refused() -> None:
    with pytest.raises(InputError, match="share no experts"):
        roofline.simulate("llama-3.1-8b", "dgx-h200", dp=8, rate=1, input_len=10, output_len=10)
    with pytest.raises(InputError, match="in a pipeline"):
        roofline.simulate("deepseek-v3", "dgx-h200", dp=8, ep=8, pp=2, rate=1, input_len=10, output_len=10)
    with pytest.raises(InputError, match="one data-parallel rank"):
        roofline.simulate("llama-3.1-8b", "h100-sxm", rate=1, input_len=10, output_len=10, attention_dp_balance=True)


@pytest.mark.slow
def test_published_throughput_of_attention_dp(truth: Path) -> None:
    """DeepSeek-R1 on four B200 or GB200, prompts of 8k, all requests at once: NVIDIA's figures: 1.02 and 1.03 of them."""
    path = truth / "truth" / "serving" / "published.csv"
    if not path.is_file():
        pytest.skip("the published figures are not there")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["model"] == "deepseek-r1" and "DEP4" in r["note"] and r["isl"] == "8192"]
    assert len(rows) == 2
    for row in rows:
        result = roofline.simulate(
            "deepseek-v3", row["gpu"], dp=4, ep=4, quantization="nvfp4", kv_cache_dtype="fp8", backend="trtllm",
            max_num_seqs=211, max_num_batched_tokens=8192, workload="at-once:1500", input_len=8192, output_len=1024,
        ).to_dict()  # fmt: skip
        assert result["throughput"]["output_tokens_per_s"] / 4 == pytest.approx(float(row["value"]), rel=0.15)
