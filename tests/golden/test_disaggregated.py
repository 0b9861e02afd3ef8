"""Disaggregated pools: DeepSeek-R1 on H100 and H200, rows of AIConfigurator by the public recipes of InferenceMAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from disaggregated_pools import (
    HANDOVER,
    MEAN,
    NODES,
    OUTPUT,
    PROMPTS_PER_S,
    RECIPES,
    Compared,
    Point,
    Recipe,
    compare,
    predicted,
)

import roofline


@pytest.fixture(scope="module")
def measured(truth: Path) -> dict[tuple[str, int], list[Compared]]:
    """Rows with the recipes of their ranks."""
    path = truth / "truth" / "serving" / "disaggregated.csv"
    if not path.is_file():
        pytest.skip("the points of disaggregated pools are not there")
    return compare(path)


def test_slots_decide_the_wait() -> None:
    """Six clients on three slots: half of them wait while the others decode, so that TTFT is the time of an output.

    That is in the mean 0.9 of 1,024 tokens, but for the first round, in which three do not wait: 19/20 of it. Nine on
    six slots wait half as long. Measured: 0.97 and 0.52 of the time of an output.
    """
    six, nine = (next(one for one in RECIPES if one.system == "h100_sxm" and one.clients == clients) for clients in (6, 9))
    for recipe, share in ((six, 1.0), (nine, 0.5)):
        seen = predicted(recipe)
        assert recipe.slots * (1 + share) == recipe.clients
        held = (MEAN * OUTPUT - 1) * seen.tpot + HANDOVER
        assert seen.ttft == pytest.approx(0.95 * share * held + HANDOVER, rel=0.05)


def test_prompts_limit_a_run() -> None:
    """768 clients, five replicas of 8 H200 for prompts of 7,373 tokens on average: no more than five times one.

    Prompts of 8,192 were measured at 2.94/s, so that shorter ones are at least 2.94/0.9, and a tenth more, as attention is
    quadratic. Measured with outputs: 14 to 15.6/s. Three replicas that decode would have a batch for 20.
    """
    (recipe,) = (one for one in RECIPES if (one.clients, one.prompt) == (768, 8192))
    per_s = predicted(recipe).rate_per_device * recipe.devices / (MEAN * OUTPUT)
    assert per_s <= 5 * PROMPTS_PER_S / 0.9 * 1.1
    assert per_s >= 14


def test_no_row_is_faster_than_a_floor(measured: dict[tuple[str, int], list[Compared]]) -> None:
    """A round of three drafts gives at most four tokens, and takes no less than a step of one sequence."""
    for (system, prompt), rows in measured.items():
        node, devices = NODES[system]
        deployment = {"tp": devices, "ep": devices, "quantization": "fp8", "kv_cache_dtype": "fp8"}
        step = roofline.analyze("deepseek-v3", node, phase="decode", batch=1, context=prompt, **deployment).decode
        assert step is not None
        assert min(row.measured.tpot for row in rows) >= step.time.floor / 4


def errors(rows: list[Compared]) -> tuple[float, float]:
    """Median errors of TPOT and of tokens/s per GPU."""
    tpot = np.array([row.prediction.tpot / row.measured.tpot for row in rows])
    rate = np.array([row.prediction.rate_per_device / row.rate_per_device for row in rows])
    return float(np.median(np.abs(tpot - 1))), float(np.median(np.abs(rate - 1)))


def test_pools_are_predicted(measured: dict[tuple[str, int], list[Compared]]) -> None:
    """What is aimed at is 20 % in the median of both, also of each card and prompt."""
    rows = [row for group in measured.values() for row in group]
    assert len(rows) == 96
    tpot, rate = errors(rows)
    assert tpot <= 0.15
    assert rate <= 0.15
    for group in measured.values():
        assert max(errors(group)) <= 0.2


def test_every_recipe_has_its_rows(measured: dict[tuple[str, int], list[Compared]]) -> None:
    """One run of each of 65 recipes but one; repeated runs differ by no more than 3 % in TPOT, a third in TTFT."""
    runs: dict[Recipe, list[Point]] = {}
    for row in (row for group in measured.values() for row in group):
        runs.setdefault(row.recipe, []).append(row.measured)
    assert len(runs) == len(RECIPES) - 1
    for points in runs.values():
        assert max(point.tpot for point in points) <= 1.031 * min(point.tpot for point in points)
        assert max(point.ttft for point in points) <= 1.34 * min(point.ttft for point in points)
