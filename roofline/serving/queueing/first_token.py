"""From a seat to the first token: part 3 of the derivation in `steady.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing import tails
from roofline.serving.queueing.crowd import MOST, Crowd
from roofline.serving.queueing.cycles import Cycles, Work
from roofline.serving.queueing.server import BatchServer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds, arrays over rates."""

    own: tuple[Array, ...]
    """Of each class: the steps that compute an own prompt, (rates, K)."""
    own_mean: Array
    residual: Array
    """What is left of the step that runs."""
    others: Array
    """Prompts that are computed with the own one, or just before it."""
    queue: Array
    """Further ones, where the budget of tokens does not take all that wait."""
    cap: Array
    """The most that prompts can take of a step."""
    wait: tails.Moments
    """All but the own prompt."""


def first_token(server: BatchServer, work: Work, added: list[Array], crowd: Crowd, cycle: Cycles) -> FirstToken:
    """`added`: seconds that each prompt of each class adds to steps, (rates, K)."""
    import numpy as np

    rate, rho = work.rate, work.rho
    busy = 1 - crowd.chances[:, 0] * (1 - rho)
    left = np.maximum(server.budget - crowd.running, 1.0)
    cap = np.maximum(left * work.first / server.mean_tokens, 1e-12)
    # 1: steps are full, and those who come later are computed in later ones
    apart = np.minimum(1.0, rho * cycle.square / cycle.mean / cap)
    residual = busy * cycle.square / (2 * cycle.mean)
    others = residual * rho * (2 - apart)

    slow = [a + d.prompt_tokens * (crowd.step / left)[:, None] for d, a in zip(server.demands, added, strict=True)]
    slow1, slow2, slow3 = (server.mean(one**power for one in slow) for power in (1, 2, 3))
    rho_slow = np.minimum(rate * slow1 * work.factor, MOST)
    longer = rate * slow2 / (2 * (1 - rho_slow)) - rate * work.second / (2 * (1 - rho))
    queue = np.maximum(longer, 0) * (1 + server.cv**2) / 2
    own = tuple(
        crowd.step[:, None] * np.ceil(d.prompt_tokens / left[:, None]) + a * server.stages + d.after_s
        for d, a in zip(server.demands, added, strict=True)
    )
    # second moments: a uniform part U of a cycle C that is longer than the mean one, and the others' work, which is
    # rho C (1 - U) + rho C U (1 - apart) on average, with the variance of a Poisson number of prompts
    slope = 1 - rho * apart
    squared = rho**2 + rho * slope + slope**2 / 3
    met = busy * (cycle.cube / cycle.mean * squared + rate * work.second * (2 - apart) / 2 * cycle.square / cycle.mean)
    far = np.maximum(rate * slow3 / (3 * (1 - rho_slow)) - rate * work.third / (3 * (1 - rho)), 0)
    variance = np.maximum(met - (residual + others) ** 2, 1e-18) + queue**2 + far
    return FirstToken(own, server.mean(own), residual, others, queue, cap, tails.Moments(residual + others + queue, variance))
