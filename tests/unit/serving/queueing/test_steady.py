"""The steady state of a batch server: against queues whose answers are known, and against its own definitions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ive

from roofline.serving.queueing import tails
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
