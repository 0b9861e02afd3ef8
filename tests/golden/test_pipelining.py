"""Microbatches in a pipeline, against a schedule that is played out event by event."""

from __future__ import annotations

import csv
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.predict.timing import Pipeline, per_stage, pipeline, pipelined_step
from roofline.specs.workload import Segment, decode, prefill


def play(stages: list[float], hop: float, microbatches: int, rounds: int) -> list[list[float]]:
    """When each microbatch leaves the last stage, round by round.

    A stage, and a link between two, takes one at a time, in order; the next round of a microbatch starts when its last is over.
    """
    stations = [stages[0], *(time for stage in stages[1:] for time in (hop, stage))]
    free = [0.0] * len(stations)
    left = [0.0] * microbatches
    found = []
    for _ in range(rounds):
        for microbatch in range(microbatches):
            now = left[microbatch]
            for station, time in enumerate(stations):
                now = max(now, free[station]) + time
                free[station] = now
            left[microbatch] = now
        found.append(list(left))
    return found


CASES = [(random.Random(seed).choices(range(1, 20), k=1 + seed % 6), seed % 4, 1 + seed % 9) for seed in range(40)]  # noqa: S311 - seeded on purpose


@pytest.mark.parametrize(("stages", "hop", "microbatches"), CASES)
def test_all_have_passed(stages: list[int], hop: int, microbatches: int) -> None:
    """Of a prompt's microbatches the last leaves when the schedule says."""
    (ends,) = play([float(time) for time in stages], hop, microbatches, 1)
    assert Pipeline(stages, hop).filled(microbatches) == ends[-1]
    assert Pipeline(stages, hop).alone == ends[0]


@pytest.mark.parametrize(("stages", "hop", "microbatches"), CASES)
def test_tokens_follow_one_another(stages: list[int], hop: int, microbatches: int) -> None:
    """In a long run of decode each microbatch comes by at the interval; the slowest stage is busy for the rest."""
    after = play([float(time) for time in stages], hop, microbatches, 200)
    line = Pipeline(stages, hop)
    assert (after[-1][0] - after[99][0]) / 100 == pytest.approx(line.interval(microbatches), rel=1e-9)
    steps = [later[0] - earlier[0] for earlier, later in pairwise(after[100:])]
    assert sum(steps) * (1 - line.idle(microbatches)) == pytest.approx(len(steps) * microbatches * line.slowest)


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 8, 64])
def test_gpipe_bubble(stages: int, microbatches: int) -> None:
    """(p - 1)/(m + p - 1), arXiv:1811.06965, section 2.3; in decode none with as many microbatches as stages."""
    line = Pipeline([0.25] * stages)
    assert line.bubble(microbatches) == pytest.approx((stages - 1) / (microbatches + stages - 1))
    assert line.idle(microbatches) == pytest.approx(max(0.0, 1 - microbatches / stages))
    assert line.fewest == stages


def test_arrays() -> None:
    """Many pipelines and numbers of microbatches at once."""
    line = Pipeline([np.array([1.0, 2.0]), np.array([3.0, 2.0])])
    assert line.interval(np.array([[1], [2], [4]])).tolist() == [[4, 4], [6, 4], [12, 8]]
    assert line.filled(2).tolist() == [7, 6]


def test_one_microbatch_is_a_step() -> None:
    """What `analyze` says of a batch on its own."""
    request = prepare("llama-3.1-70b", "dgx-h100", pp=4)
    for step in (decode(32, 2048), prefill(2, 512)):
        alone, one = pipeline(request, step), pipelined_step(request, step, 1)
        assert (one.bound, one.estimate, one.low, one.high) == pytest.approx(
            (alone.bound, alone.estimate, alone.low, alone.high)
        )


def test_decode_of_a_filled_pipeline() -> None:
    """4 stages, 4 microbatches of 8: each comes by when the slowest stage has done all, and the rate nearly quadruples."""
    request = prepare("llama-3.1-70b", "dgx-h100", pp=4)
    slowest = max(bound for bound, _ in per_stage(request, decode(8, 2048)))
    found = pipelined_step(request, decode(32, 2048), 4)
    assert found.bound == pytest.approx(4 * slowest)
    assert found.estimate is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.estimate < found.high
    alone = pipeline(request, decode(8, 2048))
    assert alone.bound is not None
    assert 3.5 < 32 / 4 / slowest / (8 / alone.bound) < 4  # the last stage has the LM head: they are not quite equal


def test_prompts_in_microbatches() -> None:
    """8 prompts one after another through 2 stages: each stage's time of one, and 7 more times that of the slower."""
    request = prepare("llama-3.1-70b", "dgx-h100", pp=2)
    times = [bound for bound, _ in per_stage(request, prefill(1, 4096))]
    assert pipelined_step(request, prefill(8, 4096), 8).bound == pytest.approx(sum(times) + 7 * max(times))


@pytest.mark.parametrize("wrong", [0, 5])
def test_sequences_are_not_cut(wrong: int) -> None:
    """Of 8 sequences in two replicas there are at most 4 microbatches in each."""
    request = prepare("llama-3.1-8b", "dgx-h100", pp=2, dp=2)
    with pytest.raises(InputError, match=r"1 to 4$"):
        pipelined_step(request, decode(8, 100), wrong)
    with pytest.raises(InputError, match=r"1 to 1$"):
        pipelined_step(request, (Segment(8, 1, 100, decode=True), Segment(1, 100, 0)), 2)


def test_published_pipelines_scale(truth: Path) -> None:
    """Output tokens/s of PP2, PP4 and PP8 over that of one device, as published (TensorRT-LLM v1.0, Llama 3.3 70B in nvfp4).

    What the fits of a device miss falls out of the ratio. 35 us per sequence and stage were chosen from 20, 28, 35 and 42
    on this table; one half of its rows chooses 35, the other 42.
    """
    path = truth / "truth" / "serving" / "published.csv"
    if not path.is_file():
        pytest.skip("the published figures are not there")
    lengths = ((128, 4096), (1000, 2000), (20000, 2000))
    measured: dict[tuple[int, int, int], float] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["model"], row["gpu"], row["tp"]) == ("llama-3.3-70b", "rtx-pro-6000-server", "1"):
                measured[int(row["isl"]), int(row["osl"]), int(row["pp"])] = float(row["value"])
    ratios = []
    for prompt, output in lengths:
        rates = {}
        for stages in (1, 2, 4, 8):
            result = roofline.simulate(
                "llama-3.1-70b", "rtx-pro-6000-server", pp=stages, quantization="nvfp4", kv_cache_dtype="fp8", backend="trtllm",
                scheduler="orca", workload="at-once:1500" if prompt < 20000 else "at-once:1000", input_len=str(prompt),
                output_len=str(output), max_num_seqs=2048, max_num_batched_tokens=8192, gpu_memory_utilization=0.95,
            )  # fmt: skip
            rates[stages] = result.throughput["output_tokens_per_s"]
        for stages in (2, 4, 8):
            scale = measured[prompt, output, stages] / measured[prompt, output, 1]
            ratios.append(rates[stages] / rates[1] / scale)
    assert min(ratios) > 0.85
    assert max(ratios) < 1.15
