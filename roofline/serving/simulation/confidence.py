"""How far the figures of a run can be trusted: confidence intervals from batch means, and where the warm-up ends.

Latencies of requests that follow each other depend on each other, so that the spread of single requests says nothing about the
error of their mean. Means of batches of consecutive requests nearly do not, if batches are long: they are merged until the
correlation of neighbours is small. An interval of a percentile is that of the share of the requests up to its value, read off
the distribution again. With several runs each run is a batch.

The relation of two sums over a batch (seconds and requests) has the variance of a ratio estimator, so that batches need not be
of one size. The interval of a mean allows for skewness, and each for what correlation is left.

Sources: Law 2015, Simulation Modeling and Analysis, 5th edition, sections 9.5.3 (batch means) and 9.3.2 (ratios); Tafazzoli,
Wilson 2011, Skart, IIE Transactions 43(2) (skewness by Willink's form of Johnson's t, correlation of batches as of an
autoregressive process); Woodruff 1952, J. American Statistical Association 47(260) (percentiles); White 1997, An effective
truncation heuristic for bias reduction in simulation output, Simulation 69(6), and Hoad, Robinson, Davies 2010, Automating
warm-up length estimation, J. Operational Research Society 61(9) (MSER-5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.batches import Batch, merged
from roofline.serving.simulation.histogram import RATIO, Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

CONFIDENCE = 0.95
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MIN_BATCHES = 8
"""Batches that an interval is computed from, at least."""
MIN_BEYOND = 10
"""Requests (tokens, of ITL) beyond a percentile for which it has an interval, at least."""
MIN_INDEPENDENT, MIN_INDEPENDENT_BEYOND = 20, 5
"""Of independent requests, in one run: as many as would leave the median as uncertain as it is."""
MIN_REQUESTS = 1000
"""Requests of a run from which on its warm-up is looked for."""
_CORRELATED = 0.4  # standard deviations of the lag-1 correlation of independent batches
_MOST_CORRELATED = 0.8
_CORRELATED_WHY = f"requests depend on each other over more than 1/{MIN_BATCHES} of the run"


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in the unit of its figure, or `why` there is none."""

    low: float | None = None
    high: float | None = None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: `low` and `high`, and `why` where they are None."""
        return {"low": self.low, "high": self.high} | ({"why": self.why} if self.why else {})


@dataclass(frozen=True, slots=True)
class Confidence:
    """Intervals of the figures of several latencies.

    Args:
        method: "batch-means" of a run, or "replications".
        batches: number of batches of the run before neighbours are merged, or of runs.
        latencies: intervals in seconds, by latency and figure (`mean`, `p50`, ...).
        within_slo: of the share of the requests that meet the SLO.
    """

    method: str
    batches: int
    latencies: Mapping[str, Mapping[str, Interval]]
    within_slo: Interval

    def of(self, latency: str) -> dict[str, Any]:
        """Return the intervals of a latency as plain data."""
        intervals = {name: one.to_dict() for name, one in self.latencies[latency].items()}
        return {"level": CONFIDENCE, "method": self.method, "batches": self.batches, **intervals}


def confidence(runs: Sequence[Sequence[Batch]], unsteady: str = "") -> Confidence:
    """Return the intervals of a run from its batches, or of several runs from those.

    Args:
        runs: batches of each run, in the order of arrival.
        unsteady: why the run has no steady state, which intervals are of; "" where it may have one.
    """
    repeated = len(runs) > 1
    batches = [merged(one) for one in runs] if repeated else [one for one in runs[0] if one.completed]
    whole = merged(batches)
    latencies: dict[str, dict[str, Interval]] = {}
    for name, times in whole.times.items():
        parts = [one.times[name] for one in batches]
        if unsteady or not times.weight:
            why = unsteady or "there is none"
            latencies[name] = dict.fromkeys(("mean", *QUANTILES), Interval(why=why))
            continue
        latencies[name] = _of_latency(times, parts, repeated, "tokens" if name == "itl" else "requests")
    good = Interval(why=unsteady) if unsteady else _share(batches, repeated)
    return Confidence("replications" if repeated else "batch-means", len(batches), latencies, good)


def _of_latency(whole: Histogram, parts: Sequence[Histogram], repeated: bool, of: str) -> dict[str, Interval]:
    """The intervals of the mean and the percentiles of a latency."""
    independent = math.inf if repeated else _independent(whole, parts)
    intervals: dict[str, Interval] = {}
    for name, share in (("mean", None), *QUANTILES.items()):
        beyond = 1.0 if share is None else 1 - share
        if whole.weight * beyond < MIN_BEYOND:
            needed = math.ceil(MIN_BEYOND / beyond - 1e-9)
            intervals[name] = Interval(why=f"{whole.weight:,.0f} {of}: at least {needed:,} are needed")
        elif independent is None or (not repeated and len(parts) < MIN_BATCHES):
            intervals[name] = Interval(why=_CORRELATED_WHY)
        elif independent < MIN_INDEPENDENT or independent * beyond < MIN_INDEPENDENT_BEYOND:
            worth = f"{of} depend on each other, and are worth {independent:,.0f} independent ones"
            intervals[name] = Interval(why=f"{worth}: at least {max(MIN_INDEPENDENT, MIN_INDEPENDENT_BEYOND / beyond):,.0f}")
        else:
            intervals[name] = _mean(whole, parts, repeated) if share is None else _quantile(whole, parts, share, repeated)
    return intervals


def _independent(whole: Histogram, parts: Sequence[Histogram]) -> float | None:
    """How many independent requests would leave the median as uncertain as it is; None where that cannot be told."""
    value = whole.quantile(0.5) or 0.0
    counts, weights = [one.up_to(value) for one in parts], [one.weight for one in parts]
    error = ratio_error(counts, weights, skewed=False)
    if error is None:
        return None
    share = sum(counts) / whole.weight
    return min(share * (1 - share) / error.deviation**2, whole.weight) if error.deviation else whole.weight


def _mean(whole: Histogram, parts: Sequence[Histogram], repeated: bool) -> Interval:
    error = ratio_error([one.total for one in parts], [one.weight for one in parts], repeated=repeated)
    if error is None:
        return Interval(why=_CORRELATED_WHY)
    mean = whole.total / whole.weight
    return Interval(max(mean - error.below, whole.min), min(mean + error.above, whole.max))


def _quantile(whole: Histogram, parts: Sequence[Histogram], share: float, repeated: bool) -> Interval:
    """The interval of a percentile: that of the share up to its value, read off the distribution."""
    value = whole.quantile(share) or 0.0
    error = ratio_error([one.up_to(value) for one in parts], [one.weight for one in parts], repeated=repeated, skewed=False)
    if error is None:
        return Interval(why=_CORRELATED_WHY)
    if share + error.above >= 1:
        return Interval(why="its upper end is beyond the slowest request")
    low = (whole.quantile(share - error.below) or 0.0) if share > error.below else whole.min
    high = whole.quantile(share + error.above) or 0.0
    # to the edges of the bins
    return Interval(max(low / RATIO**0.5, whole.min), min(high * RATIO**0.5, whole.max))


def _share(batches: Sequence[Batch], repeated: bool) -> Interval:
    """The interval of the share of the requests within the SLO."""
    numbers = [one.ended for one in batches]
    good, number = sum(one.good for one in batches), sum(numbers)
    if good in (0, number):
        return Interval(why="all requests are the same")
    error = ratio_error([one.good for one in batches], numbers, repeated=repeated, skewed=False)
    if error is None:
        return Interval(why=_CORRELATED_WHY)
    share = good / number
    return Interval(max(share - error.below, 0.0), min(share + error.above, 1.0))


@dataclass(frozen=True, slots=True)
class Error:
    """The standard deviation of a figure, and how far its interval reaches below and above it."""

    deviation: float
    below: float
    above: float


def ratio_error(sums: Any, weights: Any, *, repeated: bool = False, skewed: bool = True) -> Error | None:
    """Return the error of the ratio of two sums over batches; None with too few batches, or as long as they are correlated.

    Args:
        sums: of each batch, in the order of time, shape (batches,).
        weights: likewise; the figure is the sum of `sums` over that of `weights`.
        repeated: whether the batches are runs of their own, which are independent.
        skewed: whether the interval allows for the skewness of the batches.
    """
    import numpy as np

    sums, weights = np.asarray(sums, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    ratio = sums.sum() / weights.sum()
    least = 2 if repeated else MIN_BATCHES
    if len(sums) < least:
        return None
    while not repeated and _lag(sums - ratio * weights) > _CORRELATED / math.sqrt(len(sums)):
        if (len(sums) + 1) // 2 < least:
            return None
        sums, weights = _pairs(sums), _pairs(weights)
    if not repeated and len(sums) >= 2 * least:  # once more, since the test lets some correlation through
        sums, weights = _pairs(sums), _pairs(weights)
    residuals = sums - ratio * weights
    num = len(residuals)
    variance = float((residuals**2).sum()) / (num - 1)
    if variance <= 0:
        return Error(0.0, 0.0, 0.0)
    deviation = math.sqrt(variance * num) / float(weights.sum())
    if not repeated:
        left = min(max(_lag(residuals) + 1 / num, 0.0), _MOST_CORRELATED)  # 1/num: the bias of the estimate
        deviation *= math.sqrt((1 + left) / (1 - left))
    quantile = student_quantile(num - 1)
    below = above = quantile
    if skewed and num > 2:
        skewness = float((residuals**3).sum()) * num / ((num - 1) * (num - 2)) / variance**1.5
        beta = skewness / (6 * math.sqrt(num))
        # with a long upper tail the mean may be further above that of the batches than below
        below, above = _willink(quantile, beta), -_willink(-quantile, beta)
    return Error(deviation, below * deviation, above * deviation)


def student_quantile(freedom: int) -> float:
    """Return the value that Student's t with `freedom` degrees of freedom is within, either way, with probability `CONFIDENCE`.

    NB: `scipy.special.stdtrit` is the same to 13 digits, but importing it takes longer than simulating thousands of requests.

    Source: Abramowitz, Stegun 1972, Handbook of Mathematical Functions, 26.7.3 and 26.7.4; Newton's method.

    >>> round(student_quantile(1), 3), round(student_quantile(10), 3)
    (12.706, 2.228)
    """
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    value, change = 2.0, 1.0
    while abs(change) > 1e-12 * value:
        density = math.exp(log_scale - (freedom + 1) / 2 * math.log1p(value * value / freedom))
        change = (CONFIDENCE - _within(value, freedom)) / (2 * density)
        value += change
    return value


def _within(value: float, freedom: int) -> float:
    """The probability that Student's t is between minus a value and that value."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for power in range(3 if odd else 2, freedom, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


def _willink(value: float, beta: float) -> float:
    """A quantile of Student's t adjusted for skewness.

    Source: Willink 2005, A confidence interval and test for the mean of an asymmetric distribution, Communications in
    Statistics 34(4).
    """
    if abs(beta) < 1e-6:
        return value
    inner = 1 + 6 * beta * (value - beta)
    return (math.copysign(abs(inner) ** (1 / 3), inner) - 1) / (2 * beta)


def _pairs(values: Array) -> Array:
    import numpy as np

    even = np.append(values, 0.0) if len(values) % 2 else values
    return np.asarray(even[0::2] + even[1::2])


def _lag(residuals: Array) -> float:
    """The correlation of neighbours."""
    squares = float((residuals**2).sum())
    return float((residuals[:-1] * residuals[1:]).sum()) / squares if squares else 0.0


# The warm-up


def mser(means: Array) -> int | None:
    """Return how many of the first values to leave out, so that the standard error of the mean of the others is least.

    Args:
        means: of groups of requests in the order of arrival, shape (groups,).

    Returns:
        At most half of the groups; None where leaving out more would still lower the error: there is no steady state.

    >>> import numpy as np
    >>> mser(np.array([9.0, 5.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]))
    2
    """
    import numpy as np

    num = len(means)
    left = np.arange(num, 0, -1.0)
    centred = means - means.mean()  # for the digits
    sums, squares = (np.cumsum(values[::-1])[::-1] for values in (centred, centred**2))
    errors = np.maximum(squares - sums**2 / left, 0.0) / left**2
    half = num // 2
    place = int(np.argmin(errors[: half + 1]))
    return None if place == half and half else place


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How many requests at the beginning of each run are not counted, how that was found, and why.

    Args:
        requests: of each run.
        method: "mser-5", "given", "workload" (it states its own), "default" (a share of each of several short runs) or "none".
        why: a sentence.
    """

    requests: int = 0
    method: str = "none"
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"requests": self.requests, "method": self.method, "why": self.why}


def initial_requests(latencies: Mapping[str, tuple[Array, Array]], size: int) -> tuple[int, str]:
    """Return the number of requests before the steady state, and why, by MSER-5 on each latency; the larger counts.

    A server is empty when a run begins, so that its first requests are quicker than the others. Where those that would be left
    out are slower, it is by chance, and nothing is.

    Args:
        latencies: by name, sums in seconds and numbers of requests of groups in the order of arrival.
        size: requests per group.
    """
    cut, which = 0, ""
    for name, (sums, counts) in latencies.items():
        full = counts > 0
        means = sums[full] / counts[full]
        groups = mser(means)
        if groups is None:
            return (
                0,
                f"{name.upper()} still changes in the second half of the run (MSER-5): no steady state, nothing is left out",
            )
        if groups and means[:groups].mean() < means[groups:].mean() and groups * size > cut:
            cut, which = groups * size, name.upper()
    if not cut:
        return 0, "the first requests are not quicker than the others (MSER-5)"
    return cut, f"the server was empty at first, and {which} is steady after them (MSER-5)"
