"""Two constants of a card, fitted on the first requests of a run: the rates of its matrix units and of its memory.

They stand where the datasheet's peak and bandwidth do in bounds and estimates, so that kernels keep the shares of them that
were measured elsewhere, and their launches, waits and links stay as they are. So they are no achieved rates: with the ones
found a step takes as long as it was seen to, whatever kept it from the datasheet's.

All requests are served, as those that come later take seats, blocks and steps from the first; only the first are looked at.
Sought is the least mean square of the logarithms of simulated over measured TTFT, TPOT and E2E, each as heavy as the others
(Nelder and Mead 1965, The Computer Journal 7(4), on the logarithms of the two, twice).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.audit.replay.times import NAMES, Times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_STEP = 0.3  # of a logarithm, at first; then a third of it about what was found
_NEAR = 3e-3  # of a logarithm
_MOST = 100  # servings
_LEAST_SECONDS = 1e-6
_FARTHEST = math.log(20)


@dataclass(frozen=True, slots=True)
class Card:
    """FLOP/s of the matrix units, whatever they multiply, and bytes/s of the device's memory."""

    peak_flops: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was found: the card, how far off it leaves the requests that were looked at, and how often they were served."""

    card: Card
    error: float
    """Root of the mean square of the logarithms."""
    servings: int


def fit(serve: Callable[[Card], Times], measured: Times, start: Card) -> Fitted:
    """The card with which serving comes nearest to what was measured of the first requests.

    Args:
        serve: latencies of those requests on a card.
        measured: the same as they were measured.
        start: where the search begins.
    """
    import numpy as np
    from scipy.optimize import minimize

    found: dict[tuple[float, float], float] = {}

    def off(point: Array) -> float:
        at = (float(point[0]), float(point[1]))
        if max(map(abs, at)) > _FARTHEST:
            return math.inf
        if at not in found:
            found[at] = distance(serve(_card(start, at)), measured)
        return found[at]

    best = np.zeros(2)
    for step in (_STEP, _STEP / 3):
        corners = best + step * np.array([(0, 0), (1, 0), (0, 1)])
        options = {"initial_simplex": corners, "xatol": _NEAR, "fatol": 1e-5, "maxfev": _MOST // 2}
        best = minimize(off, best, method="Nelder-Mead", options=options).x
    return Fitted(_card(start, (float(best[0]), float(best[1]))), math.sqrt(off(best)), len(found))


def _card(start: Card, at: tuple[float, float]) -> Card:
    return Card(start.peak_flops * math.exp(at[0]), start.bandwidth * math.exp(at[1]))


def distance(simulated: Times, measured: Times) -> float:
    """Mean square of the logarithms of the ratios of all three latencies."""
    import numpy as np

    squares = []
    for name in NAMES:
        pair = [np.maximum(getattr(one, name), _LEAST_SECONDS) for one in (simulated, measured)]
        ratios = np.log(pair[0] / pair[1])
        ratios = ratios[~np.isnan(ratios)]
        if len(ratios):
            squares.append(float(np.mean(ratios**2)))
    return math.fsum(squares) / len(squares)
