"""Seconds of a deployment under a mix of requests, against the same steps asked for one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofline.predict.compiled import Compiled, StepTimes
from roofline.predict.compiled_rounds import CompiledRounds
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.serving.queueing.ranks import excess_rounds, fullest_rank
from roofline.serving.queueing.replica import (
    BOUND,
    ESTIMATE,
    BatchServer,
    Demand,
    Mix,
    Replica,
    _blended,
    fullest_share,
    prompts_of_round,
    scatter,
    step_seconds,
)
from roofline.serving.queueing.rounds import RoundLengths
from roofline.specs.workload import Segment, Step, decode

FIXED = Mix(1.0, np.full(8, 1000.0), np.full(8, 201.0))


def replica(budgets: tuple[int, ...] = (2048,), **options: object) -> Replica:
    return Replica(prepare("llama-3.1-8b", "h100-sxm", input_len=1, phase="decode", **options), 64, budgets)


def test_a_decode_step_is_that_of_the_mean_context() -> None:
    """1,000 prompt tokens and half of 200 later ones: the middle of the answer."""
    found = replica()
    seconds = found.server([FIXED], 64, 2048).decode_s
    for many in (1, 64):
        assert seconds[many - 1] == pytest.approx(pipeline(found.request, decode(many, 1100)).estimate, rel=1e-9)


def test_a_prompt_adds_the_step_with_it_less_the_step_without() -> None:
    found = replica()
    demand = found.server([FIXED], 64, 2048).demands[0]
    beside = Segment(64, 1, 1100, decode=True)
    both = pipeline(found.request, (beside, Segment(1, 1000, 0))).estimate
    alone = pipeline(found.request, (beside,)).estimate
    assert both is not None
    assert alone is not None
    # NB: the engine's part is by sequences: a prompt is one more for `pipeline`, and none here
    engine = found.request.engine_seconds(65) - found.request.engine_seconds(64)
    assert demand.prompts(np.array([64.0]))[0, 0] == pytest.approx(both - alone - engine, rel=1e-6)


def test_a_long_prompt_is_the_sum_of_its_chunks() -> None:
    """10,000 tokens in chunks of 2,048: four whole ones, of which the first and the last are looked at, and a rest."""
    found = replica()
    mix = Mix(1.0, np.full(8, 10_000.0), np.full(8, 2.0))
    demand = found.server([mix], 64, 2048).demands[0]
    request, total = found.request, 0.0
    beside = Segment(1, 1, 10_000, decode=True)
    alone = pipeline(request, (beside,)).estimate or 0.0
    engine = request.engine_seconds(2) - request.engine_seconds(1)
    for start in range(0, 10_000, 2048):
        chunk = min(2048, 10_000 - start)
        both = pipeline(request, (beside, Segment(1, chunk, start))).estimate or 0.0
        total += both - alone - engine
    assert demand.prompts(np.array([1.0]))[0, 0] == pytest.approx(total, rel=0.02)


def test_ranks_have_a_prompt_each() -> None:
    """Eight ranks share the experts: a prompt on each costs what `analyze` says of a batch of eight, and one alone of one."""
    request = prepare("deepseek-v3", "dgx-h200", input_len=1, phase="decode", dp=8, ep=8)
    ranks = Replica(request, 16, (8192,))
    mix = Mix(1.0, np.full(8, 8192.0), np.full(8, 201.0))
    demand = ranks.server([mix], 16, 8192).demands[0]
    beside = Segment(8, 1, 8292, decode=True)
    alone = pipeline(request, (beside,)).estimate or 0.0
    engine = request.engine_seconds(2) - request.engine_seconds(1)
    each, one = ((pipeline(request, (beside, Segment(count, 8192, 0))).estimate or 0.0) - alone - engine for count in (8, 1))
    assert each < 8 * one / 3  # prompts of ranks that step together are not computed one after another
    assert demand.prompts(np.array([1.0]))[0, 0] == pytest.approx(each, rel=1e-3)
    assert demand.prompts(np.array([1.0]))[0, 0] * demand.alone(8) == pytest.approx(one, rel=0.05)


def test_cached_tokens_are_not_computed() -> None:
    mix = Mix(1.0, np.array([1000.0]), np.array([2.0]), hit=0.75)
    assert list(mix.computed) == [250]
    assert list(Mix(1.0, np.array([3.0]), np.array([2.0]), hit=0.99).computed) == [1]
    found = replica()
    whole, part = (found.server([one], 64, 2048).demands[0].prompts(np.array([1.0]))[0, 0]
                   for one in (Mix(1.0, np.array([1000.0]), np.array([2.0])), mix))  # fmt: skip
    assert part < whole / 2


def test_bounds_are_below_estimates_and_scale() -> None:
    found = replica()
    bound, estimate = (found.server([FIXED], 64, 2048, basis=basis) for basis in ("bound", "estimate"))
    assert np.all(bound.decode_s < estimate.decode_s)
    twice = found.server([FIXED], 64, 2048, scale=2.0)
    assert twice.decode_s == pytest.approx(2 * estimate.decode_s)


def test_a_pipeline_has_a_batch_in_every_stage() -> None:
    """Of 64 sequences in two stages 32 are in each: a token takes as long as 32 take through both."""
    found = replica(pp=2)
    seconds = found.server([FIXED], 64, 2048).decode_s[63]
    assert seconds == pytest.approx(pipeline(found.request, decode(32, 1100)).estimate, rel=1e-9)
    assert found.server([FIXED], 64, 2048).stages == 2


def test_what_the_prefix_cache_has() -> None:
    """A share of every prompt, its first tokens, or some of the requests."""
    lengths = np.array([1000.0]), np.array([2.0])
    assert not Mix(1.0, *lengths).cached
    assert Mix(1.0, *lengths, hit=0.5).cached
    assert Mix(1.0, *lengths, prefix=1).cached


def test_scatter_is_that_of_prompts_to_compute() -> None:
    """Prompts of 1 and 3 tokens: mean 2, mean square 5, so 5/4 - 1."""
    demand = Demand(1.0, np.ones(1), np.zeros((1, 2)), np.array([1.0, 3.0]), np.ones(1))
    assert scatter([demand]) == pytest.approx(0.25)


def seconds_of(step: Step, sequences: Any) -> dict[str, Any]:
    """A made-up step: linear in the sequences and, of a prompt, in the cached tokens; in nothing else.

    The bound of a short prompt is less than nothing. Prompts on several ranks share what a square root shares.
    """
    decoding, *prompts = step
    total = 0.004 + decoding.count * (1e-4 + 1e-9 * decoding.cached**1.5)
    more: Any = 0.0
    bound = total / 2
    for one in prompts:
        more = one.count**0.5 * (1e-6 * one.new**1.3 + 1e-9 * one.new * one.cached)
        more = more + 1e-7 * one.count * one.new * decoding.count * (1 + 1e-3 * decoding.cached)
        bound = bound + 1e-6 * (one.new - 40) * one.count
    return {BOUND: bound, ESTIMATE: total + more + 1e-5 * sequences}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Replica]:
    monkeypatch.setattr("roofline.serving.queueing.replica.step_seconds", lambda _, step, batch: seconds_of(step, batch))

    def of(budgets: tuple[int, ...] = (64, 100), slots: int = 9, ranks: int = 1, stages: int = 1, **more: Any) -> Replica:
        deployment = SimpleNamespace(data_parallel_size=ranks, pipeline_parallel_size=stages)
        request = SimpleNamespace(deployment=deployment, estimator=SimpleNamespace(applies=True))
        return Replica(request, slots, budgets, **more)  # type: ignore[arg-type]

    return of


MIXES = (
    Mix(0.6, np.array([50.0, 180.0, 290.0, 301.0]), np.array([1.0, 5.0, 12.0]), hit=0.25),
    Mix(0.4, np.array([30.0, 40.0]), np.array([0.0, 101.0]), prefix=35),
)


def contexts(mix: Mix) -> list[int]:
    """Of four prompts each, of two each: with half of what outputs have met, E[m^2]/2 E[m]."""
    steps = [max(m - 1, 0) for m in mix.outputs.tolist()]
    return [round(p + sum(m * m for m in steps) / sum(steps) / 2) for p in mix.prompts.tolist()]


def added_by_hand(
    new: float, cached: float, running: float, context: float, *, budget: int, count: int = 1, ranks: int = 1, stages: int = 1,
    basis: str = ESTIMATE,
) -> float:  # fmt: skip
    """Each chunk of a prompt in a step with it less the same without."""
    batch = math.ceil(running / stages)
    decoding, total = Segment(batch * ranks, 1, context, decode=True), 0.0
    for start in range(0, int(new), budget):
        chunk = Segment(count, min(budget, new - start), cached + start)
        total += seconds_of((decoding, chunk), batch)[basis] - seconds_of((decoding,), batch)[basis]
    return total


def test_a_server_by_hand(made_up: Callable[..., Replica]) -> None:
    """Decode steps at the contexts of both classes, weighted by their steps; prompts in chunks of 64 and of 100."""
    for budget, basis in ((64, ESTIMATE), (100, ESTIMATE), (100, BOUND)):
        server = made_up().server(MIXES, 7, budget, cv=0.7, scale=2.0, basis=basis)
        steps = [mix.share * np.maximum(mix.outputs - 1, 0).mean() for mix in MIXES]
        weights = [(c, m / len(contexts(mix))) for mix, m in zip(MIXES, steps, strict=True) for c in contexts(mix)]
        for n in range(1, 8):
            each = [w * seconds_of((Segment(n, 1, c, decode=True),), n)[basis] for c, w in weights]
            assert server.decode_s[n - 1] == pytest.approx(2 * sum(each) / sum(w for _, w in weights))
        middle = round(sum(mix.share * sum(contexts(mix)) / len(contexts(mix)) for mix in MIXES))
        computed = [[38, 135, 218, 226], [1, 5]]  # three quarters, rounded up; all but 35, at least one
        for mix, demand, new in zip(MIXES, server.demands, computed, strict=True):
            assert (demand.share, demand.prompt_tokens.tolist()) == (mix.share, new)
            assert demand.decode_steps.tolist() == [max(m - 1, 0) for m in mix.outputs.tolist()]
            assert (demand.rank_share, demand.running.tolist()) == (1.0, [1, 5, 9])
            for row, n in enumerate((1, 5, 9)):
                seconds = [
                    max(added_by_hand(one, p - one, n, middle, budget=budget, basis=basis), 0.0)
                    for one, p in zip(new, mix.prompts.tolist(), strict=True)
                ]
                assert demand.prompt_s[row] == pytest.approx([2 * x for x in seconds])
    assert (server.slots, server.budget, server.ranks, server.stages, server.cv) == (7, 100, 1, 1, 0.7)
    assert (server.hold_steps, server.step_tokens, server.scatter) == (0, 1, scatter(server.demands))


def test_a_server_of_ranks_and_stages_by_hand(made_up: Callable[..., Replica]) -> None:
    """On three ranks in two stages: batches of half of the sequences, three times; a prompt on each rank or on one."""
    replica = made_up(ranks=3, stages=2, balanced=True)
    server = replica.server(MIXES[:1], 9, 64)
    assert (server.ranks, server.stages, server.budget, server.hold_steps, server.cv) == (3, 2, 128, 50, 1)
    middle = contexts(MIXES[0])
    for n in (1, 4, 9):
        batch = math.ceil(n / 2)
        each = [seconds_of((Segment(3 * batch, 1, c, decode=True),), batch)[ESTIMATE] for c in middle]
        assert server.decode_s[n - 1] == pytest.approx(sum(each) / 4)
    pairs = list(zip((38, 135, 218, 226), MIXES[0].prompts.tolist(), strict=True))
    of_all, of_one = (
        [
            [
                added_by_hand(new, p - new, n, round(sum(middle) / 4), budget=64, count=count, ranks=3, stages=2)
                for new, p in pairs
            ]
            for n in (1, 5, 9)
        ]
        for count in (3, 1)
    )
    (demand,) = server.demands
    assert demand.prompt_s == pytest.approx(np.array(of_all))
    share = (3 * np.mean(of_one) / np.mean(of_all) - 1) / 2
    assert 0 < share < 1
    assert demand.rank_share == pytest.approx(share)
    assert demand.alone(3) == pytest.approx(share + (1 - share) / 3)


def test_long_lists_of_lengths_are_looked_at_here_and_there(made_up: Callable[..., Replica]) -> None:
    """Of 100 prompts 14 are evaluated, of contexts five, of 200 batch sizes 14, and those between are on straight lines."""
    prompts = np.linspace(1001, 1991, 100).round()
    server = made_up(budgets=(4096,), slots=200).server([Mix(1.0, prompts, np.full(3, 11.0))], 200, 4096)
    middle = round(np.mean([round(part.mean() + 5) for part in np.split(prompts, 5)]))
    expected = [added_by_hand(float(p), 0.0, 1, middle, budget=4096) for p in prompts]
    assert server.demands[0].prompt_s[0] == pytest.approx(expected, rel=5e-4)
    assert server.demands[0].prompt_s[0][[0, 99]] == pytest.approx([expected[0], expected[99]])
    for n in (1, 77, 200):
        met = [Segment(n, 1, round(part.mean() + 5), decode=True) for part in np.split(prompts, 5)]
        assert server.decode_s[n - 1] == pytest.approx(sum(seconds_of((one,), n)[ESTIMATE] for one in met) / 5)
    assert server.demands[0].running[[0, -1]].tolist() == [1, 200]


def test_drafts_make_steps_rounds(made_up: Callable[..., Replica]) -> None:
    """Three drafted tokens: four tokens of the budget per sequence, and as many rounds as outputs take on average."""
    speculation = SimpleNamespace(options=SimpleNamespace(tokens=3, acceptance=0.6))
    replica = made_up(speculation=speculation)
    assert isinstance(replica.steps, CompiledRounds)
    assert (type(made_up().steps), replica.steps.speculation) == (Compiled, speculation)
    server = replica.server(MIXES[:1], 9, 64)
    mean, variance = RoundLengths(3, 0.6).rounds([0.0, 4.0, 11.0])
    (demand,) = server.demands
    assert server.step_tokens == 4
    assert demand.decode_steps == pytest.approx(mean)
    assert demand.rounds_variance == pytest.approx(variance)
    assert demand.decode_tokens is not None
    assert demand.decode_tokens.tolist() == [0, 4, 11]
    assert server.tokens_per_step == pytest.approx(5 / mean.mean())


def test_cases_are_blended_in_order_of_their_tokens(made_up: Callable[..., Replica]) -> None:
    """A quarter of the requests compute 10 and 150 tokens, the others 100 and 290: eighths, in order, in two halves.

    10, 100, 100, 100 and 150, 290, 290, 290: each half is the mean of its four, of tokens and of seconds.
    """
    prompts, outputs = np.array([200.0, 300.0]), np.array([5.0])
    cases = tuple(Mix(1.0, prompts, outputs, new=np.array(new)) for new in ([10.0, 150.0], [100.0, 290.0]))
    replica = made_up(ranks=2)
    mix = Mix(1.0, prompts, outputs, cases=cases)
    (blended,), (again,) = (replica.server([mix], 9, 64, shares=[pair]).demands for pair in ((1.0, 3.0), (0.25, 0.75)))
    assert again.prompt_tokens == pytest.approx(blended.prompt_tokens)
    assert again.prompt_s == pytest.approx(blended.prompt_s)
    one, other = (replica.server([case], 9, 64).demands[0] for case in cases)
    assert blended.prompt_tokens == pytest.approx([(10 + 300) / 4, (150 + 870) / 4])
    for row in range(3):
        x, y = one.prompt_s[row], other.prompt_s[row]
        assert blended.prompt_s[row] == pytest.approx([(x[0] + 3 * y[0]) / 4, (x[1] + 3 * y[1]) / 4])
    weights = [one.prompt_s.mean(), 3 * other.prompt_s.mean()]
    assert one.rank_share != pytest.approx(other.rank_share, rel=1e-3)
    assert blended.rank_share == pytest.approx(np.average([one.rank_share, other.rank_share], weights=weights))
    assert mix.cached
    nothing = [replace(demand, prompt_s=np.zeros((3, 2))) for demand in (one, other)]
    assert _blended(nothing, (0.5, 0.5)).rank_share == 1


def test_cases_of_other_numbers_of_prompts_are_blended() -> None:
    """Half of the requests have 100 tokens, a quarter each 10 and 150: in halves (10 + 100)/2 and (100 + 150)/2."""
    two = Demand(1.0, np.ones(1), np.array([[1.0, 5.0]]), np.array([10.0, 150.0]), np.array([7.0]))
    one = Demand(1.0, np.ones(1), np.array([[3.0]]), np.array([100.0]), np.array([9.0]))
    blended = _blended([two, one], (0.5, 0.5))
    assert blended.prompt_tokens == pytest.approx([55, 125])
    assert blended.prompt_s == pytest.approx(np.array([[2, 4]]))
    assert blended.decode_steps.tolist() == [7]


def test_sums_over_classes_by_hand() -> None:
    """Means over all requests of two classes; rounds add their own variance, and prompts count by their seconds."""
    rows = np.array([1.0, 5.0])
    one = Demand(0.75, rows, np.array([[0.1, 0.3], [0.2, 0.6]]), np.array([10.0, 30.0]), np.array([2.0, 4.0]), rank_share=0.5)
    other = Demand(
        0.25, rows, np.array([[0.4], [0.8]]), np.array([60.0]), np.array([10.0]), rank_share=0.25,
        decode_tokens=np.array([16.0]), rounds_variance=np.array([5.0]),
    )  # fmt: skip
    server = BatchServer(np.full(5, 0.01), (one, other), 100, ranks=3, scatter=0.25)
    assert server.mean_steps == pytest.approx(0.75 * 3 + 0.25 * 10)
    assert server.mean_tokens == pytest.approx(0.75 * 20 + 0.25 * 60)
    assert server.tokens_per_step == pytest.approx((0.75 * 3 + 0.25 * 16) / 4.75)
    assert server.scv_steps == pytest.approx((0.75 * (4 + 16) / 2 + 0.25 * (100 + 5)) / 4.75**2 - 1)
    assert server.mean_share == pytest.approx((0.75 * 0.3 * 0.5 + 0.25 * 0.6 * 0.25) / (0.75 * 0.3 + 0.25 * 0.6))
    assert server.mean([np.array([[1.0, 3.0]]), np.array([[7.0]])]) == pytest.approx([0.75 * 2 + 0.25 * 7])
    assert one.prompts(np.array([0.5, 2.0, 9.0])) == pytest.approx(np.array([[0.1, 0.3], [0.125, 0.375], [0.2, 0.6]]))
    assert scatter((one, other)) == pytest.approx((0.75 * 500 + 0.25 * 3600) / 30**2 - 1)
    mean = np.array([0.5, 3.0, 3.3, 4.0])  # at most 100/30 prompts of a rank fit into a step
    free = excess_rounds(mean, 3, 0.25, in_turn=False)
    assert server.excess(mean, in_turn=False) == pytest.approx([free[0], 1 / 3, 1 / 30, 0])
    assert server.excess(mean[:1], in_turn=True) == pytest.approx(excess_rounds(mean[:1], 3, 0.25, in_turn=True))
    held = replace(server, hold_steps=50).excess(mean, in_turn=False)
    assert held == pytest.approx(mean * (fullest_rank(3, 3, 0.25) - 1))
    nothing = replace(server, demands=(replace(one, share=1.0, decode_steps=np.zeros(1), prompt_s=np.zeros((2, 1))),))
    assert (nothing.scv_steps, nothing.tokens_per_step, nothing.mean_share) == (0, 1, 1)


def test_the_capacity_by_hand() -> None:
    """The best number of sequences, of which all slots and the budget allow a rate; with `fullest` of ranks."""
    rows = np.array([1.0, 40.0])
    demand = Demand(1.0, rows, np.array([[0.01], [0.03]]), np.array([100.0]), np.array([20.0]), rank_share=0.6)
    for settings in (
        {"budget": 300}, {"budget": 30}, {"budget": 1}, {"budget": 2000, "stages": 2}, {"budget": 90, "step_tokens": 4},
        {"budget": 2000, "ranks": 3, "scatter": 0.25}, {"budget": 2000, "ranks": 3, "scatter": None},
    ):  # fmt: skip
        server = BatchServer(0.01 + 0.0005 * np.arange(1, 41), (demand,), **settings)  # type: ignore[arg-type]
        rates, by_slots = [], 0.0
        for n in range(1, 41):
            step, fullest = 0.01 + 0.0005 * n, 1.0
            prompt = (0.01 + 0.02 * (n - 1) / 39) / server.stages
            if server.ranks > 1 and server.scatter is not None:
                fullest += 0.6 * float(server.excess(np.array(n / 20), in_turn=False)) / (n / 20)
            by_slots = max(by_slots, 1 / (20 * step / n + prompt * fullest))
            left = max(server.budget - n * server.step_tokens, 1)
            rates.append(min(by_slots, 1 / (prompt + 100 * step / left)))
        assert server.capacity == pytest.approx(max(rates) * server.ranks)


def test_rounds_of_a_pipeline_by_sums() -> None:
    """Of k prompts, Poisson distributed, the longest (of as many as stages) or a stage for all: each with its probability."""
    for mean, stages, variance in ((0.3, 2, 0.0), (2.0, 4, 0.5), (5.0, 3, 1.0)):
        chance, total = math.exp(-mean), 0.0
        for k in range(1, 60):
            chance *= mean / k
            total += chance * max(float(fullest_rank(min(k, stages), stages, variance)), k / stages)
        assert prompts_of_round(np.array([mean]), stages, variance) == pytest.approx([total])
    assert prompts_of_round(np.array([0.7]), 1, 3.0).tolist() == [0.7]


def test_the_part_of_the_fullest_rank() -> None:
    """(R w_1/w_R - 1)/(R - 1), between 0 and 1: 4 x 0.5/1.25 is 1.6, so 0.6/3; all of nothing."""
    assert fullest_share(1.25, 0.5, 4) == pytest.approx(0.2)
    assert [fullest_share(*pair, 4) for pair in ((1.0, 1.1), (1.0, 0.2), (0.0, 1.0), (-0.1, 1.0))] == [1, 0, 1, 1]


def test_equal_prompts_have_no_scatter() -> None:
    """Not even less than none, by rounding."""
    for share in np.linspace(0.01, 0.99, 99):
        demands = [
            Demand(one, np.ones(1), np.zeros((1, 1)), np.array([777.0]), np.ones(1)) for one in (float(share), 1 - float(share))
        ]
        assert 0 <= scatter(demands) < 1e-12


def test_seconds_of_a_step_are_kernels_and_engine() -> None:
    """Kernels of 2 s, of 3 s if each ran alone, and an engine that takes 0.1 s per sequence; the bound is another number."""
    request = SimpleNamespace(engine_seconds=lambda sequences: 0.1 * sequences)
    steps: Any = SimpleNamespace(times=lambda _: StepTimes(1.0, 2.0, 3.0, 4.0), request=request)  # type: ignore[arg-type]
    assert step_seconds(steps, decode(5, 100), 5) == {BOUND: 1.0, ESTIMATE: 2.5}


def test_what_is_not_given() -> None:
    """One replica, Poisson arrivals, equal prompts, one token per step; prompts that nothing follows and no cache has."""
    demand = Demand(1.0, np.ones(1), np.ones((1, 1)), np.ones(1), np.ones(1))
    server = BatchServer(np.ones(2), (demand,), 9)
    assert (server.ranks, server.stages, server.cv, server.scatter, server.hold_steps, server.step_tokens) == (1, 1, 1, 0, 0, 1)
    assert (demand.after_s, demand.rank_share, demand.decode_tokens, demand.rounds_variance) == (0, 1, None, 0)
    mix = Mix(1.0, np.ones(1), np.ones(1))
    assert (mix.hit, mix.prefix, mix.new, mix.cases) == (0, 0, None, ())


def test_outputs_of_one_token_are_met_by_their_prompts(made_up: Callable[..., Replica]) -> None:
    """Then steps are those at both prompts, equally. Without measured kernels the basis is the bound."""
    mix = Mix(1.0, np.array([100.0, 100.0, 200.0]), np.ones(2))
    assert [part.tolist() if isinstance(part, np.ndarray) else part for part in mix.met] == [[100, 200], 0]
    replica = made_up()
    replica.request.estimator.applies = False
    assert replica.basis == BOUND
    bounds = [seconds_of((Segment(3, 1, context, decode=True),), 3)[BOUND] for context in (100, 200)]
    assert replica.server([mix], 3, 64).decode_s[2] == pytest.approx(sum(bounds) / 2)
    longer = Mix(0.5, np.full(2, 300.0), np.full(2, 2.0))  # a step each, half of which is met
    only = seconds_of((Segment(3, 1, 300, decode=True),), 3)[BOUND]
    assert longer.met[0].tolist() == [300]
    assert replica.server([replace(mix, share=0.5), longer], 3, 64).decode_s[2] == pytest.approx(only, rel=1e-8)


def test_tokens_that_are_computed_are_whole() -> None:
    """A twentieth of 100 is 5, and not 6 by rounding; one of 101 is 6. What a prefix has is no part of it."""
    lengths = np.array([100.0, 101.0]), np.ones(1)
    assert Mix(1.0, *lengths, hit=0.95).computed.tolist() == [5, 6]
    assert Mix(1.0, *lengths, prefix=100).computed.tolist() == [1, 1]
    assert Mix(1.0, *lengths, new=np.array([7.0, 9.0])).computed.tolist() == [7, 9]
