"""Steps with their prompts, one after the other: part 2 of the derivation in `steady.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Work:
    """Prompts that arrive at a rate: E[w], E[w^2], E[w^3] of the seconds that one adds, and the share rho of the time that all
    take. `factor`: rounds of prompts in steps of ranks that step together, over those of a rank alone."""

    rate: Array
    first: Array
    second: Array
    third: Array
    factor: Array
    rho: Array


@dataclass(frozen=True, slots=True)
class Cycles:
    """Mean, E[C^2] and E[C^3] of the seconds of a step with its prompts; `from_prompts`: what prompts make of the variance."""

    mean: Array
    square: Array
    cube: Array
    from_prompts: Array


def cycles(work: Work, step: Array, spread: Array, cv: float) -> Cycles:
    """The stationary moments of C' = d + (work that arrived during C), d of mean `step` and variance `spread`."""
    rho = work.rho
    mean = step / (1 - rho)
    from_prompts = work.rate * work.second * work.factor * mean / (1 - rho**2) * cv**2
    variance = from_prompts + spread / (1 - rho**2)
    skew = (work.rate * work.third * mean + 3 * work.rate * work.second * rho * variance) / (1 - rho**3)
    return Cycles(mean, variance + mean**2, skew + 3 * variance * mean + mean**3, from_prompts)


def together(arriving: Array, ranks: int) -> Array:
    """Rounds of prompts in a step of ranks that step together, over those of a rank alone.

    K prompts, Poisson with mean ranks x arriving, are dealt to the ranks: the fullest has ceil(K/ranks), of which the mean is
    sum_j P(K > j ranks).
    """
    import numpy as np

    if ranks == 1:
        return np.ones(arriving.shape)
    from scipy.special import gammainc

    mean = np.maximum(arriving, 1e-9)
    far = int(np.ceil(mean.max() + 10 * np.sqrt(mean.max() / ranks) + 2))
    rounds = sum(gammainc(j * ranks + 1, ranks * mean) for j in range(min(far, 200)))
    return np.asarray(np.maximum(rounds / mean, 1.0))
