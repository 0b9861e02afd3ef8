"""Pools of replicas, simulated: the measured points of DeepSeek-R1 on H100 and H200, and what DistServe found.

The points are those of `tests/disaggregated_pools.py`, by the same recipes and with its step times (of estimates, drafts and
prompts measured alone); clients, batches, slots, blocks and transfers are the simulator's. The 0.8 s of a handover are the
latency of a transfer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from disaggregated_pools import (
    HANDOVER,
    MEAN,
    NODES,
    OUTPUT,
    PREFILL,
    ROUNDS,
    Prediction,
    Recipe,
    _decoding,
    _prompts,
    compare,
    rate_per_device,
)
from simulated import Link, serve_pools

import roofline
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_time import Cell, Chunk

MOST_CLIENTS = 400
"""More take minutes."""


@dataclass(frozen=True)
class RecipeTimes:
    """Steps of either pool: of prompts by their number, of decoding by the sequences."""

    prompts: list[float]
    tpot: list[float]

    def cells(self, num_sequences: int) -> list[Cell]:
        """Seconds for a token of each sequence, in mid-output."""
        return [(math.inf, self.tpot[num_sequences], 0.0)]

    def mixed(self, num_sequences: int, num_cached_tokens: int, chunks: Sequence[Chunk]) -> float:
        """Seconds of a step of prompts alone, or of decoding."""
        return self.prompts[len(chunks)] if chunks else self.tpot[num_sequences]


def simulated(recipe: Recipe) -> Prediction:
    """The recipe's run: its clients start together, ten requests each. A prompt counts as one token here."""
    numbers, seconds = _prompts(recipe.system, recipe.prompt)
    most, slots = int(numbers[-1]), recipe.slots // recipe.decode
    batch, tpot = _decoding(recipe.system, recipe.decode_dp, recipe.prompt, recipe.drafts)
    times = RecipeTimes(
        np.interp(np.arange(most + 1), numbers, seconds).tolist(), np.interp(np.arange(slots + 1), batch, tpot).tolist()
    )
    count = ROUNDS * recipe.clients
    outputs = (np.random.default_rng(1).uniform(2 * MEAN - 1, 1, count) * OUTPUT).round().astype(int).tolist()
    prefill, decode = EngineConfig(1 << 30, 1, most, most), EngineConfig(1 << 40, 1, slots, slots + 1)
    served = serve_pools(
        ("no-evict", "no-evict"), [Request(index, 0.0, 1, output) for index, output in enumerate(outputs)], times,
        (prefill, decode), Link(1e9, HANDOVER), first_token="transfer", replicas=(recipe.prefill, recipe.decode),  # noqa: S106
        clients=[0.0] * recipe.clients,
    )  # fmt: skip
    ends = served.ends().values()
    mean_tpot = float(np.mean([(end["ended"] - end["first"]) / (end["output"] - 1) for end in ends]))
    ttft = float(np.mean([end["first"] - end["arrived"] for end in ends]))
    return Prediction(mean_tpot, ttft, rate_per_device(recipe, mean_tpot, ttft))


@pytest.mark.night
def test_measured_pools(truth: Path) -> None:
    """Median errors of TPOT and of tokens/s per GPU are at most 20 %, over the points of up to 400 clients."""
    path = truth / "truth" / "serving" / "disaggregated.csv"
    if not path.is_file():
        pytest.skip("the points of disaggregated pools are not there")
    rows = [row for group in compare(path).values() for row in group if row.recipe.clients <= MOST_CLIENTS]
    runs = {recipe: simulated(recipe) for recipe in sorted({row.recipe for row in rows})}
    tpot = [abs(runs[row.recipe].tpot / row.measured.tpot - 1) for row in rows]
    rate = [abs(runs[row.recipe].rate_per_device / row.rate_per_device - 1) for row in rows]
    assert len(rows) > 60
    assert float(np.median(tpot)) <= 0.2
    assert float(np.median(rate)) <= 0.2


def test_tpot_of_the_command(truth: Path, tmp_path: Path) -> None:
    """The whole of `simulate --pools`, with its own step times, for the points without drafts and of up to 400 clients.

    NB: rates are not held here: TTFT is too short, since nothing in the command knows of the 0.8 s of a handover.
    """
    path = truth / "truth" / "serving" / "disaggregated.csv"
    if not path.is_file():
        pytest.skip("the points of disaggregated pools are not there")
    rows = [row for group in compare(path).values() for row in group]
    rows = [row for row in rows if row.recipe.clients <= MOST_CLIENTS and not row.recipe.drafts]
    tpot: dict[Recipe, float] = {}
    for recipe in {row.recipe for row in rows}:
        node, devices = NODES[recipe.system]
        of_prompts, prompts = PREFILL[recipe.system, recipe.prompt]

        def pool(replicas: int, slots: int, *, data_parallel: bool) -> dict[str, int]:
            layout = "data-parallel-size" if data_parallel else "tensor-parallel-size"
            sizes = {layout: devices, "expert-parallel-size": devices, "max-num-seqs": slots}  # noqa: B023 - called at once
            return {"replicas": replicas, **sizes, "max-num-batched-tokens": prompts * recipe.prompt}  # noqa: B023

        pools = {
            "kind": "pools",
            "prefill": pool(recipe.prefill, prompts, data_parallel=of_prompts),
            "decode": pool(recipe.decode, recipe.batch, data_parallel=recipe.decode_dp),
        }
        file = tmp_path / "pools.yaml"
        file.write_text(json.dumps(pools))
        result = roofline.simulate(
            "deepseek-v3", node, pools=file, engine="trtllm", quantization="fp8_block", kv_cache_dtype="fp8",
            deepep_mode="normal", workload=f"closed:{recipe.clients}:prompts=10:spread=0.8-1", input_len=recipe.prompt,
            output_len=OUTPUT, replications=1, ignore_capacity=True,
        )  # fmt: skip
        tpot[recipe] = result.tpot_s.mean or 0.0
    assert len(rows) > 30
    assert float(np.median([abs(tpot[row.recipe] / row.measured.tpot - 1) for row in rows])) <= 0.2


@pytest.mark.slow
@pytest.mark.night
def test_disaggregation_where_distserve_found_it_better() -> None:
    """Prefill steps hold up decode steps where both share a replica, so that a tight TPOT objective needs separate pools.

    DistServe (Zhong et al. 2024, arXiv:2401.09670, sections 2.3 and 6.2) has 2 to 7.4 times the requests per GPU of vLLM of
    then (prompts first) within TTFT and TPOT of 90 % of the requests; with a loose TPOT a shared replica loses nothing. The
    setting is smaller than theirs: one model of 8 B, prompts of 1,500 and outputs of 100 tokens on average, caches over NVLink.
    """

    def per_gpu(tpot: str, **pools: object) -> float:
        result = roofline.simulate(
            "llama-3.1-8b", "a100-sxm-80gb", scheduler="vllm-v0", find_rate=True, tpot=tpot, ttft="1 s", percentile=90,
            input_len="lognormal:1500:800", output_len="lognormal:100:60", requests=400, replications=1, **pools,  # type: ignore[arg-type]
        )  # fmt: skip
        assert result.find_rate is not None
        return float(result.find_rate["rate"]) / (3 if pools else 1)

    separate = {
        "disaggregated": True, "prefill_replicas": 2, "decode_replicas": 1, "transfer_bandwidth": "300 GB/s",
        "first_token": "prefill",
    }  # fmt: skip
    assert 2 < per_gpu("20 ms", **separate) / per_gpu("20 ms") < 7.4
    assert per_gpu("200 ms", **separate) < per_gpu("200 ms")
