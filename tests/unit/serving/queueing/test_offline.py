"""Batches of requests on servers whose finish time is arithmetic: the fluid has to agree."""

from __future__ import annotations

import math
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
    assert run.rate == pytest.approx(50 / run.finish_s)
    assert run.tpot_s == run.running == 0
    assert run.waits_s == pytest.approx(run.finish_s * (np.arange(512) + 0.5) / 512)
    assert run.first_s == pytest.approx(run.waits_s)


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
    staged = _counted(server([64], stages=3, scatter=3.0), prompts)
    assert list(staged) == list(prompts_of_round(prompts, 3, 3.0))


class ByHand:
    """The module's docstring block by block, a number at a time; `requests` of all ranks."""

    def __init__(self, server: BatchServer, requests: float) -> None:
        self.server, self.work = server, requests / server.ranks
        slots = self.slots = min(server.slots, self.work)
        outputs = [(d.share / len(d.decode_steps), m) for d in server.demands for m in d.decode_steps.tolist()]
        self.steps = sum(share * m for share, m in outputs)
        longest = max(m for _, m in outputs)
        self.h = max(self.steps / 48, longest / 768, 1.0)
        self.ends: dict[int, float] = {}
        for share, m in outputs:
            block = max(math.floor(m / self.h + 0.5), 1)
            self.ends[block] = self.ends.get(block, 0.0) + share
        self.skipped = max(int(self.work / slots) - 8, 0)
        self.follow(self.work - self.skipped * slots)

    def prompt_s(self, running: int) -> float:
        """Seconds of the mean prompt beside some sequences."""
        return sum(
            d.share / d.prompt_s.shape[1] * float(np.interp(running, d.running, column))
            for d in self.server.demands
            for column in d.prompt_s.T
        )

    def counted(self, prompts: float) -> float:
        """Prompts of a step, as of a whole pipeline, and of the fullest rank."""
        server = self.server
        own = float(prompts_of_round(np.array(prompts), server.stages, server.scatter or 0.0))
        if server.ranks == 1 or server.scatter is None or not prompts:
            return own
        return own * (1 + server.mean_share * float(server.excess(np.array(prompts), in_turn=False)) / prompts)

    def follow(self, work: float) -> None:
        """All blocks of these requests of a rank."""
        server, h = self.server, self.h
        tokens = sum(d.share * float(d.prompt_tokens.mean()) for d in server.demands)
        added: list[float] = []
        self.clock, self.admitted, self.spent, self.step_s = [0.0], [0.0], [0.0], [0.0]
        running = 0.0
        while work - self.admitted[-1] > 1e-9 or running * server.ranks > math.exp(-np.euler_gamma):
            k = len(added)
            held = running - sum(added[k - age] * share for age, share in self.ends.items() if age <= k)
            fits = h * max(server.budget - held * server.step_tokens, 1.0) / tokens
            adds = min(self.slots - held, fits, work - self.admitted[-1])
            mean = (running + held + adds) / 2
            size = max(math.floor(mean + 0.5), 1)
            seconds = h * float(server.decode_s[size - 1]) + h * self.counted(adds / h) * self.prompt_s(size)
            added.append(adds)
            running = held + adds
            self.clock.append(self.clock[-1] + seconds)
            self.admitted.append(self.admitted[-1] + adds)
            self.spent.append(self.spent[-1] + mean * seconds)
            self.step_s.append(seconds / h)

    def run(self) -> dict[str, Any]:
        """All but 8 generations at the rate from the middle of the fifth to that of the eighth of those that are followed."""
        begin, shift, later = 4.5 * self.slots, self.skipped * self.slots, 0.0
        spent, rate = self.spent[-1], self.server.capacity / self.server.ranks
        if self.skipped:
            clock, sequences = (
                [float(np.interp(place * self.slots, self.admitted, values)) for place in (4.5, 7.5)]
                for values in (self.clock, self.spent)
            )
            rate = 3 * self.slots / (clock[1] - clock[0])
            later = shift / rate
            spent += self.skipped * (sequences[1] - sequences[0]) / 3
        waits, first = [], []
        for share in (np.arange(512) + 0.5) / 512:
            place = share * self.work
            followed = place if place <= begin or not self.skipped else max(place - shift, begin)
            wait = float(np.interp(followed, self.admitted, self.clock))
            if self.skipped and place > begin:
                wait += min(place - begin, shift) / rate
            waits.append(wait)
            first.append(wait + float(np.interp(followed, self.admitted, self.step_s)) / 2)
        finish, ranks = self.clock[-1] + later, self.server.ranks
        return {
            "finish_s": finish, "rate": rate * ranks, "running": spent * ranks / finish,
            "tpot_s": spent / (self.work * self.steps), "waits_s": waits, "first_s": first,
        }  # fmt: skip


def uneven(slots: int = 10, budget: int = 800, **more: Any) -> BatchServer:
    """Two classes of unequal prompts and outputs; prompts and steps take longer beside more sequences."""
    rows, counts = np.array([1.0, slots]), np.arange(1, slots + 1)
    one = Demand(0.6, rows, np.array([[0.01, 0.02], [0.015, 0.03]]), np.array([100.0, 200.0]), np.array([5.0, 60.0, 700.0]))
    other = Demand(0.4, rows, np.array([[0.03], [0.04]]), np.array([330.0]), np.array([0.0, 33.0]), rank_share=0.7)
    return BatchServer(0.01 + 0.001 * np.sqrt(counts), (one, other), budget, **more)


def agrees_with_hand(setting: BatchServer, requests: float, rel: float = 1e-9, waits: float = 1e-9) -> None:
    run, expected = offline_run(setting, requests), ByHand(setting, requests).run()
    for name in ("finish_s", "rate", "running", "tpot_s"):
        assert getattr(run, name) == pytest.approx(expected[name], rel=rel)
    assert run.waits_s == pytest.approx(expected["waits_s"], rel=waits)
    assert run.first_s == pytest.approx(expected["first_s"], rel=waits)


def test_every_block_by_hand() -> None:
    """Few requests, a few generations and many; a budget that cuts prompts, and one that leaves them a token; drafts."""
    agrees_with_hand(uneven(), 3.4)
    agrees_with_hand(server([0, 1], prompt_s=0.01), 30.0)
    agrees_with_hand(uneven(), 1234.0)
    agrees_with_hand(uneven(slots=40, budget=60), 80.0)
    agrees_with_hand(uneven(budget=8, step_tokens=4), 30.0)
    agrees_with_hand(server([1] * 30 + [2000], tokens=50.0, prompt_s=0.01, budget=300), 40.0)


def test_every_block_of_ranks_and_stages_by_hand() -> None:
    """Prompts of a step are interpolated between 33 numbers of them: of one that are few in a step within 3 %, in all 0.2 %."""
    agrees_with_hand(uneven(ranks=4, scatter=None), 30.0)
    agrees_with_hand(uneven(ranks=2, scatter=0.3, budget=100), 30.0, 2e-3, 0.03)
    agrees_with_hand(uneven(ranks=2, scatter=0.0), 95.0, 2e-3, 0.03)
    agrees_with_hand(server([3], tokens=50, prompt_s=0.01, stages=2), 333.0, 2e-3, 0.03)
    agrees_with_hand(uneven(stages=2, ranks=2, scatter=0.3), 30.0, 2e-3, 0.03)
    agrees_with_hand(uneven(stages=3, scatter=0.3), 95.0, 2e-3, 0.03)
    agrees_with_hand(uneven(stages=3, scatter=None), 15.0, 2e-3, 0.03)
    agrees_with_hand(server([480], tokens=3000.0, budget=1, prompt_s=0.01, ranks=2), 2.0, 2e-3, 0.03)


def test_a_budget_of_one_token_computes_prompts_one_by_one() -> None:
    """40 prompts of 100 tokens take 100 steps each, and the last request a few more."""
    assert offline_run(server([10], tokens=100.0, budget=1), 40).finish_s == pytest.approx(4000 * 0.01, rel=3e-3)
