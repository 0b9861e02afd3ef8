"""Batches of requests on servers whose finish time is arithmetic: the fluid has to agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofline.serving.queueing.offline import _counted, _ends, offline_run
from roofline.serving.queueing.replica import BatchServer, Demand, prompts_of_round


def server(
    steps: Any, *, slots: int = 10, step_s: float = 0.01, prompt_s: float = 0.0, tokens: float = 1.0, **more: Any
) -> BatchServer:
    """Steps take the same for every batch."""
    demand = Demand(1.0, np.array([1.0, slots]), np.full((2, 1), prompt_s), np.array([tokens]), np.asarray(steps, dtype=float))
    return BatchServer(np.full(slots, step_s), (demand,), more.pop("budget", 10**6), **more)


def test_waves_of_equal_lengths() -> None:
    """100 requests of 64 steps on 10 slots: ten waves of 64 steps of 10 ms, and nothing for prompts."""
    run = offline_run(server([64]), 100)
    assert run.finish_s == pytest.approx(10 * 64 * 0.01, rel=0.02)
    assert run.rate == pytest.approx(10 / 0.64)
    assert run.tpot_s == pytest.approx(0.01, rel=0.02)
    assert run.waits_s[-1] == pytest.approx(9 * 0.64, rel=0.03)  # the last wave begins


def test_a_part_of_a_wave_takes_as_long_as_a_whole_one() -> None:
    assert offline_run(server([64]), 101).finish_s == pytest.approx(11 * 0.64, rel=0.02)


@pytest.mark.parametrize("waves", [3, 30, 3000])
def test_generations_that_are_not_followed_take_as_long(waves: int) -> None:
    """Prompts of 20 ms are added to the steps of 10 ms: (640 + 10 x 20) ms per wave."""
    run = offline_run(server([64], prompt_s=0.02), 10 * waves)
    assert run.finish_s == pytest.approx(waves * (0.64 + 10 * 0.02), rel=0.02)


def test_unequal_lengths_end_one_by_one() -> None:
    """Exponential lives: after the last admission the maximum of S of them, H(S) mean lives (H: the harmonic number)."""
    shares = (np.arange(2000) + 0.5) / 2000
    lives = -640 * np.log(1 - shares)
    slots, requests = 100, 3000
    run = offline_run(server(lives, slots=slots), requests)
    harmonic = sum(1 / k for k in range(1, slots + 1))
    expected = ((requests - slots) / slots + harmonic) * 6.4
    assert run.finish_s == pytest.approx(expected, rel=0.02)


def test_prompts_limit_what_runs() -> None:
    """A budget of 100 tokens and prompts of 50: with n decoding, (100 - n)/50 prompts a step; n = 10 steps of each prompt."""
    limited = server([10], slots=100, budget=100, tokens=50.0)
    # those that run are ten steps of as many prompts
    running = 1000 / 60
    assert offline_run(limited, 10_000).rate == pytest.approx(running / 10 / 0.01, rel=0.02)


def test_prompts_of_a_pipeline_overlap_only_with_each_other() -> None:
    """By drawing: rounds of Poisson numbers of prompts with four stages last the longest prompt, or a quarter of all."""
    rng = np.random.default_rng(5)
    for mean in (0.1, 1.0, 3.0, 12.0):
        counts = rng.poisson(mean, 20_000)
        equal = np.where(counts > 0, np.maximum(1, counts / 4), 0).mean()
        assert float(prompts_of_round(np.array(mean), 4)) == pytest.approx(equal, rel=0.03)
    lengths = rng.gamma(2, 0.5, (20_000, 4))  # a variance of 1/2
    counts = np.minimum(rng.poisson(0.8, 20_000), 4)
    longest = np.array([row[:count].max() if count else 0 for row, count in zip(lengths, counts, strict=True)])
    assert float(prompts_of_round(np.array(0.8), 4, 0.5)) == pytest.approx(longest.mean(), rel=0.05)


def test_outputs_of_one_token_have_no_steps() -> None:
    run = offline_run(server([0], prompt_s=0.02), 50)
    assert run.finish_s == pytest.approx(50 * 0.02, rel=0.01)
    assert run.tpot_s == 0


def test_shares_that_end_by_block() -> None:
    """Half of the requests have one step, half 64: of blocks of one step, in the first and in the last."""
    ends = _ends(server([1, 64]), 1.0)
    assert len(ends) == 64
    assert {block: share for block, share in enumerate(ends, 1) if share} == {1: 0.5, 64: 0.5}


def test_prompts_of_unequal_ranks_are_those_of_the_fullest() -> None:
    """Ranks in step count their own prompts; of two that are not, the fuller one has more than the mean."""
    prompts = np.array([0.0, 0.5, 2.0])
    assert list(_counted(server([64], ranks=2, scatter=None), prompts)) == list(prompts)
    fuller = _counted(server([64], ranks=2, scatter=0.0), prompts)
    assert fuller[0] == 0
    assert np.all(fuller[1:] > prompts[1:])
