"""Expected tokens of a round, and from which acceptance on it pays."""

from __future__ import annotations

import random

import pytest

from roofline.predict.speculation import accepted_share, break_even, tokens_per_round


@pytest.mark.parametrize("drafted", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("acceptance", [0.0, 1e-6, 0.3, 0.8, 0.999999, 1.0])
def test_tokens_are_a_geometric_sum(acceptance: float, drafted: int) -> None:
    """1 + a + ... + a^K: one token always, the k-th of the draft if it and all before it are accepted."""
    assert tokens_per_round(acceptance, drafted) == pytest.approx(sum(acceptance**k for k in range(drafted + 1)), rel=1e-9)


def test_tokens_are_what_chance_gives() -> None:
    """The mean over rounds that are played: tokens are accepted one after another until one is not."""
    chance, rounds = random.Random(7), 200_000  # noqa: S311 - no secret
    given = 0
    for _ in range(rounds):
        accepted = 0
        while accepted < 4 and chance.random() < 0.7:
            accepted += 1
        given += accepted + 1
    assert tokens_per_round(0.7, 4) == pytest.approx(given / rounds, rel=0.01)


def test_share_is_less_than_the_acceptance() -> None:
    """Of three drafted at 0.5 each, 0.5 + 0.25 + 0.125 are accepted."""
    assert accepted_share(0.5, 3) == pytest.approx(0.875 / 3)
    assert accepted_share(0.9, 1) == pytest.approx(0.9)
    assert accepted_share(0.9, 0) is None


@pytest.mark.parametrize("acceptance", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("drafted", [1, 4, 9])
def test_break_even_turns_the_tokens_round(acceptance: float, drafted: int) -> None:
    """A round that takes as many steps as it gives tokens is even at that acceptance."""
    assert break_even(tokens_per_round(acceptance, drafted), drafted) == pytest.approx(acceptance, abs=1e-9)


def test_break_even_at_the_ends() -> None:
    """A round of one step pays always; one of more steps than it can give tokens never does."""
    assert break_even(1.0, 4) == 0
    assert break_even(0.9, 4) == 0
    assert break_even(5.0, 4) == pytest.approx(1)
    assert break_even(5.01, 4) is None
