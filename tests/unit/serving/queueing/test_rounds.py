"""Rounds of speculative decoding that are drawn: how many give a number of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from roofline.serving.queueing.rounds import RoundDraws, RoundLengths


def test_no_requests_have_no_rounds() -> None:
    mean, variance = RoundLengths(2, 0.5).rounds([])
    assert (mean.size, variance.size) == (0, 0)


def test_rounds_that_accept_all_or_nothing() -> None:
    """Two drafted tokens that are always accepted give 3 per round: 34 rounds for 100 tokens, 102 in all; else 1 per round."""
    assert RoundDraws(RoundLengths(2, 1.0), [1]).draw(0, 0, 100) == (34, 102)
    assert RoundDraws(RoundLengths(2, 0.0), [1]).draw(0, 0, 100) == (100, 100)


def test_draws_go_on_until_there_are_enough() -> None:
    """A first lot of 200/1.5 x 1.1 + 16 = 162 draws of which none accepts anything gives 162 of 200 tokens."""
    draws = RoundDraws(RoundLengths(1, 0.5), [1])
    unlucky = SimpleNamespace(bit_generator=SimpleNamespace(state=None), random=lambda count: np.full(count, 0.99))
    draws._generator = unlucky
    assert draws.draw(0, 0, 200) == (200, 200)


def test_moments_by_paths() -> None:
    """Three drafted tokens, accepted with 0.6: every sequence of rounds that gives at least 7 tokens, with its probability."""
    chances = (0.4, 0.24, 0.144, 0.216)  # of 1, 2, 3, 4 tokens
    lengths = RoundLengths(3, 0.6)
    assert lengths.probabilities == pytest.approx(chances)
    mean = sum(chance * tokens for tokens, chance in enumerate(chances, 1))
    assert lengths.mean == pytest.approx(mean)
    assert lengths.variance == pytest.approx(sum(chance * (tokens - mean) ** 2 for tokens, chance in enumerate(chances, 1)))

    def paths(left: int, chance: float, rounds: int) -> Iterator[tuple[float, int]]:
        if left <= 0:
            yield chance, rounds
            return
        for tokens, one in enumerate(chances, 1):
            yield from paths(left - tokens, chance * one, rounds + 1)

    numbers = [[7, 1], [0, 4]]
    means, variances = lengths.rounds(numbers)
    assert means.shape == variances.shape == (2, 2)
    for tokens, found, variance in zip(np.ravel(numbers).tolist(), means.ravel(), variances.ravel(), strict=True):
        every = list(paths(tokens, 1.0, 0))
        expected = sum(chance * rounds for chance, rounds in every)
        assert found == pytest.approx(expected)
        assert variance == pytest.approx(sum(chance * (rounds - expected) ** 2 for chance, rounds in every), abs=1e-12)


def test_rounds_beyond_those_that_are_exact_grow_evenly() -> None:
    """By renewal theory: 1/E[X] rounds per token, and Var[X]/E[X]^3; a thousand tokens before the end they do so already."""
    lengths = RoundLengths(1, 0.5)
    mean, variance = lengths.rounds([3096, 4096, 5096, 9096])
    assert np.diff(mean) == pytest.approx(np.array([1000, 1000, 4000]) / 1.5)
    assert np.diff(variance) == pytest.approx(np.array([1000, 1000, 4000]) * 0.25 / 1.5**3)
    assert lengths.rounds([5096, 1])[0][1] == 1
    always = RoundLengths(2, 1.0).rounds([4096, 4097, 4099])[0]  # 1,366 rounds of 3 give 4,096; then a third for each
    assert always == pytest.approx(1366 + np.array([0, 1, 3]) / 3, rel=1e-12)


def test_draws_of_a_request_are_its_own() -> None:
    """Random numbers from its place in the stream of the seed: drafted token j is accepted if the number is below a^j."""
    lengths, seed, acceptance = RoundLengths(3, 0.6), (5, 2), (0.6, 0.36, 0.216)
    draws = RoundDraws(lengths, seed)
    for index, position, tokens in ((3, 1, 50), (0, 7, 4), (3, 1, 50), (2, 0, 1), (70_000, 12, 333)):
        bits = np.random.Philox(np.random.SeedSequence((*seed, 0x5BEC)))
        numbers = np.random.Generator(bits.advance((position << 64) + (index << 128))).random(tokens)
        rounds, given = 0, 0
        while given < tokens:
            given += 1 + sum(numbers[rounds] < chance for chance in acceptance)
            rounds += 1
        assert draws.draw(index, position, tokens) == (rounds, given)


def test_a_variance_is_never_negative() -> None:
    """Drafted tokens that are accepted once in 10^14: hardly any variance, less than the rounding of the square of 300."""
    assert RoundLengths(2, 1e-14).rounds(range(301))[1].min() >= 0
