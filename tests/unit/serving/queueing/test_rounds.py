"""Rounds of speculative decoding that are drawn: how many give a number of tokens."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

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
