"""A prompt whose beginning is in the prefix cache: only the rest is computed, and attends to all of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.audit.claims import judge
from roofline.errors import InputError
from roofline.predict.duration import Duration
from roofline.predict.limits import limits
from roofline.report.analysis.page import report
from roofline.serving.preemption.preempt import preempt
from roofline.serving.queueing.replica import Mix
from roofline.specs.workload import cached_tokens

HIT: dict[str, Any] = {"input_len": 4096, "phase": "prefill"}
MODELS = ["llama-3.1-8b", "deepseek-v2-lite", "gemma-2-9b", "qwen3-30b-a3b"]  # GQA, MLA, sliding windows, experts


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [1, 4])
def test_it_is_a_segment_with_cached_tokens(model: str, batch: int) -> None:
    """As a share, in tokens, or as `--segments 1x512@3584`: the same FLOP, bytes and times, operator by operator."""
    expected = roofline.analyze(model, "h200-sxm", segments=f"{batch}x512@3584").to_dict()["phases"]
    prefixes: list[dict[str, Any]] = [
        {"prefix_hit": "0.875"},
        {"cached_prefix": "3584"},
        {"cached_prefix": 3584, "output_len": 2},
    ]
    for prefix in prefixes:
        result = roofline.analyze(model, "h200-sxm", **HIT, batch=batch, **prefix).to_dict()
        assert result["phases"] == expected
        if "request" in result:
            ttft = result["request"]["ttft_s"]
            assert ttft == {name: expected[0]["time_s"][name] for name in ttft}


def test_attention_counts_the_pairs_of_new_tokens_with_all_before() -> None:
    """512 new tokens after 3,584: 512 * 513 / 2 + 512 * 3584 pairs; 4 FLOP for each element of 32 heads of 128 in 32 layers."""
    phase = roofline.analyze("llama-3.1-8b", "h100-sxm", **HIT, prefix_hit=0.875).prefill
    assert phase is not None
    (core,) = [one for one in phase.operators if one.path.endswith("attention/core")]
    assert core.cost.matrix_flops == 4 * (512 * 513 / 2 + 512 * 3584) * 32 * 32 * 128


def test_decode_is_the_same() -> None:
    """Its context is the whole prompt, whoever computed it."""
    plain = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=4096)
    hit = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=4096, prefix_hit=0.5)
    assert plain.decode == hit.decode


@pytest.mark.parametrize("hit", [0.1, 0.3, 0.5, 0.875, 0.95, 1.0])
def test_it_means_what_it_means_to_plan(hit: float) -> None:
    """At least one token is computed, and whole ones are."""
    lengths = np.array([10.0, 100.0, 1155.0, 4096.0])
    computed = Mix(1.0, lengths, lengths, hit).computed
    assert [length - cached_tokens(int(length), hit) for length in lengths] == computed.tolist()


def test_speculative_decoding_and_compile() -> None:
    """The prompt of the draft is cached as well; a compiled function has arguments for it."""
    options: dict[str, Any] = {
        "num_speculative_tokens": 3, "acceptance": 0.7, "speculative_model": "llama-3.2-1b", "quantization": "fp8",
        "input_len": 4096, "output_len": 64,
    }  # fmt: skip
    whole = roofline.analyze("llama-3.1-70b", "h200-sxm", **options)
    hit = roofline.analyze("llama-3.1-70b", "h200-sxm", **options, cached_prefix=3584)
    assert whole.request is not None
    assert hit.request is not None
    assert hit.request.ttft_s.bound < whole.request.ttft_s.bound / 4
    assert hit.request.tpot_s == whole.request.tpot_s
    with pytest.raises(InputError, match="prefix_hit is not part of a deployment"):
        roofline.compile("llama-3.1-8b", "h100-sxm", phase="prefill", prefix_hit=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix_hit": 0.5, "cached_prefix": 10}, "give one of them"),
        ({"prefix_hit": "often"}, "--prefix-hit must be a number"),
        ({"prefix_hit": 50}, "from 0 to 1"),
        ({"cached_prefix": 1024}, "at most 1,023"),
        ({"cached_prefix": 10, "shared_prefix": 20}, "--shared-prefix 20 is more than the 10 cached tokens"),
    ],
)
def test_refused(options: dict[str, Any], words: str) -> None:
    """What cannot be, or is said twice."""
    with pytest.raises(InputError, match=words):
        roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=1024, **options)
    with pytest.raises(InputError, match="leave out --prefix-hit"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", segments="1x512@3584", prefix_hit=0.5)


def test_sweeps_range_over_it() -> None:
    """The prompt keeps its length; decode does not change."""
    frame = roofline.sweep({
        "model": "llama-3.1-8b", "hardware": "h100-sxm", "phase": "both", "input_len": "1k,4k", "prefix_hit": "0,0.875",
    })  # fmt: skip
    for row in frame[frame["phase"] == "prefill"].to_dict("records"):
        single = roofline.analyze(
            "llama-3.1-8b", "h100-sxm", phase="prefill", input_len=int(row["input_len"]), prefix_hit=str(row["prefix_hit"])
        ).prefill
        assert single is not None
        assert row["time_estimate_s"] == pytest.approx(single.time.estimate, rel=1e-12)
    times = frame[frame["phase"] == "decode"].groupby("context", observed=True)["time_bound_s"].nunique()
    assert set(times) == {1}
    refused = roofline.sweep(
        {"model": "gpt2", "hardware": "l4", "phase": "prefill", "input_len": "256,512", "cached_prefix": "300"}
    ).attrs["refused"]
    assert [(entry["points"], entry["why"]) for entry in refused] == [(1, "300 tokens of the prompt are cached")]


def test_explained() -> None:
    """The cached tokens have a symbol."""
    explained = roofline.explain(
        "llama-3.1-8b", "layers/attention/core", "h100-sxm", phase="prefill", input_len=4096, prefix_hit=0.875
    )
    assert any("S_q·S_c_prefix" in part.formula for part in explained.parts)


@pytest.mark.slow
def test_on_a_page() -> None:
    """A report of it has a control for it, in tokens."""
    page = report("llama-3.1-8b", ["h100-sxm"], {"prefix_hit": "0.875", "input_len": "4096"})
    assert "--cached-prefix 3584" in page.replace("</span> <span>", " ")
    assert re.search(r'<input id="control-cached_prefix"[^>]* value="3584"', page)


def prefill_after(cached: int, input_len: int) -> Duration:
    """Time of a prefill with cached tokens."""
    phase = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=input_len, cached_prefix=cached).prefill
    assert phase is not None
    return phase.time


def test_limits_have_the_ttft_of_the_rest() -> None:
    """That of `analyze` with the same prefix; default contexts are longer than what is cached of them."""
    listed = limits("llama-3.1-8b", "h100-sxm", context="4k,8k", ttft="200 ms", cached_prefix=3584)
    for row in listed.rows:
        phase = prefill_after(3584, row.context)
        assert row.ttft is not None
        assert (row.ttft.floor, row.ttft.bound, row.ttft.estimate) == (phase.floor, phase.bound, phase.estimate)
    assert limits("llama-3.1-8b", "h100-sxm", ttft="200 ms", cached_prefix="10k").rows[0].context == 16384
    assert limits("llama-3.1-8b", "h100-sxm", context=0, ttft="200 ms", prefix_hit=0.5).rows[0].ttft is None
    with pytest.raises(InputError, match="leaves nothing of a prompt of 1,024 tokens"):
        limits("llama-3.1-8b", "h100-sxm", context="1k", ttft="200 ms", cached_prefix=2048)


def test_what_other_sequences_hold_is_not_evicted() -> None:
    """3,584 of 4,096 tokens stay: as 512 after a shared prefix."""
    held = preempt("llama-3.1-8b", "h100-sxm", tokens=4096, prefix_hit=0.875, host_link="20 GB/s")
    after = preempt("llama-3.1-8b", "h100-sxm", tokens=512, shared_prefix=3584, host_link="20 GB/s")
    phase = prefill_after(3584, 4096)
    assert held.comparison is not None
    assert after.comparison is not None
    assert held.comparison.recompute == after.comparison.recompute
    assert held.comparison.swap == after.comparison.swap
    assert held.comparison.recompute.seconds == pytest.approx(phase.estimate, rel=1e-3)
    with pytest.raises(InputError, match="give one of them"):
        preempt("llama-3.1-8b", "h100-sxm", tokens=4096, cached_prefix=16, shared_prefix=16)


def test_a_claim_is_judged_with_its_cached_prompt() -> None:
    """The ceiling is the floor of `analyze`; impossible without the cache, and with it not."""
    phase = prefill_after(3584, 4096)
    claimed = {"ttft": "9 ms", "input_len": 4096}
    judged = judge(None, "llama-3.1-8b", "h100-sxm", **claimed, cached_prefix=3584)
    assert judged.claims[0].ceiling == pytest.approx(phase.floor, rel=1e-9)
    assert judged.verdict != "impossible"
    assert judge(None, "llama-3.1-8b", "h100-sxm", **claimed).verdict == "impossible"
    assert phase.floor is not None
    rate = judge(None, "llama-3.1-8b", "h100-sxm", tokens_per_s=1e5, phase="prefill", input_len=4096, batch=1, prefix_hit=0.875)
    assert rate.claims[0].ceiling == pytest.approx(4096 / phase.floor, rel=1e-9)  # tokens that pass, cached ones too
