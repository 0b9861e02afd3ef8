"""TTFT of measured closed loops: load generators chosen by source on one half of the points, judged by the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from closed_loops import CHOSEN, GRID, SCHEDULERS, Generator, Point, choose, errors, points, scores


@pytest.fixture(scope="module")
def measured(truth: Path) -> list[Point]:
    """All points but for those that beat their own prefill (docs/accuracy.md)."""
    path = truth / "truth" / "serving" / "end_to_end.csv"
    if not path.is_file():
        pytest.skip("the serving points are not there")
    return [point for point in points(path) if not point.suspect]


def half(some: list[Point], engine: str, *, judges: bool) -> list[Point]:
    """Of an engine's points."""
    return [point for point in some if point.engine == engine and point.judges is judges]


def test_the_other_half_is_predicted(measured: list[Point]) -> None:
    """What is asked for is 45 % over all and 25 % of vLLM on the 70B; what is aimed at, 30 % and 15 %."""
    found = {engine: errors(half(measured, engine, judges=True), CHOSEN[engine]) for engine in SCHEDULERS}
    assert {engine: len(one) for engine, one in found.items()} == {"vllm": 24, "trtllm": 89, "sglang": 24}
    assert np.median(np.abs(np.concatenate(list(found.values()))[:, 0])) <= 0.30
    assert np.median(np.abs(found["vllm"][:, 0])) <= 0.15
    assert all(np.median(np.abs(one[:, 1])) <= 0.10 for one in found.values())  # TPOT is what it was


def test_the_first_half_chooses_them(measured: list[Point]) -> None:
    """Of load generators without a ramp and a warm-up, TensorRT-LLM on every fourth point: with all it takes minutes."""
    plain = [one for one in GRID if not one.ramp and not one.warm_up]
    some = [one for one in plain if not one.short and one.prompts > 1]
    assert choose(scores(half(measured, "vllm", judges=False), some)) == CHOSEN["vllm"]
    few = [one for one in plain if one.prompts in (3, 10) and one.spread in ("1-1", "0.5-1")]
    assert choose(scores(half(measured, "trtllm", judges=False)[::4], few)) == CHOSEN["trtllm"]


def test_load_generators_matter_more_than_kernels(measured: list[Point]) -> None:
    """The same server and step times: equal lengths in place of drawn ones, and TTFT is more than twice what was measured."""
    some = half(measured, "vllm", judges=True)
    assert np.median(errors(some, Generator(10))[:, 0]) > 1
