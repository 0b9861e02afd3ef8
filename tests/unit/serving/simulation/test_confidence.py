"""Confidence intervals and the warm-up: by hand, and against queues whose waiting times are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from roofline.serving.simulation.batches import GROUP, MAX_BATCHES, Batches, Groups
from roofline.serving.simulation.confidence import confidence, initial_requests, mser, ratio_error
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.simulate import simulate

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"


def batches_of(times: np.ndarray, name: str = "ttft") -> Batches:
    """Batches of requests with these latencies, in the order of arrival, one each second."""
    batches = Batches()
    for index in range(1, len(times)):
        if index >= batches.next_index:
            batches.begin(float(index))
    for batch, rows in batches.of_requests(np.arange(len(times))):
        batch.completed += len(rows)
        batch.times[name].add(times[rows])
    return batches


def test_batches_are_merged_in_pairs() -> None:
    """Of 130 requests: 65 do not fit in 64 batches, so that two are in one; 130 of them not either, so that four are: 33."""
    batches = batches_of(np.arange(1.0, 131.0))
    assert (batches.width, len(batches)) == (4, 33)
    assert batches.starts == [4.0 * number for number in range(33)]
    assert [one.times["ttft"].total for one in batches][:2] == [1 + 2 + 3 + 4, 5 + 6 + 7 + 8]
    assert list(batches)[-1].times["ttft"].total == 129 + 130
    for num in (64, 65, 1000, 5000):
        assert MAX_BATCHES / 2 <= len(batches_of(np.ones(num))) <= MAX_BATCHES


def test_requests_of_the_warm_up_are_in_no_batch() -> None:
    """The first three of six; tokens of steps that begin before the fourth arrives are in none either."""
    batches = Batches(3)
    assert (len(batches), batches.next_index) == (0, 3)
    batches.begin(7.0)
    batches.begin(8.0)
    rows = [list(positions) for _, positions in batches.of_requests(np.array([0, 4, 2, 3]))]
    assert rows == [[3], [1]]
    assert [list(positions) for _, positions in batches.of_times(np.array([6.9, 7.0, 7.5, 9.0]))] == [[1, 2], [3]]


def test_groups_grow() -> None:
    """Fives of requests in any order; of very many, tens."""
    groups = Groups()
    groups.add(np.array([7, 0, 4]), np.array([3.0, 1.0, 2.0]))
    sums, counts = groups.sums()
    assert (list(sums), list(counts)) == ([3.0, 3.0], [2.0, 1.0])
    last = GROUP * 2**16
    groups.add(np.array([last]), np.array([5.0]))
    sums, counts = groups.sums()
    assert groups.size == 2 * GROUP
    assert (sums[0], counts[0], sums[-1], len(sums)) == (6.0, 3.0, 5.0, 2**15 + 1)


def test_the_error_of_independent_batches() -> None:
    """Runs with the means 1, 2, 3 and equal weights: mean 2, deviation 1/sqrt(3), t(0.975, 2) = 4.3027 (any table)."""
    error = ratio_error([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], repeated=True)
    assert error is not None
    assert error.deviation == pytest.approx(1 / math.sqrt(3))
    assert error.above == error.below == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert ratio_error([1.0], [1.0], repeated=True) is None


def test_a_skewed_interval_reaches_further_up() -> None:
    """Willink's form, by hand.

    0, 0, 0, 3: variance 2.25, third moment 4 x 10.125 / (3 x 2) = 6.75, skewness 6.75/3.375 = 2,
    beta = 2/(6 x 2) = 1/6. Of t: cbrt(1 + t - 1/6) less 1, times three; t(0.975, 3) = 3.1824; deviation 1.5/2.
    """
    error = ratio_error([0.0, 0.0, 0.0, 3.0], [1.0] * 4, repeated=True)
    assert error is not None
    assert error.below == pytest.approx(0.75 * 3 * ((1 + 3.18245 - 1 / 6) ** (1 / 3) - 1), rel=1e-4)
    assert error.above == pytest.approx(0.75 * 3 * (1 + (3.18245 + 1 / 6 - 1) ** (1 / 3)), rel=1e-4)


def test_correlated_batches_are_merged_or_refused() -> None:
    """A random walk has no batches that do not depend on each other; noise has."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=64)
    assert ratio_error(np.cumsum(noise) + 100, np.ones(64)) is None
    error = ratio_error(noise + 100, np.ones(64))
    assert error is not None
    assert error.deviation == pytest.approx(1 / 8, rel=0.6)


def test_pairs_of_an_odd_number_of_batches() -> None:
    """15 batches of which neighbours are alike become 8, the fewest there may be; 13 would become 7."""
    alike = np.repeat([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0], 2)
    assert ratio_error(alike[:15] + 100, np.ones(15)) is not None
    assert ratio_error(alike[:13] + 100, np.ones(13)) is None


def test_few_requests_have_no_percentile() -> None:
    """Beyond the 99th percentile of 300 requests are 3, of 2,000 are 20; ten at least."""
    rng = np.random.default_rng(2)
    few, more = (confidence([list(batches_of(rng.exponential(1.0, num)))]).latencies["ttft"] for num in (300, 2000))
    assert few["p99"].low is None
    assert few["p99"].why == "300 requests: at least 1,000 are needed"
    assert few["p90"].low is not None
    assert more["p99"].low is not None
    assert confidence([list(batches_of(rng.exponential(1.0, 9)))]).latencies["ttft"]["mean"].why


def waiting(load: float, num: int, seed: int) -> np.ndarray:
    """Times in an M/M/1 queue in mean service times, by Lindley's recursion."""
    rng = np.random.default_rng([seed, 1])
    gaps, service = rng.exponential(1 / load, num), rng.exponential(1.0, num)
    free = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    return np.asarray(free - np.minimum.accumulate(free) + service)


@pytest.mark.slow
def test_intervals_hold_the_truth_of_a_queue() -> None:
    """M/M/1 at half load, 5,000 requests: times in the system are exponential with mean 2.

    Of 100 seeds 95 should hold it; 88 to 100 do with a probability of more than 99 %. Figures of 200: docs/simulation.md.
    """
    truth = {"mean": 2.0} | {name: -2 * math.log(1 - share) for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95))}
    hold: dict[str, list[bool]] = {name: [] for name in truth}
    for seed in range(100):
        intervals = confidence([list(batches_of(waiting(0.5, 5000, seed)))]).latencies["ttft"]
        for name, value in truth.items():
            one = intervals[name]
            if one.low is not None and one.high is not None:
                hold[name].append(one.low <= value <= one.high)
    for name, each in hold.items():
        assert len(each) >= 85, name
        assert 0.88 <= sum(each) / len(each) <= 1.0, name


def test_a_heavily_loaded_queue_has_no_interval_rather_than_a_wrong_one() -> None:
    """At 0.95 a busy period lasts for thousands of requests: a run of 1,000 tells next to nothing of the 99th percentile."""
    given = [confidence([list(batches_of(waiting(0.95, 1000, seed)))]).latencies["ttft"]["p99"].low for seed in range(20)]
    assert given == [None] * 20


def test_mser_by_hand() -> None:
    """Two of 4, 0, 2, 2, 2, 2 are left out, and a ramp is never steady.

    Of all, squares about the mean 2 sum to 8, over 6^2; without the first: 1.6^2 + 4 x 0.4^2 = 3.2, over 5^2; without two: 0.
    """
    assert mser(np.array([4.0, 0.0, 2.0, 2.0, 2.0, 2.0])) == 2
    assert mser(np.array([4.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0])) == 1
    assert mser(np.arange(40.0)) is None


def test_only_a_quick_start_is_cut() -> None:
    """Ten groups of quick requests are; ten of slow ones are by chance, since a server is empty at first."""
    rng = np.random.default_rng(3)
    steady = 10 + rng.normal(size=200)
    for first, least, most in ((2.0, 50, 150), (18.0, 0, 0)):
        means = np.concatenate([np.full(10, first), steady])
        requests, why = initial_requests({"ttft": (means * GROUP, np.full(210, float(GROUP)))}, GROUP)
        assert least <= requests <= most
        assert "MSER-5" in why


def run(**given: Any) -> Simulation:
    """The usual model on the usual hardware."""
    return simulate(MODEL, HARDWARE, **given)


LONG: dict[str, Any] = {"input_len": 200, "output_len": 2000, "requests": 2000, "rate": 2}


def test_the_warm_up_is_cut_and_said() -> None:
    """Answers of 2,000 tokens take a minute: until then fewer requests run, and steps are shorter.

    What is cut is the same as if it had been given.
    """
    result = run(**LONG)
    cut = result.warm_up["requests"]
    assert (result.warm_up["method"], result.requests.cut) == ("mser-5", cut)
    assert 0 < cut < 1000
    assert "the server was empty at first, and" in result.warm_up["why"]
    given = run(**LONG, warm_up=cut / 2000)
    assert given.warm_up["method"] == "given"
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        one, other = (getattr(each, name) for each in (result, given))
        assert one.mean == pytest.approx(other.mean, rel=1e-9), name
        assert one.p99 == pytest.approx(other.p99, rel=1e-9), name
    assert result.goodput is None
    assert run(**LONG, warm_up=0).requests.cut == 0


@pytest.mark.parametrize(
    ("load", "method"),
    [
        ({"rate": 4, "requests": 900}, "none"),
        ({"workload": "closed:16", "requests": 1500}, "none"),
        ({"workload": "closed:16:prompts=100:warm-up=2"}, "workload"),
        ({"workload": "at-once:1200"}, "none"),
        ({"rate": 4, "requests": 300, "replications": 3}, "default"),
        ({"rate": 1000, "requests": 1500}, "none"),
    ],
    ids=str,
)
def test_what_is_not_cut(load: dict[str, Any], method: str) -> None:
    """Short runs, closed loops, all at once, saturation: and why."""
    result = run(input_len=100, output_len=20, **load)
    assert result.warm_up["method"] == method
    assert result.warm_up["why"]
    if method == "none":
        assert (result.warm_up["requests"], result.requests.cut) == (0, 0)


@pytest.mark.slow
def test_intervals_of_a_result() -> None:
    """Around each value, those of several runs around the value of all of them.

    The share within the SLO likewise, and the goodput at the rate of completions.
    """
    load: dict[str, Any] = {"rate": 8, "input_len": "lognormal:500:300", "output_len": 50, "requests": 3000, "ttft": 0.06}
    for result in (run(**load), run(**load, replications=4)):
        assert result.ttft_s.confidence is not None
        assert result.ttft_s.confidence["method"] == ("replications" if result.replications else "batch-means")
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
            one = getattr(result, name)
            for figure in ("mean", "p50", "p90", "p95"):
                ends = one.interval(figure)
                assert ends is not None, (name, figure)
                assert ends[0] <= getattr(one, figure) * 1.001
                assert getattr(one, figure) <= ends[1] * 1.001
        share = result.confidence["within_slo"]
        assert share["low"] < result.within_slo < share["high"]
        rate = result.throughput["requests_per_s"]
        assert result.confidence["goodput"]["low"] == pytest.approx(share["low"] * rate)
        assert Simulation.from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_no_steady_state_no_intervals() -> None:
    """All at once, and saturated."""
    for load in ({"workload": "at-once:500"}, {"rate": 1000, "requests": 1500}):
        result = run(input_len=100, output_len=20, **load)
        assert result.e2e_s.interval("mean") is None
        assert result.e2e_s.confidence is not None
        assert result.e2e_s.confidence["mean"]["why"]
