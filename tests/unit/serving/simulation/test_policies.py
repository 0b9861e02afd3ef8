"""Order, fairness, ageing, admission and preemption candidates: small servers worked out by hand, and what always holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated import AffineStepTime, LinearCosts, Served, serve, world

import roofline
from roofline.errors import InputError
from roofline.report.simulation.summary import remarks
from roofline.serving.simulation.admission import ADMISSION, QueueLimit, TokenBuckets, TTFTControl, _seconds, parse_admission
from roofline.serving.simulation.candidates import CANDIDATES
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.queues import Aged, LeastServed, ShortestFirst
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.schedulers import FAIR, PRIORITY, SJF, VLLM_V1
from roofline.serving.simulation.step_log import END, RUN, SHED

SECOND = AffineStepTime(1.0)
"""Each step takes a second: a request alone takes as many as it has output tokens."""
ONE_SLOT = EngineConfig(100, 4, 1, 64)
both = pytest.mark.parametrize("stepwise", [False, True])


def sent(*rows: tuple[float, int, int] | tuple[float, int, int, int]) -> list[Request]:
    """Requests: arrival, prompt and output tokens, class."""
    return [Request(index, *row) for index, row in enumerate(rows)]


def order(served: Served) -> list[int]:
    """Requests in the order of admission."""
    return [event[2] for event in served.of("admit")]


def first_tokens(requests: Sequence[Request]) -> list[float]:
    """When each had its first token."""
    return [request.first_token_time for request in requests]


def shed(served: Served) -> list[tuple[int, float]]:
    """Requests that were shed, and when."""
    table = np.array(served.log.sheds).reshape(-1, len(SHED))
    return [(int(row[0]), float(row[-1])) for row in table]


# Shortest first


@both
def test_the_shortest_is_next(stepwise: bool) -> None:
    """A runs from 0 to 5; then C (2 s), D (3 s), B (4 s), whatever the order in which they came.

    Each has its first token 1 s after its start.
    """
    requests = sent((0, 4, 5), (0.1, 4, 4), (0.2, 4, 2), (0.3, 4, 3))
    assert order(serve("sjf", requests, SECOND, ONE_SLOT, stepwise=stepwise)) == [0, 2, 3, 1]
    assert first_tokens(requests) == [1, 11, 6, 8]
    assert [request.num_passed for request in requests] == [0, 2, 0, 0]


def test_without_lengths_it_is_first_come_first_served() -> None:
    """The third kind of shortest first: what knows nothing of lengths keeps the order of arrival."""
    assert order(serve("vllm-v1", sent((0, 4, 5), (0.1, 4, 4), (0.2, 4, 2), (0.3, 4, 3)), SECOND, ONE_SLOT)) == [0, 1, 2, 3]


def test_predicted_lengths_decide_where_they_are_wrong() -> None:
    """The order is that of prompt and predicted output; a prediction is of the request and the seed, whoever waits with it."""
    predict = ShortestFirst(1.5, (3, 0))
    requests = sent((0, 4, 1), *[(0.1, 4 + index, 2 + index) for index in range(12)])
    queue = order(serve(replace(SJF, queue=predict), requests, SECOND, ONE_SLOT))
    by_prediction = sorted(requests[1:], key=lambda one: one.num_prompt_tokens + predict.predicted(one))
    assert queue[1:] == [one.index for one in by_prediction] != sorted(queue[1:])
    alone = [Request(7, 0.0, 1, 100), Request(9, 0.0, 1, 100)]
    backwards = [predict.predicted(one) for one in reversed(alone)]
    assert [predict.predicted(one) for one in alone] == backwards[::-1]
    assert replace(predict, seed=(4, 0)).predicted(alone[0]) != backwards[1]


def test_the_error_of_predicted_lengths_is_log_normal() -> None:
    """10,000 requests: the logarithm of predicted over true has mean 0 and the standard deviation that was given."""
    predict = ShortestFirst(0.5, (0, 0))
    errors = [math.log(predict.predicted(Request(index, 0.0, 1, 77)) / 77) for index in range(10_000)]
    assert np.mean(errors) == pytest.approx(0, abs=0.02)
    assert np.std(errors) == pytest.approx(0.5, rel=0.02)


# Ageing


@both
def test_a_request_that_waited_long_enough_goes_first(stepwise: bool) -> None:
    """Short ones (2 s) come every 2 s, so that L (10 s, at 0.1 s) never runs. At 6 s it has waited 5 s, and runs."""
    rows = [(0.0, 4, 2), (0.1, 4, 10), *((0.2 + 2 * index, 4, 2) for index in range(10))]
    requests = sent(*rows)
    served = serve(replace(SJF, queue=Aged(SJF.queue, 5.0)), requests, SECOND, ONE_SLOT, stepwise=stepwise)  # type: ignore[arg-type]
    assert order(served)[:4] == [0, 2, 3, 1]
    assert requests[1].first_token_time == 7
    starved = sent(*rows)
    assert order(serve("sjf", starved, SECOND, ONE_SLOT, stepwise=stepwise))[-1] == 1
    assert starved[1].num_passed == 10


@both
def test_ageing_ends_a_run_of_decode_steps(stepwise: bool) -> None:
    """R has 4 of 10 blocks. X (first class, 7 blocks) is next and does not fit; Y (second class, 1 block) would.

    Y is 5 s old at 5.25 s: it is admitted in the step from 6 s, while R goes on until 20 s.
    """
    requests = sent((0, 16, 20, 0), (0.25, 4, 2, 1), (0.5, 28, 2, 0))
    config = EngineConfig(10, 4, 4, 64)
    policy = replace(PRIORITY, queue=Aged(PRIORITY.queue, 5.0))  # type: ignore[arg-type]
    served = serve(policy, requests, SECOND, config, stepwise=stepwise)
    assert order(served) == [0, 1, 2]
    assert first_tokens(requests) == [1, 7, 21]
    assert order(serve("priority", sent((0, 16, 20, 0), (0.25, 4, 2, 1), (0.5, 28, 2, 0)), SECOND, config)) == [0, 2, 1]


@pytest.mark.parametrize("name", ["sjf", "priority", "fair"])
def test_the_bound_of_ageing(name: str) -> None:
    """One slot: from its age on a request waits for what came before it, and for one that runs.

    What came before it takes no longer than under first come, first served: the wait is at most the age, the wait there, and
    the longest service.
    """
    rng = np.random.default_rng(5)
    policies = {one.name: one for one in (SJF, PRIORITY, FAIR)}
    longer = 0
    for max_wait in (0.0, 3.0, 20.0, 60.0):
        arrivals = np.cumsum(rng.exponential(3.0, 150)).tolist()
        outputs = rng.geometric(0.3, 150).tolist()
        rows = [(time, 4, num, int(rng.integers(3))) for time, num in zip(arrivals, outputs, strict=True)]
        fcfs, aged, free = sent(*rows), sent(*rows), sent(*rows)
        serve("vllm-v1", fcfs, SECOND, ONE_SLOT)
        policy = policies[name]
        serve(replace(policy, queue=Aged(policy.queue, max_wait)), aged, SECOND, ONE_SLOT)  # type: ignore[arg-type]
        serve(policy, free, SECOND, ONE_SLOT)
        for one, other, third in zip(fcfs, aged, free, strict=True):
            bound = max_wait + (one.first_token_time - one.arrival_time) + max(outputs)
            assert other.first_token_time - other.arrival_time <= bound + 1e-9
            longer += third.first_token_time - third.arrival_time > bound
    assert longer > 0  # without ageing it does not hold


# Fairness


@both
def test_virtual_token_counters(stepwise: bool) -> None:
    """Requests of 4 prompt tokens (service 4) and 2 output tokens (2 each): 8, in 2 s.

    0 of class 0 has service 6 at 1 s, when class 1 is known: it is lifted to 6. At 2 s class 0 has 8: 4 of class 1 is next, and
    makes 14; then 1 (16), then 5; then the rest of class 0.
    """
    requests = sent(*[(0.0, 4, 2, 0)] * 4, *[(0.5, 4, 2, 1)] * 2)
    assert order(serve("fair", requests, SECOND, ONE_SLOT, stepwise=stepwise)) == [0, 4, 1, 5, 2, 3]


@both
def test_weights_of_classes(stepwise: bool) -> None:
    """As above with twice the weight of class 1: each of its requests adds 4, so that at 8 s it has 14, and class 0 has 16."""
    requests = sent(*[(0.0, 4, 2, 0)] * 4, *[(0.5, 4, 2, 1)] * 4)
    policy = replace(FAIR, queue=LeastServed((1.0, 2.0)))
    assert order(serve(policy, requests, SECOND, ONE_SLOT, stepwise=stepwise)) == [0, 4, 1, 5, 6, 2, 7, 3]


def test_a_class_that_was_idle_has_saved_up_nothing() -> None:
    """Class 1 comes at 4.5 s, when class 0 has had 20: it is lifted to 22 at 5 s, and takes turns.

    Without that both of its requests would be served before 3.
    """
    requests = sent(*[(0.0, 4, 2, 0)] * 4, *[(4.5, 4, 2, 1)] * 2)
    assert order(serve("fair", requests, SECOND, ONE_SLOT)) == [0, 1, 2, 4, 3, 5]


# Admission


@both
def test_a_full_queue_sheds_what_comes(stepwise: bool) -> None:
    """One runs, two wait, the fourth and fifth are shed when they come."""
    requests = sent(*[(index / 10, 4, 3) for index in range(5)])
    served = serve("vllm-v1", requests, SECOND, ONE_SLOT, stepwise=stepwise, admission=lambda: QueueLimit(2, 1))
    assert shed(served) == [(3, pytest.approx(0.3)), (4, pytest.approx(0.4))]
    assert first_tokens(requests)[:3] == [1, 4, 7]


@both
def test_a_full_queue_sheds_the_last_class_first(stepwise: bool) -> None:
    """3 (class 0) takes the place of 2, the last of class 1 that came; 4 (class 1) has none to replace.

    5 replaces 1; 6 (class 0) finds only class 0.
    """
    classes = [1, 1, 1, 0, 1, 0, 0]
    requests = sent(*[(index / 10, 4, 3, one) for index, one in enumerate(classes)])
    served = serve("vllm-v1", requests, SECOND, ONE_SLOT, stepwise=stepwise, admission=lambda: QueueLimit(2, 2))
    assert [index for index, _ in shed(served)] == [2, 4, 1, 6]
    assert [time for _, time in shed(served)] == pytest.approx([0.3, 0.4, 0.5, 0.6])
    assert order(served) == [0, 3, 5]


def test_token_buckets() -> None:
    """10 tokens/s up to 20, for each class. 15 of 20; 0.5 s later there are 10; 1 s later 15; never more than 20."""
    buckets = TokenBuckets(10.0, 20.0)
    rows = [(0, 15, 0), (0.5, 15, 0), (1, 15, 0), (1, 20, 1), (1.05, 1, 0), (100, 21, 0), (100, 20, 0)]
    assert [buckets.admits(Request(0, time, prompt, 1, which)) for time, prompt, which in rows] == [
        True, False, True, True, False, False, True,
    ]  # fmt: skip


TEN = EngineConfig(100, 4, 8, 10)
"""Ten tokens per step."""


@both
def test_what_would_miss_its_objective_is_shed_when_it_comes(stepwise: bool) -> None:
    """Prompts take two steps, the objective is 5 s. At 1 s half of 0 is left: 1 would end at 1 + 3 s, 2 at 1 + 5 s."""
    requests = sent(*[(index / 10, 20, 1) for index in range(5)])
    served = serve("vllm-v1", requests, SECOND, TEN, stepwise=stepwise, admission=lambda: TTFTControl([5.0]))
    assert shed(served) == [(2, 1.0), (3, 1.0), (4, 1.0)]
    assert first_tokens(requests)[:2] == [2, 4]


@both
def test_later_classes_are_shed_for_an_objective(stepwise: bool) -> None:
    """1 and 2 (class 1, no objective) wait before 3: with both it would end at 1 + 7 s, with one at 1 + 5, with none at 4 s."""
    requests = sent((0, 20, 1, 0), (0.1, 20, 1, 1), (0.2, 20, 1, 1), (0.3, 20, 1, 0))
    served = serve("vllm-v1", requests, SECOND, TEN, stepwise=stepwise, admission=lambda: TTFTControl([5.0, math.inf]))
    assert shed(served) == [(2, 1.0), (1, 1.0)]
    assert requests[3].first_token_time == 4


@both
def test_what_has_become_too_late_is_dropped(stepwise: bool) -> None:
    """The slot is taken until 10 s. The prompt of 1 has to begin at 0.5 + 5 - 1 s: it is dropped by the next step, at 5 s."""
    requests = sent((0, 10, 10), (0.5, 10, 3))
    served = serve("vllm-v1", requests, SECOND, ONE_SLOT, stepwise=stepwise, admission=lambda: TTFTControl([5.0]))
    assert shed(served) == [(1, 5.0)]


@pytest.mark.parametrize(
    ("running", "mixed", "seconds"),
    [
        # one of 4 has to end: 3 x 2 of 64 tokens decode; 2 steps of 58 beside 750 cached tokens, and 14 more
        (4, True, 2 * (1 + 3 + 58 / 4 + 0.75) + (1 + 3 + 14 / 4 + 0.75)),
        # 2 x 2 decode: 2 steps of 60 beside 1,000, and 10 more
        (2, True, 2 * (1 + 2 + 60 / 4 + 1) + (1 + 2 + 10 / 4 + 1)),
        (4, False, 2 * (1 + 64 / 4) + (1 + 2 / 4)),  # prompts have steps of their own
    ],
)
def test_seconds_until_prompts_are_computed(running: int, mixed: bool, seconds: float) -> None:
    """130 tokens in steps of 64, of which each sequence that decodes takes 2.

    A step takes 1 s, and 1 s per sequence, 1/4 s per new token, 1 ms per cached one.
    """

    def step(num_sequences: int, num_cached_tokens: float, chunks: list[tuple[int, int]]) -> float:
        return 1 + num_sequences + sum(new for new, _ in chunks) / 4 + num_cached_tokens / 1000

    scheduler: Any = SimpleNamespace(
        batch=SimpleNamespace(num_sequences=running, num_cached_tokens=1000), policy=SimpleNamespace(mixed_steps=mixed),
        max_num_seqs=4, max_num_batched_tokens=64, num_step_tokens=2, step_time=SimpleNamespace(mixed=step),
    )  # fmt: skip
    assert _seconds(130, scheduler) == pytest.approx(seconds)
    assert _seconds(0, scheduler) == 0


@pytest.mark.slow
def test_every_wait_is_counted() -> None:
    """Little's law: the number that waits, over time, is the time that all of them wait, those that are shed too."""
    for seed in range(120):
        served = world(seed).run(False)
        runs = np.array(served.log.runs).reshape(-1, len(RUN))
        level = ((runs[:, 1] - runs[:, 0]) * runs[:, RUN.index("waiting")]).sum()
        ends = np.array(served.log.ends).reshape(-1, len(END))
        sheds = np.array(served.log.sheds).reshape(-1, len(SHED))
        out = sum(event[1] for _, event in served.events if event[0] in ("admit", "resume")) + sheds[:, -1].sum()
        into = sum(event[1] for _, event in served.events if event[0] in ("preempt", "swap"))
        into += ends[:, 1].sum() + sheds[:, 1].sum()
        assert level == pytest.approx(out - into, rel=1e-6, abs=1e-6), seed


# Preemption candidates


def preempted(name: str, requests: list[Request], config: EngineConfig, preemption: PreemptionPolicy | None = None) -> int:
    """The first request that is preempted."""
    policy = replace(VLLM_V1, preemption_candidate=CANDIDATES[name].choose)
    times = AffineStepTime(1.0, token=0.1)
    return int(serve(policy, requests, times, config, preemption=preemption).of("preempt", "swap")[0][2])


def test_the_cheapest_to_compute_again() -> None:
    """B (8 tokens) came before A (24): A is the last that was admitted and arrived, and B the cheaper one."""
    rows = ((0.0, 8, 30), (0.1, 24, 16))
    config = EngineConfig(12, 4, 8, 64)
    assert [preempted(name, sent(*rows), config) for name in ("last-admitted", "last-arrived", "cheapest")] == [1, 1, 0]
    assert preempted("least-important", sent((0.0, 8, 30, 2), (0.1, 24, 16, 1)), config) == 0


def test_the_cheapest_to_copy() -> None:
    """Copies take 1 s per token and way. A has more tokens than the host holds.

    It would be computed again, in 1 s and 0.1 s per token, so that losing B costs more.
    """
    host = PreemptionPolicy("swap", LinearCosts(0.1, 1.0), host_tokens=20)
    assert preempted("cheapest", sent((0.0, 24, 16), (0.1, 8, 30)), EngineConfig(12, 4, 8, 64), host) == 0
    assert preempted("cheapest", sent((0.0, 24, 16), (0.1, 8, 30)), EngineConfig(12, 4, 8, 64)) == 1


def test_the_cheapest_frees_what_is_missing() -> None:
    """X and Y (8 tokens) both need a third block, and none is free. T is the cheapest, but its one block is not enough."""
    assert preempted("cheapest", sent((0.0, 8, 9), (0.0, 8, 9), (0.0, 2, 9)), EngineConfig(5, 4, 8, 64)) == 1


def test_the_fewest_output_tokens() -> None:
    """B began last and has the fewest; of two that began together the one with the longer prompt."""
    assert preempted("fewest-output-tokens", sent((0.0, 4, 40), (5.1, 24, 16)), EngineConfig(12, 4, 8, 64)) == 1
    assert preempted("fewest-output-tokens", sent((0.0, 24, 16), (0.0, 4, 40)), EngineConfig(12, 4, 8, 64)) == 0


# Through `simulate`

LOAD: dict[str, Any] = {"input_len": "lognormal:900:600", "output_len": "lognormal:150:100", "requests": 1500}


def simulate(**options: Any) -> Simulation:
    """A run on one A100."""
    return roofline.simulate("llama-3.1-8b", "a100-sxm-80gb", **{**LOAD, **options})


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A traffic file: an important class and another, together more than the server can do."""
    path = tmp_path_factory.mktemp("traffic") / "two.yaml"
    one = "input_len: 'lognormal:900:600', output_len: 'lognormal:150:100'"
    path.write_text(
        f"schema_version: 1\nkind: traffic\nclasses:\n- {{name: chat, rate: 12, {one}, ttft: 1 s, weight: 2}}\n"
        f"- {{name: batch, rate: 12, {one}, ttft: 20 s}}\n"
    )
    return str(path)


def classes(**options: Any) -> Simulation:
    """A run of a traffic file."""
    return roofline.simulate("llama-3.1-8b", "a100-sxm-80gb", requests=1500, warm_up=0, **options)


@pytest.mark.parametrize("admission", ["queue:10", "token-bucket:6000:20000", "slo"])
@pytest.mark.parametrize("scheduler", ["vllm-v1", "priority", "fair"])
def test_what_arrives_completes_or_is_shed(two_classes: str, admission: str, scheduler: str) -> None:
    """Requests are conserved, by class too; shed ones are missed by goodput; the second class is shed more."""
    result = classes(workload=two_classes, admission=admission, scheduler=scheduler)
    counts = result.requests
    assert counts.arrived == counts.completed + counts.shed == 1500
    assert counts.unfinished == 0 < counts.shed
    assert sum(one["completed"] for one in result.classes) == counts.completed
    assert sum(one["shed"] for one in result.classes) == counts.shed
    assert result.shed_share == counts.shed / counts.arrived
    good = [one["within_slo"] * (one["completed"] + one["shed"]) for one in result.classes]
    assert result.within_slo == pytest.approx(sum(good) / 1500)
    assert result.goodput == pytest.approx(sum(good) / result.duration_s)
    if admission == "queue:10":
        assert result.classes[0]["shed"] < result.classes[1]["shed"]
    assert Simulation.from_dict(result.to_dict()).to_dict() == result.to_dict()
    assert dict(remarks(result))["Shed"].startswith(f"{counts.shed:,} requests shed by --admission {admission}")


def test_a_gate_lets_no_more_through_than_its_rate(two_classes: str) -> None:
    """Of each class at most the burst, and the rate for as long as requests come."""
    result = classes(workload=two_classes, admission="token-bucket:6000:20000")
    through = result.throughput["prompt_tokens_per_s"] * result.duration_s
    assert through <= 2 * (20000 + 6000 * result.duration_s)
    looser = classes(workload=two_classes, admission="token-bucket:9000:20000")
    assert looser.requests.shed < result.requests.shed


@pytest.mark.slow
def test_a_longer_queue_sheds_less_and_waits_longer() -> None:
    """Monotone in the limit."""
    runs = [simulate(rate=24, admission=f"queue:{limit}") for limit in (2, 20, 100)]
    assert runs[0].requests.shed > runs[1].requests.shed > runs[2].requests.shed
    waits = [one.ttft_s.mean or 0.0 for one in runs]
    assert waits == sorted(waits)


def test_shedding_keeps_the_others_in_time() -> None:
    """Past saturation most requests are in time with `slo`, and next to none without."""
    without, with_slo = (simulate(rate=30, ttft="1 s", warm_up=0, **more) for more in ({}, {"admission": "slo"}))
    assert (with_slo.goodput or 0) > 3 * (without.goodput or 0)
    assert with_slo.ttft_s.mean is not None
    assert with_slo.ttft_s.mean < 1.2
    assert without.saturated
    assert not with_slo.saturated


@pytest.mark.slow
def test_options_are_the_same_step_by_step(two_classes: str) -> None:
    """A whole run with every option, and the same with data-parallel ranks."""
    options: dict[str, Any] = {
        "workload": two_classes, "scheduler": "fair", "max_wait": "3 s", "admission": "slo", "preemption_candidate": "cheapest",
        "num_gpu_blocks_override": 3000, "requests": 400,
    }  # fmt: skip
    one, other = (roofline.simulate("llama-3.1-8b", "a100-sxm-80gb", stepwise=step, **options) for step in (False, True))
    assert one.requests == other.requests
    assert one.requests.shed > 0
    assert one.requests.preemptions > 0
    assert one.ttft_s.mean == pytest.approx(other.ttft_s.mean)
    ranks: dict[str, Any] = {**options, "dp": 2, "ep": 2, "num_gpu_blocks_override": None, "rate": 40}
    one, other = (roofline.simulate("mixtral-8x7b", "h200-sxm", stepwise=step, **ranks) for step in (False, True))
    assert one.requests == other.requests
    assert one.ttft_s.mean == pytest.approx(other.ttft_s.mean)


@pytest.mark.slow
def test_a_starved_request_is_named(two_classes: str) -> None:
    """Under `priority` beyond saturation the second class waits for all of the first.

    Not so under first come, first served, nor with ageing.
    """
    result = classes(workload=two_classes, scheduler="priority")
    starved, longest = result.starved, result.longest_wait
    assert starved is not None
    assert longest is not None
    assert starved["class"] == longest["class"] == "batch"
    assert starved["admitted_before"] >= 100
    assert longest["seconds"] >= starved["seconds"] >= 10 * (result.ttft_s.p50 or 0)
    assert longest["seconds"] == pytest.approx(result.ttft_s.max, rel=1e-3)
    assert f"Request {starved['request']} (class batch) is starved" in dict(remarks(result))["Warning"]
    for options in ({}, {"scheduler": "priority", "max_wait": "2 s"}):
        other = classes(workload=two_classes, **options)
        assert other.longest_wait is not None
        assert other.starved is None
        assert "Warning" not in dict(remarks(other))


def test_fair_shares_follow_the_weights(two_classes: str) -> None:
    """While both wait, the class of twice the weight gets twice the service: it waits far less; without weights both wait."""
    fair = classes(workload=two_classes, scheduler="fair").classes
    fcfs = classes(workload=two_classes).classes
    assert fair[0]["ttft_s"] < fcfs[0]["ttft_s"] / 2
    assert fair[1]["ttft_s"] > fcfs[1]["ttft_s"]


@pytest.mark.slow
def test_errors_change_the_order_by_seed_alone() -> None:
    """The same seed is the same run; another error another one."""
    runs = [simulate(rate=30, scheduler="sjf", length_error=error).e2e_s.mean for error in (0, 0.5, 0.5)]
    known = simulate(rate=30, scheduler="sjf").e2e_s.mean
    assert runs[0] == known != runs[1] == runs[2]


@pytest.mark.slow
def test_find_rate_and_replications_take_them() -> None:
    """What is shed misses the objective, so that the rate found is one at which little is."""
    options: dict[str, Any] = {"ttft": "1 s", "requests": 400, "find_rate": True, "replications": 1, "percentile": 95}
    result = simulate(**options, admission="queue:20", scheduler="sjf", length_error=0.3, max_wait="5 s")
    assert result.find_rate is not None
    assert result.find_rate["rate"] > 1
    assert result.shed_share <= 0.05
    several = simulate(rate=30, requests=300, replications=2, admission="queue:20")
    assert several.requests.arrived == 600 == several.requests.completed + several.requests.shed


def test_a_study_compares_them() -> None:
    """Policies with their own admission: what they shed is in the table."""
    options = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "ttft": "1 s", **LOAD, "requests": 300}
    policies = {"all": {"admission": "all"}, "shortest": {"scheduler": "sjf", "max-wait": "5 s", "admission": "queue:5"}}
    result = roofline.study({"options": options, "policies": policies, "rates": [30], "seeds": 1})
    assert [row["shed"] > 0 for row in result.table] == [False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_error": 0.5}, "--length-error: vllm-v1 does not order requests by their length"),
        ({"scheduler": "sjf", "length_error": "much"}, "--length-error: must be a number from 0 to 5"),
        ({"scheduler": "sjf", "length_error": -1}, "--length-error: must be from 0 to 5"),
        ({"max_wait": "5 s"}, "--max-wait: vllm-v1 is first come, first served"),
        ({"scheduler": "sjf", "max_wait": "soon"}, "--max-wait: "),
        ({"scheduler": "orca", "preemption_candidate": "cheapest"}, "orca reserves all blocks"),
        ({"preemption_candidate": "cheap"}, "Did you mean cheapest"),
        ({"admission": "queu:3"}, "Did you mean queue"),
        ({"admission": "queue"}, "must be queue:N"),
        ({"admission": "queue:0"}, "N must be at least 1"),
        ({"admission": "all:3"}, "must be all"),
        ({"admission": "token-bucket:0"}, "prompt tokens/s above 0"),
        ({"admission": "token-bucket:5:6:7"}, r"must be token-bucket:RATE\[:BURST\]"),
        ({"admission": "slo"}, "within which TTFT"),
        ({"admission": "queue:3", "rate": None, "workload": "closed:8"}, "give them a pause"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    """One error, with what is allowed."""
    with pytest.raises(InputError, match=message):
        simulate(**{"rate": 8, **options})


def test_clients_with_a_pause_come_again() -> None:
    """A closed loop goes on when a request is shed: all 300 come."""
    result = simulate(workload="closed:200:1s", requests=300, admission="queue:5")
    assert result.requests.arrived == 300 == result.requests.completed + result.requests.shed
    assert result.requests.shed > 0


def test_each_way_has_a_line_about_it() -> None:
    """And its syntax is what it reads."""
    for policy in ADMISSION.values():
        assert policy.about
        assert policy.syntax.startswith(policy.name)
    assert [parse_admission(text).text for text in ("all", "queue:3", "token-bucket:300/min", "slo")][1] == "queue:3"
    assert all(one.about for one in CANDIDATES.values())
