"""Rates of the devices of one run, fitted on its first requests: of the matrix units, of the memory and, where devices share
layers, of the link.

They replace the datasheet's peak and bandwidth in bounds and estimates, and the bandwidth of all-reduces in estimates, so
kernels keep the shares that were measured elsewhere, and their launches and waits stay as they are. They are not achieved
rates: with the fitted constants a step takes as long as was measured, whatever the reason. So they belong to the run, its model
and its tensor-parallel size.

All requests are served, since those that come later take slots, blocks and steps from the first; only the first are compared.
The fit minimizes the mean square of the logarithms of simulated over measured TTFT, TPOT and E2E, with equal weights (Nelder
and Mead 1965, The Computer Journal 7(4), on the logarithms of the constants, twice).

Whether requests determine the rate of the link is read from a profile: the other constants fitted at several given rates of it.
A step's compute and its all-reduces both grow with its tokens, so that the one can stand for the other. Blocks of requests are
drawn again (Kuensch 1989, The Annals of Statistics 17(3): neighbours share steps, and their errors), and of each draw the rate
with the least error is taken. The interval says how well the requests tell, not whether the simulator is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.audit.replay.result import NAMES, Latencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_STEP = 0.3  # of a logarithm, at first; then a third of it around the first optimum
_TOLERANCE = 3e-3  # of a logarithm
_MAX_SERVINGS = 50  # per constant
_MIN_SECONDS = 1e-6
_FARTHEST = math.log(20)
_SLOWEST = 40
"""The stated rate of the link over the lowest in a profile, at most: devices without access to each other are that slow."""
_DRAWS, _SEED = 400, 1
MAX_FACTOR = 8.0
"""Factor between the ends of an 80 % interval up to which the link counts as determined by the run; the profile's resolution is
a factor of 2 at each end."""


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates of a device.

    Attributes:
        peak_flops: of the matrix units in FLOP/s, whatever the dtype.
        bandwidth: of device memory in byte/s.
        allreduce_bandwidth: bytes that a device sends in a collective over its time beyond the latency, in byte/s; None: as the
            estimate has it.
    """

    peak_flops: float
    bandwidth: float
    allreduce_bandwidth: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The rates that are not None."""
        return tuple(name for name in ("peak_flops", "bandwidth", "allreduce_bandwidth") if getattr(self, name) is not None)

    def options(self) -> dict[str, float]:
        """Return the rates as options of `roofline analyze`."""
        return {name: getattr(self, name) for name in self.names}


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a fit.

    Attributes:
        rates: the fitted rates.
        error: root mean square of ln(simulated/measured), on the requests of the fit.
        servings: number of times that the run was simulated.
    """

    rates: DeviceRates
    error: float
    servings: int


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """Fits of the other rates at given rates of the link.

    Attributes:
        fits: one per rate of the link, in increasing order.
        low: lower end of the 80 % interval of the rate with the least error, byte/s; the lowest of the profile if it is beyond.
        high: upper end, likewise.
    """

    fits: tuple[FitResult, ...]
    low: float
    high: float

    @property
    def determined(self) -> bool:
        """Whether the least error lies inside the profile, and the interval too, with ends within a factor of 8."""
        highest = self.fits[-1].rates.allreduce_bandwidth or 0.0
        return self.fits[0].error > self.best.error and self.high < highest and self.high <= MAX_FACTOR * self.low

    @property
    def interval(self) -> str:
        """The interval as text; an end beyond the profile is left open."""
        lowest, highest = (self.fits[end].rates.allreduce_bandwidth or 0.0 for end in (0, -1))
        low, high = (formatting.quantity(end, "B/s", 2) for end in (self.low, self.high))
        if self.low <= lowest:
            return "anything" if self.high >= highest else f"{high} or less"
        return f"{low} or more" if self.high >= highest else f"{low} to {high}"

    @property
    def best(self) -> FitResult:
        """The fit with the least error."""
        return min(self.fits, key=lambda fit: fit.error)


def fit_rates(serve: Callable[[DeviceRates], Latencies], measured: Latencies, start: DeviceRates) -> FitResult:
    """Fit the rates of a device so that simulated latencies come nearest to the measured ones.

    Args:
        serve: simulates the run on a device with these rates; returns the latencies of the requests of the fit.
        measured: latencies of the same requests.
        start: rates at which the search begins; it stays within a factor of 20 of them. Rates that are None are not fitted.
    """
    return _fit(serve, measured, start, start.names)[0]


def profile_link(serve: Callable[[DeviceRates], Latencies], measured: Latencies, start: DeviceRates) -> LinkProfile:
    """Fit compute rate and bandwidth at rates of the link from a quarter to four times the one of `start`, each twice the one
    before, and at lower ones as long as the error falls.

    Args:
        serve: as in `fit_rates`.
        measured: likewise.
        start: rates at which the search begins, the stated rate of the link (`allreduce_bandwidth`) among them.
    """
    import numpy as np

    assert start.allreduce_bandwidth is not None  # noqa: S101 - narrows the type
    stated = start.allreduce_bandwidth
    fits: dict[float, FitResult] = {}
    residuals: dict[float, list[Array]] = {}

    def add(rate: float) -> None:
        known = min(fits, key=lambda other: abs(math.log(other / rate)), default=None)
        near = replace(start if known is None else fits[known].rates, allreduce_bandwidth=rate)
        fits[rate], seen = _fit(serve, measured, near, ("peak_flops", "bandwidth"))
        residuals[rate] = list(seen.values())

    for steps in (0, 1, 2, -1, -2):
        add(stated * 2.0**steps)
    while fits[min(fits)].error == min(fit.error for fit in fits.values()) and min(fits) > stated / _SLOWEST:
        add(min(fits) / 2)
    rates = sorted(fits)
    squares = [np.array([_squares_by_request(one) for one in residuals[rate]]) for rate in rates]  # [fit, request] of each rate
    num_requests = squares[0].shape[1]
    block = max(round(num_requests**0.5), 1)
    random = np.random.default_rng(_SEED)
    places = []
    for _ in range(_DRAWS):
        begin = random.integers(0, num_requests, -(-num_requests // block))
        drawn = np.add.outer(begin, np.arange(block)).ravel() % num_requests
        places.append(_least([float(one[:, drawn].mean(axis=1).min()) for one in squares]))
    low, high = np.quantile(places, (0.1, 0.9)).tolist()
    low, high = (
        max(low - 1, 0.0),
        min(high + 1, len(rates) - 1.0),
    )  # NB: between two rates of the profile the error is not known
    return LinkProfile(tuple(fits[rate] for rate in rates), rates[0] * 2.0**low, rates[0] * 2.0**high)


def _least(values: list[float]) -> float:
    """The place of the least of values at 0, 1, 2, ..., by the parabola through its neighbours; an end has none beyond."""
    place = min(range(len(values)), key=values.__getitem__)
    if place in (0, len(values) - 1):
        return float(place)
    before, here, after = values[place - 1 : place + 2]
    curvature = before - 2 * here + after
    return place + (0.5 * (before - after) / curvature if curvature > 0 else 0.0)


def _squares_by_request(ratios: Array) -> Array:
    """Each request's part of the mean square, shape (requests,): TTFT, TPOT and E2E count alike, whichever have a TPOT."""
    import numpy as np

    known = ~np.isnan(ratios)
    weights = known / np.maximum(known.mean(axis=1, keepdims=True), 1e-9)
    squares: Array = (np.where(known, ratios, 0.0) ** 2 * weights).sum(axis=0)
    return squares


def _fit(
    serve: Callable[[DeviceRates], Latencies], measured: Latencies, start: DeviceRates, names: tuple[str, ...]
) -> tuple[FitResult, dict[tuple[float, ...], Array]]:
    """The fit of the rates that are named, and ln(simulated/measured) at every point that was tried. Arguments as of
    `fit_rates`."""
    import numpy as np
    from scipy.optimize import minimize

    ratios: dict[tuple[float, ...], Array] = {}

    def scaled(at: tuple[float, ...]) -> DeviceRates:
        return replace(start, **{name: getattr(start, name) * math.exp(log) for name, log in zip(names, at, strict=True)})

    def objective(point: Array) -> float:
        at = tuple(float(value) for value in point)
        if max(map(abs, at)) > _FARTHEST:
            return math.inf
        if at not in ratios:
            ratios[at] = log_ratios(serve(scaled(at)), measured)
        return _mean_square(ratios[at])

    best = np.zeros(len(names))
    for step in (_STEP, _STEP / 3):
        corners = best + step * np.vstack([np.zeros(len(names)), np.eye(len(names))])
        most = _MAX_SERVINGS * len(names) // 2
        options = {"initial_simplex": corners, "xatol": _TOLERANCE, "fatol": 1e-5, "maxfev": most}
        best = minimize(objective, best, method="Nelder-Mead", options=options).x
    return FitResult(scaled(tuple(best.tolist())), math.sqrt(objective(best)), len(ratios)), ratios


def log_ratios(simulated: Latencies, measured: Latencies) -> Array:
    """Return ln(simulated/measured) of TTFT, TPOT and E2E, shape (3, requests); NaN where a request has no TPOT.

    Times are taken as 1 microsecond at least.
    """
    import numpy as np

    pairs = [[np.maximum(getattr(one, name), _MIN_SECONDS) for one in (simulated, measured)] for name in NAMES]
    return np.array([np.log(one / other) for one, other in pairs])


def mean_squared_log_ratio(simulated: Latencies, measured: Latencies) -> float:
    """Mean square of ln(simulated/measured), averaged over TTFT, TPOT and E2E with equal weights.

    NaN values are left out; times are taken as 1 microsecond at least.
    """
    return _mean_square(log_ratios(simulated, measured))


def _mean_square(ratios: Array) -> float:
    import numpy as np

    squares = [float(np.mean(known**2)) for row in ratios if len(known := row[~np.isnan(row)])]
    return math.fsum(squares) / len(squares)
