"""Levels and counts over time."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.serving.simulation.metrics import INTERVALS, TimeSeries


def test_a_level_is_spread_over_the_intervals_that_it_covers() -> None:
    """3 from 0.5 s to 2.25 s, and 2 from 2 to 4: intervals of 1 s have 1.5, 3, 0.75 + 2, 2."""
    series = TimeSeries()
    series.extend_to(INTERVALS * 0.99)
    assert series.width == 1.0
    series.level("running", np.array([0.5, 2.0]), np.array([2.25, 4.0]), np.array([3.0, 2.0]))
    assert series.sums["running"][:6].tolist() == pytest.approx([1.5, 3.0, 2.75, 2.0, 0.0, 0.0])
    assert series.mean("running", 0.0, 4.0) == pytest.approx(9.25 / 4)


def test_a_level_that_grows() -> None:
    """From 2 to 10 between 0 s and 4 s: 3, 5, 7 and 9 in intervals of 1 s; and a 3 beside it that does not grow."""
    series = TimeSeries()
    series.extend_to(INTERVALS * 0.99)
    series.ramp("blocks", np.array([0.0, 1.0]), np.array([4.0, 2.0]), np.array([6.0, 3.0]), np.array([8.0, 0.0]))
    assert series.sums["blocks"][:5].tolist() == pytest.approx([3.0, 5.0 + 3.0, 7.0, 9.0, 0.0])


def test_a_short_growth_is_flat() -> None:
    """Within half of an interval only its mean is kept."""
    series = TimeSeries()
    series.extend_to(INTERVALS * 0.99)
    series.ramp("blocks", np.array([0.75]), np.array([1.25]), np.array([4.0]), np.array([8.0]))
    assert series.sums["blocks"][:3].tolist() == pytest.approx([1.0, 1.0, 0.0])


def test_within_one_interval() -> None:
    """5 for a quarter of the interval."""
    series = TimeSeries()
    series.extend_to(INTERVALS * 0.99)
    series.level("blocks", np.array([1.25]), np.array([1.5]), np.array([5.0]))
    assert series.sums["blocks"][:3].tolist() == pytest.approx([0.0, 1.25, 0.0])


def test_intervals_double_and_nothing_is_lost() -> None:
    """Random levels and counts, a part at a time, later and later: their sums are what went in, whatever the width."""
    rng = np.random.default_rng(0)
    series = TimeSeries()
    area = tokens = 0.0
    for reach in (1.0, 10.0, 1000.0, 5e6):
        begins = rng.uniform(0, reach, 200)
        ends = begins + rng.exponential(reach / 50, 200)
        values = rng.integers(0, 9, 200).astype(float)
        series.level("waiting", begins, ends, values)
        series.count_evenly("output_tokens", begins, ends, values)
        series.count("arrived", begins)
        area += float(((ends - begins) * values).sum())
        tokens += float(values.sum())
    assert series.sums["waiting"].sum() == pytest.approx(area)
    assert series.sums["output_tokens"].sum() == pytest.approx(tokens)
    assert series.sums["arrived"].sum() == 800
    assert series.sums["waiting"].min() > -1e-6 * area


def test_as_data() -> None:
    """Means of levels, and counts a second, up to a time."""
    series = TimeSeries()
    series.extend_to(INTERVALS * 1.99)  # intervals of 2 s
    series.count("arrived", np.array([0.5, 1.0, 3.0]))
    found = series.to_dict(3.5)
    assert found["interval_s"] == 2.0
    assert found["arrived_per_s"] == [1.0, 0.5]
    assert len(found["running"]) == 2


def test_intervals_that_nothing_covers_stay_empty() -> None:
    """Amounts that binary fractions do not hold leave nothing behind, neither above nor below 0, and nothing is negative."""
    rng = np.random.default_rng(5)
    series = TimeSeries()
    series.extend_to(INTERVALS * 0.99)
    begins = rng.uniform(0, 100, 5000)
    ends = begins + rng.exponential(2.0, 5000)
    for name in ("output_tokens", "prompt_tokens", "recomputed_tokens"):
        series.count_evenly(name, begins, ends, rng.uniform(0, 0.3, 5000))
    series.level("waiting", begins, ends, rng.uniform(0, 0.3, 5000))
    series.ramp("blocks", begins, ends, rng.uniform(1, 2, 5000), rng.uniform(0, 0.3, 5000))
    beyond = int(ends.max()) + 1
    for name in ("output_tokens", "prompt_tokens", "recomputed_tokens", "waiting", "blocks"):
        assert (series.sums[name] >= 0).all(), name
        assert (series.sums[name][beyond:] == 0).all(), name
