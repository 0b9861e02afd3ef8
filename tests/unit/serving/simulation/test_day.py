"""Arrivals whose rate follows a day's profile."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from roofline import simulate
from roofline.errors import InputError
from roofline.serving.simulation.arrivals import Constant, Gamma, Modulated, Poisson
from roofline.serving.simulation.workload import read_workload
from roofline.serving.traffic.profile import parse_profile


def times(arrivals: Modulated, count: int, seed: int = 0) -> np.ndarray:
    """The first arrivals, in seconds."""
    chunks = islice(arrivals.times(np.random.default_rng(seed)), count // 8192 + 1)
    return np.concatenate(list(chunks))[:count]


def test_by_hand() -> None:
    """A beat of 1/s under weights 1 and 3 in a day of 8 s: half the rate for 4 s, then 1.5 times, 2 and 6 arrivals a day.

    The clock of the beat is at 2 after 4 s, and at 8 after 8 s: 1 comes at 2, 2 at 4, 3 at 4 + 1/1.5, ..., 8 at 8.
    """
    arrivals = Modulated(Constant(1.0), parse_profile("1,3"), 8.0)
    expected = [0, 2, *(4 + number / 1.5 for number in range(6)), 8, 10, 12]
    assert times(arrivals, 11).tolist() == pytest.approx(expected)
    assert [arrivals.expected(until) for until in (2, 4, 6, 8, 12)] == pytest.approx([1, 2, 5, 8, 10])


def test_nothing_arrives_where_the_load_is_zero() -> None:
    """Weights 0, 2, 0, 2 in a day of 4 s: two at a time between 1 and 2, and between 3 and 4."""
    arrivals = Modulated(Poisson(5.0), parse_profile("0,2,0,2"), 4.0)
    part = (times(arrivals, 20000) % 4).astype(int)
    assert set(part.tolist()) == {1, 3}


def test_counts_follow_the_profile() -> None:
    """100 days of 1,000 requests: each part's share is its weight's, within 4 standard deviations; so is each day's number."""
    weights = np.array([1, 2, 4, 3])
    arrivals = Modulated(Poisson(2.0), parse_profile("1,2,4,3"), 500.0)
    at = times(arrivals, 100_000, seed=1)
    counts = np.bincount((at % 500 // 125).astype(int), minlength=4)
    expected = weights / 10 * len(at)
    assert (abs(counts - expected) < 4 * np.sqrt(expected)).all()
    days = np.bincount((at // 500).astype(int))[:90]
    # of a Poisson process: the variance of the number is its mean
    assert days.mean() == pytest.approx(1000, rel=0.02)
    assert days.var() == pytest.approx(1000, rel=0.6)


def test_other_processes_keep_their_mean_rate() -> None:
    """Gamma arrivals with a variation of 3, and another rate."""
    arrivals = Modulated(Gamma(4.0, 3.0), parse_profile("1,1,6"), 60.0).at_rate(8.0)
    assert arrivals.rate == 8.0
    assert 80_000 / times(arrivals, 80_000)[-1] == pytest.approx(8.0, rel=0.06)


OF = {"input_len": "100", "output_len": "10"}


def test_a_day_is_simulated_unless_another_end_is_given() -> None:
    """1/s for a day of 10 min: 600 requests, on average; half a day of weights 1 and 3 has a quarter of them."""
    load = read_workload(rate=1, profile="1,3", day="10 min", notes=[], **OF)
    assert (load.until, load.num_expected, load.rate) == (600.0, 600, 1.0)
    load = read_workload(rate=1, profile="1,3", day="10 min", until="5 min", notes=[], **OF)
    assert load.num_expected == 150
    load = read_workload(rate=1, profile="1,3", notes=[], **OF)
    assert load.until == 86400


def test_a_profile_of_a_traffic_file(tmp_path: object) -> None:
    """Without --day the peak is simulated, as before; with it the day, at the mean rates."""
    path = tmp_path / "traffic.yaml"  # type: ignore[operator]  # a path
    path.write_text("classes:\n- {name: a, rate: 2, input_len: 100, output_len: 10}\nprofile: [1, 3]\n")
    assert read_workload(workload=str(path), requests=10, notes=[]).rate == 3.0
    load = read_workload(workload=str(path), day="10 min", notes=[])
    assert (load.rate, load.until, load.changes) == (2.0, 600.0, True)
    with pytest.raises(InputError, match="profile of its own"):
        read_workload(workload=str(path), profile="1,2", notes=[])


def test_a_trace_has_its_own_load(tmp_path: object) -> None:
    """Its arrivals follow no profile; its lengths may, at a rate."""
    path = tmp_path / "trace.csv"  # type: ignore[operator]  # a path
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n1,10,5\n")
    with pytest.raises(InputError, match="load over time of their own"):
        read_workload(trace=str(path), profile="1,2", notes=[])
    assert read_workload(trace=str(path), workload="poisson:2", profile="1,2", day="60 s", notes=[]).changes


def test_results_say_that_there_is_no_steady_state() -> None:
    """No warm-up is cut, and no interval is given."""
    result = simulate("llama-3.1-8b", "h100-sxm", rate=4, profile="1,3", day="5 min", **OF)
    assert result.workload["profile"] == [0.5, 1.5]
    assert result.warm_up == {"requests": 0, "method": "none", "why": "the load changes over the day: all requests count"}
    assert result.ttft_s.interval("mean") is None
    arrived = np.array(result.series["arrived_per_s"])
    half = int(150 / result.series["interval_s"])
    assert arrived[half:].mean() / arrived[:half].mean() == pytest.approx(3, rel=0.15)
