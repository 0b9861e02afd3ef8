"""Percentiles of gamma waits and beta times, against SciPy's distributions and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from roofline.serving.queueing.tails import Bounded, Moments, quantile, share_within


def test_waits_are_gamma_distributed_and_each_has_its_own_time() -> None:
    """Two rates, three own times, two alternatives of the wait: sums of SciPy's distribution, one by one."""
    own = np.array([[0.1, 0.4, 0.9], [0.2, 0.3, 5.0]])
    chance = np.array([0.7, 0.2])
    moments = [(np.array([0.5, 2.0]), np.array([0.1, 3.0])), (np.array([1.5, 0.7]), np.array([0.4, 2.0]))]
    waits = [(chance, Moments(*moments[0])), (1 - chance, Moments(*moments[1]))]
    for seconds in (1.2, np.array([0.6, 2.5])):
        at = np.broadcast_to(seconds, 2)
        expected = [
            sum(
                float(p[i]) * float(stats.gamma.cdf(at[i] - one, mean[i] ** 2 / var[i], scale=var[i] / mean[i]))
                for (p, _), (mean, var) in zip(waits, moments, strict=True)
                for one in own[i]
            ) / 3
            for i in (0, 1)
        ]  # fmt: skip
        assert share_within(own, waits, seconds) == pytest.approx(expected, rel=1e-12)


def test_no_wait_or_one_that_does_not_vary_is_a_step() -> None:
    """Neither mean nor variance; and a mean of 1 s: only the own time of 0.5 s, or both, and nothing before."""
    for mean in (0.0, 1.0):
        waits = [(np.ones(1), Moments(np.array([mean]), np.zeros(1)))]
        shares = [share_within(np.full((1, 1), 0.5), waits, 0.5 + mean + more)[0] for more in (-1e-3, 1e-3)]
        assert shares == pytest.approx([0, 1], abs=1e-9)


def cdf(seconds: float, mean: float, variance: float, low: float = 0.0, high: float = 1.0) -> float:
    return float(Bounded(*(np.array([[x]]) for x in (mean, variance, low, high))).cdf(seconds)[0])


def test_times_are_beta_distributed_between_ends() -> None:
    """Mean 3.2 and variance 0.1 between 2 and 5: u = 0.4, v = 0.1/9, a + b = u (1 - u)/v - 1."""
    both = 0.4 * 0.6 / (0.1 / 9) - 1
    for seconds in (-1.0, 2.0, 2.5, 3.0, 4.4, 5.0, 9.0):
        expected = stats.beta.cdf((seconds - 2) / 3, 0.4 * both, 0.6 * both)
        assert cdf(seconds, 3.2, 0.1, 2, 5) == pytest.approx(expected, rel=1e-9)


def test_the_share_is_the_mean_over_times_and_each_rate_has_its_own() -> None:
    means, variances = np.array([[3.2, 2.5], [3.0, 4.0]]), np.array([[0.1, 0.2], [0.05, 0.3]])
    columns = [means, variances, np.full((2, 2), 2.0), np.full((2, 2), 5.0)]
    at = np.array([2.9, 3.1])
    expected = [sum(cdf(float(at[i]), *(float(x[i, k]) for x in columns)) for k in (0, 1)) / 2 for i in (0, 1)]
    assert Bounded(*columns).cdf(at) == pytest.approx(expected, rel=1e-12)


def test_a_variance_that_is_too_wide_is_four_times_that_of_shape_1() -> None:
    """u^2 (1 - u)/(1 + u) is that of a beta distribution of shape 1; at most 0.9 of what two ends have, u (1 - u)."""
    for u, widest in ((0.1, 4 * 0.01 * 0.9 / 1.1), (0.02, 4 * 0.0004 * 0.98 / 1.02), (0.5, 0.9 * 0.25)):
        both = u * (1 - u) / widest - 1
        expected = stats.beta.cdf(0.3, u * both, (1 - u) * both)
        assert cdf(0.3, u, 1.001 * widest) == pytest.approx(expected, rel=1e-9)
        assert cdf(0.3, u, 0.999 * widest) != pytest.approx(expected, rel=1e-9)


def test_a_variance_of_nothing_is_a_step_at_the_mean() -> None:
    """The variance is at least a 10^12th of the squared span: at 10^-6 a standard deviation, Phi(1) = 0.8413."""
    assert [cdf(seconds, 0.4, 0.0) for seconds in (0.39, 0.4, 0.41)] == pytest.approx([0, 0.5, 1], abs=1e-3)
    assert cdf(0.4 + 1e-6, 0.4, 0.0) == pytest.approx(0.5 + math.erf(math.sqrt(0.5)) / 2, abs=1e-3)


def test_a_mean_beyond_an_end_is_just_inside_it() -> None:
    """A 10^6th of the span away from the end, as wide as a distribution with that mean can be."""
    for mean, inside in ((-0.5, 1e-6), (1.5, 1 - 1e-6)):
        assert cdf(inside, mean, 1.0) == cdf(inside, inside, 1.0)
        assert 0 < cdf(inside, mean, 1.0) < 1


def test_the_time_of_a_share_by_bisection() -> None:
    """Exponential times of two rates: -ln(1 - share)/rate, to a 10^9th of the bound of 100 s, from above."""
    rates = np.array([1.0, 0.25])
    found = quantile(lambda x: 1 - np.exp(-rates * x), 0.9, np.full(2, 100.0))
    exact = math.log(10) / rates
    assert np.all((found >= exact - 1e-12) & (found - exact <= 100 / 2**30))
    assert quantile(lambda x: np.where(x < 64, 0.4, 0.6), 0.4, np.full(1, 128.0))[0] < 1e-6  # a share that is reached
