"""The closed form of a server with continuous batching, against one that is computed event by event (`event_server.py`)."""

from __future__ import annotations

import numpy as np
import pytest
import queueing_settings as settings
from event_server import Server, run
from queueing_settings import NAMES, UTILISATIONS

# The most that the median over settings may be off at each utilisation: what docs/capacity.md states, rounded up.
ALLOWED = {
    0.3: (0.01, 0.03, 0.01, 0.03),
    0.5: (0.02, 0.04, 0.01, 0.05),
    0.7: (0.03, 0.04, 0.02, 0.07),
    0.8: (0.06, 0.12, 0.03, 0.06),
    0.9: (0.17, 0.28, 0.03, 0.04),
}


@pytest.fixture(scope="module")
def errors() -> dict[float, np.ndarray]:
    """Relative errors of every setting at each utilisation, in the order of `NAMES`: 20 servers and loads, 100 settings."""
    return settings.errors()


@pytest.mark.parametrize("utilisation", UTILISATIONS)
@pytest.mark.night
def test_errors_by_utilisation(errors: dict[float, np.ndarray], utilisation: float) -> None:
    """Median errors over servers and loads are what the documentation says of this utilisation."""
    median = np.median(np.abs(errors[utilisation]), axis=0)
    for name, error, allowed in zip(NAMES, median, ALLOWED[utilisation], strict=True):
        assert error <= allowed, f"{name}: {error:.1%}"


def test_no_setting_is_far_off_at_a_moderate_load(errors: dict[float, np.ndarray]) -> None:
    """Up to 0.7 every mean is within a tenth, every percentile within a fifth."""
    for utilisation in (0.3, 0.5, 0.7):
        worst = np.abs(errors[utilisation]).max(axis=0)
        assert worst[[0, 2]].max() <= 0.1
        assert worst[[1, 3]].max() <= 0.2


def test_the_event_server_by_hand() -> None:
    """Two requests of 3 prompt and 3 answer tokens, a budget of 4 tokens a step, steps of 1 s + 1 s a prompt token.

    The first has its prompt in a step of 4 s (3 tokens), in which also 1 token of the second is computed: 1 + 4 = 5 s. The
    next step has the first's second token and the second's last two: 1 + 2 = 3 s. Two of 1 s: the first ends at 9 s, the second
    has its first token at 8 s and ends at 10 s.
    """
    seen = run(Server(base=1, each=0, token=1, budget=4, seats=2), np.zeros(2), np.array([3, 3]), np.array([3, 3]))
    assert list(seen.ttft) == [5, 8]
    assert list(seen.tpot) == [(9 - 5) / 2, (10 - 8) / 2]


def test_a_queue_without_answers_is_pollaczek_khinchine() -> None:
    """Prompts of one token length that each fill a step: M/D/1 with service 1 s; at a rate of 0.5 the wait is 0.5 s.

    The event server starts a step at once when it is idle, so that TTFT = 1 + rho/(2 (1 - rho)) = 1.5 s.
    """
    rng = np.random.default_rng(3)
    many = 200_000
    server = Server(base=0, each=0, token=0.01, budget=100, seats=10**6)
    seen = run(server, np.cumsum(rng.exponential(2, many)), np.full(many, 100), np.ones(many, dtype=int))
    assert seen.ttft.mean() == pytest.approx(1.5, rel=0.01)
