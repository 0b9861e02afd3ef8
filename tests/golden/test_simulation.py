"""The simulator against what others have computed: a server without blocks, queueing theory."""

from __future__ import annotations

import numpy as np
import pytest
from event_server import Server, run
from simulated import AffineStepTime, serve

from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import END

MANY_BLOCKS = 10**9
SERVERS = {
    "8B on an A100": Server(base=0.007, each=5e-5, token=4e-5, budget=2048, seats=256),
    "small budget, few slots": Server(base=0.005, each=2e-5, token=1.5e-5, budget=256, seats=16),
}


@pytest.mark.parametrize("name", SERVERS)
def test_the_event_server(name: str) -> None:
    """One budget of tokens a step, seats, no blocks: first tokens and ends of 3,000 requests to nine digits.

    `event_server.py` shares no line with the simulator.
    """
    server = SERVERS[name]
    rng = np.random.default_rng(7)
    many = 3000
    prompts = np.maximum(rng.lognormal(6.5, 0.8, many), 1).astype(int)
    answers = np.maximum(rng.lognormal(5, 0.7, many), 1).astype(int)
    arrived = np.cumsum(rng.exponential(0.15, many))
    seen = run(server, arrived, prompts, answers)
    times = AffineStepTime(server.base, sequence=server.each, token=server.token)
    requests = [Request(i, float(arrived[i]), int(prompts[i]), int(answers[i])) for i in range(many)]
    served = serve("vllm-v1", requests, times, EngineConfig(MANY_BLOCKS, 16, server.seats, server.budget))
    ends = np.array(served.log.ends).reshape(-1, len(END))
    ends = ends[np.argsort(ends[:, 0])]
    first, last = ends[:, END.index("first")], ends[:, END.index("ended")]
    assert first - arrived == pytest.approx(seen.ttft, rel=1e-9, abs=1e-9)
    several = answers > 1
    tpot = (last - first)[several] / (answers - 1)[several]
    assert tpot == pytest.approx(seen.tpot[several], rel=1e-6)


def test_pollaczek_khinchine() -> None:
    """Prompts of one token length that each fill a step of 1 s, answers of one token: M/D/1 at a load of 0.5.

    The mean wait is rho/(2 (1 - rho)) = 0.5 s, so that TTFT is 1.5 s.
    """
    rng = np.random.default_rng(3)
    many = 100_000
    arrived = np.cumsum(rng.exponential(2, many))
    requests = [Request(i, at, 100, 1) for i, at in enumerate(arrived.tolist())]
    served = serve("vllm-v1", requests, AffineStepTime(0.0, token=0.01), EngineConfig(MANY_BLOCKS, 16, 10**6, 100))
    ends = np.array(served.log.ends).reshape(-1, len(END))
    assert (ends[:, END.index("first")] - ends[:, END.index("arrived")]).mean() == pytest.approx(1.5, rel=0.015)
