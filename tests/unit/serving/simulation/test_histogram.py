"""The histogram: percentiles to 0.1 %, and sums of parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.serving.simulation.histogram import RATIO, Histogram

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
    assert (histogram.min, histogram.max) == (values.min(), values.max())


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
    assert (empty.mean, empty.quantile(0.5)) == (None, None)
    one = Histogram()
    one.add(np.array([0.25]))
    assert [one.quantile(share) for share in SHARES] == [0.25] * len(SHARES)
    zero = Histogram()
    zero.add(np.zeros(3))
    assert (zero.quantile(0.5), zero.max) == (0.0, 0.0)
    for share in (0.0, 1.5, -1.0):
        with pytest.raises(InputError, match="a share must be"):
            one.quantile(share)


def test_a_curve_of_few_is_theirs() -> None:
    """1, 2, 2 and 4 s: nothing below 1, a quarter at 1, three quarters at 2, all at 4; each a step from its foot to its top."""
    histogram = Histogram()
    histogram.add(np.array([1.0, 2.0, 2.0, 4.0]))
    curve = histogram.curve()
    assert curve["share"] == [0, 0.25, 0.25, 0.75, 0.75, 1]
    assert curve["seconds"] == pytest.approx([1, 1, 2, 2, 4, 4], rel=2 * (RATIO - 1))
    assert Histogram().curve() == {"seconds": [], "share": []}


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.lognormal(0, 3, 100_000),
        lambda rng: rng.exponential(0.2, 300),
        lambda rng: rng.integers(1, 100, 5000) / 10,  # steps of a hundredth each
        lambda rng: np.concatenate([rng.lognormal(-4, 0.05, 100_000), rng.uniform(1, 100, 300)]),
        lambda rng: np.concatenate([np.repeat(np.geomspace(1e-3, 1, 90), 1000), rng.lognormal(5, 3, 8000)]),
    ],
)
def test_a_curve_is_what_was_added(draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    """At most 200 points, ascending, and lines between them.

    They are within 1 % of the shares of the numbers themselves, and what is beyond within a fifth of a decade.
    """
    values = draw(np.random.default_rng(0))
    histogram = Histogram()
    histogram.add(values)
    curve = histogram.curve()
    seconds, share = np.array(curve["seconds"]), np.array(curve["share"])
    assert len(seconds) == len(share) <= 200
    assert (np.diff(seconds) >= 0).all()
    assert (np.diff(share) >= 0).all()
    assert (seconds[0], seconds[-1]) == pytest.approx((values.min(), values.max()), rel=1e-5)
    for part in (*np.linspace(0.01, 0.99, 99), 0.999, 0.9999):
        at = np.quantile(values, part, method="inverted_cdf")
        found = np.interp(at, seconds, share)
        low, high = (values < at / RATIO**2).mean(), (values <= at * RATIO**2).mean()  # bins next to it
        assert low - 0.01 <= found <= high + 0.01
        assert (1 - high) / 1.6 - 1e-4 <= 1 - found <= (1 - low) * 1.6 + 1e-4
