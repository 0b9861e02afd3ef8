"""Ranks that step together: their closed forms against drawn prompts and simulated cycles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammainc, gammaln

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


def area(values: np.ndarray, x: np.ndarray) -> float:
    return float(((values[1:] + values[:-1]) / 2 * (x[1:] - x[:-1])).sum())


def fullest_by_hand(count: int, ranks: int, variance: float) -> float:
    """M_K = int 1 - G((q + 1)/v)^r G(q/v)^(R - r), K = q R + r, G(s) being gamma-distributed with shape s and scale v."""
    each, more = divmod(count, ranks)
    if not variance or not count:
        return float(math.ceil(count / ranks))
    x = np.linspace(0, 2 * (each + 1) + 30 * math.sqrt((each + 1) * variance) + 30 * variance, 1501)
    less = gammainc(each / variance, x / variance) if each else np.ones(len(x))
    return area(1 - gammainc((each + 1) / variance, x / variance) ** more * less ** (ranks - more), x)


def poisson(mean: np.ndarray, most: int) -> np.ndarray:
    """Probabilities of 0 to `most`, for each mean."""
    counts = np.arange(most + 1)
    return np.exp(counts * np.log(mean[..., None]) - mean[..., None] - gammaln(counts + 1))


def test_the_fullest_rank_by_a_finer_integral() -> None:
    """The wider the lengths, the coarser; beyond 12 rounds equal lengths have half a round more, (R - 1)/2R."""
    for variance, allowed in ((0.0, 0.0), (0.04, 1e-9), (0.25, 1e-7), (1.0, 1e-3), (3.0, 0.03)):
        for ranks in (2, 8):
            counts = [0, 1, 2, ranks - 1, ranks, ranks + 1, 5 * ranks + ranks // 2, 12 * ranks]
            expected = [fullest_by_hand(count, ranks, variance) for count in counts]
            assert fullest_rank(counts, ranks, variance) == pytest.approx(expected, rel=allowed)
    assert fullest_rank([97, 1003.5], 8, 0.0) == pytest.approx([97 / 8 + 7 / 16, 1003.5 / 8 + 7 / 16])
    assert fullest_rank(8.25, 8, 0.0) == pytest.approx(1.25)  # between 8 and 9


def test_the_excess_by_sums() -> None:
    """E[max x_i] - mu: the sum of P(K) M_K over all prompts of a step, or int 1 - F^R; lengths that vary have Poisson sums.

    At means of the table, which are exact, and between them, which is nearly a straight line on logarithmic scales.
    """
    for ranks, variance in ((2, 0.0), (8, 0.0), (3, 0.25), (8, 1.0)):
        fullest = np.array([fullest_by_hand(count, ranks, variance) for count in range(61)])
        x = np.linspace(0, 30 + 30 * variance, 2001)
        sums = np.stack([gammainc(count / variance, x / variance) if count and variance else x * 0 + 1 for count in range(31)])
        of_table, between = [1e-3, *(1e-3 * 10 ** (4 * i / 47) for i in (9, 30, 40))], [0.1, 2.3]
        for mean in of_table + between:
            in_turn = float(poisson(np.array(mean * ranks), 60) @ fullest) - mean
            one = poisson(np.array(mean), 30)
            alone = (area(1 - (one @ sums) ** ranks, x) if variance else float((1 - np.cumsum(one) ** ranks).sum())) - mean
            allowed = 1e-3 if mean in of_table else 5e-3
            assert excess_rounds(mean, ranks, variance, in_turn=True) == pytest.approx(in_turn, rel=allowed)
            assert excess_rounds(mean, ranks, variance, in_turn=False) == pytest.approx(alone, rel=allowed)
            if not variance and mean in of_table:
                assert excess_rounds(mean, ranks, variance, in_turn=False) == pytest.approx(alone, rel=1e-9)


def test_the_excess_of_lengths_that_vary_widely() -> None:
    """Ten prompts with a squared coefficient of variation of 4 on each of 32 ranks: int 1 - F^R - mu, up to 400."""
    x, one = np.linspace(0, 400, 2001), poisson(np.array(10.0), 40)
    within = one[0] + sum(p * gammainc(count / 4, x / 4) for count, p in enumerate(one) if count)
    assert excess_rounds(10.0, 32, 4.0, in_turn=False) == pytest.approx(area(1 - within**32, x) - 10, rel=5e-4)


def test_the_excess_beyond_its_table() -> None:
    """In proportion below means of a thousandth; above 10 as a root, but not that of equal prompts that are dealt in turn."""
    for variance, in_turn, more in ((0.0, True, 1), (0.0, False, 2), (0.25, True, 2), (0.25, False, 2)):
        at = [float(excess_rounds(mean, RANKS, variance, in_turn=in_turn)) for mean in (0.0, 1e-4, 1e-3, 10.0, 40.0)]
        assert [at[0], 10 * at[1], at[4]] == pytest.approx([0, at[2], more * at[3]])
    assert excess_rounds(1.0, 1, 0.0, in_turn=True) == pytest.approx(0, abs=1e-6)  # one rank is the fullest and the mean


def chain_by_hand(rate: float, first: float, shared: float, ranks: int, variance: float, most: int) -> list[float]:
    """C(K) = d + a M_K + b K and K' ~ Poisson(R lambda C(K)) for every K up to a number: what `RankCycles` has, in its order.

    d is 30 ms. A prompt meets a cycle by its length, waits for a uniform part of it, and then for C(K' + 1) with itself.
    """
    step = 0.03
    cycle = np.array([step + first * fullest_by_hand(k, ranks, variance) + shared * k for k in range(most + 1)])
    moves = poisson(ranks * rate * cycle, most)
    chance = np.linalg.matrix_power(moves, 256)[0]
    chance = chance / chance.sum()
    mean, square, cube = (float(chance @ cycle**power) for power in (1, 2, 3))
    met, alone = chance * cycle / mean, step + first + shared
    more, squared = (moves[:, :-1] @ (cycle[1:] - alone) ** power for power in (1, 2))
    wait = met @ (cycle**2 / 3 + 2 * cycle / 2 * more + squared)
    return [mean, square, cube, square / mean / 2, float(met @ more) + alone, float(wait)]


def of_chain(rate: list[float], first: float, shared: float, ranks: int, variance: float) -> np.ndarray:
    same = np.ones(len(rate))
    computed = rank_cycles(np.array(rate), 0.03 * same, first * same, shared * same, ranks, variance)
    return np.stack([getattr(computed, name) for name in ("mean", "square", "cube", "residual", "next", "wait_square")], axis=1)


def test_cycles_by_the_whole_chain() -> None:
    """With few prompts in a cycle the grid has each number of them: then it is exact, and each rate as if alone."""
    for first, shared, ranks, variance, loads in (
        (0.3, 0.03, 2, 0.0, (0.01, 0.02)), (0.03, 0.003, 8, 0.0, (0.05, 0.1)), (0.3, 0.03, 8, 0.25, (0.1, 0.3)),
        (0.1, 0.02, 4, 0.25, (0.2,)), (0.03, 0.004, 15, 0.0, (0.2,)),
    ):  # fmt: skip
        rates = [load / (first + ranks * shared) for load in loads]
        expected = np.array([chain_by_hand(rate, first, shared, ranks, variance, 40) for rate in rates])
        assert of_chain(rates, first, shared, ranks, variance) == pytest.approx(expected, rel=1e-7)


def test_cycles_of_many_prompts_on_a_coarser_grid() -> None:
    """With 6 to 33 prompts in a cycle means are within 0.5 % and moments within 1 %, and with 30 near saturation 10 %."""
    for first, shared, ranks, variance, load, most, allowed in (
        (0.03, 0.003, 8, 0.0, 0.5, 60, 2e-3), (0.1, 0.02, 4, 0.25, 0.7, 80, 5e-3), (0.03, 0.003, 13, 0.0, 0.8, 150, 1e-2),
        (0.1, 0.02, 4, 1.0, 0.85, 160, 0.04), (0.1, 0.02, 4, 0.0, 0.95, 240, 0.1),
    ):  # fmt: skip
        rate = load / (first + ranks * shared)
        expected = chain_by_hand(rate, first, shared, ranks, variance, most)
        computed = of_chain([rate], first, shared, ranks, variance)[0]
        assert computed == pytest.approx(expected, rel=allowed)
        assert computed[0] == pytest.approx(expected[0], rel=max(allowed / 2, 1e-2 if load > 0.9 else 0))


def test_cycles_at_saturation_and_beyond_are_long_and_finite() -> None:
    """A first pass over the equations may ask for them. At the end of the grid a cycle follows one that is as long."""
    computed = of_chain([load / (0.03 + RANKS * 0.003) for load in (0.99, 1.0, 1.5)], 0.03, 0.003, RANKS, 0.25)
    assert np.all(np.isfinite(computed))
    assert np.all(computed[1:, 0] > computed[0, 0])
    assert computed[1:, 4] == pytest.approx(computed[1:, 0], rel=0.01)
