"""Replicas that start, drain and fail, by hand: a step takes 1 s, and a replica runs one request at a time.

A request with a prompt of 4 tokens and an output of n takes n steps: its first token comes with the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from simulated import AffineStepTime, Served, random_fleet, scaled, serve, world

from roofline import simulate
from roofline.errors import InputError
from roofline.serving.simulation.autoscaling import AUTOSCALERS, Autoscaler, Observation
from roofline.serving.simulation.failures import FailureConfig, parse_failures
from roofline.serving.simulation.fleet import FleetConfig, FleetRecord, peak
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import END

STEP = AffineStepTime(1.0)
ALONE = EngineConfig(num_gpu_blocks=100, block_size=4, max_num_seqs=1, max_num_batched_tokens=100)


def requests(*of: tuple[float, int]) -> list[Request]:
    """Requests by arrival and output tokens."""
    return [Request(index, arrival, 4, output) for index, (arrival, output) in enumerate(of)]


def both(of: Sequence[tuple[float, int]], fleet: FleetConfig, **more: Any) -> Served:
    """Served in runs; step by step it is the same."""
    runs, steps = (serve("vllm-v1", requests(*of), STEP, ALONE, fleet=fleet, stepwise=one, **more) for one in (False, True))
    assert rows(runs) == pytest.approx(rows(steps))
    assert runs.record is not None
    assert steps.record is not None
    assert [*chain(*runs.record.held)] == pytest.approx([*chain(*steps.record.held)])
    return runs


def rows(served: Served) -> list[float]:
    """Number, first token and end of each request that ended."""
    width, at = len(END), [END.index(name) for name in ("index", "first", "ended")]
    return [served.log.ends[row + place] for row in range(0, len(served.log.ends), width) for place in at]


def times(served: Served) -> dict[int, tuple[float, float]]:
    """When each request had its first token, and when it ended."""
    flat = rows(served)
    return {int(flat[at]): (flat[at + 1], flat[at + 2]) for at in range(0, len(flat), 3)}


# Autoscaling


def test_waiting_requests_add_replicas_and_the_window_keeps_them() -> None:
    """Six requests of 4 s come at 0 to one replica, two more at 6. Looked at every 2 s; 2 may wait; starts take 3 s.

    2: 5 wait: ceil(5/2) = 3 replicas; two are asked for, and serve from 5. Those that wait stay where they are. 4: 5 wait (the
    step that ends at 4 is not done): 3. 6: 4 wait, 2 would do; within 6 s there were 3. The two that come at 6 go to the new
    ones, and end at 10. 8: 4 wait, 2; the 3 of time 2 is within 6 s. 10: 3 wait, 2; the 3 of time 4 counts. 12: 3 wait (the
    third ends now): 2, and none of 3 is left in the window: replica 2, the last that began, goes. 14, 16: 2 wait, 1; 2 within
    the window. 18: 1 waits, 1; the 2 of time 12 counts. 20: 1; replica 1 goes. The last request ends at 24.
    """
    scale = scaled("waiting", target=2.0, interval=2.0, start_up=3.0, scale_down_window=6.0)
    served = both([*[(0.0, 4)] * 6, (6.0, 4), (6.0, 4)], FleetConfig(1, scale), router="least-loaded")
    assert times(served) == {
        **{index: (4.0 * index + 1, 4.0 * index + 4) for index in range(6)}, 6: (7.0, 10.0), 7: (7.0, 10.0),
    }  # fmt: skip
    record = served.record
    assert record is not None
    assert record.scaled == [(2.0, 2), (12.0, -1), (20.0, -1)]
    assert sorted(record.held) == [(0.0, 24.0), (2.0, 12.0), (2.0, 20.0)]
    assert sorted(record.served) == [(0.0, 24.0), (5.0, 12.0), (5.0, 20.0)]
    figures = record.figures(devices=4)
    assert figures["replica_hours"] == pytest.approx(52 / 3600)
    assert figures["gpu_hours"] == pytest.approx(4 * 52 / 3600)
    assert figures["mean_replicas"] == pytest.approx(52 / 24)
    assert (figures["peak_replicas"], figures["scale_ups"], figures["scale_downs"]) == (3, 1, 2)


def test_a_replica_that_drains_ends_its_requests_and_takes_no_more() -> None:
    """At 3 two requests are unfinished, and 2 per replica may be: replica 1 drains until its request ends at 8.

    The request of time 4 waits for replica 0, whose own ends at 10.
    """
    scale = scaled("unfinished", target=2.0, interval=3.0, start_up=3.0, scale_down_window=0.0, max=2)
    served = both([(0.0, 10), (0.0, 8), (4.0, 2)], FleetConfig(2, scale))
    assert times(served) == {0: (1.0, 10.0), 1: (1.0, 8.0), 2: (11.0, 12.0)}
    assert served.record is not None
    assert sorted(served.record.held) == [(0.0, 8.0), (0.0, 12.0)]


def test_changes_are_counted_by_their_sign() -> None:
    """One more, two more, one less, and no change: two up and one down."""
    figures = FleetRecord(scaled=[(1.0, 1), (2.0, 2), (3.0, -1), (4.0, 0)]).figures(devices=1)
    assert (figures["scale_ups"], figures["scale_downs"]) == (2, 1)


def test_from_zero() -> None:
    """Nothing serves at 1; at 2 one request waits at the router: a replica is asked for, and serves from 7."""
    scale = scaled("waiting", min=0, interval=2.0, start_up=5.0)
    served = both([(1.0, 3)], FleetConfig(0, scale))
    assert times(served) == {0: (8.0, 10.0)}
    assert served.record is not None
    assert served.record.queued == [(1.0, 7.0)]
    assert served.record.held == [(2.0, 10.0)]


@pytest.mark.parametrize("policy", list(AUTOSCALERS))
def test_longer_starts_never_lower_the_tail(policy: str) -> None:
    """A burst for which one replica is too few: the p95 of TTFT and the longest do not fall as starts take longer.

    It is what cold starts do to tails (arXiv:2401.14351, section 2.3 and figure 10): requests wait for as long as weights load.
    """
    target = 0.01 if policy == "kv" else 2.0
    burst = [(0.5 * index, 6) for index in range(60)]
    tails = []
    for start_up in (0.0, 5.0, 20.0, 60.0):
        scale = scaled(policy, target=target, interval=2.0, start_up=start_up)
        found = times(both(burst, FleetConfig(1, scale), router="least-loaded"))
        waits = sorted(found[index][0] - arrival for index, (arrival, _) in enumerate(burst))
        tails.append((waits[56], waits[-1]))
    assert tails == sorted(tails)
    assert tails[0] < tails[-1]


def seen(
    time: float, *, current: int = 1, serving: int | None = None, waiting: int = 0, unfinished: int = 0, kv: float = 0.0
) -> Observation:
    """What an autoscaler sees."""
    return Observation(time, current if serving is None else serving, current, waiting, unfinished, kv)


def test_hpa_changes_nothing_within_its_tolerance() -> None:
    """10 % from the target on (Kubernetes, --horizontal-pod-autoscaler-tolerance): 10 replicas with a target of 5 each."""
    for waiting, desired in ((54, 10), (56, 12), (46, 10), (44, 9)):
        scaler = Autoscaler(scaled("waiting", max=100, scale_down_window=0.0))
        assert scaler.evaluate(seen(15, current=10, waiting=waiting)) == desired


def test_hpa_adds_four_or_as_many_as_there_are_in_15_seconds() -> None:
    """1 -> 5 (4 more), nothing more within 15 s, then 10 (twice)."""
    scaler = Autoscaler(scaled("waiting", max=100))
    assert scaler.evaluate(seen(15, current=1, waiting=1000)) == 5
    assert scaler.evaluate(seen(22, current=5, waiting=1000)) == 5
    assert scaler.evaluate(seen(30, current=5, waiting=1000)) == 10


def test_hpa_counts_starting_replicas_as_empty() -> None:
    """Two replicas at 0.96 and a target of 0.8: ceil(2 x 1.2) = 3.

    With one starting the mean is 0.64: nothing changes. With 0.6 of two: ceil(2 x 0.75) = 2 of the three.
    """
    scaler = Autoscaler(scaled("kv", scale_down_window=0.0))
    assert scaler.evaluate(seen(15, current=2, kv=1.92)) == 3
    assert scaler.evaluate(seen(30, current=3, serving=2, kv=1.92)) == 3
    assert scaler.evaluate(seen(45, current=3, serving=2, kv=1.2)) == 2


def test_knative_panics() -> None:
    """A target of 10, of which 70 %: 7. A minute of 7 requests: one replica.

    Then 28: the mean of 6 s (3 looks) is 14, 21, 28, so 2 x 1 replicas from the first look on: a panic, in which none is
    removed until 60 s after it.
    """
    scaler = Autoscaler(scaled("concurrency", target=10.0, interval=2.0, scale_down_window=0.0, max=20))
    for look in range(1, 31):
        assert scaler.evaluate(seen(2.0 * look, unfinished=7)) == 1
    assert scaler.evaluate(seen(62, unfinished=28)) == 2  # (7 + 7 + 28)/3/7
    assert scaler.evaluate(seen(64, current=2, serving=1, unfinished=28)) == 3  # (7 + 28 + 28)/3/7
    assert scaler.evaluate(seen(66, current=3, serving=1, unfinished=28)) == 4
    assert scaler.evaluate(seen(68, current=4, unfinished=0)) == 4
    # the last look with twice as many as serve was at 66; the panic ends after 126
    assert [scaler.evaluate(seen(time, current=4, unfinished=0)) for time in (100.0, 126.0)] == [4, 4]
    assert scaler.evaluate(seen(128, current=4, unfinished=0)) == 2  # at most halved
    assert scaler.evaluate(seen(130, current=2, unfinished=0)) == 1


# Failures


def test_a_request_restarts_elsewhere() -> None:
    """Replica 0 fails at 3.5, after three tokens (at 1, 2, 3), with the prompt and two of them cached.

    Replica 1 computes the prompt again, and all 6 tokens, until 9.5. TTFT counts to 1, and the client waits from 3 to 4.5 for a
    token.
    """
    served = both([(0.0, 6)], FleetConfig(2, failures=FailureConfig(at=((3.5, 0),))))
    assert times(served) == {0: (1.0, 9.5)}
    record = served.record
    assert record is not None
    assert (record.num_failures, record.num_retries, record.retried) == (1, 1, {0})
    assert (record.lost_output_tokens, record.lost_kv_tokens) == (3, 6)
    assert list(served.log.gaps) == [1.5, 1]


def test_a_request_goes_on_elsewhere() -> None:
    """As above, with its three tokens computed beside the prompt: the fourth comes at 4.5, the sixth at 6.5."""
    served = both([(0.0, 6)], FleetConfig(2, failures=FailureConfig(at=((3.5, 0),), resume="continue")))
    assert times(served) == {0: (1.0, 6.5)}
    assert served.record is not None
    assert (served.record.lost_output_tokens, served.record.lost_kv_tokens) == (0, 6)
    chunks = [event[4] for index in (0, 1) for event in served.of("mixed", replica=index)]
    assert chunks == [((0, 4, 0),), ((0, 7, 0),)]


def test_the_router_holds_requests_until_the_repair() -> None:
    """One replica fails at 2.5 and is back at 12.5; the request restarts, and ends at 18.5. One that came at 5 follows."""
    served = both([(0.0, 6), (5.0, 2)], FleetConfig(1, failures=FailureConfig(at=((2.5, 0),), repair=10.0)))
    assert times(served) == {0: (1.0, 18.5), 1: (19.5, 20.5)}
    record = served.record
    assert record is not None
    assert (record.served, record.repaired) == ([(0.0, 2.5), (12.5, 20.5)], [(2.5, 12.5)])
    assert sorted(record.queued) == [(2.5, 12.5), (5.0, 12.5)]
    assert record.figures(1)["availability"] == pytest.approx(10.5 / 20.5)


@pytest.mark.parametrize(("retries", "ended"), [(0, []), (1, []), (2, [0])])
def test_retries_end(retries: int, ended: list[int]) -> None:
    """A request of 6 s whose replica fails at 2.5 and, repaired at 3.5, at 5.5, and is back at 6.5: it takes two retries."""
    fails = FailureConfig(at=((2.5, 0), (5.5, 0)), repair=1.0, retries=retries)
    served = both([(0.0, 6)], FleetConfig(1, failures=fails))
    assert list(times(served)) == ended
    assert served.failed == ([] if ended else [0])


def test_requests_fail_where_no_replica_is_left() -> None:
    """Two requests, of which none has ended, on the only replica, which is never repaired; the third comes after that."""
    served = both([(0.0, 6), (1.0, 6), (9.0, 1)], FleetConfig(1, failures=FailureConfig(at=((2.5, 0),))))
    assert times(served) == {}
    assert sorted(served.failed) == [0, 1, 2]


def test_more_retries_never_complete_fewer() -> None:
    """40 requests under failures every 15 s, 20 seeds of the failures' times: by retries from 0 to 6."""
    for shift in range(20):
        at = tuple((3.7 + 15 * number + shift / 3, number % 2) for number in range(30))
        counts = []
        for retries in range(7):
            fails = FailureConfig(at=at, repair=4.0, retries=retries)
            counts.append(len(times(both([(1.5 * index, 9) for index in range(40)], FleetConfig(2, failures=fails)))))
        assert counts == sorted(counts)
        assert counts[0] < 40


def test_availability_is_that_of_a_renewal_process() -> None:
    """Exponential lives with a mean of 50 s and repairs of 10 s: 50/60 of the time, over 8 replicas and 4,000 s.

    Source: Ross 2014, Introduction to Probability Models, 11th edition, section 7.5.1 (alternating renewal processes).
    """
    of = [(4.0 * index, 1) for index in range(1000)]
    fails = FailureConfig(mtbf=50.0, repair=10.0, retries=100)
    served = serve("vllm-v1", requests(*of), STEP, ALONE, fleet=FleetConfig(8, failures=fails), router="least-loaded")
    assert served.record is not None
    assert served.record.num_failures > 400
    assert served.record.figures(1)["availability"] == pytest.approx(50 / 60, abs=0.02)


def test_the_same_seed_fails_the_same() -> None:
    """Times of failures depend on the seed and the replica alone."""
    one, other = (served.record for served in (world(3).run(False, fleet=random_fleet(1)) for _ in range(2)))
    assert one == other
    fails = FailureConfig(mtbf=10.0)
    lives = [[next(fails.lifetimes(seed, replica)) for replica in range(3)] for seed in ((0, 0), (0, 0), (1, 0))]
    assert lives[0] == lives[1]
    assert len({life for each in lives for life in each}) == 6


def test_spans_that_touch_do_not_overlap() -> None:
    """A replica that goes when another comes makes no peak."""
    assert peak([(0.0, 2.0), (2.0, 3.0), (1.0, 2.0)]) == 2


# As options

OF = {"rate": 4, "input_len": 400, "output_len": 60, "requests": 400, "ttft": "1 s"}
SCALE = "min=1,max=4,policy=unfinished,target=4,start-up=5 s,interval=5 s"


def run(**options: Any) -> Any:
    """The result for a small model on one card."""
    return simulate("llama-3.1-8b", "h100-sxm", **{**OF, **options})


def test_results_of_a_fleet() -> None:
    """All that arrived completed or failed; hours, cost and series fit together; the same seed gives the same."""
    result = run(autoscale=SCALE, failures="mtbf=5 s,repair=3 s,retries=1")
    counts, fleet = result.requests, result.fleet
    assert counts.arrived == 400
    assert counts.completed + counts.failed + counts.refused == 400
    assert counts.retried > 0
    assert counts.failed > 0
    assert fleet["gpu_hours"] == fleet["replica_hours"] > 0
    assert fleet["num_failures"] > 0
    assert fleet["cost"]["low"] <= fleet["cost"]["value"] <= fleet["cost"]["high"]
    series = result.series
    held, serving = (math.fsum(series[name]) * series["interval_s"] for name in ("replicas", "serving"))
    assert held == pytest.approx(fleet["replica_hours"] * 3600, rel=0.01)
    assert serving == pytest.approx(fleet["mean_serving"] / fleet["mean_replicas"] * held, rel=0.01)
    again = run(autoscale=SCALE, failures={"mtbf": "5 s", "repair": "3 s", "retries": 1})
    assert again.to_dict() == result.to_dict()
    assert type(result).from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_failed_requests_are_misses() -> None:
    """Of one replica that is never repaired: all that had not ended miss, whatever their latency."""
    result = run(failures="at=20 s:replica=0,repair=never", tpot="1 s")
    counts = result.requests
    assert counts.failed > 100
    assert counts.completed + counts.failed == 400
    assert result.within_slo == pytest.approx(counts.completed / 400, abs=0.02)
    (one,) = result.classes
    assert one["within_slo"] == result.within_slo


def test_runs_of_steps_and_single_steps_agree() -> None:
    """To the clock of each request, by all latencies."""
    one, other = (run(autoscale=SCALE, failures="mtbf=40 s,repair=10 s", stepwise=stepwise) for stepwise in (False, True))
    assert one.requests == other.requests
    assert one.e2e_s.mean == pytest.approx(other.e2e_s.mean, rel=0.01)  # step times by the table, and by its formulas
    assert one.fleet["replica_hours"] == pytest.approx(other.fleet["replica_hours"], rel=0.01)


def test_data_parallel_ranks_fail_together() -> None:
    """A replica of two ranks is one: both lose what they have."""
    result = simulate(
        "mixtral-8x7b", "h100-sxm", tensor_parallel_size=2, data_parallel_size=2, expert_parallel_size=4, rate=8, input_len=300,
        output_len=100, requests=150, replicas=2, failures="at=10 s:replica=1,repair=5 s",
    )  # fmt: skip
    assert result.requests.completed == 150
    assert result.fleet["num_failures"] == 1
    assert result.requests.retried > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"autoscale": "min=1"}, "max is missing"),
        ({"autoscale": "min=3,max=2"}, r"max must be from min \(3\)"),
        ({"autoscale": "max=2,tarjet=3"}, "target"),
        ({"autoscale": "max=2,policy=waitin"}, "waiting"),
        ({"autoscale": "max=2,policy=kv,target=80"}, "share of the KV cache"),
        ({"autoscale": "max=2,start-up=5"}, "unit"),
        ({"autoscale": "max=2,start-up=5 s,load-rate=1 GB/s"}, "leave one of them out"),
        ({"autoscale": "max=2,max=3"}, "given twice"),
        ({"autoscale": "max"}, "key=value"),
        ({"autoscale": "max=2", "replicas": 3}, "at the start"),
        ({"autoscale": "max=2", "find_rate": True}, "--find-rate"),
        ({"autoscale": "max=2", "perfetto": "trace.json"}, "--perfetto"),
        ({"failures": "repair=5 s"}, "mtbf is missing"),
        ({"failures": "at=5 s:replica=1"}, "no replica 1"),
        ({"failures": "at=5 s"}, "replica=0"),
        ({"failures": "mtbf=1 h,resume=again"}, "restart, continue|continue, restart"),
        ({"failures": "mtbf=0 s"}, "above 0"),
        ({"day": "1 h"}, "--profile"),
        ({"profile": "1,2", "workload": "closed:4", "rate": None}, "clients"),
        ({"profile": "1,2", "workload": "at-once", "rate": None}, "all at once"),
        ({"profile": "0,0"}, "all weights are 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], why: str) -> None:
    """Each says what is wrong with which option."""
    with pytest.raises(InputError, match=why):
        run(**options)


def test_settings_of_a_file(tmp_path: Any) -> None:
    """The same keys in YAML; the file is among the inputs."""
    path = tmp_path / "scale.yaml"
    path.write_text("kind: autoscale\nmin: 1\nmax: 4\npolicy: unfinished\ntarget: 4\nstart-up: 5 s\ninterval: 5 s\n")
    result = run(autoscale=str(path))
    assert result.fleet == run(autoscale=SCALE).fleet
    assert result.inputs["autoscale"]["name"] == "scale.yaml"
    fails = tmp_path / "failures.yaml"
    fails.write_text("mtbf: 1 h\nat: ['1 s:replica=0', '2 s:replica=1']\n")
    assert parse_failures(str(fails), lambda: 7.0).at == ((1.0, 0), (2.0, 1))
    fails.write_text("mtfb: 1 h\n")
    with pytest.raises(InputError, match="mtbf"):
        parse_failures(str(fails), lambda: 7.0)


def test_a_start_loads_the_weights() -> None:
    """Llama 2 70B in bf16, 68.98 billion parameters: 137.95 GB at 1.55 GB/s are 89 s.

    arXiv:2401.14351, section 2.2 has 84 s for "130 GB". The rate and the engine's start may be given.
    """
    many = {"input_len": 10, "output_len": 2, "rate": 1, "requests": 1, "tp": 8}
    result = simulate("llama-2-70b", "h100-sxm", **many, autoscale="max=2,engine-start=0")
    assert result.fleet["autoscale"]["start_up_s"] == pytest.approx(137.95e9 / 1.55e9, rel=0.005)
    result = simulate("llama-2-70b", "h100-sxm", **many, autoscale="max=2,engine-start=10 s,load-rate=5 GB/s")
    assert result.fleet["autoscale"]["start_up_s"] == pytest.approx(10 + 137.95 / 5, rel=0.005)


def test_off_is_off() -> None:
    """Without either option nothing of a fleet is in the result."""
    result = run()
    assert result.fleet is None
    assert "replicas" not in result.series
