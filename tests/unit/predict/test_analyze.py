"""Phases as sums of their operators, rates, and the request that they serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.cost import FIELDS
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import Interval
from roofline.predict.request import prepare
from roofline.predict.timing import time_to_first_token, with_estimate
from roofline.report.summary import phase_table

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3.1-8b", "h100-sxm", {"batch": 8}),
    ("llama-3.1-70b", "dgx-h100", {"tp": 8, "batch": 64}),
    ("gpt2", "t4", {"input_len": 100}),
    ("deepseek-v2-lite", "h100-sxm", {"batch": 3}),
    ("mixtral-8x7b", "dgx-h100", {"tp": 2, "ep": 2, "batch": 5}),
    ("gemma-3-12b", "h100-sxm", {"segments": "4x1@2k,1x700@300"}),
    ("llama-3.1-8b", "dgx-h100", {"pp": 4, "dp": 2, "batch": 6}),
]
IDS = [f"{model} {options}" for model, _, options in CASES]


@pytest.mark.parametrize(("model", "hardware", "options"), CASES, ids=IDS)
def test_a_phase_is_the_sum_of_its_operators(model: str, hardware: str, options: dict[str, Any]) -> None:
    """Work, traffic and times of a phase are sums over its operators, repeats included."""
    for phase in roofline.analyze(model, hardware, **options).phases:
        for name in FIELDS:
            assert getattr(phase.cost, name) == pytest.approx(sum(getattr(op.cost, name) for op in phase.operators), rel=1e-12)
        assert phase.time.bound == pytest.approx(sum(op.time.bound for op in phase.operators), rel=1e-12)  # type: ignore[misc]
        assert phase.time.sum == pytest.approx(sum(op.time.sum for op in phase.operators), rel=1e-12)  # type: ignore[misc]


@pytest.mark.parametrize(("model", "hardware", "options"), CASES, ids=IDS)
def test_times_of_an_operator(model: str, hardware: str, options: dict[str, Any]) -> None:
    """The bound is the longest of four times, the sum all four; the first name what binds."""
    result = roofline.analyze(model, hardware, **options)
    for phase in result.phases:
        for op in phase.operators:
            matrix = op.cost.matrix_flops / result.hardware["peak_flops"][op.dtype]
            vector = op.cost.vector_flops / result.hardware["vector_flops"]
            memory = op.cost.bytes / result.hardware["bandwidth"]
            four = (matrix, vector, memory, op.times.link)
            assert op.time.bound == pytest.approx(max(four), rel=1e-12)
            assert op.time.sum == pytest.approx(sum(four), rel=1e-12)
            longest = max(zip(four, ("compute", "compute", "memory", "link"), strict=True))[1]
            if four.count(max(four)) == 1:
                assert op.times.bound_by == longest


@pytest.mark.parametrize(("model", "hardware", "options"), CASES, ids=IDS)
def test_bound_by_is_the_largest_share(model: str, hardware: str, options: dict[str, Any]) -> None:
    """What binds a phase is the term with the largest share of its bound."""
    for phase in roofline.analyze(model, hardware, **options).phases:
        shares = {
            kind: sum(op.time.bound for op in phase.operators if op.times.bound_by == kind)
            for kind in ("compute", "memory", "link")
        }  # type: ignore[misc]
        assert shares[phase.bound_by] == max(shares.values())  # type: ignore[union-attr]


def test_repeats_are_multiplied_in() -> None:
    """All 32 layers of a Llama: 32 x 2 x 8 sequences x (4096 + 2 x 1024) x 4096 FLOP for queries, keys and values."""
    step = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8).decode
    qkv = next(op for op in step.operators if op.path == "layers/attention/qkv_proj")  # type: ignore[union-attr]
    assert qkv.repeat == 32
    assert qkv.cost.matrix_flops == 32 * 2 * 8 * (4096 + 2 * 1024) * 4096


def test_decode_flops_of_a_dense_model() -> None:
    """2 FLOP a weight that is multiplied (embedding excepted) and sequence, and 4 s n d_head a layer for attention."""
    step = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8, context=1023).decode
    multiplied = 8_030_261_248 - 525_336_576 - 65 * 4096
    assert step.cost.matrix_flops == 8 * (2 * multiplied + 32 * 4 * 1024 * 32 * 128)  # type: ignore[union-attr]


def test_decode_bytes_of_a_dense_model() -> None:
    """Weights once (of the embedding the rows of the tokens), every cached key and value once, new ones written once."""
    cost = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8, context=1023).decode.cost  # type: ignore[union-attr]
    assert cost.weight_bytes == 2 * (8_030_261_248 - 525_336_576 + 8 * 4096)
    assert cost.kv_read_bytes == 8 * 1024 * 131_072
    assert cost.kv_write_bytes == 8 * 131_072


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({"batch": 6, "input_len": 100, "phase": "prefill"}, 600),
        ({"batch": 6, "phase": "decode"}, 6),
        ({"segments": "4x1@100,2x50@0"}, 104),
    ],
)
def test_tokens_per_s(options: dict[str, Any], tokens: int) -> None:
    """Prompt tokens at prefill, one token a sequence at decode, all new tokens when mixed; of the whole deployment."""
    (phase,) = roofline.analyze("llama-3.1-8b", "h100-sxm", **options).phases
    assert phase.tokens_per_s.bound == pytest.approx(tokens / phase.time.bound, rel=1e-12)


def test_tokens_per_s_of_replicas() -> None:
    """Two replicas with six sequences take as long as one with three, and yield twice its tokens."""
    one = roofline.analyze("llama-3.1-8b", "dgx-h100", batch=3).decode
    two = roofline.analyze("llama-3.1-8b", "dgx-h100", batch=6, dp=2).decode
    assert two.time.bound == pytest.approx(one.time.bound, rel=1e-12)  # type: ignore[union-attr]
    assert two.tokens_per_s.bound == pytest.approx(2 * one.tokens_per_s.bound, rel=1e-12)  # type: ignore[union-attr, operator]


def test_tokens_pass_every_stage() -> None:
    """With two pipeline stages a token takes the time of both: no faster than one device (apart from the send)."""
    one = roofline.analyze("llama-3.1-8b", "dgx-h100", phase="decode").decode
    two = roofline.analyze("llama-3.1-8b", "dgx-h100", phase="decode", pp=2).decode
    assert two.time.bound < 0.6 * one.time.bound  # type: ignore[union-attr, operator]
    assert two.pipeline_s == pytest.approx(one.time.bound, rel=0.01)  # type: ignore[union-attr]
    assert two.tokens_per_s.bound == pytest.approx(one.tokens_per_s.bound, rel=0.01)  # type: ignore[union-attr]


def test_utilisations() -> None:
    """MFU is matrix time over the estimate, MBU memory time over it; neither is beyond 1."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8)
    for phase in result.phases:
        took = phase.time.estimate
        assert phase.mfu == pytest.approx(phase.cost.matrix_flops / 989.4e12 / took, rel=1e-9)  # type: ignore[operator]
        assert phase.mbu == pytest.approx(phase.cost.bytes / 3350e9 / took, rel=1e-9)  # type: ignore[operator]
        assert 0 < phase.mfu < 1  # type: ignore[operator]
        assert 0 < phase.mbu <= 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("phase", "names"), [("both", ["prefill", "decode"]), ("prefill", ["prefill"]), ("decode", ["decode"])]
)
def test_phases_that_were_asked_for(phase: str, names: list[str]) -> None:
    """`--phase` chooses; `.prefill` and `.decode` are None where nobody asked."""
    result = roofline.analyze("gpt2", "t4", phase=phase, input_len=100)
    assert [found.name for found in result.phases] == names
    assert (result.prefill is not None, result.decode is not None) == ("prefill" in names, "decode" in names)


@pytest.mark.parametrize(
    ("model", "options", "input_len", "output_len"),
    [
        ("llama-3.1-8b", {}, 1000, 2),
        ("llama-3.1-8b", {}, 1000, 20),
        ("llama-3.1-8b", {"batch": 16}, 1000, 34),
        ("llama-3.1-8b", {"batch": 16}, 1000, 35),
        ("llama-3.1-8b", {"batch": 16}, 1000, 3000),
        ("gemma-3-12b", {"batch": 4}, 500, 2000),  # the window of 1024 binds on the way
        ("gpt-oss-20b", {}, 1, 700),
        ("deepseek-v2-lite", {"batch": 64}, 100, 900),  # attention turns compute-bound on the way
    ],
)
def test_tpot_is_the_mean_over_all_contexts(model: str, options: dict[str, Any], input_len: int, output_len: int) -> None:
    """The first token comes out of prefill; the others after input_len, input_len + 1, ... cached tokens."""
    request = roofline.analyze(model, "h100-sxm", input_len=input_len, output_len=output_len, **options).request
    step = roofline.compile(model, "h100-sxm")
    contexts = np.arange(input_len, input_len + output_len - 1)
    took = step(batch=options.get("batch", 1), context=contexts)["time_bound_s"]
    exact = output_len - 1 <= 33
    assert request.tpot_s.bound == pytest.approx(float(took.mean()), rel=1e-12 if exact else 1e-3)  # type: ignore[union-attr]


def test_request_adds_up() -> None:
    """TTFT is the prefill; E2E = TTFT + TPOT (n - 1)."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=4, input_len=500, output_len=100)
    spans = {name: getattr(result.request, name).bound for name in ("ttft_s", "tpot_s", "e2e_s")}
    assert spans["ttft_s"] == pytest.approx(result.prefill.time.bound, rel=1e-12)  # type: ignore[union-attr]
    assert spans["e2e_s"] == pytest.approx(spans["ttft_s"] + spans["tpot_s"] * 99, rel=1e-12)


def test_one_token_has_no_tpot() -> None:
    """With one output token the request ends with prefill."""
    request = roofline.analyze("llama-3.1-8b", "h100-sxm", output_len=1).request
    assert request.tpot_s.bound is None  # type: ignore[union-attr]
    assert request.e2e_s.bound == request.ttft_s.bound  # type: ignore[union-attr]


def test_no_request_without_output_len() -> None:
    """TTFT and the rest need to know how much is generated."""
    assert roofline.analyze("gpt2", "t4").request is None


def test_a_request_that_outgrows_memory_has_no_times() -> None:
    """2,000,000 generated tokens are 262 GB of cache on a card of 80: their times must not be given as if they fitted."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=1024, output_len=2_000_000)
    assert not result.memory.fits
    assert result.request.e2e_s.bound is None  # type: ignore[union-attr]


def test_what_does_not_fit_has_no_times() -> None:
    """No seconds and no rates for a deployment that does not fit; the work itself is counted."""
    result = roofline.analyze("llama-3.1-70b", "h100-sxm", output_len=10)
    assert not result.memory.fits
    for phase in result.phases:
        assert (phase.time.bound, phase.time.sum, phase.tokens_per_s.bound, phase.mfu, phase.mbu) == (None,) * 5
        assert {op.time.bound for op in phase.operators} == {None}
        assert phase.cost.matrix_flops > 0
    request = result.request
    assert {request.ttft_s.bound, request.tpot_s.bound, request.e2e_s.bound} == {None}  # type: ignore[union-attr]


def test_ignore_capacity_gives_times() -> None:
    """Unless the user insists; that it does not fit is still said."""
    result = roofline.analyze("llama-3.1-70b", "h100-sxm", ignore_capacity=True)
    assert not result.memory.fits
    assert result.decode.time.bound == pytest.approx(2 * 70.5e9 / 3350e9, rel=0.02)  # type: ignore[union-attr]


def test_a_result_is_frozen() -> None:
    """Results do not change after the fact."""
    result = roofline.analyze("gpt2", "t4")
    with pytest.raises(AttributeError):
        result.memory = None  # type: ignore[misc, assignment]


def test_parameters() -> None:
    """Published totals, to the last parameter; a mixture's active ones leave out the idle experts."""
    dense = roofline.analyze("llama-3.1-8b", "h100-sxm").model["parameters"]
    assert (dense["total"], dense["active"], dense["embedding"]) == (8_030_261_248, 8_030_261_248, 128_256 * 4096)
    sparse = roofline.analyze("mixtral-8x7b", "dgx-h100", tp=2).model["parameters"]
    idle = 32 * 6 * 3 * 4096 * 14336  # layers x (8 - 2) experts x three matrices
    assert sparse["total"] - sparse["active"] == idle


@pytest.mark.parametrize(
    ("given", "recalled"),
    [
        ({}, "bandwidth, memory"),
        ({"memory": "90 GB"}, "bandwidth"),
        ({"bandwidth": "2 TB/s"}, "memory"),
        ({"memory": "90 GB", "bandwidth": "2 TB/s"}, None),
    ],
)
def test_a_figure_from_memory_is_said_until_it_is_given(given: dict[str, str], recalled: str | None) -> None:
    """The B100's figures are of grade C: each is named, except those that the user's own take the place of."""
    notes = {note.name: note.value for note in roofline.analyze("llama-3.1-8b", "b100", **given).assumptions}
    assert notes.get("recalled") == recalled


def test_intensity_beside_a_ridge_is_of_matrix_flop() -> None:
    """Textbooks: an unmasked prompt of T tokens in groups of G query heads has TG/(G+1) FLOP/byte: 8192*4/5 = 6,554.

    Source: Austin et al., "How to Scale Your Model", 2025, chapter 7. Softmax, whose FLOP are none of matrices, is apart.
    """
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=8192, phase="prefill", mask="full")
    table = phase_table(result, result.phases[0])
    core = next(row for row in table.rows if row[0] == "layers/attention/core")
    assert core[table.columns.index("FLOP/B")] == "6,554"
    matrix = result.phases[0].cost.matrix_flops / result.phases[0].cost.bytes
    assert f"{matrix:,.4g} matrix FLOP/byte" in table.note


def test_the_first_token_comes_after_the_images() -> None:
    """The encoder, then the prefill step: in the bound, the estimate and its ends; without images the step alone."""
    seen, plain = (roofline.analyze("gemma-3-4b", "h100-sxm", images=images, phase="prefill") for images in (1, None))
    assert seen.encoder is not None
    assert seen.first_token is not None
    for name in ("bound", "estimate", "low", "high"):
        encoder, prefill = getattr(seen.encoder.time, name), getattr(seen.prefill.pipeline, name)
        assert encoder > 0
        assert getattr(seen.first_token, name) == pytest.approx(encoder + prefill)
    assert plain.first_token == plain.prefill.pipeline
    request = prepare("gemma-3-4b", "h100-sxm", images=1)
    assert time_to_first_token(request, request.workload.prompts).bound == pytest.approx(seen.first_token.bound)
    assert roofline.analyze("gemma-3-4b", "h100-sxm", images=1, phase="decode").first_token is None


def test_no_estimate_is_below_what_limits_it() -> None:
    """The estimate and its high end not below the bound, the low end not below the floor, or below the bound without one."""
    assert with_estimate(2.0, 3.0, None, 1.0) == Duration(2.0, 3.0, floor=1.0)
    assert with_estimate(2.0, 3.0, Interval(2.5, 0.5, 4.0), 1.0) == Duration(2.0, 3.0, 2.5, 1.0, 4.0, 1.0)
    assert with_estimate(2.0, 3.0, Interval(1.5, 1.2, 1.8), 1.0) == Duration(2.0, 3.0, 2.0, 1.2, 2.0, 1.0)
    assert with_estimate(2.0, None, Interval(2.5, 0.5, 4.0)) == Duration(2.0, None, 2.5, 2.0, 4.0)


def test_memory_is_that_of_the_longest_and_the_largest_step() -> None:
    """Bytes of a sequence are of the longest in any step; what is needed and left, of the step with the least left."""
    for options, tokens, step in (
        ({"input_len": 100, "context": 1000}, 1001, "decode"),
        ({"input_len": 5000, "context": 10}, 5000, "prefill"),
        ({"input_len": 100, "context": 10, "output_len": 501}, 600, "last decode"),
        ({"segments": "2x1@70,3x500@0"}, 500, "mixed"),
    ):
        found = roofline.analyze("llama-3.1-8b", "h100-sxm", **{} if "segments" in options else {"batch": 4}, **options)
        memory = found.memory
        assert memory.kv_bytes_per_sequence["mathematical"] == tokens * 131072
        assert memory.kv_bytes_per_sequence["allocated"] == -(-tokens // 16) * 16 * 131072
        assert (memory.step, memory.tokens_per_sequence) == (step, tokens)
        assert memory.sequences == (5 if step == "mixed" else 4)
        assert (memory.max_batch_of_steps is None) == (step == "mixed")


def test_images_are_of_prompts_alone() -> None:
    """The fits of the encoder's kernels are noted where prompts are computed, and not of a decode step."""
    names = {}
    for phase, images in (("prefill", 1), ("decode", 1), ("decode", 0)):
        result = roofline.analyze("gemma-3-12b", "h100-sxm", phase=phase, images=images)
        names[phase, images] = {note.name for note in result.assumptions if note.name.startswith("fit.")}
    assert names["decode", 1] == names["decode", 0]
    assert "fit.attention_prefill" not in names["decode", 1]
    assert "fit.attention_prefill" in names["prefill", 1]
