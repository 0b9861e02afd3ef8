"""The closed form of a server with continuous batching, against one that is computed event by event (`event_server.py`)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from event_server import Server, run

from roofline.serving.server import BatchServer, Demand
from roofline.serving.steady import steady

SERVERS = {
    "8B on an A100": Server(base=0.007, each=5e-5, token=4e-5, budget=2048, seats=256),
    "70B on four": Server(base=0.015, each=1e-4, token=8e-5, budget=8192, seats=128),
    "quick, small budget": Server(base=0.005, each=2e-5, token=1.5e-5, budget=1024, seats=64),
    "slow, few seats": Server(base=0.03, each=3e-4, token=1.2e-4, budget=2048, seats=48),
}
# mean and standard deviation of prompts and answers
LOADS = {
    "chat": (1155, 900, 211, 160),
    "long answers": (200, 0, 500, 0),
    "long prompts": (4000, 2000, 100, 50),
    "code": (500, 500, 20, 15),
    "fixed": (1024, 0, 128, 0),
}
UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9)
REQUESTS = 40_000
NAMES = ("mean TTFT", "p95 of TTFT", "mean TPOT", "p95 of TPOT")
# The most that the median over settings may be off at each utilisation: what docs/capacity.md states, rounded up.
ALLOWED = {
    0.3: (0.01, 0.03, 0.01, 0.03),
    0.5: (0.02, 0.04, 0.01, 0.05),
    0.7: (0.03, 0.04, 0.02, 0.07),
    0.8: (0.06, 0.12, 0.03, 0.06),
    0.9: (0.17, 0.28, 0.03, 0.04),
}


def lengths(rng: np.random.Generator, mean: float, deviation: float) -> np.ndarray:
    """Whole lengths of a lognormal distribution; fixed without a deviation."""
    sigma = np.log1p((deviation / mean) ** 2) ** 0.5
    return np.maximum(np.exp(rng.normal(np.log(mean) - sigma**2 / 2, sigma, REQUESTS)).round(), 1).astype(int)


def closed_form(server: Server, prompts: np.ndarray, answers: np.ndarray) -> BatchServer:
    """The same server, with prompts and answers by 400 representatives."""
    some = np.sort(prompts).reshape(400, -1).mean(axis=1)
    later = np.sort(answers).reshape(400, -1).mean(axis=1) - 1
    demand = Demand(1.0, np.array([1.0]), server.token * some[None], some, later)
    return BatchServer(server.base + server.each * np.arange(1, server.seats + 1), (demand,), server.budget)


@pytest.fixture(scope="module")
def errors() -> dict[float, np.ndarray]:
    """Relative errors of every setting at each utilisation, in the order of `NAMES`: 20 servers and loads, 100 settings."""
    found: dict[float, list[list[float]]] = defaultdict(list)
    for seed, (server, load) in enumerate((server, load) for server in SERVERS.values() for load in LOADS.values()):
        rng = np.random.default_rng(seed)
        prompts, answers = lengths(rng, *load[:2]), lengths(rng, *load[2:])
        form = closed_form(server, prompts, answers)
        state = steady(form, np.array(UTILISATIONS) * form.capacity)
        predicted = np.stack([
            state.ttft_mean(0), state.ttft_quantile(0, 0.95), state.tpot_mean(0), state.tpot_quantile(0, 0.95)
        ])  # fmt: skip
        for place, utilisation in enumerate(UTILISATIONS):
            arrived = np.cumsum(rng.exponential(1.0, REQUESTS))
            arrived *= REQUESTS / (utilisation * form.capacity) / arrived[-1]  # the very rate: less noise
            seen = run(server, arrived, prompts, answers)
            middle = slice(REQUESTS // 5, REQUESTS * 9 // 10)
            ttft, tpot = seen.ttft[middle], seen.tpot[middle]
            measured = [ttft.mean(), np.quantile(ttft, 0.95), np.nanmean(tpot), np.nanquantile(tpot, 0.95)]
            found[utilisation].append(list(predicted[:, place] / measured - 1))
    return {utilisation: np.array(rows) for utilisation, rows in found.items()}


@pytest.mark.parametrize("utilisation", UTILISATIONS)
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
