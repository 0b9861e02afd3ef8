"""Mean TPOT of clients that wait for their responses: what the prompts of others add, and how many run."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.serving.queueing.closed_loop import ClosedLoop


def _tpot(clients: float = 16, *, dp: int = 1, **options: Any) -> dict[str, float]:
    loop = ClosedLoop.of("llama-3.1-8b", "h100-sxm" if dp == 1 else "dgx-h100", dp=dp)
    return {name: float(value) for name, value in loop.tpot(clients, 1000, 200, **options).items()}


def test_a_lone_client_has_no_others() -> None:
    """Its steps are decode steps alone; of 16 clients each has the prompts of 15 others in its 200 steps."""
    one, many = _tpot(1), _tpot(16)
    assert (one["prefill"], one["shared_bound"], one["running"]) == (0, one["bound"], 1)
    assert many["running"] == 16
    assert many["shared_bound"] > many["bound"]
    assert many["estimate"] > many["decode"] + many["engine"]


def test_memory_and_a_given_number_limit_what_runs() -> None:
    """Of 64 clients those run that fit; each of two replicas has half of them."""
    assert _tpot(64)["running"] == 64
    assert _tpot(64, max_running=10)["running"] == 10
    assert _tpot(64, dp=2)["running"] == 32


def test_cached_tokens_are_none_unless_given() -> None:
    """Prompts are computed as a whole; with 900 of 1000 tokens cached they add less."""
    plain = _tpot(16)
    assert _tpot(16, cached_len=0.0) == plain
    assert _tpot(16, cached_len=900.0)["prefill"] < plain["prefill"] / 2


def test_the_fullest_rank_has_more_prompts() -> None:
    """Where ranks are not in step a step waits for the one with more prompts than the mean: only with several ranks."""
    even = _tpot(64, dp=2)
    uneven = _tpot(64, dp=2, excess=lambda prompts: prompts / 2)
    assert uneven["prefill"] > even["prefill"]
    assert uneven["decode"] == even["decode"]
    assert _tpot(16, excess=lambda prompts: prompts / 2) == _tpot(16)
    assert np.isfinite(even["high"])
