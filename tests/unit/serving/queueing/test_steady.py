"""The steady state of a batch server: against queues whose answers are known, and against its own definitions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ive

from roofline.serving.queueing import tails
from roofline.serving.queueing.ranks import fullest_rank, rank_cycles
from roofline.serving.queueing.replica import BatchServer, Demand
from roofline.serving.queueing.steady import PromptWork, cycles, occupancy, steady

ONE = np.ones(1)


def server(
    slots: int = 64, prompt_s: float = 0.01, tokens: float = 100, steps: float = 50, step_s: float = 0.02, **settings: object
) -> BatchServer:
    """Prompts and answers that are all alike, and steps that take the same with any number of sequences."""
    demand = Demand(1.0, ONE, np.array([[prompt_s]]), np.array([tokens]), np.array([steps]))
    return BatchServer(np.full(slots, step_s), (demand,), **{"budget": 2048, **settings})  # type: ignore[arg-type]


def work(rate: float, seconds: float) -> PromptWork:
    """Prompts that all add the same."""
    found = np.array([rate])
    return PromptWork(found, *(np.array([seconds**power]) for power in (1, 2, 3)), np.ones(1), found * seconds)


def test_capacity_by_hand() -> None:
    """A request costs 50 steps of 20 ms shared by 64, and 10 ms: 1/(50*0.02/64 + 0.01) = 39.0 requests/s.

    With two ranks in step twice as many; with 2 pipeline stages a prompt costs half. Two ranks that are not in step: mu = 64/50
    slots are free in a step, and the fuller rank has half the mean difference of two Poisson numbers more,
    mu e^(-2 mu) (I0 + I1)(2 mu).
    """
    assert server().capacity == pytest.approx(1 / (50 * 0.02 / 64 + 0.01))
    assert server(ranks=2, scatter=None).capacity == pytest.approx(2 / (50 * 0.02 / 64 + 0.01))
    mean = 64 / 50
    fuller = 1 + ive(0, 2 * mean) + ive(1, 2 * mean)
    assert server(ranks=2).capacity == pytest.approx(2 / (50 * 0.02 / 64 + 0.01 * fuller), rel=0.01)
    assert server(stages=2).capacity == pytest.approx(1 / (50 * 0.02 / 64 + 0.005))


def test_prompts_alone_are_limited_by_the_budget() -> None:
    """Prompts of 1,000 tokens that add nothing, steps of 1 ms, a budget of 110: 109 tokens a step beside one sequence."""
    found = server(slots=10, prompt_s=0.0, tokens=1000, steps=0, step_s=0.001, budget=110)
    assert found.capacity == pytest.approx(109 / 1000 / 0.001)


def test_without_prompts_and_with_seats_for_all_it_is_an_infinite_server() -> None:
    """Steps that take the same with any number of sequences: Poisson with mean lambda E[m] d (M/G/infinity)."""
    found = steady(server(slots=200, prompt_s=0.0, steps=50, step_s=0.02), [20.0])
    assert found.running[0] == pytest.approx(20 * 50 * 0.02, rel=1e-6)
    occupied = occupancy(found.server, np.array([20.0]), np.array([20.0 * 50]), np.zeros(1))
    poisson = [math.exp(-20) * 20**n / math.factorial(n) for n in range(60)]
    assert occupied.probabilities[0, :60] == pytest.approx(poisson, rel=1e-6, abs=1e-12)


def test_waits_for_seats_are_erlang_c() -> None:
    """Few slots and answers with a geometric-like spread (coefficient of variation 1): the mean wait of M/M/c."""
    slots, mean, rate = 10, 0.02 * 50, 8.0
    spread = replace(server(slots=slots, prompt_s=0.0), demands=(
        Demand(1.0, ONE, np.zeros((1, 1)), np.ones(1), np.array([0.0, 100.0])),
    ))  # fmt: skip
    assert spread.scv_steps == pytest.approx(1.0)
    offered = rate * mean
    terms = [offered**n / math.factorial(n) for n in range(slots)]
    last = offered**slots / math.factorial(slots) / (1 - offered / slots)
    waits = last / (sum(terms) + last) * mean / (slots - offered)
    occupied = occupancy(spread, np.array([rate]), np.array([rate * 50]), np.zeros(1))
    assert occupied.slot_wait[0] == pytest.approx(waits, rel=1e-9)


def simulated_cycles(rng: np.random.Generator, rate: float, seconds: float, step: float) -> np.ndarray:
    """Stationary cycles C' = d + w Poisson(lambda C): three of each of 40,000 chains, far apart."""
    cycle, found = np.full(40_000, step), []
    for place in range(1, 111):
        cycle = step + seconds * rng.poisson(rate * cycle)
        if place in (70, 90, 110):
            found.append(cycle)
    return np.concatenate(found)


@pytest.mark.parametrize("rate", [40.0, 20.0])
def test_cycles_by_simulation(rate: float) -> None:
    """At loads of 40 and 80 %: mean, variance, third central moment (a few percent: tails are rare), and the cube."""
    seconds, step = 0.02, 0.05
    found = simulated_cycles(np.random.default_rng(5), rate, seconds, step)
    expected = cycles(work(rate, seconds), np.array([step]), np.zeros(1), 1.0)
    mean = expected.mean[0]
    assert mean == pytest.approx(found.mean(), rel=0.005)
    assert expected.from_prompts[0] == pytest.approx(found.var(), rel=0.02)
    assert expected.square[0] == pytest.approx((found**2).mean(), rel=0.01)
    third = expected.cube[0] - 3 * mean * expected.square[0] + 2 * mean**3
    assert third == pytest.approx(((found - found.mean()) ** 3).mean(), rel=0.06)
    assert expected.cube[0] == pytest.approx((found**3).mean(), rel=0.01)


@pytest.mark.parametrize("rate", [30.0, 10.0])
def test_the_wait_for_the_first_token_by_simulation(rate: float) -> None:
    """A request meets a cycle by its length, waits for the rest of it, and then for those that came in it.

    Steps of 50 ms always run, with any number of sequences; prompts take 20 ms each and are never cut.
    """
    seconds, step = 0.02, 0.05
    rng = np.random.default_rng(6)
    met = rng.permutation(simulated_cycles(rng, rate, seconds, step))
    waits = met * rng.uniform(size=len(met)) + seconds * rng.poisson(rate * met)
    mean = np.average(waits, weights=met)
    variance = np.average((waits - mean) ** 2, weights=met)
    found = steady(server(slots=2000, prompt_s=seconds, tokens=1, steps=200, step_s=step, budget=10**9), [rate])
    assert found.wait.mean[0] == pytest.approx(mean, rel=0.01)
    assert found.wait.variance[0] == pytest.approx(variance, rel=0.03)
    assert found.own_s[0][0] == pytest.approx(step + seconds)


@pytest.mark.parametrize("steps", [20, 5])
def test_the_spread_of_tpot_by_simulation(steps: int) -> None:
    """The mean of cycles that follow each other. At a load of 60 % a cycle has 60 % of what the last one was longer."""
    rate, seconds, step = 30.0, 0.02, 0.05
    rng = np.random.default_rng(7)
    cycle, total = np.full(40_000, step), np.zeros(40_000)
    for place in range(60 + steps):
        cycle = step + seconds * rng.poisson(rate * cycle)
        total += cycle if place >= 60 else 0.0
    found = steady(server(slots=2000, prompt_s=seconds, tokens=1, steps=steps, step_s=step, budget=10**9), [rate])
    assert found.tpot[0].variance[0] == pytest.approx((total / steps).var(), rel=0.03)


def test_an_own_prompt_passes_every_stage() -> None:
    """Of two stages a prompt adds half to each round, and a request waits for the whole of its own."""
    found = steady(server(slots=2000, prompt_s=0.02, tokens=1, steps=200, step_s=0.05, budget=10**9, stages=2), [30.0])
    assert found.prompt_utilization[0] == pytest.approx(30 * 0.01)
    assert found.own_s[0][0] == pytest.approx(0.05 + 0.02)


@pytest.mark.parametrize("name", ["ttft", "tpot"])
def test_percentiles_are_shares(name: str) -> None:
    """The time within which 90 % are is that within which the share is 0.9, and grows with the share and the rate."""
    found = steady(server(), server().capacity * np.array([0.2, 0.5, 0.8]))
    at = getattr(found, f"{name}_quantile")(0, 0.9)
    within = [getattr(found, f"{name}_within")(0, float(time))[place] for place, time in enumerate(at)]
    assert within == pytest.approx([0.9] * 3, abs=2e-3)
    assert list(at) == sorted(at)
    assert all(getattr(found, f"{name}_quantile")(0, 0.99) >= at)


def test_more_load_is_never_better() -> None:
    found = steady(server(), server().capacity * np.linspace(0.02, 0.98, 60))
    for series in (found.running, found.ttft_mean(0), found.tpot_mean(0), found.slot_wait_s):
        assert np.all(np.diff(series) >= -1e-9)


def test_beyond_capacity_nothing_is_served_in_time() -> None:
    found = steady(server(), [server().capacity * 1.01])
    assert found.saturated[0]
    assert found.ttft_within(0, 1e9)[0] == 0
    assert math.isinf(found.ttft_quantile(0, 0.5)[0])


def test_classes_share_a_server() -> None:
    """Two classes of the same requests are one class; a class with longer prompts has a longer TTFT."""
    one = server()
    demand = one.demands[0]
    halves = replace(one, demands=(replace(demand, share=0.5), replace(demand, share=0.5)))
    rate = 0.6 * one.capacity
    assert steady(halves, [rate]).ttft_mean(1)[0] == pytest.approx(steady(one, [rate]).ttft_mean(0)[0])
    longer = replace(demand, share=0.5, prompt_s=np.array([[0.03]]), prompt_tokens=np.array([300.0]))
    found = steady(replace(one, demands=(replace(demand, share=0.5), longer)), [10.0])
    assert found.ttft_mean(1)[0] == pytest.approx(found.ttft_mean(0)[0] + 0.02)


def test_a_wait_that_is_gamma_is_told_as_such() -> None:
    """No own time, one wait of mean 1 and variance 1: exponential, of which 1 - 1/e is within 1."""
    wait = tails.Moments(np.ones(1), np.ones(1))
    assert tails.share_within(np.zeros((1, 1)), [(np.ones(1), wait)], 1.0)[0] == pytest.approx(1 - math.exp(-1))


def test_times_within_ends_are_told_as_beta() -> None:
    """Between 0 and 1 with mean 1/2 and variance 1/12: uniform."""
    halves = np.full((1, 1), 0.5)
    uniform = tails.Bounded(halves, np.full((1, 1), 1 / 12), np.zeros((1, 1)), np.ones((1, 1)))
    assert uniform.cdf(0.3)[0] == pytest.approx(0.3)


def test_times_within_other_ends() -> None:
    """Between 1 and 3 with mean 2 and variance 4/12: uniform, of which 0.3 is below 1.6."""
    ends = [np.full((1, 1), value) for value in (2.0, 4 / 12, 1.0, 3.0)]
    assert tails.Bounded(*ends).cdf(1.6)[0] == pytest.approx(0.3)


def test_every_request_is_served_at_last() -> None:
    """Of those that wait for a slot and those that do not: all have their first token after an hour."""
    found = steady(server(slots=10), server(slots=10).capacity * np.array([0.9]))
    assert 0 < found.slot_wait_probability[0] < 1
    assert found.ttft_within(0, 3600.0)[0] == pytest.approx(1)


def test_the_longest_of_classes_is_by_rate() -> None:
    """Own times of two requests of each of two classes, at two rates; nothing else takes time."""
    none = np.zeros(2)
    found = replace(
        steady(server(), [1.0, 2.0]),
        own_s=(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 1.0], [1.0, 1.0]])),
        wait=tails.Moments(none, none),
        slot_wait_s=none,
    )
    assert found.longest([0, 1], tpot=False).tolist() == [5.0, 4.0]
    assert found.longest([0], tpot=False).tolist() == [2.0, 4.0]
    ends = [tails.Bounded(high, high, high, high) for high in found.own_s]
    assert replace(found, tpot=tuple(ends)).longest([0, 1], tpot=True).tolist() == [5.0, 4.0]


def test_a_request_that_takes_no_prompt_time_is_limited_by_slots() -> None:
    """Neither seconds nor tokens of prompts: 64 slots of 50 steps of 20 ms."""
    assert server(prompt_s=0.0, tokens=0.0).capacity == pytest.approx(64 / (50 * 0.02))


def test_rare_prompts_are_held_for_other_ranks() -> None:
    """Of four ranks, at most 50 steps of 20 ms and the prompt's 10 ms: (R - 1)/2R of that, evenly spread from 0 to twice it.

    A prompt that comes alone keeps all four ranks for its 10 ms.
    """
    rate = 1e-3
    free, held = (steady(server(ranks=4, hold_steps=steps), [rate]) for steps in (0, 50))
    mean = (50 * 0.02 + 0.01) * 3 / 8
    assert held.ttft_mean(0)[0] - free.ttft_mean(0)[0] == pytest.approx(mean, rel=0.01)
    assert held.wait.variance[0] - free.wait.variance[0] == pytest.approx(mean**2 / 3, rel=0.01)
    assert held.prompt_utilization[0] == pytest.approx(rate * 0.01)


def test_the_longest_step_is_one_full_of_prompts() -> None:
    """What the budget leaves beside those that run, at 10 ms per 100 tokens, after a step of that many sequences."""
    slower = replace(server(), decode_s=np.linspace(0.01, 0.05, 64))
    found = steady(slower, [0.5 * slower.capacity])
    running = found.running[0]
    assert running > 2
    step = np.interp(running, np.arange(1, 65), slower.decode_s)
    assert found.tpot[0].high[0, 0] == pytest.approx(step + (2048 - running) * 0.01 / 100)


def test_rounds_add_their_variance_to_that_of_steps() -> None:
    """50 rounds of 20 ms, with a variance of 9, give 100 tokens: Var = (Var[step mean] 50^2 + E[step]^2 9)/100^2."""
    plain = server(slots=500)
    demand = replace(plain.demands[0], decode_tokens=np.array([100.0]), rounds_variance=9.0)
    steps, tokens = (
        steady(one, [0.2 * plain.capacity]).tpot[0] for one in (plain, replace(plain, demands=(demand,), step_tokens=2))
    )
    mean, variance = steps.mean[0, 0], steps.variance[0, 0]
    assert tokens.mean[0, 0] == pytest.approx(mean / 2, rel=1e-3)
    assert tokens.variance[0, 0] == pytest.approx((variance * 50**2 + mean**2 * 9) / 100**2, rel=1e-2)


def test_with_an_unlimited_budget_only_the_running_step_delays() -> None:
    """The rest of a cycle, E[C^2]/2E[C], and the prompts that come during it and are computed with the own one.

    With any budget for tokens no further prompts are ahead. So many sequences run that a step always does.
    """
    unlimited = server(slots=200, budget=10**9)
    rate = 0.8 * unlimited.capacity
    found = steady(unlimited, [rate])
    rho = found.prompt_utilization
    cycle = cycles(work(rate, 0.01), found.step_s, np.zeros(1), 1.0)
    assert found.wait.mean == pytest.approx(cycle.square / (2 * cycle.mean) * (1 + 2 * rho), rel=1e-3)


def test_near_saturation_waits_are_exponential() -> None:
    """Kingman's limit: where the budget is what delays, the standard deviation of the wait is its mean."""
    limited = server(slots=200, steps=5, budget=210, tokens=200)
    wait = steady(limited, [0.995 * limited.capacity]).wait
    assert math.sqrt(wait.variance[0]) == pytest.approx(wait.mean[0], rel=0.02)


def test_ranks_that_are_not_in_step_wait_for_the_fullest() -> None:
    """Rare prompts come to one of four ranks alone: then a step is as long for all, as if each had one."""
    apart, together = (steady(server(ranks=4, scatter=scatter), [20.0]) for scatter in (0.0, None))
    assert apart.step_s == pytest.approx(together.step_s)
    assert apart.tpot_mean(0)[0] > together.tpot_mean(0)[0]
    assert together.prompt_utilization[0] == pytest.approx(20 * 0.01 / 4)
    assert together.prompt_utilization[0] < apart.prompt_utilization[0] < 20 * 0.01


class ByHand:
    """The equations of the module's docstring, for one rate and one number at a time."""

    def __init__(self, server: BatchServer, requests: float) -> None:
        self.server, self.classes = server, server.demands
        self.rate = min(requests, 0.9995 * server.capacity) / server.ranks
        self.decode = [float(server.decode_s[0]), *server.decode_s.tolist()]  # by number of sequences
        self.tokens = self.mean([d.prompt_tokens.tolist() for d in self.classes])
        self.steps = [d.decode_steps.tolist() for d in self.classes]
        self.mean_steps = self.mean(self.steps)
        squares = [(d.decode_steps**2 + d.rounds_variance).tolist() for d in self.classes]
        self.scv = self.mean(squares) / self.mean_steps**2 - 1 if self.mean_steps else 0.0
        self.running, self.prefilling, self.stretch, self.factor = 1.0, 0.0, 1.0, 1.0
        for _ in range(4):
            self.occupancy()
            self.cycle()
            self.first_token()
            self.used, each = self.stretch, [[self.left_behind(m) if m else 0.0 for m in steps] for steps in self.steps]
            self.stretch = 1 + self.mean(each) / (self.mean_steps * self.c1) if self.mean_steps else 1.0
            self.prefilling = min(self.rate * (self.own_mean + self.others + self.queue), server.slots - 1)
        self.tpot = self.times_between_tokens()

    def mean(self, by_class: list[list[float]]) -> float:
        """Of all requests: each class by its share."""
        return sum(d.share * sum(each) / len(each) for d, each in zip(self.classes, by_class, strict=True))

    def moments(self, by_class: list[list[float]]) -> list[float]:
        """Of all requests: means of the first three powers."""
        return [self.mean([[x**power for x in each] for each in by_class]) for power in (1, 2, 3)]

    def occupancy(self) -> None:
        """Part 1: pi(n) ~ prod lambda E[m] tau(i)/i, up to the slots without prompts; more in a queue that is geometric."""
        server, slots, decode = self.server, self.server.slots, self.decode
        self.w = [[float(np.interp(self.running, d.running, column)) / server.stages for column in d.prompt_s.T]
                  for d in self.classes]  # fmt: skip
        self.w1, self.w2, self.w3 = self.moments(self.w)
        self.rho = min(self.rate * self.w1 * self.factor, 0.9995)
        arriving = self.rate * self.mean_steps * self.stretch / (1 - self.rho)
        free = slots - self.prefilling
        chance = [1.0]
        for n in range(1, int(free) + 1):
            chance.append(chance[-1] * arriving * decode[n] / n)
        r = min(arriving * float(np.interp(free, range(slots + 1), decode)) / free, 0.9995)
        queue = [chance[-1] * r / (1 - r), chance[-1] * r / (1 - r) ** 2]  # chance of any, mean length
        total = sum(chance) + queue[0]
        self.chance = [*(p / total for p in chance[:-1]), (chance[-1] + queue[0]) / total]
        self.slot_wait = queue[1] / total / self.rate * (server.cv**2 + self.scv) / 2
        self.running = sum(p * n for n, p in enumerate(self.chance))
        self.step, self.step_variance = self.spread(self.chance, decode)

    @staticmethod
    def spread(chance: list[float], seconds: list[float]) -> tuple[float, float]:
        """Mean and variance; the list of probabilities may be shorter."""
        mean = sum(p * x for p, x in zip(chance, seconds, strict=False))
        return mean, sum(p * (x - mean) ** 2 for p, x in zip(chance, seconds, strict=False))

    def cycle(self) -> None:
        """Part 2: cumulants of C' = d + work that came in C; of ranks by the chain; and prompts that are held."""
        server, rate, ranks, rho = self.server, self.rate, self.server.ranks, self.rho
        self.c1 = self.step / (1 - rho)
        self.from_prompts = rate * self.w2 * self.factor * self.c1 * server.cv**2 / (1 - rho**2)
        variance = self.from_prompts + self.step_variance / (1 - rho**2)
        third = (rate * self.w3 * self.c1 + 3 * rate * self.w2 * rho * variance) / (1 - rho**3)
        self.c2, self.c3 = variance + self.c1**2, third + 3 * self.c1 * variance + self.c1**3
        all_of_it = self.mean([d.prompt_s.ravel().tolist() for d in self.classes])
        part = self.mean([(d.rank_share * d.prompt_s).ravel().tolist() for d in self.classes]) / all_of_it if all_of_it else 1.0
        self.a, self.b = part * self.w1, (1 - part) * self.w1 / ranks
        self.chain, self.held, self.old_factor = None, 0.0, self.factor
        if ranks > 1 and server.hold_steps:  # T = N d + a + b R lambda T
            between = (server.hold_steps * self.step + self.a) / max(1 - ranks * self.b * rate, 1e-6)
            each = min(max(rate * between, 1 / ranks), 1.0)  # a prompt alone is rare
            fullest = float(fullest_rank(ranks * each, ranks, server.scatter or 0.0))
            self.factor = (part * fullest + (1 - part) * each) / each
            self.held = min(1 / rate, between) * (ranks - 1) / (2 * ranks)
        elif ranks > 1 and server.scatter is not None and self.w1:
            self.chain = rank_cycles(*(np.array([x]) for x in (rate, self.step, self.a, self.b)), ranks, server.scatter)
            self.c1, self.c2, self.c3 = self.chain.mean[0], self.chain.square[0], self.chain.cube[0]
            self.from_prompts = self.c2 - self.c1**2
            self.factor = (1 - self.step / self.c1) / (rate * self.w1)

    def first_token(self) -> None:
        """Part 3: the rest of a step, others, a queue for the budget, the own prompt."""
        server, rate, rho, step = self.server, self.rate, self.rho, self.step
        left = max(server.budget - self.running * server.step_tokens, 1.0)
        self.cap = max(left * self.w1 / self.tokens, 1e-12)
        utilization = 1 - self.chance[0] * (1 - rho)
        full = min(1.0, rho * self.c2 / self.c1 / self.cap)
        residual = utilization * self.c2 / self.c1 / 2
        self.others = residual * (rho + rho * (1 - full))
        pairs = [list(zip(d.prompt_tokens.tolist(), w, strict=True)) for d, w in zip(self.classes, self.w, strict=True)]
        s1, s2, s3 = self.moments([[w + tokens * step / left for tokens, w in each] for each in pairs])
        slow = min(rate * self.old_factor * s1, 0.9995)
        longer = rate * s2 / 2 / (1 - slow) - rate * self.w2 / 2 / (1 - rho)  # two Pollaczek-Khinchine waits
        far = rate * s3 / 3 / (1 - slow) - rate * self.w3 / 3 / (1 - rho)
        self.queue = longer * (1 + server.cv**2) / 2
        self.own = [
            [step * math.ceil(tokens / left) + w * server.stages * (d.rank_share + (1 - d.rank_share) / server.ranks) + after
             for (tokens, w), after in zip(each, np.broadcast_to(d.after_s, len(each)).tolist(), strict=True)]
            for d, each in zip(self.classes, pairs, strict=True)
        ]  # fmt: skip
        self.own_mean = self.mean(self.own)
        # U C, prompts of C (1 - U) before, and of those of C U after it the part that is computed with it; by Simpson's rule
        ends = [(u + rho * (1 - u) + rho * u * (1 - full)) ** 2 for u in (0.0, 0.5, 1.0)]
        square = utilization * self.c3 / self.c1 * (ends[0] + 4 * ends[1] + ends[2]) / 6
        square += utilization * rate * self.w2 * self.c2 / self.c1 * (1 + (1 - full)) / 2
        mean = residual + self.others
        if self.chain is not None:
            residual, self.others = self.chain.residual[0], self.chain.next[0] - step - self.a - self.b
            mean, square = residual + self.others, self.chain.wait_square[0]
            residual *= utilization
        variance = max(square - mean**2, 1e-18) + self.queue**2 + far + self.held**2 / 3
        self.queue += self.held
        self.wait = residual + self.others + self.queue, variance

    def left_behind(self, steps: float) -> float:
        """Part 4: seconds of the prompts that came in the wait, in some steps: no more than fit into them."""
        behind = max(self.rho * (self.own_mean + self.others + self.queue - self.c1), 0.0)
        total = behind * (1 - self.rho**steps) / (1 - self.rho)
        fits = steps * max(self.cap - self.rho * self.c1, 1e-12)
        return total * fits / (total + fits)

    def times_between_tokens(self) -> list[list[tuple[float, ...]]]:
        """Part 4: mean, variance and ends of each output."""
        server, decode, rho = self.server, self.decode, self.rho
        token = (self.running / (self.rate * self.mean_steps) if self.mean_steps else self.c1) / self.used
        met = [p * n / self.running for n, p in enumerate(self.chance)] if self.mean_steps else [1.0]
        wander = self.spread(met, decode)[1] * (token / self.step) ** 2
        rare = next(decode[n] for n in range(len(met)) if sum(met[: n + 1]) >= 0.999)
        longest = max(float(np.interp(self.running, range(server.slots + 1), decode)) + self.cap, rare)
        result = []
        for d, steps in zip(self.classes, self.steps, strict=True):
            rows = []
            tokens = steps if d.decode_tokens is None else d.decode_tokens.tolist()
            rounds = np.broadcast_to(d.rounds_variance, len(steps)).tolist()
            for m, given, var in zip((max(m, 1.0) for m in steps), (max(t, 1.0) for t in tokens), rounds, strict=True):
                life, mean = m / max(self.mean_steps, 1e-9), token + self.left_behind(m) / m
                variance = wander * 2 * (life - 1 + math.exp(-life)) / life**2
                variance += self.from_prompts / m * ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**m) / (m * (1 - rho) ** 2))
                variance = (m**2 * variance + mean**2 * var) / given**2
                least, mean = decode[1] if d.decode_tokens is None else decode[1] / server.step_tokens, mean * m / given
                rows.append((mean, variance, min(least, mean * (1 - 1e-9)), max(longest, mean * (1 + 1e-9))))
            result.append(rows)
        return result


def two_classes(budget: int = 2048, slots: int = 12, tokens: float = 1.0, **settings: Any) -> BatchServer:
    """Two classes of three prompts and outputs each, of which one has a single token; steps grow with the batch, unevenly.

    Prompts beside one, four and twelve sequences differ. Prompt tokens are multiplied by `tokens`.
    """
    seconds = np.array([[0.004, 0.011, 0.02], [0.005, 0.012, 0.018], [0.007, 0.013, 0.03]])
    rows = np.array([1.0, 4.0, 12.0])
    short = Demand(0.7, rows, seconds, tokens * np.array([100.0, 240.0, 530.0]), np.array([0.0, 30.0, 90.0]), rank_share=0.8)
    after = np.array([0.001, 0.002, 0.005])
    long = Demand(0.3, rows, 2 * seconds, tokens * np.array([260.0, 410.0, 900.0]), np.array([5.0, 20.0, 50.0]), after, 0.4)
    counts = np.arange(1, slots + 1)
    return BatchServer(0.01 + 0.002 * np.sqrt(counts) + 1e-5 * counts**2, (short, long), budget, **settings)


def in_rounds() -> BatchServer:
    """Rounds of three tokens: of the first class the number of rounds differs."""
    plain = two_classes(step_tokens=3, stages=2, cv=0.8)
    one, other = plain.demands
    rounds = np.array([0.0, 14.0, 41.0])
    given = replace(one, decode_steps=rounds, decode_tokens=one.decode_steps, rounds_variance=np.array([0.0, 3.0, 8.0]))
    return replace(plain, demands=(given, replace(other, decode_tokens=other.decode_steps * 2)))


def beside_few(plain: BatchServer) -> BatchServer:
    """Prompts that add 100 times as much beside one sequence: more than the whole time, in the first pass."""
    demands = tuple(replace(d, prompt_s=d.prompt_s * np.array([[100.0], [1.0], [1.0]])) for d in plain.demands)
    return replace(plain, demands=demands)


def shared_by_ranks() -> BatchServer:
    """Prompts of which each of eight ranks has an eighth, and one step after them: what comes with them is soon computed."""
    plain = server(ranks=8, scatter=None, steps=1)
    return replace(plain, demands=(replace(plain.demands[0], rank_share=0.0),))


SETTINGS = (
    two_classes(),
    two_classes(budget=200, cv=0.7),  # prompts in several chunks
    two_classes(slots=60, budget=300, cv=1.2),
    two_classes(budget=1),  # less than what runs
    two_classes(slots=1),
    in_rounds(),
    beside_few(two_classes()),
    replace(two_classes(slots=9, budget=10**6), decode_s=np.array([0.01] * 8 + [3.0])),  # one step is much longer
    replace(server(slots=9, prompt_s=1e-6, budget=10**9), decode_s=np.array([0.01] * 7 + [3.0] * 2)),
    server(steps=0.0, slots=4),
    server(prompt_s=0.0, slots=6, tokens=300, budget=90),
)
OF_RANKS = (
    two_classes(ranks=4, scatter=None),
    shared_by_ranks(),
    two_classes(ranks=4, scatter=0.3, budget=700),
    two_classes(ranks=2, scatter=0.0, cv=0.9),
    server(prompt_s=0.0, slots=6, tokens=300, budget=90, ranks=3),
    two_classes(ranks=4, scatter=0.3, hold_steps=3, budget=700),
    two_classes(ranks=4, scatter=None, hold_steps=50),
    beside_few(two_classes(ranks=2, hold_steps=2)),
)


def agrees_with_hand(setting: BatchServer) -> None:
    """At several rates in one call, and beyond saturation: what one rate alone has by plain arithmetic."""
    rates = setting.capacity * np.array([1e-4, 0.05, 0.3, 0.6, 0.8, 0.95, 1.2])
    states = steady(setting, rates)
    assert states.saturated.tolist() == [False] * 6 + [True]
    assert states.rates.tolist() == rates.tolist()
    near: dict[str, float] = {"rel": 1e-9, "abs": 1e-15}
    for i, rate in enumerate(rates.tolist()):
        hand = ByHand(setting, rate)
        by_name = {
            "running": hand.running, "step_s": hand.step, "prompt_utilization": hand.rho, "slot_wait_s": hand.slot_wait,
            "slot_wait_probability": hand.chance[-1], "tpot_s": hand.mean([[row[0] for row in rows] for rows in hand.tpot]),
        }  # fmt: skip
        assert {name: getattr(states, name)[i] for name in by_name} == pytest.approx(by_name, **near)
        assert (states.wait.mean[i], states.wait.variance[i]) == pytest.approx(hand.wait, **near)
        for which, (own, rows, tpot) in enumerate(zip(hand.own, hand.tpot, states.tpot, strict=True)):
            assert states.own_s[which][i] == pytest.approx(own, **near)
            assert states.ttft_mean(which)[i] == pytest.approx(sum(own) / len(own) + hand.wait[0] + hand.slot_wait, **near)
            mean, variance, low, high = zip(*rows, strict=True)
            assert tpot.mean[i] == pytest.approx(mean, **near)
            assert states.tpot_mean(which)[i] == pytest.approx(sum(mean) / len(mean), **near)
            assert tpot.variance[i] == pytest.approx(variance, rel=1e-7, abs=2e-14)
            assert np.broadcast_to(tpot.low, tpot.mean.shape)[i] == pytest.approx(low, rel=1e-11)
            assert np.broadcast_to(tpot.high, tpot.mean.shape)[i] == pytest.approx(high, rel=1e-11)


def test_every_equation_by_hand() -> None:
    for setting in SETTINGS:
        agrees_with_hand(setting)


def test_every_equation_of_ranks_by_hand() -> None:
    for setting in OF_RANKS:
        agrees_with_hand(setting)


def test_one_rank_holds_no_prompts() -> None:
    """And its fullest rank is itself, whatever the lengths."""
    held, free = (steady(two_classes(scatter=3.0, hold_steps=steps), [5.0]) for steps in (50, 0))
    assert held.ttft_mean(0) == pytest.approx(free.ttft_mean(0), rel=1e-12)


def test_prompts_that_add_nothing_beside_one_sequence() -> None:
    """A rate of hardly any has no time of prompts, and another in the same call has what it has alone."""
    plain = two_classes(ranks=4, scatter=0.3)
    demands = tuple(replace(d, prompt_s=d.prompt_s * np.array([[0.0], [1.0], [1.0]])) for d in plain.demands)
    both, one = (steady(replace(plain, demands=demands), rates) for rates in ([0.01, 60.0], [60.0]))
    assert both.prompt_utilization[0] == 0
    assert both.prompt_utilization[1] == pytest.approx(one.prompt_utilization[0])
    assert 2 < both.running[1] < 11
    assert both.ttft_mean(0)[1] == pytest.approx(one.ttft_mean(0)[0])


def test_rates_far_apart_do_not_disturb_each_other() -> None:
    """Without prompts and with slots for all: lambda E[m] d, a second of steps for each request."""
    found = steady(server(slots=2000, prompt_s=0.0, budget=10**9), [0.01, 1500.0])
    assert found.running == pytest.approx([0.01, 1500.0])
    assert found.slot_wait_probability[0] == 0
    assert found.ttft_within(0, 10.0) == pytest.approx(1)


def test_shares_and_times_by_hand() -> None:
    """Waits without and with a wait for a slot are gamma-distributed, and TPOT is a beta distribution between its ends.

    Who waits for a slot waits for as long as all wait on average, over the share that waits; an exponential time.
    """
    setting = two_classes(slots=6)
    states = steady(setting, setting.capacity * np.array([0.5, 0.9, 1.1]))
    seconds = np.array([0.2, 0.4, 1.0])
    none = np.zeros(3)
    assert states.ttft_within(0, seconds)[2] == states.tpot_within(0, seconds)[2] == 0
    for which in (0, 1):
        for i in (0, 1):
            p, mean, variance = (float(x[i]) for x in (states.slot_wait_probability, states.wait.mean, states.wait.variance))
            slot = float(states.slot_wait_s[i]) / p
            share = [
                (1 - p) * stats.gamma.cdf(seconds[i] - own, mean**2 / variance, scale=variance / mean)
                + p * stats.gamma.cdf(
                    seconds[i] - own, (mean + slot) ** 2 / (variance + slot**2), scale=(variance + slot**2) / (mean + slot)
                )
                for own in states.own_s[which][i]
            ]  # fmt: skip
            assert states.ttft_within(which, seconds)[i] == pytest.approx(sum(share) / 3, rel=1e-9)
            tpot = 0.9 * states.tpot_mean(which)
            assert states.tpot_within(which, tpot)[i] == pytest.approx(states.tpot[which].cdf(tpot)[i])
            assert states.longest([which], tpot=False)[i] == pytest.approx(
                states.own_s[which][i].max() + mean + slot + 40 * math.sqrt(variance + slot**2)
            )
    for share in (0.2, 0.95):
        times = states.ttft_quantile(1, share), states.tpot_quantile(1, share)
        assert states.ttft_within(1, times[0])[:2] == pytest.approx([share] * 2, abs=1e-6)
        assert states.tpot_within(1, times[1])[:2] == pytest.approx([share] * 2, abs=1e-6)
        assert math.isinf(times[0][2])
        assert math.isinf(times[1][2])
    ends = [tpot.high.max(axis=1) for tpot in states.tpot]
    assert states.longest([0, 1], tpot=True) == pytest.approx(np.maximum(*ends))
    assert states.longest([1], tpot=True) == pytest.approx(ends[1])
    at_once = replace(states, own_s=(np.zeros((3, 1)),) * 2, wait=tails.Moments(none, none), slot_wait_s=none)
    assert at_once.tpot_quantile(0, 0.5)[0] == pytest.approx(states.tpot_quantile(0, 0.5)[0], rel=1e-6)
