"""Rounds of a deployment: what they take, what they hold, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import RooflineError
from roofline.predict.drafts import read_options, resolve
from roofline.predict.limits import limits
from roofline.predict.timing import pipeline, timed
from roofline.specs.workload import Segment, decode, prefill

pytestmark = pytest.mark.every_case

NAMES = ("bound", "estimate", "low", "high")
DRAFTED = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": 0.7}


def ask(model: str = "llama-3.1-8b", hardware: str = "h100-sxm", **options: Any) -> Any:
    """An analysis, of a batch of 8 unless another is asked for."""
    return roofline.analyze(model, hardware, **{"batch": 8, "context": 2048, **options})


def test_nothing_drafted_is_plain_decoding() -> None:
    """K = 0: one token a round, in the time and the memory of a decode step."""
    found, plain = ask(**{**DRAFTED, "num_speculative_tokens": 0}), ask()
    assert found.speculative.tokens_per_round == 1
    for name in NAMES:
        assert getattr(found.speculative.tpot, name) == getattr(plain.decode.pipeline, name)
    assert found.memory == plain.memory
    assert found.speculative.speedup("estimate") == 1


def test_drafts_beside_a_shared_prefix() -> None:
    """16 of the 2,048 cached tokens are one for all; the draft, which is prepared without a load, does not refuse them."""
    assert ask(**DRAFTED, shared_prefix=16).speculative.tokens_per_round == ask(**DRAFTED).speculative.tokens_per_round


def test_everything_accepted() -> None:
    """A = 1: K + 1 tokens a round."""
    found = ask(**{**DRAFTED, "acceptance": 1}).speculative
    assert found.tokens_per_round == 4
    assert found.tpot.estimate == pytest.approx(found.round.estimate / 4)


def test_nothing_accepted_is_slower() -> None:
    """A = 0: one token a round, which takes a decode step and more."""
    found = ask(**{**DRAFTED, "acceptance": 0}).speculative
    assert found.tokens_per_round == 1
    assert found.speedup("bound") < 1
    assert found.speedup("estimate") < 1


def test_a_round_is_its_parts() -> None:
    """Three decode steps of the draft, a step with four tokens a sequence and logits of all, a comparison of the two."""
    found = ask(**DRAFTED).speculative
    steps = [ask("llama-3.2-1b", context=2048 + ahead).decode.pipeline.bound for ahead in (0, 2)]
    assert found.drafting.bound == pytest.approx(3 * sum(steps) / 2, rel=1e-12)
    verified = roofline.analyze("llama-3.1-8b", "h100-sxm", segments="8x4@2048", logits="all").phases[0].pipeline.bound
    compared = 8 * 3 * 128256 * 2 / 3.35e12  # logits of the drafted positions once more, in 2 bytes each
    assert found.verifying.bound == pytest.approx(verified + compared, rel=1e-3)
    for name in NAMES:
        parts = [getattr(part, name) for part in (found.drafting, found.verifying)]
        assert getattr(found.round, name) == pytest.approx(sum(parts))
        assert getattr(found.tpot, name) == pytest.approx(sum(parts) / (1 + 0.7 + 0.49 + 0.343))


def test_verification_is_no_quicker_than_a_decode_step() -> None:
    """By the estimate and both its ends, also over long caches, where the form of prompts would be."""
    options = {"speculative_method": "ngram", "num_speculative_tokens": 1, "acceptance": 0.5, "ignore_capacity": True}
    found = ask(batch=32, context=16384, **options)
    for name in NAMES:
        assert getattr(found.speculative.verifying, name) >= getattr(found.decode.pipeline, name)


def test_break_even() -> None:
    """At that acceptance a token takes what it takes without a draft."""
    even = ask(**DRAFTED).speculative.break_even_acceptance
    found = ask(**{**DRAFTED, "acceptance": even}).speculative
    assert found.speedup("estimate") == pytest.approx(1)


def test_it_never_pays_where_compute_binds() -> None:
    """Four times the tokens in a step that is bound by compute take four times as long, and a draft beside."""
    options = {**DRAFTED, "batch": 512, "context": 16, "speculative_model": "llama-3.1-8b"}
    assert ask("llama-3.1-8b", **options).speculative.break_even_acceptance is None


def test_memory_of_a_draft_model() -> None:
    """Its weights, its cache of every token, and three tokens more a sequence."""
    found, plain = ask(**DRAFTED, phase="decode"), ask(phase="decode")
    assert found.speculative.draft_weights_bytes == 1_235_814_400 * 2  # parameters of Llama 3.2 1B, tied
    assert found.speculative.draft_kv_bytes_per_token == 16 * 8 * 2 * 64 * 2
    blocks = -(-(2048 + 4) // 16) * 16
    assert found.memory.needed_bytes == 8 * blocks * (32 * 8 * 2 * 128 * 2 + 16 * 8 * 2 * 64 * 2)
    logits = 8 * 3 * 128256 * 2  # of three more tokens a sequence, in the largest working set, which is the LM head's
    held = plain.memory.usable_bytes - found.memory.usable_bytes - 1_235_814_400 * 2
    assert logits <= held <= 1.1 * logits
    assert found.memory.max_batch < plain.memory.max_batch


def test_memory_over_two_devices() -> None:
    """The draft is divided as the model is, unless another number of devices is asked for."""
    both, one = (
        ask(hardware="dgx-h100", tp=2, **DRAFTED, speculative_draft_tensor_parallel_size=size).speculative for size in (None, 1)
    )
    assert one.draft_weights_bytes == 1_235_814_400 * 2
    assert both.draft_weights_bytes == pytest.approx(one.draft_weights_bytes / 2, rel=1e-3)  # norms are on both
    assert (one.draft_kv_bytes_per_token, both.draft_kv_bytes_per_token) == (32768, 16384)


def test_mtp_holds_one_more_layer() -> None:
    """A latent of 576 elements a token; weights of a layer, of a projection of 2d to d, and of norms."""
    options = {"speculative_method": "mtp", "num_speculative_tokens": 1, "acceptance": 0.9, "phase": "decode"}
    result = ask("deepseek-v3", "h200-sxm", tp=8, **options)
    found = result.speculative
    assert found.draft_kv_bytes_per_token == 576 * 2
    assert result.memory.needed_bytes == 8 * 2064 * (61 + 1) * 576 * 2  # 2,050 tokens in blocks of 16
    assert found.drafting.bound < found.plain.bound / 10


def test_the_larger_working_set_counts() -> None:
    """Of a prompt it is that of the draft, where the draft is the larger model."""
    drafted, small, large = (
        roofline.analyze(model, "h100-sxm", input_len=8192, **options).memory.activation_bytes
        for model, options in (
            ("llama-3.2-1b", {**DRAFTED, "speculative_model": "llama-3.1-8b"}), ("llama-3.2-1b", {}), ("llama-3.1-8b", {}),
        )
    )  # fmt: skip
    assert small < drafted == large


def test_ngrams_cost_nothing() -> None:
    """No time, no bytes: a round is its verification."""
    found = ask(speculative_method="ngram", num_speculative_tokens=4, acceptance=0.3).speculative
    assert (found.drafting.bound, found.drafting.estimate) == (0, 0)
    assert found.round == found.verifying
    assert (found.draft_weights_bytes, found.draft_kv_bytes_per_token) == (0, 0)


def test_request_with_speculation() -> None:
    """TPOT of a request is that of rounds; prompts go through the draft too."""
    found, plain = ask(**DRAFTED, input_len=2048, output_len=2), ask(input_len=2048, output_len=2)
    assert found.request.tpot_s.bound == pytest.approx(found.speculative.tpot.bound)
    draft = ask("llama-3.2-1b", input_len=2048).prefill.pipeline.bound
    assert found.request.ttft_s.bound == pytest.approx(plain.request.ttft_s.bound + draft)
    assert found.request.e2e_s.bound == pytest.approx(found.request.ttft_s.bound + found.request.tpot_s.bound)


def test_what_does_not_fit_has_no_times() -> None:
    """The weights of the draft are what is too much; with --ignore-capacity there are times."""
    options = {**DRAFTED, "memory": "19 GB"}
    assert ask(batch=1, memory="19 GB").memory.fits
    found = ask(**{**options, "batch": 1})
    assert not found.memory.fits
    assert (found.speculative.tpot.bound, found.speculative.break_even_acceptance) == (None, None)
    assert found.speculative.tokens_per_round == pytest.approx(2.533)
    assert ask(**{**options, "batch": 1}, ignore_capacity=True).speculative.tpot.bound > 0


def test_other_keys_are_the_same() -> None:
    """Phases are those of plain decoding; without the options there is no key."""
    found, plain = ask(**DRAFTED).to_dict(), ask().to_dict()
    assert found["phases"] == plain["phases"]
    assert "speculative" in found
    assert "speculative" not in plain
    assert list(found["inputs"])[-1] == "draft" or "draft" in found["inputs"]
    assert json.loads(json.dumps(found["speculative"])) == found["speculative"]


@pytest.mark.slow
def test_replicas() -> None:
    """Two replicas of eight sequences take as long as one."""
    one, two = (ask(hardware="dgx-h100", dp=dp, **{**DRAFTED, "batch": 8 * dp}).speculative for dp in (1, 2))
    assert two.tpot == one.tpot
    assert two.rate("estimate") == pytest.approx(2 * one.rate("estimate"))
    mtp = {"speculative_method": "mtp", "num_speculative_tokens": 2, "acceptance": 0.8}
    one, two = (ask("qwen3-8b", "dgx-h100", dp=dp, batch=8 * dp, **mtp).speculative for dp in (1, 2))
    assert two.tpot == one.tpot


def test_config_of_vllm() -> None:
    """The same as the options."""
    text = '{"model": "llama-3.2-1b", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 1}'
    asked, rest = read_options({"speculative_config": text, "acceptance": "0.7", "tp": 2})
    plain, _ = read_options({**DRAFTED, "speculative_draft_tensor_parallel_size": 1})
    assert (asked, rest) == (plain, {"tp": 2})
    asked, _ = read_options({"speculative_config": {"method": "deepseek_mtp", "num_speculative_tokens": 1}, "acceptance": 1})
    assert asked is not None
    assert (asked.method, asked.tokens) == ("mtp", 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acceptance": 0.5}, "needs a draft"),
        ({"speculative_method": "mtp", "acceptance": 0.5}, "--num-speculative-tokens is needed"),
        ({"speculative_method": "mtp", "num_speculative_tokens": 2}, "--acceptance is needed"),
        ({**DRAFTED, "acceptance": 1.1}, "must be from 0 to 1, not 1.1"),
        ({**DRAFTED, "acceptance": "often"}, "must be a number, not 'often'"),
        ({**DRAFTED, "acceptance": float("nan")}, "must be from 0 to 1"),
        ({**DRAFTED, "num_speculative_tokens": -1}, "num-speculative-tokens must be at least 0"),
        ({**DRAFTED, "speculative_model": "gpt2"}, "gpt2 cannot draft for llama-3.1-8b: its vocabulary has 50,257"),
        ({**DRAFTED, "speculative_method": "ngram"}, "takes no draft model"),
        ({**DRAFTED, "speculative_method": "eagle"}, "unknown speculative method 'eagle'. Known: draft_model, mtp, ngram"),
        ({**DRAFTED, "segments": "8x1@2048", "batch": None, "context": None}, "--segments describes one step"),
        ({**DRAFTED, "phase": "prefill"}, "no part in prefill"),
        ({**DRAFTED, "pp": 2, "hardware": "dgx-h100"}, "over pipeline stages is not modelled"),
        ({**DRAFTED, "speculative_draft_tensor_parallel_size": 2}, "is more than the 1 devices"),
        ({"speculative_config": "{"}, "must be a JSON object"),
        ({"speculative_config": '{"method": ["ngram"]}'}, "unknown speculative method"),
        ({"speculative_config": '{"tokens": 3}'}, "unknown key of --speculative-config 'tokens'"),
        ({**DRAFTED, "speculative_config": '{"num_speculative_tokens": 3}'}, "give it once"),
    ],
)
def test_refused(options: dict[str, Any], said: str) -> None:
    """One error that says what is wrong and what is allowed."""
    with pytest.raises(RooflineError, match=said):
        ask(**options)


def test_a_model_without_mtp_is_said_to_be_so() -> None:
    """Llama has no such layer: what is counted is an assumption; DeepSeek-V3 has one."""
    options = {"speculative_method": "mtp", "num_speculative_tokens": 1, "acceptance": 0.8}
    origin = {
        model: next(note.origin for note in ask(model, hardware, tp=tp, **options).assumptions if note.name == "draft")
        for model, hardware, tp in (("llama-3.1-8b", "h100-sxm", 1), ("deepseek-v3", "h200-sxm", 8))
    }
    assert origin == {"llama-3.1-8b": "assumed", "deepseek-v3": "default"}


@pytest.mark.slow
def test_limits_with_speculation() -> None:
    """TPOT is that of rounds, memory has the draft in it, and the comparison says what there would be without."""
    found = limits("llama-3.1-8b", "h100-sxm", context="2k", tpot="10 ms", **DRAFTED)
    (row,) = found.rows
    took = [
        ask(**{**DRAFTED, "batch": batch}).speculative.tpot.estimate for batch in (row.allowed.batch, row.allowed.batch + 1)
    ]
    assert took[0] <= 0.01 < took[1]
    assert row.max_batch_memory == ask(**DRAFTED).memory.max_batch
    batches = {line.variant: line.max_batch_memory for line in found.variants}
    assert batches["no speculative decoding"] == ask().memory.max_batch
    assert found.inputs["draft"]["name"] == "llama-3.2-1b"


FIELDS = ("floor", "bound", *NAMES[1:])


@pytest.mark.parametrize("drafted", [1, 4])
@pytest.mark.parametrize(("hardware", "options"), [("h100-sxm", {}), ("dgx-h100", {"dp": 2, "tp": 2})])
def test_every_time_of_a_round(drafted: int, hardware: str, options: dict[str, int]) -> None:
    """Steps of the draft at the mean of the first and the last context, the step of K + 1 tokens, and the comparison of K.

    A verification takes no less than a decode step; prompts pass both models; a request is a mean over its contexts.
    """
    given = {**DRAFTED, "num_speculative_tokens": drafted, **options}
    request, speculation = resolve("llama-3.1-8b", hardware, **given, batch=7, input_len=300, output_len=40, context=900)
    assert speculation is not None
    draft, replicas = speculation.draft, options.get("dp", 1)
    assert draft.step is not None
    ends = [draft.step(decode(7, context)) for context in (900, 900 + drafted - 1)]
    segments = (Segment(7, drafted + 1, 900, decode=True),)
    step, plain = pipeline(speculation.verifier, segments), pipeline(request, decode(7, 900))
    compared = speculation.comparison(7)
    assert (compared.rows, compared.choices) == (-(-7 // replicas) * drafted, 128256)
    compare = timed(request, {"rejection": (compared, 1)}, segments)
    tokens = 1 + sum(0.7**number for number in range(1, drafted + 1))
    assert speculation.tokens == pytest.approx(tokens)
    drafting, verifying = speculation.drafting(7, 900), speculation.verifying(7, 900)
    tpot, prompts = speculation.tpot(7, 900), request.workload.prompts
    for name in FIELDS:
        assert getattr(drafting, name) == pytest.approx(drafted * sum(getattr(end, name) for end in ends) / 2)
        expected = getattr(step, name) + getattr(compare, name)
        expected = expected if name in ("bound", "floor") else max(expected, getattr(plain, name))
        assert getattr(verifying, name) == pytest.approx(expected)
        assert getattr(tpot, name) == pytest.approx((getattr(drafting, name) + expected) / tokens)
        both = getattr(pipeline(request, prompts), name) + getattr(draft.step(prompts), name)
        assert getattr(speculation.prefill(prompts), name) == pytest.approx(both)
    contexts = speculation.contexts
    assert len(contexts) == 9
    assert sum(contexts) / 9 == pytest.approx(300 + 38 / 2, abs=0.5)  # 39 steps after 300 to 338 tokens
    assert (contexts[0], contexts[-1]) == (300 + round(39 / 18 - 0.5), 300 + round(39 * 17 / 18 - 0.5))
    times, mean = speculation.request_times(), sum(speculation.tpot(7, context).bound or 0 for context in contexts) / 9
    assert times["tpot_s"].bound == pytest.approx(mean)
    assert times["e2e_s"].bound == pytest.approx((speculation.prefill(prompts).bound or 0) + 39 * mean)
    assert speculation.by_batch(900)(7) == tpot


@pytest.mark.parametrize(("output_len", "contexts"), [(None, [900]), (1, [900]), (2, [300]), (4, [300, 301, 302])])
def test_contexts_of_few_tokens(output_len: int | None, contexts: list[int]) -> None:
    """Each step of a short output; without one, the context of the decode step."""
    _, speculation = resolve("llama-3.1-8b", "h100-sxm", **DRAFTED, input_len=300, context=900, output_len=output_len)
    assert speculation is not None
    assert speculation.contexts == contexts
    if output_len == 1:
        times = speculation.request_times()
        assert (times["tpot_s"].bound, times["e2e_s"]) == (None, times["ttft_s"])


def test_memory_with_a_draft() -> None:
    """Of decoded sequences K tokens more, in both caches; logits of all of them, or the draft's working set if that is more."""
    request, speculation = resolve("llama-3.1-8b", "h100-sxm", **DRAFTED, batch=8)
    assert speculation is not None
    part, draft = request.memory.fullest_stage, speculation.draft.memory
    assert draft is not None
    alone, small = request.memory.alone().fullest_stage, draft.fullest_stage  # type: ignore[attr-defined]
    for step in (decode(8, 2045), prefill(3, 999), (*decode(5, 100), Segment(2, 300, 0))):
        more = tuple(replace(one, new=one.new + 3) if one.decode else one for one in step)
        assert part.needed_bytes(step) == alone.needed_bytes(more) + small.needed_bytes(more)
        rows = sum(one.count * one.new for one in more)
        working = alone.activation_bytes(step)
        if any(one.decode for one in step):
            tokens = 2 * (rows * 4096 + max(rows * (4096 + 128256), rows * 3 * 14336))
            working = tokens
        assert part.activation_bytes(step) == max(working, small.activation_bytes(step))
    assert part.loaded_bytes == alone.loaded_bytes + speculation.draft.weights_bytes
    for length in (1, 16, 1000):
        own, others = alone.layout.bytes(length - 1, 1), small.layout.bytes(length - 1, 1)
        assert part.own_cache_share(length) == own / (own + others)
    assert part.layouts == (alone.layout, small.layout)
    left = part.usable_bytes(decode(8, 999))
    share = 131072 / (131072 + 32768)
    assert part.kv_capacity_tokens(decode(8, 999)) == int(left // (16 * 131072) * 16 * share)


@pytest.mark.parametrize("tp", [1, 2])
def test_one_more_layer_by_hand(tp: int) -> None:
    """Of a layer of Llama 3.1 8B the matrices are divided; two more norms and a projection of 2 x 4096 to 4096 are not."""
    given = {"speculative_method": "mtp", "num_speculative_tokens": 2, "acceptance": 0.5, "dp": 2, "tp": tp}
    _, speculation = resolve("llama-3.1-8b", "dgx-h100", **given)
    assert speculation is not None
    draft, width = speculation.draft, 4096
    layer = (width * (4096 + 2 * 1024) + 4096 * width + 3 * width * 14_336) / tp + 2 * width
    assert draft.weights_bytes == 2 * (layer + 2 * width + 2 * width * width)
    assert draft.graph is not None
    assert draft.step is not None
    step = (*decode(7, 100), Segment(3, 20, 0))
    graph = draft.graph(step)
    rows = 4 * 1 + 2 * 20
    for name in ("mtp/embedding_norm", "mtp/hidden_norm"):
        norm, repeat = graph[name]
        assert (norm.dims()["rows"], norm.dims()["width"], repeat) == (rows, width, 1)
    projection, _ = graph["mtp/projection"]
    assert [projection.dims()[name] for name in "mnk"] == [rows, width, 2 * width]
    assert draft.request is not None
    assert draft.step(step) == timed(draft.request, graph, step)
    assert graph["layers/mlp/down_proj"][1] == 1
    assert draft.memory is not None
    assert draft.memory.fullest_stage.kv_bytes_per_token == 2 * 8 * 128 * 2 / tp
    (note,) = draft.notes
    assert note.origin == "assumed"
    _, other = resolve("deepseek-v3", "dgx-h200", **{**given, "tp": 4, "dp": 1})
    assert other is not None
    assert [one.origin for one in other.draft.notes] == ["default"]


@pytest.mark.parametrize(("size", "origin", "divided"), [(None, "default", 2), (1, "given", 1), (2, "given", 2)])
def test_a_draft_model_on_some_devices(size: int | None, origin: str, divided: int) -> None:
    """Over as many as the model, unless another number is given; what the engine adds is not in its steps."""
    request, speculation = resolve(
        "llama-3.1-8b", "dgx-h100", **DRAFTED, tp=2, speculative_draft_tensor_parallel_size=size, kv_cache_dtype="fp8"
    )
    assert speculation is not None
    draft = speculation.draft
    notes = {note.name: note for note in draft.notes}
    assert (notes["draft_tensor_parallel_size"].value, notes["draft_tensor_parallel_size"].origin) == (divided, origin)
    assert notes["draft"].value == draft.name == "llama-3.2-1b"
    assert draft.request is not None
    assert draft.step is not None
    assert draft.request.steps is None
    assert draft.request.deployment.tensor_parallel_size == divided
    assert draft.request.precision.kv == request.precision.kv
    assert draft.step(decode(3, 9)) == pipeline(draft.request, decode(3, 9))
    assert [entry.role for entry in draft.inputs] == ["draft"]
    with pytest.raises(RooflineError, match="more than the 2 devices"):
        resolve("llama-3.1-8b", "dgx-h100", **DRAFTED, tp=2, speculative_draft_tensor_parallel_size=4)


def test_rounds_without_estimates() -> None:
    """On a processor, of which no kernels are fitted: bounds alone, by which it breaks even."""
    host = Path(__file__).resolve().parents[3] / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"
    found = ask("llama-3.2-1b", host, **{**DRAFTED, "speculative_model": "llama-3.2-1b"}, ignore_capacity=True).speculative
    assert (found.verifying.estimate, found.tpot.estimate, found.basis) == (None, None, "bound")
    assert found.round.bound == pytest.approx(found.drafting.bound + found.verifying.bound)
    tokens = 1 + 0.7 + 0.7**2 + 0.7**3
    assert found.tpot.bound == pytest.approx(found.round.bound / tokens)
    assert found.speedup("bound") == pytest.approx(found.plain.bound * tokens / found.round.bound)
    assert (found.rate("bound"), found.rate("estimate")) == (pytest.approx(8 / found.tpot.bound), None)
