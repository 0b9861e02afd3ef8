"""What is kept: against the definition, point by point, and in parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError, UnknownNameError
from roofline.numeric import pareto_front, pareto_front_of_rows
from roofline.predict.sweeps import sweep
from roofline.predict.sweeps.reduce import RULES, Reduction
from roofline.predict.sweeps.run import collect
from roofline.predict.sweeps.spec import Sweep

GRID = {
    "model": "llama-3.1-8b", "hardware": ["a100-sxm-80gb", "h100-sxm"], "tp": [1, 2], "phase": "both", "batch": "1:300:13",
    "context": "1k:16k:x2", "input_len": "512,2k",
}  # fmt: skip
RATE, TIME = "tokens_per_s_per_device_estimate", "step_estimate_s"


@pytest.fixture(scope="module")
def points() -> pd.DataFrame:
    return sweep(GRID, columns=[TIME, RATE, "fits", "tokens_per_s"])


def kept(keep: Reduction, part_rows: int = 1_000_000) -> pd.DataFrame:
    return collect(Sweep.of(GRID, columns=["tokens_per_s"], reduction=keep, part_rows=part_rows))


def test_best_is_the_largest_that_fits_and_meets(points: pd.DataFrame) -> None:
    found = kept(Reduction.of("best", by=["hardware"], tpot=0.02, ttft=0.5))
    some = points[points["fits"] & (points[TIME] <= points["phase"].map({"decode": 0.02, "prefill": 0.5}).astype(float))]
    assert list(zip(found["hardware"], found["phase"], strict=True)) == [
        (hardware, phase) for hardware in ("a100-sxm-80gb", "h100-sxm") for phase in ("prefill", "decode")
    ]
    for _, row in found.iterrows():
        group = some[(some["hardware"] == row["hardware"]) & (some["phase"] == row["phase"])]
        assert row[RATE] == group[RATE].max()


@pytest.mark.slow
def test_pareto_is_what_nothing_beats(points: pd.DataFrame) -> None:
    found = kept(Reduction.of("pareto"))
    for phase in ("prefill", "decode"):
        some = points[points["fits"] & (points["phase"] == phase)]
        front = [
            index for index, row in some.iterrows()
            if not (
                (some[TIME] <= row[TIME])
                & (some[RATE] >= row[RATE])
                & ((some[TIME] < row[TIME]) | (some[RATE] > row[RATE]))
            ).any()
        ]  # fmt: skip
        mine = found[found["phase"] == phase]
        assert sorted(mine[TIME]) == sorted(set(some.loc[front, TIME]))
    for one, two in pairwise(found[found["phase"] == "decode"].sort_values(TIME)[RATE]):
        assert one < two


def test_histogram_counts_every_point_that_fits(points: pd.DataFrame) -> None:
    found = kept(Reduction.of("histogram", by=["hardware"]))
    for (phase, hardware), group in found.groupby(["phase", "hardware"], observed=True):
        some = points[points["fits"] & (points["phase"] == phase) & (points["hardware"] == hardware)][TIME]
        assert group["count"].sum() == len(some)
        for _, row in group.iterrows():
            assert row["count"] == ((some >= row["low"]) & (some < row["high"])).sum()
            assert row["high"] / row["low"] == pytest.approx(10**0.1, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(RULES))
def test_parts_change_nothing(rule: str) -> None:
    """What is kept of what was kept is what is kept of all."""
    keep = Reduction.of(rule, by=["tp"])
    order = ["phase", "tp", *(["low"] if rule == "histogram" else [RATE])]
    once, often = (kept(keep, rows).sort_values(order, ignore_index=True) for rows in (1_000_000, 97))
    pd.testing.assert_frame_equal(once, often, check_categorical=False)


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=40), st.integers(1, 3))
def test_front_by_its_definition(rows: list[tuple[int, ...]], columns: int) -> None:
    """Not beaten: no other is as good in all and better in one, and no equal one stands before it."""
    values = np.array([row[:columns] for row in rows], dtype=float)
    wanted = [
        index for index, row in enumerate(values)
        if not any((other <= row).all() and (other < row).any() for other in values)
        and not any((other == row).all() for other in values[:index])
    ]  # fmt: skip
    assert sorted(pareto_front_of_rows(values).tolist()) == wanted
    front = pareto_front([tuple(row) for row in values.tolist()])  # equal ones are all on it
    assert [index for index in front if not any((values[other] == values[index]).all() for other in range(index))] == wanted


def test_names_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="best"):
        Reduction.of("bets")
    with pytest.raises(UnknownNameError, match="time_bound_s"):
        Reduction.of("best", objectives=["time_bond_s:min"])
    with pytest.raises(InputError, match="must end in :min or :max"):
        Reduction.of("best", objectives=["time_bound_s:least"])
    with pytest.raises(InputError, match="goes by 1 objective, not 2"):
        Reduction.of("best", objectives=["time_bound_s", "bytes"])
    with pytest.raises(InputError, match="no number"):
        Reduction.of("best", objectives=["fits"])
    with pytest.raises(UnknownNameError, match="hardware"):
        Reduction.of("best", by=["hardwear"])
    several = Reduction.of("pareto", objectives=["bytes", "tokens_per_s", "memory_bytes:max"])
    assert [str(goal) for goal in several.objectives] == [
        "bytes:min", "tokens_per_s:max", "memory_bytes:max",
    ]  # fmt: skip
