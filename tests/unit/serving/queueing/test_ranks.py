"""Ranks that step together: their closed forms against drawn prompts and simulated cycles."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.serving.queueing.ranks import _fullest_table, excess_rounds, fullest_rank, rank_cycles

RANKS = 8


def drawn(rng: np.random.Generator, counts: np.ndarray, variance: float) -> np.ndarray:
    """Work of some numbers of prompts: of length 1, or gamma-distributed with mean 1."""
    return np.where(counts > 0, rng.gamma(np.maximum(counts, 1) / variance, variance), 0.0) if variance else counts * 1.0


@pytest.mark.parametrize("variance", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("count", [1, 3, 8, 11, 40, 300])
def test_the_fullest_rank_by_drawing(count: int, variance: float) -> None:
    """K prompts dealt in turn: the mean of the largest sum over 100,000 draws."""
    rng = np.random.default_rng(count)
    dealt = np.broadcast_to(count // RANKS + (np.arange(RANKS) < count % RANKS), (100_000, RANKS))
    expected = drawn(rng, dealt, variance).max(axis=1).mean()
    assert fullest_rank(count, RANKS, variance) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("variance", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("mean", [0.02, 0.3, 2.0, 20.0])
def test_the_excess_of_the_fullest_rank_by_drawing(mean: float, variance: float) -> None:
    """E[max x_i] - mean over 200,000 steps: prompts dealt in turn, and Poisson numbers on each rank."""
    rng = np.random.default_rng(11)
    numbers = rng.poisson(mean, (200_000, RANKS))
    free = drawn(rng, numbers, variance).max(axis=1).mean() - mean
    each, more = np.divmod(numbers.sum(axis=1), RANKS)
    dealt = each[:, None] + (np.arange(RANKS) < more[:, None])
    turn = drawn(rng, dealt, variance).max(axis=1).mean() - mean
    assert excess_rounds(mean, RANKS, variance, in_turn=False) == pytest.approx(free, rel=0.04)
    assert excess_rounds(mean, RANKS, variance, in_turn=True) == pytest.approx(turn, rel=0.05, abs=0.01)


def simulated(arrivals: float, step: float, first: float, shared: float, variance: float) -> np.ndarray:
    """Cycles of 500 servers, 600 of each after a hundred: seconds, how many prompts arrive in it, and seconds of the next.

    A cycle depends on the one before by at most its load, so that after a hundred nothing is left of the first.
    """
    rng = np.random.default_rng(2)
    cycle = np.full(500, step)
    cycles = []
    for _ in range(700):
        count = rng.poisson(arrivals * cycle)
        each, more = np.divmod(count, RANKS)
        work = drawn(rng, each[:, None] + (np.arange(RANKS) < more[:, None]), variance)
        following = step + first * work.max(axis=1) + shared * work.sum(axis=1)
        cycles.append((cycle, count, following))
        cycle = following
    return np.concatenate(cycles[100:], axis=1)


@pytest.mark.parametrize(("variance", "allowed"), [(0.0, 0.05), (0.25, 0.15)])
@pytest.mark.parametrize("load", [0.1, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("first", [0.03, 0.3])
def test_cycles_by_simulation(first: float, load: float, variance: float, allowed: float) -> None:
    """C' = d + a max x_i + b K: mean cycle, and means of what a prompt waits for, against 300,000 cycles.

    Near saturation cycles are long and ranks in step: a round costs w_R = a + R b of all, not R (a + b).
    """
    step, shared = 0.03, first / 10
    rate = load / (first + RANKS * shared)
    cycle, count, following = simulated(RANKS * rate, step, first, shared, variance)
    computed = rank_cycles(*(np.array([value]) for value in (rate, step, first, shared)), RANKS, variance)
    assert computed.mean[0] == pytest.approx(cycle.mean(), rel=allowed)
    assert computed.residual[0] == pytest.approx((cycle * count).sum() / count.sum() / 2, rel=allowed + 0.08)
    assert computed.next[0] == pytest.approx((following * count).sum() / count.sum(), rel=allowed)


def test_excess_beyond_the_table_grows_as_a_root() -> None:
    """Sums of four times as many prompts of unequal lengths differ by twice as much; the table's last entry is its own."""
    table = _fullest_table(RANKS, 0.25)
    last = len(table) - 1
    assert float(fullest_rank(last, RANKS, 0.25)) == table[-1]
    one, four = (float(fullest_rank(count, RANKS, 0.25)) - count / RANKS for count in (last, 4 * last))
    assert four == pytest.approx(2 * one, rel=1e-9)


def test_the_excess_of_unequal_prompts_that_are_not_dealt() -> None:
    """Rare prompts come alone: the fullest rank has all of one, and the mean rank an R-th: R - 1 more, in mean prompts."""
    assert float(excess_rounds(1e-3, RANKS, 0.25, in_turn=False)) / 1e-3 == pytest.approx(RANKS - 1, rel=0.01)
