"""Time between the later tokens of a request: part 4 of the derivation in `steady.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.serving.queueing import tails
from roofline.serving.queueing.crowd import Crowd
from roofline.serving.queueing.cycles import Cycles, Work
from roofline.serving.queueing.first_token import FirstToken
from roofline.serving.queueing.server import BatchServer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


_RARE = 0.999


def work_behind(server: BatchServer, work: Work, first: FirstToken, cycle: Cycles) -> list[Array]:
    """Seconds of prompts, beyond the mean, that the steps of each answer do: those that arrived while its own prompt waited.

    What is left behind decays as rho^j, so that m steps do behind x (1 - rho^m)/(1 - rho), and no more than they have room for.
    """
    import numpy as np

    rho = work.rho[:, None]
    behind = np.maximum(work.rho * (first.own_mean + first.others + first.queue - cycle.mean), 0)[:, None]
    free = np.maximum(first.cap - work.rho * cycle.mean, 1e-12)[:, None]
    found = []
    for demand in server.demands:
        steps = np.maximum(demand.answer_steps, 1.0)
        whole = behind * (1 - rho**steps) / (1 - rho)
        found.append(whole / (1 + whole / (steps * free)))
    return found


def later_tokens(
    server: BatchServer, work: Work, crowd: Crowd, cycle: Cycles, first: FirstToken, extra: list[Array], stretch: Array
) -> tuple[tails.Within, ...]:
    """Of each class: the distribution of TPOT over its requests, (rates, K2)."""
    import numpy as np

    arriving = work.rate * server.mean_steps
    # Little's law: of all tokens, the mean time to the next is running / arriving
    token = np.where(arriving > 0, crowd.running / np.maximum(arriving, 1e-300), cycle.mean)
    base = token / stretch
    numbers = np.arange(server.seats + 1)
    met = crowd.chances * numbers
    met = met / np.maximum(met.sum(axis=1, keepdims=True), 1e-300)
    took = crowd.steps * (base / np.maximum(crowd.step, 1e-300))[:, None]
    wander = np.maximum((met * took**2).sum(axis=1) - (met * took).sum(axis=1) ** 2, 0)[:, None]
    shortest = server.decode_s[0]
    at_mean = np.interp(np.maximum(crowd.running, 1), numbers[1:], server.decode_s)
    # with the most of prompts, or with as many sequences as one step in a thousand has, whichever is longer
    crowded = crowd.steps[np.argmax(np.cumsum(met, axis=1) >= _RARE, axis=1)]
    longest = np.maximum(np.maximum(at_mean + first.cap, crowded), shortest * (1 + 1e-9))[:, None]
    found = []
    for demand, more in zip(server.demands, extra, strict=True):
        steps = np.maximum(demand.answer_steps, 1.0)
        mean = base[:, None] + more / steps
        variance = wander * averaged(steps / max(server.mean_steps, 1e-9))
        variance = variance + of_cycles(cycle.from_prompts, work.rho, steps)
        low, high = np.minimum(shortest, mean * (1 - 1e-9)), np.maximum(longest, mean * (1 + 1e-9))
        found.append(tails.Within(mean, variance, low, high))
    return tuple(found)


def averaged(life: Array) -> Array:
    """Of the variance of what wanders: the share that is left in its mean over a life, both in mean lives.

    With correlation exp(-t) over a time x: 2 (x - 1 + exp(-x)) / x^2.

    >>> [round(float(averaged(x)), 3) for x in (0.01, 1.0, 10.0)]  # short: all of it; long: about 2/x
    [0.997, 0.736, 0.18]
    """
    import numpy as np

    return np.asarray(2 * (np.expm1(-life) + life) / life**2)


def of_cycles(variance: Array, rho: Array, steps: Array) -> Array:
    """Variance of the mean of m cycles that correlate as rho^j.

    var/m ((1 + rho)/(1 - rho) - 2 rho (1 - rho^m)/(m (1 - rho)^2))

    >>> import numpy as np
    >>> float(of_cycles(np.array([1.0]), np.array([0.5]), np.array([2.0]))[0, 0])  # (1 + 0.5)/2: two of them
    0.75
    """
    import numpy as np

    rho = rho[:, None]
    apart = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**steps) / (steps * (1 - rho) ** 2)
    return np.asarray(variance[:, None] / steps * apart)
