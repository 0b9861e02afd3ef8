"""Speculative decoding in the simulator: by hand, against brute force, against `analyze`, and as published in shape."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from simulated import AffineStepTime, Event, Served, serve

import roofline
from roofline.errors import InputError
from roofline.predict.drafts import resolve
from roofline.predict.timing import pipeline, timed
from roofline.serving.queueing.rounds import RoundDraws, RoundLengths
from roofline.serving.simulation.kv_cache import EngineConfig, SpeculativeRounds
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.server import kv_cache_blocks
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.speculative_tables import SpeculativeTables
from roofline.serving.simulation.step_log import RUN
from roofline.serving.simulation.step_tables import StepTables
from roofline.specs.workload import Segment, decode

A, B = 0, 1
TIMES = AffineStepTime(1.0, token=0.25)
DRAFT = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 4, "acceptance": 0.7}
NGRAM = {"speculative_method": "ngram", "num_speculative_tokens": 4, "acceptance": 0.5}


# Rounds


def chances(lengths: RoundLengths, num_tokens: int) -> Counter[int]:
    """Probabilities of the rounds of some tokens: every sequence of acceptances, token by token."""
    found: Counter[int] = Counter()

    def drafted(left: int, in_round: int, rounds: int, chance: float) -> None:
        """`in_round` drafted tokens of the round are accepted so far, and `left` tokens are missing before it."""
        if in_round == lengths.num_speculative_tokens:
            given(left, in_round + 1, rounds, chance)
            return
        drafted(left, in_round + 1, rounds, chance * lengths.acceptance)
        given(left, in_round + 1, rounds, chance * (1 - lengths.acceptance))

    def given(left: int, tokens: int, rounds: int, chance: float) -> None:
        if tokens >= left:
            found[rounds] += chance
        else:
            drafted(left - tokens, 0, rounds + 1, chance)

    drafted(num_tokens, 0, 1, 1.0)
    return found


@pytest.mark.parametrize(("drafted", "acceptance"), [(1, 0.3), (2, 0.6), (4, 0.8)])
def test_rounds_have_their_exact_distribution(drafted: int, acceptance: float) -> None:
    """Of seven tokens: mean and variance, and the shares of 20,000 draws within five standard errors."""
    lengths = RoundLengths(drafted, acceptance)
    exact = chances(lengths, 7)
    assert sum(exact.values()) == pytest.approx(1)
    mean = sum(rounds * chance for rounds, chance in exact.items())
    means, variances = lengths.rounds([7])
    assert means[0] == pytest.approx(mean)
    assert variances[0] == pytest.approx(sum((rounds - mean) ** 2 * chance for rounds, chance in exact.items()))
    draws, num_draws = RoundDraws(lengths, (3,)), 20_000
    seen = Counter(draws.draw(index, 1, 7)[0] for index in range(num_draws))
    assert seen.keys() <= exact.keys()
    for rounds, chance in exact.items():
        error = math.sqrt(chance * (1 - chance) / num_draws)
        assert abs(seen[rounds] / num_draws - chance) < 5 * error + 1e-9, rounds


def test_draws_are_of_the_request_alone() -> None:
    """The same in any order; others of another request, position or seed. Longer ones continue in the same numbers."""
    lengths = RoundLengths(4, 0.7)
    one, other = RoundDraws(lengths, (0, 0)), RoundDraws(lengths, (0, 0))
    places = [(index, position, 300) for index in range(40) for position in (1, 20)]
    drawn = {place: one.draw(*place) for place in places}
    assert {place: other.draw(*place) for place in reversed(places)} == drawn
    assert len(set(drawn.values())) > 20
    again = RoundDraws(lengths, (1, 0))
    assert [again.draw(*place) for place in places] != list(drawn.values())


def test_beyond_the_exact_moments() -> None:
    """Renewal theory continues them: a draft of one token that is accepted half of the time, at 4,097 and 10,000 tokens."""
    lengths = RoundLengths(1, 0.5)
    means, variances = lengths.rounds([4096, 4097, 10_000])
    assert lengths.variance == 0.25
    assert means[1:] - means[0] == pytest.approx([1 / 1.5, 5904 / 1.5])
    assert variances[1:] - variances[0] == pytest.approx([0.25 / 1.5**3, 5904 * 0.25 / 1.5**3])
    draws = RoundDraws(lengths, (0,))
    seen = [draws.draw(index, 1, 10_000)[0] for index in range(200)]
    assert sum(seen) / 200 == pytest.approx(means[2], abs=5 * math.sqrt(variances[2] / 200))


# By hand


def speculative(num_blocks: int, drafted: int, acceptance: float, lookahead: int, budget: int = 16) -> EngineConfig:
    """Blocks of four tokens."""
    rounds = SpeculativeRounds(RoundLengths(drafted, acceptance), lookahead)
    return EngineConfig(num_blocks, 4, 8, budget, speculation=rounds)


def both_ways(requests: list[tuple[float, int, int]], config: EngineConfig, name: str = "vllm-v1") -> Served:
    """Served in runs, which are the steps one by one."""
    runs, steps = (
        serve(name, [Request(index, *one) for index, one in enumerate(requests)], TIMES, config, stepwise=stepwise)
        for stepwise in (False, True)
    )
    assert [event for _, event in runs.events if event[0] != "decode"] == [
        event for _, event in steps.events if event[0] != "decode"
    ]
    return runs


def steps(served: Served) -> list[Event]:
    """From, to, how often, how many decode, chunks."""
    return [
        (event[1], event[2], event[3], event[4], ()) if event[0] == "decode" else (event[1], event[2], 1, event[3], event[4])
        for event in served.of("decode", "mixed")
    ]


def test_all_drafts_are_accepted() -> None:
    """Three drafted tokens: a prompt of 8 in 1 + 8/4 = 3 s gives the first of 9 tokens, two rounds of 4 give the others.

    The first round has slots for 8 + 1 + 3 tokens and 3 of the next drafts: 15, 4 blocks. The second for 12 + 7, 5 blocks.
    Had it had 15 tokens by then, its last round would have taken six.
    """
    served = both_ways([(0.0, 8, 9)], speculative(6, 3, 1.0, 3))
    assert steps(served) == [(0.0, 3.0, 1, 0, ((A, 8, 0),)), (3.0, 5.0, 2, 1, ())]
    assert served.of("end") == [("end", 5.0, A)]
    assert (served.log.num_rounds, served.log.num_accepted_tokens) == (2, 6)
    run = dict(zip(RUN, served.log.runs[-len(RUN) :], strict=True))
    assert (run["tokens"], run["grown"], run["blocks"]) == (4, 1, 4.5)
    # one block less: its last round might never run; n-grams are looked up, without slots ahead
    assert serve("vllm-v1", [Request(A, 0.0, 8, 9)], TIMES, speculative(5, 3, 1.0, 3)).refused == [A]
    assert not serve("vllm-v1", [Request(A, 0.0, 8, 9)], TIMES, speculative(5, 3, 1.0, 0)).refused


def test_a_preempted_request_keeps_its_tokens() -> None:
    """Two tokens a round, slots for three. A and B: prompts of 4, 9 tokens; five blocks.

    0: both prompts, 1 + 8/4 = 3 s. 3: 4 + 3 slots, two blocks each, 1 s. 4: 6 + 3 want a third block each, one is free: B
    goes, with 3 tokens, and A takes it; 1 s. 5: A has 8 + 3 slots in its blocks; B is let in with 4 + 3 tokens in the two
    blocks that are free: 1 + 7/4 s. 7.75: both want a block: B goes again, with 4 tokens. A's last round. 8.75: A ends; B
    computes 8 tokens: 3 s, its fifth token; two rounds of two.
    """
    served = both_ways([(0.0, 4, 9), (0.0, 4, 9)], speculative(5, 1, 1.0, 1))
    assert steps(served) == [
        (0.0, 3.0, 1, 0, ((A, 4, 0), (B, 4, 0))),
        (3.0, 4.0, 1, 2, ()),
        (4.0, 5.0, 1, 1, ()),
        (5.0, 7.75, 1, 1, ((B, 7, 0),)),
        (7.75, 8.75, 1, 1, ()),
        (8.75, 11.75, 1, 0, ((B, 8, 0),)),
        (11.75, 13.75, 2, 1, ()),
    ]
    assert served.of("preempt", "end") == [("preempt", 4.0, B), ("preempt", 7.75, B), ("end", 8.75, A), ("end", 13.75, B)]
    assert (served.log.num_rounds, served.log.num_accepted_tokens) == (4 + 1 + 2, 7)


def test_drafts_take_tokens_of_the_budget() -> None:
    """16 tokens a step: A's round verifies four, and 12 of B's prompt of 20 go beside it."""
    served = both_ways([(0.0, 4, 9), (1.5, 20, 1)], speculative(20, 3, 1.0, 3))
    assert steps(served) == [
        (0.0, 2.0, 1, 0, ((A, 4, 0),)), (2.0, 6.0, 1, 1, ((B, 12, 0),)), (6.0, 9.0, 1, 1, ((B, 8, 12),)),
    ]  # fmt: skip


def test_nothing_accepted_is_a_token_a_round() -> None:
    """The steps of plain decoding, in which only the slots of drafts take blocks."""
    requests = [(0.0, 8, 12), (0.5, 3, 20), (1.5, 12, 6)]
    drafted, plain = both_ways(requests, speculative(40, 3, 0.0, 3, 64)), both_ways(requests, EngineConfig(40, 4, 8, 64))
    assert steps(drafted) == steps(plain)
    assert drafted.of("end", "token") == plain.of("end", "token")
    assert drafted.log.num_accepted_tokens == 0
    assert drafted.log.num_rounds == 11 + 19 + 5


# Against `analyze`


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "hardware", "options", "basis"),
    [
        ("llama-3.1-8b", "h100-sxm", DRAFT, "estimate"),
        ("llama-3.1-8b", "h100-sxm", DRAFT, "bound"),
        ("llama-3.1-8b", "h100-sxm", NGRAM, "estimate"),
        ("deepseek-v3", "8xh200-sxm",
         {"speculative_method": "mtp", "num_speculative_tokens": 2, "acceptance": 0.8, "expert_parallel_size": 8}, "estimate"),
    ],
)  # fmt: skip
def test_one_sequence_has_the_tpot_of_analyze(model: str, hardware: str, options: dict[str, Any], basis: Any) -> None:
    """300 requests, none beside another. The last round of each gives tokens beyond its last, less than 0.2 % of 2,000.

    The seconds of rounds differ by the tables' tolerance, and their number by chance: its standard error is below 0.1 %.
    """
    lengths: dict[str, Any] = {"input_len": 500, "output_len": 2001}
    alone = roofline.analyze(model, hardware, batch=1, **lengths, **options)
    assert alone.request is not None
    expected = getattr(alone.request.tpot_s, basis)
    result = simulate(model, hardware, workload="constant:0.005", requests=300, basis=basis, warm_up=0, **lengths, **options)
    assert result.tpot_s.mean == pytest.approx(expected, rel=0.007)
    assert result.speculative is not None
    assert result.speculative["mean_acceptance_length"] == pytest.approx(
        roofline.predict.speculation.tokens_per_round(options["acceptance"], options["num_speculative_tokens"]), rel=0.005
    )
    # tokens of a round come together: a gap is a round
    rounds = result.speculative["rounds"]
    assert result.itl_s.mean == pytest.approx((result.tpot_s.mean or 0) * 2000 * 300 / rounds, rel=1e-3)


def test_rounds_of_batches_are_those_of_analyze() -> None:
    """At any batch and context: within 1 %, as tables without drafts are."""
    request, speculation = resolve("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1, **DRAFT)
    assert speculation is not None
    tables = SpeculativeTables(request, "estimate", 32_768, 256, speculation=speculation)
    for batch in (1, 7, 64, 256):
        for context in (100, 3000, 20_000):
            took = speculation.round(batch, context).estimate
            assert tables.mixed(batch, batch * context, ()) == pytest.approx(took, rel=0.01), (batch, context)
    prefill = speculation.prefill((Segment(1, 2000, 0),)).estimate
    assert tables.mixed(0, 0, ((2000, 0),)) == pytest.approx(prefill, rel=0.01)


@pytest.mark.parametrize(("batch", "context", "prompts"), [(64, 1000, 40), (7, 3000, 1)])
def test_prompts_beside_rounds(batch: int, context: int, prompts: int) -> None:
    """The last tokens of prompts beside a round: by the graph, to 12 digits at the bound.

    Of the model, `batch` x 5 tokens that are verified and the prompts' are one step, which reads the weights once. The first
    step of the draft has the prompts too. Of a prompt that is one token, logits of all tokens are those of the last.
    """
    request, speculation = resolve("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1, **DRAFT)
    assert speculation is not None
    assert speculation.draft.step is not None
    tables = SpeculativeTables(request, "bound", 32_768, 256, speculation=speculation)
    last = (Segment(1, 1, 500),) * prompts
    verified = (Segment(batch, 5, context, decode=True), *last)
    compared = timed(request, {"rejection": (speculation.comparison(batch), 1)}, verified)
    drafting, first = speculation.drafting(batch, context), decode(batch, context)
    expected = pipeline(speculation.verifier, verified).bound + compared.bound + drafting.bound  # type: ignore[operator]
    expected += speculation.draft.step((*first, *last)).bound - speculation.draft.step(first).bound  # type: ignore[operator]
    assert tables.mixed(batch, batch * context, ((1, 500),) * prompts) == pytest.approx(expected, rel=1e-12)


def test_blocks_hold_the_draft_too() -> None:
    """K and V of 32 layers of 8 heads of 128, and of 16 layers of 8 heads of 64, bf16: 131,072 and 32,768 bytes per token."""
    request, _ = resolve("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1, **DRAFT)
    assert kv_cache_blocks(request.memory.stages[0], 1e10, 4096).num_gpu_blocks == int(1e10 // (16 * (131_072 + 32_768)))
    plain, _ = resolve("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1)
    assert kv_cache_blocks(plain.memory.stages[0], 1e10, 4096).num_gpu_blocks == int(1e10 // (16 * 131_072))


# Options


def test_no_drafted_tokens_are_no_speculation() -> None:
    """K = 0: byte for byte what is without, but for what is assumed."""
    setting: dict[str, Any] = {"rate": 4, "input_len": 300, "output_len": "uniform:10:90", "requests": 300}
    none = simulate("llama-3.1-8b", "h100-sxm", **setting, speculative_method="ngram", num_speculative_tokens=0, acceptance=0.5)
    plain = simulate("llama-3.1-8b", "h100-sxm", **setting)
    assert none.speculative is None
    assert replace(none, assumptions=()).to_json() == replace(plain, assumptions=()).to_json()


@pytest.mark.slow
def test_the_same_whatever_the_way() -> None:
    """Step by step: the same result, also where caches are dropped and prompts have something in common."""
    setting: dict[str, Any] = {
        "rate": 30, "input_len": "uniform:100:300", "output_len": "uniform:10:200", "requests": 300, "system_prompt": 100,
        "num_gpu_blocks_override": 250, **DRAFT,
    }  # fmt: skip
    runs, single = (simulate("llama-3.1-8b", "h100-sxm", **setting, stepwise=stepwise) for stepwise in (False, True))
    assert runs.requests.preemptions > 20
    assert runs.prefix_hit_rate
    assert runs.requests == single.requests
    assert runs.speculative == single.speculative
    assert runs.e2e_s.mean == pytest.approx(single.e2e_s.mean, rel=1e-9)
    again = simulate("llama-3.1-8b", "h100-sxm", **setting)
    assert again.to_json() == runs.to_json()
    assert type(runs).from_dict(runs.to_dict()).to_json() == runs.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_batched_tokens": 1024}, "raise it, or lower --max-num-seqs"),
        ({"acceptance": None}, "--acceptance is needed"),
        ({"pipeline_parallel_size": 2, "hardware": "dgx-h100"}, "over pipeline stages is not modelled"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    """Too small a budget, an acceptance that is not given, a pipeline."""
    given = {**NGRAM, **options}
    hardware = given.pop("hardware", "h100-sxm")
    with pytest.raises(InputError, match=message):
        simulate("llama-3.1-8b", hardware, rate=1, input_len=100, output_len=10, requests=5, **given)


# As published, in shape


@pytest.mark.slow
def test_speculation_hurts_at_high_load() -> None:
    """It reduces latency at low rates, and increases it at high rates, or where few drafts are accepted.

    Source: SmartSpec (now TurboSpec), arXiv:2406.14066, abstract and figure 1.
    """

    def latency(rate: float, **drafted: Any) -> float:
        lengths: dict[str, Any] = {"input_len": 300, "output_len": 300, "requests": 500}
        return simulate("llama-3.1-8b", "h100-sxm", rate=rate, **lengths, **drafted).e2e_s.mean or math.inf

    assert latency(1, **DRAFT) < 0.8 * latency(1)
    assert latency(45, **DRAFT) > 1.1 * latency(45)
    assert latency(1, **{**DRAFT, "acceptance": 0.1}) > 1.1 * latency(1)


def test_long_contexts_pay_again_at_large_batches() -> None:
    """At a batch of 256 drafts pay for long sequences, not for short ones; at a batch of 1 for both.

    Verification is compute-bound at a large batch, until reading the caches, which K + 1 tokens share, is most of a step.
    Source: MagicDec, arXiv:2408.11049, section 3: Llama 3.1 8B, batches of 32 to 256 (whose drafts keep a part of their cache).
    """
    options: dict[str, Any] = {"batch": 1, "input_len": 1, "context": 1}
    request, speculation = resolve("llama-3.1-8b", "h100-sxm", **options, **{**DRAFT, "num_speculative_tokens": 3})
    assert speculation is not None
    tables = SpeculativeTables(request, "estimate", 131_072, 256, speculation=speculation)
    plain = StepTables(request, "estimate", 131_072, 256)

    def speedup(batch: int, context: int) -> float:
        cached = batch * context
        return plain.mixed(batch, cached, ()) * speculation.tokens / tables.mixed(batch, cached, ())

    assert speedup(256, 100) < 1 < speedup(256, 32_000)
    assert speedup(256, 32_000) > speedup(256, 4000) > speedup(256, 100)
    assert min(speedup(1, 100), speedup(1, 32_000)) > 1


@pytest.mark.slow
def test_ranks_draft_together() -> None:
    """Data-parallel ranks: the same step by step; the experts compute the verified tokens of all of them."""
    setting: dict[str, Any] = {
        "rate": 20, "input_len": "uniform:50:400", "output_len": "uniform:10:80", "requests": 120, "data_parallel_size": 4,
        "tensor_parallel_size": 1, "expert_parallel_size": 4, "seed": 2,
    }  # fmt: skip
    drafts: dict[str, Any] = {"speculative_method": "mtp", "num_speculative_tokens": 2, "acceptance": 0.8}
    runs, single = (simulate("qwen3-30b-a3b", "dgx-h100", **setting, **drafts, stepwise=stepwise) for stepwise in (False, True))
    assert runs.e2e_s.mean == pytest.approx(single.e2e_s.mean, rel=1e-9)
    assert runs.speculative == single.speculative
    assert runs.requests.completed == 120
    plain = simulate("qwen3-30b-a3b", "dgx-h100", **setting)
    # of a small batch most of a round's experts are read anew for each token: less than 2.44 tokens' worth is saved
    assert (plain.tpot_s.mean or 0) / 2.44 < (runs.tpot_s.mean or 0) < (plain.tpot_s.mean or 0)
