"""Servers and loads on which the closed form of a server is held against one that is computed event by event.

`tests/golden/test_queueing.py` judges by them, `docs/build_queueing.py` writes their table into docs/capacity.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from event_server import Server, run
from shared_results import shared

from roofline.serving.queueing.replica import BatchServer, Demand
from roofline.serving.queueing.steady import steady

SERVERS = {
    "8B on an A100": Server(base=0.007, each=5e-5, token=4e-5, budget=2048, seats=256),
    "70B on four": Server(base=0.015, each=1e-4, token=8e-5, budget=8192, seats=128),
    "quick, small budget": Server(base=0.005, each=2e-5, token=1.5e-5, budget=1024, seats=64),
    "slow, few slots": Server(base=0.03, each=3e-4, token=1.2e-4, budget=2048, seats=48),
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


def lengths(rng: np.random.Generator, mean: float, deviation: float) -> np.ndarray:
    """Whole lengths of a lognormal distribution; fixed without a deviation."""
    sigma = np.log1p((deviation / mean) ** 2) ** 0.5
    return np.maximum(np.exp(rng.normal(np.log(mean) - sigma**2 / 2, sigma, REQUESTS)).round(), 1).astype(int)


def closed_form(server: Server, prompts: np.ndarray, answers: np.ndarray, cv: float = 1.0) -> BatchServer:
    """The same server, with prompts and answers by 400 representatives."""
    some = np.sort(prompts).reshape(400, -1).mean(axis=1)
    later = np.sort(answers).reshape(400, -1).mean(axis=1) - 1
    demand = Demand(1.0, np.array([1.0]), server.token * some[None], some, later)
    return BatchServer(server.base + server.each * np.arange(1, server.seats + 1), (demand,), server.budget, cv=cv)


@cache
def errors(utilisations: tuple[float, ...] = UTILISATIONS, cv: float = 1.0) -> dict[float, np.ndarray]:
    """Relative errors of each of the 20 servers and loads, in the order of `NAMES`, by the share of the rate that saturates.

    Times between arrivals are gamma-distributed with a coefficient of variation `cv`: 1 is Poisson.
    """
    name = "-".join(f"{number:g}" for number in (cv, *utilisations))
    return shared(f"queueing-{name}", lambda: _errors(utilisations, cv))


def _errors(utilisations: tuple[float, ...], cv: float) -> dict[float, np.ndarray]:
    found: dict[float, list[list[float]]] = {utilisation: [] for utilisation in utilisations}
    for seed, (server, load) in enumerate((server, load) for server in SERVERS.values() for load in LOADS.values()):
        rng = np.random.default_rng(seed)
        prompts, answers = lengths(rng, *load[:2]), lengths(rng, *load[2:])
        form = closed_form(server, prompts, answers, cv)
        state = steady(form, np.array(utilisations) * form.capacity)
        predicted = np.stack([
            state.ttft_mean(0), state.ttft_quantile(0, 0.95), state.tpot_mean(0), state.tpot_quantile(0, 0.95)
        ])  # fmt: skip
        for place, utilisation in enumerate(utilisations):
            between = rng.exponential(1.0, REQUESTS) if cv == 1 else rng.gamma(cv**-2, cv**2, REQUESTS)
            arrived = np.cumsum(between)
            arrived *= REQUESTS / (utilisation * form.capacity) / arrived[-1]  # the very rate: less noise
            seen = run(server, arrived, prompts, answers)
            middle = slice(REQUESTS // 5, REQUESTS * 9 // 10)
            ttft, tpot = seen.ttft[middle], seen.tpot[middle]
            measured = [ttft.mean(), np.quantile(ttft, 0.95), np.nanmean(tpot), np.nanquantile(tpot, 0.95)]
            found[utilisation].append(list(predicted[:, place] / measured - 1))
    return {utilisation: np.array(rows) for utilisation, rows in found.items()}
