"""Two rates of a device, fitted on the first requests of a run: of its matrix units and of its memory.

They replace the datasheet's peak and bandwidth in bounds and estimates, so kernels keep the shares of them that were measured
elsewhere, and their launches, waits and links stay as they are. They are not achieved rates: with the fitted constants a step
takes as long as was measured, whatever the reason.

All requests are served, since those that come later take slots, blocks and steps from the first; only the first are compared.
The fit minimizes the mean square of the logarithms of simulated over measured TTFT, TPOT and E2E, with equal weights (Nelder
and Mead 1965, The Computer Journal 7(4), on the logarithms of the two constants, twice).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.audit.replay.result import NAMES, Latencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_STEP = 0.3  # of a logarithm, at first; then a third of it around the first optimum
_TOLERANCE = 3e-3  # of a logarithm
_MAX_SERVINGS = 100
_MIN_SECONDS = 1e-6
_FARTHEST = math.log(20)


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Compute rate of the matrix units in FLOP/s, whatever the dtype, and bandwidth of device memory in byte/s."""

    peak_flops: float
    bandwidth: float


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


def fit_rates(serve: Callable[[DeviceRates], Latencies], measured: Latencies, start: DeviceRates) -> FitResult:
    """Fit the rates of a device so that simulated latencies come nearest to the measured ones.

    Args:
        serve: simulates the run on a device with these rates; returns the latencies of the requests of the fit.
        measured: latencies of the same requests.
        start: rates at which the search begins; it stays within a factor of 20 of them.
    """
    import numpy as np
    from scipy.optimize import minimize

    distances: dict[tuple[float, float], float] = {}

    def objective(point: Array) -> float:
        at = (float(point[0]), float(point[1]))
        if max(map(abs, at)) > _FARTHEST:
            return math.inf
        if at not in distances:
            distances[at] = mean_squared_log_ratio(serve(_scaled(start, at)), measured)
        return distances[at]

    best = np.zeros(2)
    for step in (_STEP, _STEP / 3):
        corners = best + step * np.array([(0, 0), (1, 0), (0, 1)])
        options = {"initial_simplex": corners, "xatol": _TOLERANCE, "fatol": 1e-5, "maxfev": _MAX_SERVINGS // 2}
        best = minimize(objective, best, method="Nelder-Mead", options=options).x
    return FitResult(_scaled(start, (float(best[0]), float(best[1]))), math.sqrt(objective(best)), len(distances))


def _scaled(start: DeviceRates, at: tuple[float, float]) -> DeviceRates:
    return DeviceRates(start.peak_flops * math.exp(at[0]), start.bandwidth * math.exp(at[1]))


def mean_squared_log_ratio(simulated: Latencies, measured: Latencies) -> float:
    """Mean square of ln(simulated/measured), averaged over TTFT, TPOT and E2E with equal weights.

    NaN values are left out; times are taken as 1 microsecond at least.
    """
    import numpy as np

    squares = []
    for name in NAMES:
        pair = [np.maximum(getattr(one, name), _MIN_SECONDS) for one in (simulated, measured)]
        ratios = np.log(pair[0] / pair[1])
        ratios = ratios[~np.isnan(ratios)]
        if len(ratios):
            squares.append(float(np.mean(ratios**2)))
    return math.fsum(squares) / len(squares)
