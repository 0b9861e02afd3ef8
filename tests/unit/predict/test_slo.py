"""The largest batch within an SLO: what it is by arithmetic, and that one more is too slow."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import RooflineError
from roofline.predict.batch_limits import critical_batch_step
from roofline.predict.duration import Duration
from roofline.predict.limits import first_of, limits
from roofline.predict.request import prepare
from roofline.predict.slo import Allowed, Slo, Tpot, allowed, largest_within, within
from roofline.predict.timing import pipeline
from roofline.specs.workload import Segment, decode

pytestmark = pytest.mark.every_case


def _tpot(model: str, hardware: str, batch: int, context: int, **options: Any) -> Any:
    found = roofline.analyze(model, hardware, batch=batch, context=context, phase="decode", ignore_capacity=True, **options)
    assert found.decode is not None
    return found.decode.pipeline


@pytest.mark.parametrize("limit", [0.9, 1.0, 7.25, 33.0, 99.99, 100.0, 5000.0])
@pytest.mark.parametrize("most", [1, 2, 50, 64, 1000])
@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
def test_search_is_that_of_one_after_another(limit: float, most: int, power: float) -> None:
    """Whatever the shape of what grows, the answer is that of counting up."""
    counted = max((n for n in range(1, most + 1) if n**power <= limit), default=0)
    assert largest_within(lambda n: n**power, limit, most) == counted


def test_search_where_times_fall_in_places() -> None:
    """A number within the limit whose successor is not, though there are others."""

    def seconds(n: int) -> float:
        return n - 10 * (n // 32)  # 31 takes longer than 32 to 40

    found = largest_within(seconds, 25.0, 1000)
    assert seconds(found) <= 25 < seconds(found + 1)


def test_search_asks_little() -> None:
    """What is nearly a straight line takes a handful of questions, not one a halving."""
    asked = []

    def seconds(n: int) -> float:
        asked.append(n)
        return 5 + n / 1000

    assert largest_within(seconds, 105.0, 2**20) == 100_000
    assert len(asked) < 10


def line(bound: float, estimate: float | None = None, low: float | None = None, high: float | None = None) -> Tpot:
    """Milliseconds of each sequence of the batch."""
    ends = (bound, None, estimate, low, high)
    return lambda batch: Duration(*(None if end is None else end * batch / 1000 for end in ends))


def test_batches_of_times_that_grow_with_them() -> None:
    """100 ms, and two replicas: 100 sequences at 1 ms by the bound, 50 at 2 ms by the estimate, 24 at 4 and 66 at 1.5 ms.

    The quick end of an interval allows no more than the bound; without an estimate there is the bound alone.
    """
    slo = Slo(tpot=0.1)
    assert allowed(slo, None, line(1, 2, 1.5, 4), line(1), 2) == Allowed(50, 100, 24, 66)
    assert allowed(slo, None, line(1, 2, 0.5, 4), line(1), 2).high == 100
    assert allowed(slo, None, line(1), line(1), 2) == Allowed(100, 100)
    assert allowed(slo, None, line(1, 2, 0, 4), line(0), 1) == Allowed(50, None, 25, None)  # nothing stops what takes no time
    assert allowed(slo, None, line(1, 200, 1, 200), line(1), 2) == Allowed(0, 100, 0, 100)


@pytest.mark.parametrize(
    ("slo", "batch"),
    [
        (Slo(ttft=1.0, tpot=0.1), 50),  # the prompt takes 1 s
        (Slo(ttft=0.9, tpot=0.1), 0),
        (Slo(ttft=1.0), None),
        (Slo(ttft=0.9), 0),
        (Slo(), None),
    ],
)
def test_a_late_prompt_allows_nothing(slo: Slo, batch: int | None) -> None:
    """Whatever later tokens take; in time it sets no limit."""
    prompt = Duration(0.5, None, 1.0, 0.8, 1.2)
    assert allowed(slo, prompt, line(1, 2, 1.5, 4), line(1), 1).batch == batch
    assert slo.given == (slo != Slo())


def test_bound_is_the_bytes_that_the_time_allows() -> None:
    """Without compute time a step of B sequences takes (b_0 + B b_1)/bandwidth, so that B = (T bandwidth - b_0)/b_1."""
    options = {"peak_flops": "1000000 TFLOP/s", "bandwidth": "2 TB/s"}  # the file has no vector peak: nothing else takes time
    one, two = (
        roofline.analyze(
            "llama-3.1-8b", "tpu-v5e", batch=batch, context=4096, ignore_capacity=True, **options
        ).decode.cost.bytes
        for batch in (1, 2)
    )
    (row,) = limits("llama-3.1-8b", "tpu-v5e", context=4096, tpot="20 ms", **options).rows
    assert row.allowed.bound == int((0.02 * 2e12 - (2 * one - two)) / (two - one))


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "a100-sxm-80gb", {}),
        ("qwen3-30b-a3b", "h100-sxm", {}),
        ("deepseek-v3", "h200-sxm", {"tp": 8}),
        ("llama-3.1-70b", "dgx-h100", {"tp": 4, "pp": 2}),
        ("gemma-3-12b", "h100-sxm", {"kv_cache_dtype": "fp8"}),
    ],
)
def test_one_more_is_too_slow(model: str, hardware: str, options: dict[str, Any]) -> None:
    """By the estimate, by either end of its interval and by the bound."""
    (row,) = limits(model, hardware, context="2k", tpot=0.04, **options).rows
    allowed = row.allowed
    assert allowed.batch is not None
    for name, batch in (("estimate", allowed.batch), ("high", allowed.low), ("bound", allowed.bound)):
        took = [getattr(_tpot(model, hardware, size, 2048, **options), name) for size in (batch, batch + 1)]
        assert took[0] <= 0.04 < took[1]
    assert allowed.low <= allowed.batch <= allowed.high <= allowed.bound


def test_replicas_add_up() -> None:
    """Each of three replicas takes as many as one alone."""
    one, three = (limits("llama-3.1-8b", "dgx-h100", context="1k", tpot="30 ms", dp=dp).rows[0] for dp in (1, 3))
    assert three.allowed.batch == 3 * one.allowed.batch
    assert three.max_batch_memory == 3 * one.max_batch_memory


def test_ttft_is_that_of_a_prompt_alone() -> None:
    """Within it TTFT sets no limit to the batch; beyond it no batch is quick enough."""
    took = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=8192).prefill.pipeline.estimate
    quick, slow = (limits("llama-3.1-8b", "h100-sxm", context="8k", ttft=took * factor).rows[0] for factor in (1.01, 0.99))
    assert quick.allowed.batch is None
    assert not quick.late
    assert (slow.allowed.batch, slow.usable, slow.late, slow.first) == (0, 0, True, "slo")
    assert slow.ttft.estimate == pytest.approx(took, rel=1e-12)


def test_a_cached_prefix_is_not_computed_again() -> None:
    """Of a prompt whose first 6k tokens are shared, 2k are new: less work than 8k, more than 2k that attend to nothing."""
    rows = [
        limits("llama-3.1-8b", "h100-sxm", context=length, ttft=10, shared_prefix=prefix).rows[0]
        for length, prefix in ((2048, 0), (8192, 6144), (8192, 0))
    ]
    short, cached, whole = (row.ttft.bound for row in rows)
    assert short < cached < whole


def test_what_does_not_fit_is_shown_once() -> None:
    """The analysis at the first context says why; there is none where a sequence fits."""
    without, fitting = (limits(model, "h100-sxm", context="1k").unfit for model in ("llama-3.1-70b", "llama-3.1-8b"))
    assert without is not None
    assert not without.memory.fits
    assert fitting is None


def test_without_an_slo() -> None:
    """Nothing is allowed or refused."""
    (row,) = limits("llama-3.1-8b", "h100-sxm", context=1024).rows
    assert (row.allowed.batch, row.allowed.bound, row.ttft, row.first) == (None, None, None, "memory")
    assert row.batch == row.max_batch_memory == roofline.analyze("llama-3.1-8b", "h100-sxm").memory.max_batch


def test_rate_is_the_batch_over_its_step() -> None:
    """Of the limiting batch; nothing where that is 0."""
    (row,) = limits("llama-3.1-8b", "h100-sxm", context=1024, tpot="20 ms").rows
    assert row.rate("estimate") == pytest.approx(row.batch / _tpot("llama-3.1-8b", "h100-sxm", row.batch, 1024).estimate)
    (row,) = limits("llama-3.1-8b", "h100-sxm", context=1024, tpot="1 ms").rows
    assert (row.batch, row.rate("bound")) == (0, None)


def test_first() -> None:
    """Compute is reached by its batch, the others by one more than theirs; what comes first stops the rest."""
    assert first_of(10, 11, None) == ("memory", 10)
    assert first_of(11, 11, 11) == ("compute", 11)
    assert first_of(11, None, 11) == ("memory", 11)
    assert first_of(11, None, 3) == ("slo", 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tpot": "50"}, "--tpot"),
        ({"ttft": 0}, "--ttft must be more than 0"),
        ({"tpot": float("nan")}, "--tpot must be more than 0"),
        ({"context": "1k,many"}, "'many'"),
        ({"context": ","}, "no context"),
        ({"context": []}, "no context"),
        ({"context": "4k", "shared_prefix": "8k"}, "--shared-prefix 8,192"),
        ({"context": "1k,4k", "max_model_len": "2k"}, "--max-model-len 2,048"),
        ({"batch": 3}, "batch is no option of limits"),
        ({"tensor": 3}, "unknown option"),
    ],
)
def test_refused(options: dict[str, Any], said: str) -> None:
    """One error that names the flag."""
    with pytest.raises(RooflineError, match=said):
        limits("llama-3.1-8b", "h100-sxm", **options)


def test_default_contexts_keep_to_the_deployment() -> None:
    """From the shared prefix on, and to the longest sequence that the engine takes, the new token included."""
    rows = limits("llama-3.1-8b", "h100-sxm", shared_prefix="3k", max_model_len="20k").rows
    assert [row.context for row in rows] == [4096, 8192, 16384, 20 * 1024 - 1]


def test_compute_is_that_of_analyze() -> None:
    """The critical batch at each context."""
    for row in limits("llama-3.1-8b", "h100-sxm", context="0,256,8k").rows:
        assert (
            row.critical_batch == roofline.analyze("llama-3.1-8b", "h100-sxm", context=row.context).limits.critical_batch_step
        )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, []), ({"ttft": "1 s"}, ["ttft"]), ({"tpot": "50 ms"}, ["tpot"]), ({"max_num_seqs": 9}, ["max_num_seqs"]),
        ({"tpot": 0.05, "ttft": 1.0, "prefix_hit": 0.5}, ["prefix_hit", "tpot", "ttft"]),
    ],
)  # fmt: skip
def test_what_a_limit_goes_by_is_noted(given: dict[str, Any], names: list[str]) -> None:
    """Objectives and limits that were given, and no workload, which is what is looked for."""
    notes = {note.name: note for note in limits("llama-3.1-8b", "h100-sxm", context="2k", **given).assumptions}
    asked = {"ttft", "tpot", "max_num_seqs", "prefix_hit", "cached_prefix", "batch", "input_len"}
    assert sorted(asked & set(notes)) == names
    assert all(notes[name].origin == "given" for name in names)
    if "prefix_hit" in given:
        assert "its TTFT is that of the rest" in notes["prefix_hit"].why


@pytest.mark.parametrize("options", [{}, {"dp": 2, "tp": 2}, {"shared_prefix": 1000}, {"pp": 2}])
def test_every_figure_of_a_row(options: dict[str, int]) -> None:
    """What fits, what binds, what an objective allows, and times and bytes of that batch: all as `analyze` has them."""
    found = limits("llama-3.1-8b", "dgx-h100", context="2k,8k", tpot="30 ms", ttft="400 ms", **options)
    document, flat = found.to_dict(), found.flat()
    assert [row.context for row in found.rows] == [2048, 8192]
    for row, plain, line in zip(found.rows, document["rows"], flat, strict=True):
        context, allowed = row.context, row.allowed
        request = prepare("llama-3.1-8b", "dgx-h100", **options, context=context)
        memory = request.memory
        assert row.max_batch_memory == memory.max_batch(context)
        assert row.critical_batch == critical_batch_step(memory, request.hardware, context)
        named = {"memory": row.max_batch_memory, "compute": row.critical_batch, "slo": allowed.batch}
        least = min(batch for batch in named.values() if batch is not None)
        assert (row.batch, named[row.first]) == (least, least)  # type: ignore[index]
        assert row.usable == min(batch for batch in (row.max_batch_memory, allowed.batch) if batch is not None)
        assert row.tpot == pipeline(request, decode(least, context))
        cached = min(options.get("shared_prefix", 0), context - 1)
        assert row.ttft == pipeline(request, (Segment(1, context - cached, cached),))
        part = memory.tightest(decode(row.usable, context))
        assert row.kv_bytes_per_sequence == part.kv_bytes(context + 1, allocated=True)
        assert row.shared_bytes == options.get("shared_prefix", 0) // 16 * 16 * 131072
        assert row.late == (row.ttft.estimate > 0.4)  # type: ignore[operator]
        assert row.tpot is not None
        for name in ("bound", "estimate"):
            rate = least / getattr(row.tpot, name)
            assert row.rate(name) == getattr(row.tokens_per_s, name) == plain["tokens_per_s"][name] == pytest.approx(rate)
            assert line[f"tokens_per_s_{name}"] == pytest.approx(rate)
            assert line[f"tpot_{name}_s"] == getattr(row.tpot, name)
            assert line[f"ttft_{name}_s"] == getattr(row.ttft, name)
        assert plain["tokens_per_s"]["low"] == least / row.tpot.high  # type: ignore[operator]
        assert plain["tokens_per_s"]["high"] == least / row.tpot.low  # type: ignore[operator]
        assert (plain["max_batch_slo"], plain["max_batch_slo_bound"]) == (row.max_batch_slo, row.max_batch_slo_bound)
        assert plain["max_batch_slo_interval"] == [allowed.low, allowed.high]
        for key in ("context", "first", "batch", "kv_bytes_per_sequence", "state_bytes_per_sequence", "shared_bytes"):
            assert plain[key] == line[key] == getattr(row, key)
    assert (found.basis, found.possible, found.unfit) == ("estimate", any(row.usable for row in found.rows), None)
    assert found.critical_batch.linear == found.critical_batch_linear
    assert document["slo"] == {"ttft_s": 0.4, "tpot_s": 0.03, "basis": "estimate"}


def test_a_batch_beyond_all_deployments_is_no_limit() -> None:
    """2^20 sequences of a replica and more set no limit; one fewer does. Two replicas have twice as many."""
    for most, batch in ((2**20 - 1, 2 * (2**20 - 1)), (2**20, None), (2**22, None)):
        slo = Slo(tpot=(most + 0.5) * 1e-9)
        assert within(slo, None, lambda size: Duration(size / 2 * 1e-9, None), "bound", 2) == batch
