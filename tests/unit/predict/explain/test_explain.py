"""Explanations: formulas that a reader can check, whose values are those of `analyze`."""

from __future__ import annotations

from typing import Any

import pytest
from library_cases import DISTINCT

from roofline.blocks.model_files import load_model
from roofline.cost import ZERO
from roofline.errors import InputError, UnknownNameError
from roofline.graph.sharding import caches, states
from roofline.predict.analyze import analyze
from roofline.predict.explain.explain import QUANTITIES, Explainer, explain, explain_step, subjects
from roofline.predict.explain.explanation import Explanation
from roofline.predict.parameters import count_parameters
from roofline.predict.request import prepare
from roofline.specs.deployment import Deployment
from roofline.specs.library import shipped
from roofline.specs.workload import decode

TEMPLATE = str(shipped("models") / "_template.yaml")
LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
UNTIMED = [
    name for name, one in QUANTITIES.items() if not one.timed and one.group not in ("speculative decoding", "parallelism")
]


def test_kv_bytes_per_token() -> None:
    """2 (K and V) * 32 layers * 8 heads * 128 * 2 bytes = 131072."""
    found = explain(LLAMA, "kv_bytes_per_token")
    assert found.formula == "2·L·n_kv·d_head·b_kv"
    assert found.latex == r"2 \, L \, n_{kv} \, d_{head} \, b_{kv}"
    assert found.substituted == "2·32·8·128·2"
    assert found.value == 2 * 32 * 8 * 128 * 2
    assert isinstance(found.value, int)
    assert found.unit == "bytes"
    assert ("n_kv", 8, "key and value heads [heads]") in found.legend


def test_kv_bytes_per_token_of_mla() -> None:
    """DeepSeek-V2-Lite: 27 layers of a latent of 512 and a rotated key of 64, two bytes each; both layer types at once."""
    found = explain("deepseek-v2-lite", "kv_bytes_per_token")
    assert found.formula == "L·(r_kv + d_rope)·b_kv"
    assert found.value == 27 * (512 + 64) * 2


def test_layer_types_that_add_the_same_are_written_once() -> None:
    """gpt-oss has 12 layers with a window and 12 without: one token adds the same to all 24."""
    assert explain("gpt-oss-20b", "kv_bytes_per_token").substituted == "2·24·8·64·2"


def test_parameters() -> None:
    """Llama 3.1 8B has 8,030,261,248 (Hugging Face's count), by parts that add up."""
    found = explain(LLAMA, "parameters")
    assert found.value == 8_030_261_248
    assert sum(part.value for part in found.parts) == found.value
    assert {part.subject for part in found.parts} == {"embedding", "layers/attention", "layers/mlp", "final_norm", "lm_head"}
    assert next(part for part in found.parts if part.subject == "embedding").substituted == "4096·128,256"


def test_ridge_point_and_critical_batch() -> None:
    """312 TFLOP/s over 2039 GB/s is 153.0 FLOP/byte; weights of two bytes make the critical batch the same number."""
    assert explain(LLAMA, "ridge_point", A100).formula == "P / β"
    assert explain(LLAMA, "ridge_point", A100).value == pytest.approx(312e12 / 2039e9, rel=1e-15)
    found = explain(LLAMA, "critical_batch", A100)
    assert found.value == pytest.approx(153.0, abs=0.05)
    assert found.parts == ()
    assert {"traffic", "experts"} & {note.name for note in found.assumptions} == {"traffic"}


def test_critical_batch_of_experts() -> None:
    """All 8 of Mixtral's experts are read, and each token multiplies two: larger than the ridge by the weights over those."""
    found = explain("mixtral-8x7b", "critical_batch", A100)
    expert, others = 3 * 4096 * 14_336, 4096 * (4096 + 2 * 1024 + 4096) + 4096 * 8
    read, multiplied = (32 * (count * expert + others) + 32_000 * 4096 for count in (8, 2))
    assert found.value == pytest.approx(312e12 / 2039e9 * read / multiplied)
    assert {"traffic", "experts"} <= {note.name for note in found.assumptions}


def test_decode_floor() -> None:
    """All weights but the input table, and one row of it: (8030261248 - 128256*4096 + 4096) * 2 bytes at 2039 GB/s, 7.36 ms."""
    found = explain(LLAMA, "decode_floor", A100)
    assert found.value == pytest.approx((8_030_261_248 - 128_256 * 4096 + 4096) * 2 / 2039e9, rel=1e-15)
    assert found.value == pytest.approx(7.36e-3, abs=5e-6)


def test_max_batch_and_max_context_show_what_is_left() -> None:
    """90 % of 80 GiB less 16.06 GB of weights; a sequence of 4097 tokens takes 257 blocks of 16."""
    found = explain(LLAMA, "max_batch", A100, context=4096)
    left, working = found.parts
    assert left.value == pytest.approx(0.9 * 80 * 2**30 - 8_030_261_248 * 2)
    assert found.value == left.value // (257 * 16 * 131_072 + working.value)
    assert found.formula.startswith("⌊M_free / (")


@pytest.mark.parametrize("options", [{}, {"dp": 2, "batch": 6}, {"engine": "trtllm"}, {"engine": "sglang"}], ids=str)
def test_what_a_sequence_takes_beside_its_cache(options: dict[str, Any]) -> None:
    """Activations of one sequence of a replica, or the share of them that an engine's share of free memory leaves out."""
    replicas, memory = options.get("dp", 1), prepare(LLAMA, "dgx-a100", **options).memory
    left, working = explain(LLAMA, "max_batch", "dgx-a100", **options).parts
    part, one = memory.fullest_stage, decode(replicas, 1024)
    share = {"trtllm": memory.utilization, "sglang": 0}.get(options.get("engine", ""), 1)
    assert working.value == pytest.approx(part.activation_bytes(one) * share)
    taken = part.activation_bytes(one) * (1 if share else 0)
    assert left.value == pytest.approx(part.left_bytes(part.loaded_bytes, taken) + working.value)


def same_max_context(model: str, hardware: str, options: dict[str, Any], searched: int | None) -> None:
    """The closed form gives what the search finds, or is refused with it where some layer lets go of tokens.

    Engines allocate all tokens of layers whose attention is in chunks (Llama 4).
    """
    kept, held = caches(load_model(model)[0], Deployment()), states(load_model(model)[0], Deployment())
    if (kept and held) or any((cache.window and not cache.chunked) or cache.ratio or cache.index for cache, _ in kept):
        what = "no limit" if searched is None else f"{searched} by search"
        with pytest.raises(InputError, match=f"do not keep every token as it is: analyze finds {what}"):
            explain(model, "max_context", hardware, **options)
    else:
        assert explain(model, "max_context", hardware, **options).value == searched


@pytest.mark.slow
@pytest.mark.parametrize("model", [*DISTINCT, TEMPLATE])
def test_values_are_those_of_analyze(model: str) -> None:
    """The symbolic formula with numbers put in is what plain numbers give, for models of every kind of block."""
    options = {"batch": 3, "context": 5000, "kv_cache_dtype": "fp8"}
    result = analyze(model, "h100-sxm", phase="decode", ignore_capacity=True, **options)
    of_request = Explainer(model, "h100-sxm", **options)
    asked = {subject: of_request.explain(subject).value for subject in UNTIMED if subject != "max_context"}
    (step,) = result.phases
    assert asked["weight_bytes"] == result.memory.weights_bytes
    assert asked["state_bytes_per_sequence"] == result.memory.state_bytes_per_sequence["mathematical"]
    assert asked["parameters"] == count_parameters(load_model(model)[0]).total
    assert asked["kv_bytes_per_token"] == result.memory.kv_bytes_per_token
    assert asked["arithmetic_intensity"] == pytest.approx(step.cost.flops / step.cost.bytes, rel=1e-12)
    assert asked["ridge_point"] == result.hardware["ridge_point"]
    assert asked["critical_batch"] == pytest.approx(result.limits.critical_batch_linear, rel=1e-9)
    assert asked["max_batch"] == result.memory.max_batch
    same_max_context(model, "h100-sxm", options, result.memory.max_context)
    floor = analyze(model, "h100-sxm", phase="decode", ignore_capacity=True, batch=1, context=0)
    assert asked["decode_floor"] == pytest.approx(floor.phases[0].cost.weight_bytes / floor.hardware["bandwidth"], rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"tp": 2},
        {"tp": 2, "pp": 2},
        {"dp": 2, "batch": 6},
        {"quantization": "awq"},
        {"max_num_seqs": 10},
        {"block_size": 256, "reserve": "3 GiB"},
        {"batch": 4000, "context": 90_000},
        {"context": 3},
        {"logits": "all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "mistral-7b-v0.1"])
def test_memory_under_all_sorts_of_deployments(model: str, options: dict[str, Any]) -> None:
    """The closed forms find what `analyze` searches for: blocks, windows, replicas, limits, and nothing that fits."""
    if options.get("max_num_seqs"):
        options = {**options, "batch": 5}
    result = analyze(model, "dgx-a100", phase="decode", ignore_capacity=True, **options)
    assert explain(model, "max_batch", "dgx-a100", **options).value == result.memory.max_batch
    same_max_context(model, "dgx-a100", options, result.memory.max_context)
    assert explain(model, "kv_bytes_per_token", **options).value == result.memory.kv_bytes_per_token


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "deepseek-v2-lite", "gpt2", TEMPLATE])
def test_every_operator(model: str, phase: str) -> None:
    """Each path of the graph explains every number that `analyze` gives for it; the template has every key there is.

    What the engine adds to a step is a row of the result beside the graph: measured time, of which no formula has a part.
    """
    options = {"batch": 3, "input_len": 1500, "context": 2700}
    result = analyze(model, A100, phase=phase, ignore_capacity=True, **options)
    of_request = Explainer(model, phase=phase, **options)
    for operator in result.phases[0].operators:
        if operator.kind == "overhead":
            assert (operator.path, operator.cost) == ("engine", ZERO)
            continue
        found = of_request.explain(operator.path)
        parts = {part.subject: part.value for part in found.parts}
        for name in ("matrix_flops", "vector_flops", "weight_bytes", "activation_bytes", "kv_read_bytes", "kv_write_bytes"):
            assert parts.get(name, 0) == pytest.approx(getattr(operator.cost, name), rel=1e-12), (operator.path, name)
        assert found.value == pytest.approx(operator.cost.matrix_flops or operator.cost.bytes, rel=1e-12)
        assert found.source


def test_an_operator() -> None:
    """The fused projection of Q, K and V: 2 FLOP a weight and token, in 32 layers."""
    found = explain(LLAMA, "layers/attention/qkv_proj", batch=8)
    assert found.formula == "2·B·L·d_model·(n_q + 2·n_kv)·d_head"
    assert found.value == 2 * 8 * 32 * 4096 * (32 + 2 * 8) * 128
    assert "Roofline" in found.source
    intensity = next(part for part in found.parts if part.subject == "arithmetic_intensity")
    assert intensity.value < 8  # two bytes a weight and 8 tokens, less what activations add


def test_a_single_query_in_a_window_reads_short() -> None:
    """Pairs of one query: the tokens up to itself, or the window."""
    found = explain("gpt-oss-20b", "layers/sliding/attention/core", batch=2, context=4096)
    assert found.formula == "4·B·L_sliding·n_q·d_head·min(S_c + 1, w)"
    assert found.value == 4 * 2 * 12 * 64 * 64 * 128


def test_an_operator_of_prefill_is_found_without_asking_for_the_phase() -> None:
    """MLA expands keys and values in prefill alone."""
    assert "S_q" in explain("deepseek-v2-lite", "layers/moe/attention/kv_b_proj").formula


def test_subjects() -> None:
    """Quantities, then the operators of decode and of prefill."""
    known = subjects("deepseek-v2-lite")
    assert known[: len(QUANTITIES)] == tuple(QUANTITIES)
    assert {"lm_head", "layers/moe/attention/q_absorb", "layers/moe/attention/kv_b_proj"} <= set(known)


@pytest.mark.parametrize("subject", ["ridge_point", "critical_batch", "max_batch", "max_context", "decode_floor"])
def test_hardware_is_asked_for(subject: str) -> None:
    """What depends on it is refused without it."""
    with pytest.raises(InputError, match="--hardware"):
        explain(LLAMA, subject)


def test_unknown_subjects_have_near_names() -> None:
    """Quantities and paths alike."""
    with pytest.raises(UnknownNameError, match="kv_bytes_per_token"):
        explain(LLAMA, "kv_byte_per_token")
    with pytest.raises(UnknownNameError, match="layers/attention/qkv_proj"):
        explain(LLAMA, "layers/attention/qkv")


@pytest.mark.parametrize(
    ("subject", "options"),
    [
        ("max_batch", {"attention": "eager"}),
        ("max_context", {"shared_prefix": 100}),
        ("arithmetic_intensity", {"segments": "1x1@500,1x7@500", "shared_prefix": 100}),
        ("kv_bytes_per_token", {"phase": "decoding"}),
        ("arithmetic_intensity", {"routing_skew": 1.0}),
    ],
)
def test_what_has_no_formula_is_refused(subject: str, options: dict[str, Any]) -> None:
    """Never a formula that is not that of the number."""
    with pytest.raises(InputError):
        explain("gpt-oss-20b", subject, A100, **options)


def test_no_hardware_stands_in_for_none() -> None:
    """Without hardware no assumption speaks of one."""
    names = {assumption.name for assumption in explain(LLAMA, "parameters").assumptions}
    assert not names & {"memory", "vector_flops", "recalled"}
    assert "dtype" in names


def test_every_symbol_is_in_the_legend() -> None:
    """Of the formula and of all its parts, each once."""

    def check(found: Explanation) -> None:
        listed = [entry[0] for entry in found.legend]
        assert len(listed) == len(set(listed))
        for part in found.parts:
            check(part)
            assert {entry[0] for entry in part.legend} <= set(listed)

    for subject in UNTIMED:
        check(explain("gpt-oss-20b" if subject != "max_context" else LLAMA, subject, A100))


@pytest.mark.every_case
@pytest.mark.parametrize(("images", "options"), [(2, {"dp": 2, "batch": 6}), (1, {"tp": 2, "phase": "prefill"})])
def test_the_encoder_of_images(images: int, options: dict[str, Any]) -> None:
    """Bounds and estimates of the encoder and of its operators are those of `analyze`; TTFT has them before the prompts."""
    given = {"batch": 3, "input_len": 100, **options, "images": images}
    result = analyze("gemma-3-12b", "dgx-h100", **given)
    assert result.encoder is not None
    of_request = Explainer("gemma-3-12b", "dgx-h100", **given)
    time, ttft = result.encoder.time, result.first_token
    assert ttft is not None
    for which in ("bound", "estimate", "floor"):
        assert of_request.explain(f"encoder {which}").value == pytest.approx(getattr(time, which), rel=1e-12)
    assert of_request.explain("ttft bound").value == pytest.approx(ttft.bound, rel=1e-12)
    for operator in result.encoder.operators[::5]:
        found = of_request.explain(operator.path)
        parts = {part.subject: part.value for part in found.parts}
        for name in ("matrix_flops", "vector_flops", "weight_bytes", "activation_bytes"):
            assert parts.get(name, 0) == pytest.approx(getattr(operator.cost, name), rel=1e-12), (operator.path, name)
    first = result.encoder.operators[0].path
    assert first in subjects("gemma-3-12b")
    named = [(phase, found.subject) for phase, found in explain_step(of_request._symbolic.request)]
    assert named[0] == ("encoder", first)
    with pytest.raises(InputError, match="--images"):
        explain("gemma-3-12b", first, "dgx-h100")
    with pytest.raises(InputError, match="--images"):
        explain("gemma-3-12b", "encoder", "dgx-h100")


def test_an_operator_with_a_bound_of_its_own() -> None:
    """Its FLOP over the peak, its bytes over the bandwidth, the longer; none where it is sent, or without hardware."""
    found = explain(LLAMA, "layers/mlp/down_proj", A100, batch=8)
    parts = {part.subject: part.value for part in found.parts}
    moved = parts["weight_bytes"] + parts["activation_bytes"]
    assert parts["bytes"] == moved
    assert parts["arithmetic_intensity"] == pytest.approx(parts["matrix_flops"] / moved)
    assert parts["time_bound"] == pytest.approx(max(parts["matrix_flops"] / 312e12, moved / 2039e9))
    alone = explain(LLAMA, "final_norm", A100, batch=8)
    vector = {part.subject: part.value for part in alone.parts}
    assert vector["time_bound"] == pytest.approx(max(vector["vector_flops"] / 19.5e12, vector["bytes"] / 2039e9), rel=1e-3)
    assert alone.value == vector["bytes"]
    assert "time_bound" not in {part.subject for part in explain(LLAMA, "layers/mlp/down_proj", batch=8).parts}
    sent = explain(LLAMA, "layers/mlp/all_reduce", "dgx-a100", tp=2)
    assert {"link_bytes", "messages"} <= {part.subject for part in sent.parts}
    assert "time_bound" not in {part.subject for part in sent.parts}
    (step,) = [note for note in found.assumptions if note.name == "step"]
    assert step.value == "decode"
