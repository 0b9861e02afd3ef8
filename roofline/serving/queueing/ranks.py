"""Data-parallel ranks that step together: how much longer the fullest rank makes a step.

With x_i units of prompts on rank i (1: the mean prompt) a step is longer by a max_i x_i + b sum_i x_i (`replica.py`), and
w_R = a + R b is a prompt on each rank. Prompts come to each rank at a rate lambda, mu of them in a step or cycle.

* Ranks **in step** (equal lengths in a closed loop) have equally many: a rank is a replica of its own with prompts of w_R.
* K prompts that are **dealt in turn** are ceil(K/R) on the fullest rank. If their lengths have a squared coefficient of
  variation v, taken as gamma-distributed, the work of q prompts has the distribution G(q/v), and the fullest of the ranks,
  r = K mod R of which have one more than q, has M_K = int 1 - G((q+1)/v)^r G(q/v)^(R - r).
* Ranks that take a prompt **whenever a slot of their own is free** have independent Poisson numbers: M = int 1 - F^R, F the
  distribution of a Poisson sum of lengths.
* Prompts that are **held** until every rank can start one, at most N steps (`HOLD_STEPS`), come in rounds that begin at most
  T = N d + a + b R lambda T apart, with m = lambda T on each rank: in step if m >= 1, else a round has m R prompts. A
  whole round is as long as the longest of R prompts.

**Cycles.** Prompts that arrive during a cycle are computed in the next: C(K) = d + a M_K + b K, and then as many as K' ~
Poisson(R lambda C(K)): a Markov chain on K, whose stationary distribution is computed on a grid of K (exact up to some number,
then geometric; numbers between are divided over two points, so that means are kept). Rare prompts stop all ranks one by one,
M_1 = 1; near saturation cycles are long, M_K -> K/R, and ranks are in step: both are in the chain. A prompt arrives in a cycle
of length C with probability C/E[C], waits for half of it, and then for the whole next one, C(K' + 1).

Source: derived here; gated service: Takagi 1991, Queueing Analysis 1, chapter 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

_ROUNDS = 12  # rounds of prompts up to which M_K is computed; beyond, its excess grows as a root
_EXACT, _NODES = 24, 56  # numbers of prompts that have a state each; states
_POINTS = 240  # at which distributions of work are integrated


def _integral(values: Array, x: Array) -> Array:
    """The integral of each row by the trapezoidal rule, which NumPy 1 and 2 have under different names."""
    area: Array = ((values[..., 1:] + values[..., :-1]) / 2 * (x[..., 1:] - x[..., :-1])).sum(axis=-1)
    return area


@cache
def _fullest_table(ranks: int, variance: float) -> Array:
    """M_K for K = 0, 1, ... prompts that are dealt in turn."""
    import numpy as np
    from scipy.special import gammainc

    counts = np.arange(_ROUNDS * ranks + 1)
    if not variance:
        return np.asarray(np.ceil(counts / ranks))
    each, more = np.divmod(counts, ranks)
    top = each + 1 + 8 * np.sqrt((each + 1) * variance) + 8 * variance
    x = top[:, None] * np.linspace(0, 1, _POINTS)
    full = gammainc((each[:, None] + 1) / variance, x / variance)
    less = np.where(each[:, None] > 0, gammainc(each[:, None] / variance, x / variance), 1.0)
    within = full ** more[:, None] * less ** (ranks - more)[:, None]
    return _integral(1 - within, x)


def fullest_rank(prompts: ArrayLike, ranks: int, variance: float) -> Array:
    """M_K: work of the fullest of the ranks when prompts are dealt in turn, in mean prompts.

    Args:
        prompts: K, their number; an array, need not be whole.
        ranks: R, data-parallel ranks.
        variance: squared coefficient of variation of their lengths.

    >>> [float(fullest_rank(count, 4, 0.0)) for count in (0, 1, 4, 5)]
    [0.0, 1.0, 1.0, 2.0]
    """
    import numpy as np

    prompts = np.asarray(prompts)
    table = _fullest_table(ranks, round(variance, 3))
    last = len(table) - 1
    inside = np.interp(prompts, np.arange(len(table)), table)
    # beyond: a root of the number, or half a round if lengths are equal
    half = (ranks - 1) / (2 * ranks)
    excess = (table[-1] - last / ranks) * np.sqrt(prompts / last) if variance else half
    return np.asarray(np.where(prompts <= last, inside, prompts / ranks + excess))


def excess_rounds(mean: ArrayLike, ranks: int, variance: float, *, in_turn: bool) -> Array:
    """E[max_i x_i] - mu: work that the fullest of R ranks has more in a step than the mean rank, in mean prompts.

    Args:
        mean: mu, mean number of prompts of a rank in a step; an array.
        ranks: R, which step together.
        variance: squared coefficient of variation of the lengths of prompts.
        in_turn: prompts are dealt to the ranks in turn; else each rank takes one whenever a slot of its own is free.

    >>> round(float(excess_rounds(0.001, 4, 0.0, in_turn=True)) / 0.001, 2)  # rare prompts: R - 1
    3.0
    >>> round(float(excess_rounds(5.0, 4, 0.0, in_turn=True)), 3)  # frequent ones: (R - 1)/2R
    0.375
    """
    import numpy as np

    mean = np.asarray(mean)
    logs, excess = _excess_table(ranks, round(variance, 3), in_turn)
    first, last = np.exp(logs[0]), np.exp(logs[-1])
    inside = np.exp(np.interp(np.log(np.maximum(mean, 1e-300)), logs, np.log(excess)))
    power = 0.0 if in_turn and not variance else 0.5
    return np.asarray(inside * np.minimum(mean / first, 1) * np.maximum(mean / last, 1) ** power)


@cache
def _excess_table(ranks: int, variance: float, in_turn: bool) -> tuple[Array, Array]:
    """Logarithms of means, and the excess at each."""
    import numpy as np
    from scipy.special import gammainc, gammaln, pdtrc

    means = np.geomspace(1e-3, 10, 48)
    counts = 1 + np.arange(40 * (ranks if in_turn else 1))
    arriving = means * ranks if in_turn else means
    chance = np.exp(counts * np.log(arriving)[:, None] - arriving[:, None] - gammaln(counts + 1))
    if in_turn:
        work = (chance * fullest_rank(counts, ranks, variance)).sum(axis=1)
    elif not variance:
        work = (1 - (1 - pdtrc(counts - 1, means[:, None])) ** ranks).sum(axis=1)
    else:
        x = np.linspace(0, 1, 4 * _POINTS) ** 2 * (40 + 40 * variance)
        none = np.exp(-means)[:, None]
        share = none + chance @ gammainc(counts[:, None] / variance, x / variance)
        work = _integral(1 - share**ranks, x)
    return np.log(means), np.maximum(work - means, 1e-12)


@dataclass(frozen=True, slots=True)
class RankCycles:
    """Cycles of ranks that step together, arrays over rates, (rates,).

    Args:
        mean: E[C], s.
        square: E[C^2], s^2.
        cube: E[C^3], s^3.
        residual: mean seconds of the cycle that runs when a prompt arrives, from then on.
        next: mean seconds of the cycle that computes a prompt.
        wait_square: E[(residual + next - alone)^2], s^2, with the seconds of a step with that prompt alone.
    """

    mean: Array
    square: Array
    cube: Array
    residual: Array
    next: Array
    wait_square: Array


def rank_cycles(rate: Array, step: Array, first: Array, shared: Array, ranks: int, variance: float) -> RankCycles:
    """The stationary cycles of ranks to which prompts are dealt in turn, by the Markov chain of the module's docstring.

    Args:
        rate: lambda, requests/s of a rank, (rates,).
        step: d, seconds of a step without prompts, (rates,).
        first: a, seconds that the fullest rank decides of a mean prompt, (rates,).
        shared: b, seconds of a mean prompt that all ranks share, (rates,).
        ranks: R.
        variance: squared coefficient of variation of the lengths of prompts.
    """
    import numpy as np
    from scipy.special import pdtr

    arrivals = rate * ranks
    free = np.maximum(1 - rate * (first + ranks * shared), 1e-3)
    mean = arrivals * (step + first * (1 + np.sqrt(variance))) / free
    exact = min(2 * ranks, _EXACT)
    top = np.maximum(6 * mean + 8 * np.sqrt(mean), 4 * exact)
    ratio = np.linspace(0, 1, _NODES - exact)[1:]
    nodes = np.concatenate(
        [np.broadcast_to(np.arange(exact + 1.0), (len(rate), exact + 1)), exact * (top[:, None] / exact) ** ratio], axis=1
    )
    column = (slice(None), None)

    def seconds(prompts: Array) -> Any:
        return step[column] + first[column] * fullest_rank(prompts, ranks, variance) + shared[column] * prompts

    cycle = seconds(nodes)
    following = (arrivals[column] * cycle)[:, :, None]
    upper = np.ceil(nodes)[:, None, :]
    below, below_less = (np.where(upper > less, pdtr(upper - 1 - less, following), 0.0) for less in (0, 1))
    mass, part = np.diff(below), following * np.diff(below_less)
    right = (part - nodes[:, None, :-1] * mass) / np.diff(nodes)[:, None, :]
    moves = np.zeros((len(rate), _NODES, _NODES))
    moves[:, :, :-1] += mass - right
    moves[:, :, 1:] += right
    moves[:, :, -1] += 1 - below[:, :, -1]
    equations = np.swapaxes(moves, 1, 2) - np.eye(_NODES)
    equations[:, -1, :] = 1.0
    known = np.zeros((len(rate), _NODES, 1))
    known[:, -1] = 1.0
    chance = np.linalg.solve(equations, known)[:, :, 0]
    mean_s, square, cube = ((chance * cycle**power).sum(axis=1) for power in (1, 2, 3))
    met = chance * cycle / mean_s[column]
    alone = (step + first + shared)[column]
    with_own = seconds(nodes + 1)
    more = np.einsum("rij,rj->ri", moves, with_own - alone)
    squared = np.einsum("rij,rj->ri", moves, (with_own - alone) ** 2)
    return RankCycles(
        mean=mean_s,
        square=square,
        cube=cube,
        residual=(met * cycle).sum(axis=1) / 2,
        next=(met * (more + alone)).sum(axis=1),
        wait_square=(met * (cycle**2 / 3 + cycle * more + squared)).sum(axis=1),
    )
