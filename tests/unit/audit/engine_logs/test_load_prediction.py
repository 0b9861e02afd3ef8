"""A server under a load: laws that hold whatever the times are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roofline.audit.engine_logs.bench_result import Load
from roofline.audit.engine_logs.load_prediction import LoadPrediction, LoadPredictor
from roofline.errors import InputError
from roofline.predict.analyze import analyze
from roofline.predict.drafts import resolve
from roofline.serving.queueing.closed_loop import ClosedLoop

LOAD = Load(requests=1000, input_len=1024, output_len=128, rate=math.inf, concurrency=32)


@pytest.fixture(scope="module")
def loop() -> ClosedLoop:
    return ClosedLoop.of("llama-3.1-8b", "h100-sxm", max_num_batched_tokens=8192)


def _predicted(loop: ClosedLoop, load: Load, tokens: float = 4e5, sequences: int = 256) -> LoadPrediction:
    return LoadPredictor(loop, load, tokens, sequences).predict()


def test_closed_loop(loop: ClosedLoop) -> None:
    """TPOT is the closed loop's; throughput is Little's: 32 over the time of a slot, which lies above 127 TPOT."""
    found = _predicted(loop, LOAD)
    assert found.description == "closed loop of 32"
    assert found.tpot.estimate == pytest.approx(float(loop.tpot(32, 1024, 128)["estimate"]))
    assert found.tpot.estimate is not None
    assert found.requests_per_s.estimate is not None
    assert 0.8 * 32 / (127 * found.tpot.estimate) < found.requests_per_s.estimate < 32 / (127 * found.tpot.estimate)


@pytest.mark.slow
def test_open_loop_takes_what_arrives(loop: ClosedLoop) -> None:
    """Below saturation the throughput is the rate, but for the end; requests in flight are rate x E2E."""
    found = _predicted(loop, replace(LOAD, rate=4.0, concurrency=None))
    assert not found.saturated
    assert found.e2e.estimate is not None
    assert found.requests_per_s.estimate == pytest.approx(1000 / (1000 / 4 + found.e2e.estimate))
    assert found.concurrency == pytest.approx(4 * found.e2e.estimate, rel=1e-3)


def test_saturated(loop: ClosedLoop) -> None:
    """At ten times the rate it can take, a server gives what it gives with all at once, and half of the queue is waited."""
    most = _predicted(loop, replace(LOAD, concurrency=None))
    assert most.requests_per_s.estimate is not None
    rate = 10 * most.requests_per_s.estimate
    found = _predicted(loop, replace(LOAD, rate=rate, concurrency=None))
    assert found.saturated
    assert found.requests_per_s.estimate == pytest.approx(most.requests_per_s.estimate)
    assert found.ttft.estimate == pytest.approx((1000 - 256) / 2 * 0.9 / most.requests_per_s.estimate, rel=0.05)


def test_cache_limits_the_batch(loop: ClosedLoop) -> None:
    """A request holds 1024 + 64 tokens half way: 10,880 tokens are ten of them."""
    found = _predicted(loop, LOAD, tokens=10_880)
    assert found.concurrency == 10
    assert "32 in flight, of which 10 run, as the cache allows" in found.description


def test_engine_limits_the_batch(loop: ClosedLoop) -> None:
    """max_num_seqs of 16 leaves 16 of 32 waiting at the server."""
    found = _predicted(loop, LOAD, sequences=16)
    assert found.concurrency == 16
    assert "as max_num_seqs allows" in found.description


def test_limit_before_rate(loop: ClosedLoop) -> None:
    """A client that lets 32 through sends no faster, whatever its rate."""
    found = _predicted(loop, replace(LOAD, rate=1e4))
    assert (found.concurrency, found.saturated) == (32, True)
    assert found.tpot == _predicted(loop, LOAD).tpot


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 5.0, math.inf])
def test_bands_hold_estimates(loop: ClosedLoop, rate: float) -> None:
    """Low, estimate and high are in order, and no time is below its bound."""
    found = _predicted(loop, replace(LOAD, rate=rate))
    for span in (found.ttft, found.tpot, found.e2e, found.requests_per_s):
        assert None not in (span.low, span.estimate, span.high, span.bound)
        assert span.low <= span.estimate <= span.high  # type: ignore[operator]
    assert found.tpot.bound < found.tpot.estimate  # type: ignore[operator]


def test_one_token_answers(loop: ClosedLoop) -> None:
    """Answers of one token have no TPOT steps: E2E is TTFT."""
    found = _predicted(loop, replace(LOAD, output_len=1.0))
    assert found.e2e.estimate == found.ttft.estimate


@pytest.mark.parametrize(
    ("tokens", "message"), [(0, "leaves no memory for a cache on h100-sxm"), (1000, "does not fit into a cache")]
)
def test_refused(loop: ClosedLoop, tokens: float, message: str) -> None:
    """What cannot run has no times."""
    with pytest.raises(InputError, match=message):
        _predicted(loop, LOAD, tokens=tokens)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 8.0, 11.0])
def test_bounds_at_a_rate(rate: float) -> None:
    """The bound is of those in flight at the bound's own times, C = E2E / (1/rate + E2E / requests).

    A slower estimate has many more in flight. No rate that is offered is above what the hardware allows while a bound is met.
    """
    slow = ClosedLoop.of("llama-3.1-8b", "a100-sxm-80gb", max_num_batched_tokens=2048)
    found = _predicted(slow, Load(1000, 1024, 256, rate, None))
    assert found.e2e.bound is not None
    under_way = found.e2e.bound / (1 / rate + found.e2e.bound / 1000)
    assert under_way < found.concurrency
    assert found.tpot.bound == pytest.approx(float(slow.tpot(under_way, 1024, 256)["bound"]), rel=1e-3)
    assert found.capacity > rate
    assert found.capacity >= (found.requests_per_s.high or 0.0)


def test_a_closed_loop_has_the_rate_of_its_bound(loop: ClosedLoop) -> None:
    """32 clients whose requests take E2E seconds at the least are answered 32 / E2E times a second at the most.

    The first prompts come at once, so that the mean E2E is a little longer.
    """
    found = _predicted(loop, LOAD)
    assert found.e2e.bound is not None
    assert found.capacity == pytest.approx(32 / found.e2e.bound, rel=0.05)


def test_few_at_once(loop: ClosedLoop) -> None:
    """Eight requests on a server that holds 256: nobody waits for a slot."""
    found = _predicted(loop, replace(LOAD, requests=8, concurrency=None))
    assert (found.concurrency, found.saturated) == (8, False)
    assert "others wait" not in found.description


def _drafted(loop: ClosedLoop, **options: object) -> LoadPrediction:
    _, speculation = resolve("llama-3.1-8b", "h100-sxm", max_num_batched_tokens=8192, acceptance=0.7, **options)
    return LoadPredictor(loop, LOAD, 4e5, 256, speculation).predict()


def test_nothing_drafted_is_the_plain_server(loop: ClosedLoop) -> None:
    """K = 0: a round is a decode step."""
    assert _drafted(loop, speculative_method="ngram", num_speculative_tokens=0) == _predicted(loop, LOAD)


def test_drafts_shorten_tpot(loop: ClosedLoop) -> None:
    """By what a round saves per token: the plain step less the round over its 1 + 0.7 + 0.49 + 0.343 tokens."""
    plain, drafted = _predicted(loop, LOAD), _drafted(loop, speculative_model="llama-3.2-1b", num_speculative_tokens=3)
    rounds = analyze(
        "llama-3.1-8b", "h100-sxm", batch=32, context=1024 + 63, max_num_batched_tokens=8192, acceptance=0.7,
        speculative_model="llama-3.2-1b", num_speculative_tokens=3,
    ).speculative  # fmt: skip
    assert rounds is not None
    for kind in ("bound", "estimate"):
        saved = getattr(rounds.plain, kind) - getattr(rounds.round, kind) / 2.533
        assert getattr(plain.tpot, kind) - getattr(drafted.tpot, kind) == pytest.approx(saved)
    assert plain.ttft.bound is not None
    assert drafted.ttft.bound is not None
    assert drafted.ttft.bound > plain.ttft.bound  # prompts pass the draft too, and wait for a round
