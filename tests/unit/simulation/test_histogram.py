"""The histogram: percentiles to 0.1 %, and sums of parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.simulation.histogram import Histogram

SHARES = (0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)


@pytest.mark.parametrize("draw", ["lognormal", "uniform", "two"])
def test_percentiles_are_within_a_thousandth(draw: str) -> None:
    """Of the number that so many are at most, in the sorted list."""
    rng = np.random.default_rng(1)
    values = {
        "lognormal": rng.lognormal(-3, 2, 50_000),
        "uniform": rng.uniform(0.01, 0.02, 50_000),
        "two": np.where(rng.random(50_000) < 0.95, 1e-3, 1e3),
    }[draw]
    histogram = Histogram()
    for part in np.array_split(values, 7):
        histogram.add(part)
    in_order = np.sort(values)
    for share in SHARES:
        exact = in_order[math.ceil(share * len(values)) - 1]
        assert histogram.quantile(share) == pytest.approx(exact, rel=1e-3), share
    assert histogram.mean == pytest.approx(values.mean(), rel=1e-12)
    assert (histogram.least, histogram.most) == (values.min(), values.max())


def test_parts_are_the_whole() -> None:
    """Merged histograms have the percentiles of all numbers, weights are numbers that are added so often."""
    rng = np.random.default_rng(2)
    values, weights = rng.exponential(size=3000), rng.integers(1, 5, 3000)
    whole, left, right = Histogram(), Histogram(), Histogram()
    whole.add(np.repeat(values, weights))
    left.add(values[:1000], weights[:1000].astype(float))
    right.add(values[1000:], weights[1000:].astype(float))
    left.merge(right)
    assert left.weight == whole.weight == weights.sum()
    assert [left.quantile(share) for share in SHARES] == [whole.quantile(share) for share in SHARES]


def test_the_ends() -> None:
    """Of nothing there is nothing; of one number it is every percentile; 0 counts as little; shares are shares."""
    empty = Histogram()
    assert (empty.mean, empty.quantile(0.5), empty.within(1.0)) == (None, None, 0.0)
    one = Histogram()
    one.add(np.array([0.25]))
    assert [one.quantile(share) for share in SHARES] == [0.25] * len(SHARES)
    zero = Histogram()
    zero.add(np.zeros(3))
    assert (zero.quantile(0.5), zero.most) == (0.0, 0.0)
    for share in (0.0, 1.5, -1.0):
        with pytest.raises(InputError, match="a share must be"):
            one.quantile(share)


def test_within() -> None:
    """Nine of ten are below a second, all below a minute."""
    histogram = Histogram()
    histogram.add(np.array([*np.linspace(0.1, 0.9, 9), 30.0]))
    assert histogram.within(1.0) == pytest.approx(0.9)
    assert histogram.within(60.0) == pytest.approx(1.0)
