"""From options to a resolved request: defaults on record, conflicts refused, limits kept."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.predict.request import cached_prefix, prepare, sized
from roofline.specs.source import Assumption
from roofline.specs.workload import decode, prefill

pytestmark = pytest.mark.every_case

MODEL, HARDWARE = "llama-3.1-8b", "h100-sxm"


def _notes(**options: Any) -> dict[str, Assumption]:
    return {
        note.name: note
        for note in prepare(options.pop("model", MODEL), options.pop("hardware", HARDWARE), **options).assumptions
    }


def test_defaults_are_on_record() -> None:
    """Every documented default that shapes the answer is listed as one."""
    notes = _notes()
    expected = {
        "batch": 1, "input_len": 1024, "context": 1024, "dtype": "bf16", "activation_dtype": "bf16", "kv_cache_dtype": "bf16",
        "block_size": 16, "gpu_memory_utilization": 0.9, "reserve": 0, "mask": "causal", "attention": "fused", "logits": "last",
        "shared_prefix": 0,
    }  # fmt: skip
    assert {name: notes[name].value for name in expected} == expected
    assert {notes[name].origin for name in expected} == {"default"}
    assert str(notes["engine"].value).startswith("vllm@")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("batch", 8, 8), ("batch", "8", 8), ("input_len", "2k", 2048), ("context", "8k", 8192), ("dtype", "fp8", "fp8"),
        ("kv_cache_dtype", "fp8_e4m3", "fp8"), ("block_size", 32, 32), ("gpu_memory_utilization", 0.5, 0.5),
        ("reserve", "1 GiB", 2**30), ("mask", "full", "full"), ("attention", "eager", "eager"), ("logits", "all", "all"),
        ("routing_skew", 0.5, 0.5), ("shared_prefix", "512", 512), ("quantization", "awq", "awq"), ("mla", "absorb", "absorb"),
        ("max_num_batched_tokens", "4k", 4096), ("engine", "vllm", "vllm@0.19"),
        ("bandwidth", "2 TB/s", "2 TB/s"), ("peak_flops", "300 TFLOP/s", "300 TFLOP/s"), ("memory", "40 GiB", "40 GiB"),
    ],
)  # fmt: skip
def test_what_is_given_is_on_record_as_given(name: str, value: object, shown: object) -> None:
    """What the user says is listed with the number that it meant, as given."""
    note = _notes(**{name: value})[name]
    assert (note.value, note.origin) == (shown, "given")


def test_context_follows_input_len() -> None:
    """The decode step stands after the prompt, unless its context is given."""
    assert prepare(MODEL, HARDWARE, input_len=300).workload.context == 300
    assert prepare(MODEL, HARDWARE, input_len=300, context=0).workload.context == 0


@pytest.mark.parametrize(
    ("short", "long"), [("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size"), ("dp", "data_parallel_size")]
)
def test_short_names(short: str, long: str) -> None:
    """Short and long names are one option."""
    by_short, by_long = (prepare(MODEL, "dgx-h100", **{name: 2}).deployment for name in (short, long))
    assert by_short == by_long
    assert getattr(by_short, long) == 2


def test_short_and_long_together_are_refused() -> None:
    """Two spellings of one option are a conflict, in either order; None is not given."""
    with pytest.raises(InputError, match="same option"):
        prepare(MODEL, "dgx-h100", tp=2, tensor_parallel_size=4)
    with pytest.raises(InputError, match="same option"):
        prepare(MODEL, "dgx-h100", tensor_parallel_size=4, tp=2)
    assert prepare(MODEL, "dgx-h100", tp=None, tensor_parallel_size=4).deployment.tensor_parallel_size == 4
    assert prepare(MODEL, "dgx-h100", tensor_parallel_size=4, tp=None).deployment.tensor_parallel_size == 4


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("batchsize", "batch"), ("kv_cache_type", "kv_cache_dtype"), ("tensor_paralel_size", "tensor_parallel_size")],
)
def test_unknown_option_suggests(slip: str, meant: str) -> None:
    """An option that does not exist is not ignored."""
    with pytest.raises(UnknownNameError, match=f"unknown option '{slip}'. Did you mean .*{meant}"):
        prepare(MODEL, HARDWARE, **{slip: 1})


@pytest.mark.parametrize("other", [{"batch": 2}, {"input_len": 5}, {"context": 5}, {"output_len": 5}])
def test_segments_exclude_what_they_describe(other: dict[str, int]) -> None:
    """Segments are the whole step: batch and lengths beside them are a conflict, and the message names the flag."""
    flag = next(iter(other)).replace("_", "-")
    with pytest.raises(InputError, match=f"--segments .*--{flag}"):
        prepare(MODEL, HARDWARE, segments="1x1@5", **other)


@pytest.mark.parametrize(
    ("segments", "name"), [("4x1@100", "decode"), ("4x100@0", "prefill"), ("4x1@100,1x10@0", "mixed"), ("1x10@50", "prefill")]
)
def test_segments_name_their_phase(segments: str, name: str) -> None:
    """New tokens one a sequence are decode, several prefill, both together mixed."""
    assert [phase.name for phase in roofline.analyze(MODEL, HARDWARE, segments=segments).phases] == [name]


def test_max_num_seqs_refuses_a_larger_batch() -> None:
    """The limit is of a replica; the message says what the deployment takes."""
    with pytest.raises(InputError, match=r"--batch 21 .*--max-num-seqs.*20"):
        prepare(MODEL, "dgx-h100", batch=21, max_num_seqs=10, dp=2)
    assert prepare(MODEL, "dgx-h100", batch=20, max_num_seqs=10, dp=2).workload.batch == 20


@pytest.mark.parametrize(
    "workload",
    [{"context": 4096}, {"input_len": 4097, "context": 0}, {"input_len": 4000, "output_len": 98}, {"segments": "1x97@4000"}],
)
def test_max_model_len_refuses_longer_sequences(workload: dict[str, Any]) -> None:
    """4097 tokens are one too many: context and new token, prompt, prompt and answer, or a segment."""
    with pytest.raises(InputError, match=r"4,097 tokens is longer than --max-model-len 4,096"):
        prepare(MODEL, HARDWARE, max_model_len=4096, **workload)


@pytest.mark.parametrize(
    "workload",
    [{"context": 4095}, {"input_len": 4096, "context": 0}, {"input_len": 4000, "output_len": 97}, {"segments": "1x96@4000"}],
)
def test_max_model_len_takes_the_last_token(workload: dict[str, Any]) -> None:
    """4096 tokens are not."""
    assert prepare(MODEL, HARDWARE, max_model_len=4096, **workload).deployment.max_model_len == 4096


def test_beyond_the_models_maximum_is_answered_with_a_warning() -> None:
    """GPT-2 was made for 1024 tokens: 5001 are answered, and `assumptions` say what that is worth."""
    note = _notes(model="gpt2", context=5000)["context_length"]
    assert (note.value, note.origin) == (5001, "assumed")
    assert "1,024 tokens that gpt2 was made for" in note.why
    assert "context_length" not in _notes(model="gpt2", context=1023, input_len=1024)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 0}, {"batch": -1}, {"batch": 1.5}, {"batch": True}, {"batch": "many"}, {"input_len": 0}, {"context": -1},
        {"output_len": 0}, {"phase": "train"}, {"mask": "diagonal"}, {"routing_skew": -1}, {"routing_skew": float("nan")},
        {"gpu_memory_utilization": 1.5}, {"gpu_memory_utilization": float("nan")}, {"reserve": -1}, {"reserve": float("nan")},
        {"reserve": float("inf")}, {"bandwidth": 0}, {"bandwidth": float("nan")}, {"bandwidth": "2039"}, {"memory": "0 GiB"},
        {"peak_flops": float("inf")}, {"tp": 0}, {"tp": 3}, {"tp": 2.5}, {"pp": 33}, {"ep": 2}, {"shared_prefix": 1025},
        {"segments": "nonsense"}, {"segments": 5}, {"segments": ()}, {"context": 2**53 + 1}, {"batch": 10**400},
        {"dtype": 8}, {"engine": "vlm"}, {"phase": ["both"]}, {"quantization": 4}, {"engine": 3},
    ],
    ids=lambda wrong: str(wrong)[:40],
)  # fmt: skip
def test_wrong_values_are_one_error(wrong: dict[str, Any]) -> None:
    """Whatever is wrong with an option, it is a RooflineError, never another exception."""
    with pytest.raises(RooflineError):
        roofline.analyze(MODEL, HARDWARE, **wrong)


@pytest.mark.parametrize(("name", "works"), [("tp", "1, 2, 4, 8, 16, 32"), ("ep", "1, 2, 4, 8")])
def test_parallel_sizes_that_work_are_listed(name: str, works: str) -> None:
    """A size that no engine could run is answered with those that would."""
    options = {"tp": 3} if name == "tp" else {"tp": 8, "ep": 3}
    with pytest.raises(InputError, match=works):
        prepare(MODEL if name == "tp" else "mixtral-8x7b", "dgx-h100", **options)


def test_replicated_kv_heads_are_said() -> None:
    """Sixteen devices and eight KV heads: each head is on two devices, and the result says so."""
    assert _notes(hardware="dgx-h100", tp=16)["kv_heads"].value == "replicated"
    assert "kv_heads" not in _notes(hardware="dgx-h100", tp=8)


def test_loaded_specs_are_taken() -> None:
    """Models and hardware may be objects; results are the same."""
    by_name = roofline.analyze(MODEL, HARDWARE)
    by_object = roofline.analyze(roofline.load_model(MODEL), roofline.load_hardware(HARDWARE))
    assert by_object.phases == by_name.phases
    assert by_object.memory == by_name.memory


def test_overrides_reach_the_times() -> None:
    """Twice the bandwidth halves a decode step that is bound by memory."""
    slow, fast = (roofline.analyze(MODEL, HARDWARE, bandwidth=f"{rate} GB/s", phase="decode").decode for rate in (1000, 2000))
    assert slow.time.bound == pytest.approx(2 * fast.time.bound, rel=1e-9)  # type: ignore[union-attr]
    assert roofline.analyze(MODEL, HARDWARE, memory="40 GiB").memory.capacity_bytes == 40 * 2**30


def test_inputs_are_hashed() -> None:
    """Model, hardware, engine and what it adds to a step are on record with a hash of their text; a node brings two files."""
    roles = {"model", "node", "hardware", "engine", "engine steps"}
    assert {entry.role for entry in prepare(MODEL, "dgx-h100").inputs} == roles
    assert all(len(entry.sha256) == 64 for entry in prepare(MODEL, HARDWARE).inputs)


def test_bits_per_weight_are_of_all_weights() -> None:
    """8,030,261,248 weights at 4.85 bits; what is read grows with them, FLOP do not change; one precision at a time."""
    request = {"batch": 1, "context": 1024, "phase": "decode"}
    bits, whole = (
        roofline.analyze("llama-3.1-8b", "h100-sxm", **request, **more)  # type: ignore[arg-type]
        for more in ({"bits_per_weight": 4.85}, {"dtype": "bf16"})
    )
    assert bits.memory.weights_bytes == pytest.approx(8_030_261_248 * 4.85 / 8, rel=1e-12)
    assert bits.decode is not None
    assert whole.decode is not None
    assert bits.decode.cost.weight_bytes == pytest.approx(whole.decode.cost.weight_bytes * 4.85 / 16, rel=1e-12)
    assert bits.decode.cost.matrix_flops == whole.decode.cost.matrix_flops
    assert bits.to_dict()["deployment"]["weight_dtype"] == "4.85-bit"
    for other in ({"dtype": "fp8"}, {"quantization": "w4a16"}):
        with pytest.raises(InputError, match="--bits-per-weight is of all weights"):
            roofline.analyze("llama-3.1-8b", "h100-sxm", bits_per_weight="4.85", **other)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bits-per-weight"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", bits_per_weight=64)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model": "mixtral-8x7b", "ignore_capacity": True}, "experts are not spread over devices"),
        ({"hardware": "dgx-h100", "tp": 4}, "experts are not spread over devices"),  # there are none
        ({"tp": 4, "ep": 4, "expert_imbalance": 1.5}, "of the device shown: .* as often$"),
        ({"tp": 4, "ep": 4, "expert_imbalance": 4}, "of the device shown: .* as often$"),  # 2 of 8 experts on one of 4 devices
        ({"tp": 4, "ep": 4, "expert_imbalance": 5}, "of the device shown: .* as often. More than 4 is not possible"),
    ],
)
def test_the_busiest_device_of_those_that_share_experts(options: dict[str, Any], why: str) -> None:
    """What it has more of, where there are others; at most as many times the mean as there are devices, or pairs of experts."""
    model = MODEL if "hardware" in options else "mixtral-8x7b"
    given = {"model": model, "hardware": "dgx-h100", "expert_imbalance": 2.0, **options}
    assert re.match(why, _notes(**given)["expert_imbalance"].why)


def test_the_question_is_kept() -> None:
    """As it was asked, without what was not given, so that a page can be made again; not of specs that are in memory."""
    asked = prepare(MODEL, HARDWARE, batch="8", tp=1, ignore_capacity=False, context=None).query
    assert asked == {"model": MODEL, "hardware": HARDWARE, "options": {"batch": "8", "tp": 1}}
    assert prepare(roofline.load_model(MODEL), HARDWARE).query is None


@pytest.mark.parametrize(
    ("hardware", "sizes", "replicas", "tensor"),
    [
        ("8xh100-sxm", {}, 1, 8), ("8xh100-sxm", {"dp": 2, "pp": 2}, 1, 2), ("2xdgx-h100", {}, 1, 16),
        ("16xh100-sxm", {"context_parallel_size": 4}, 2, 2), ("8xh100-sxm", {"tp": 4, "dp": 2}, 1, 4),
        ("8xh100-sxm", {"tp": 4}, 2, 4), ("h100-sxm", {"dp": 3}, 1, None),
    ],
)  # fmt: skip
def test_devices_in_a_name(hardware: str, sizes: dict[str, int], replicas: int, tensor: int | None) -> None:
    """What the other sizes and the deployments leave is the tensor-parallel size; a node counts for its devices."""
    single, options = sized(hardware, sizes, replicas)
    assert single == re.sub(r"^\d+x", "", hardware)
    assert options.get("tensor_parallel_size", options.get("tp")) == tensor
    assert {name: options[name] for name in sizes} == sizes


@pytest.mark.parametrize("sizes", [{"tp": 4}, {"dp": 3}, {"tp": 4, "dp": 4}, {"pp": 16}])
def test_devices_that_do_not_add_up(sizes: dict[str, int]) -> None:
    """Neither more nor fewer than the eight, nor a number that does not divide them."""
    with pytest.raises(InputError, match="8 devices"):
        sized("8xh100-sxm", sizes)


def test_steps_that_have_to_fit() -> None:
    """Those of the workload, and the last decode step of a request: its context is all but the last two tokens."""
    for output_len, last in ((None, []), (1, []), (2, [100]), (5, [103])):
        request = prepare(MODEL, HARDWARE, batch=3, input_len=100, context=7, output_len=output_len)
        prompts, step, *more = request.memory_steps()
        assert (prompts, step) == (("prefill", prefill(3, 100)), ("decode", decode(3, 7)))
        assert more == [("last decode", decode(3, context)) for context in last]
    request = prepare(MODEL, HARDWARE, batch=3, input_len=100, context=1000)
    most = request.memory.max_batch(1000)
    assert request.all_fit(min(most, 100))
    assert not request.all_fit(most + 1)
    assert not replace(request, workload=replace(request.workload, steps=(("decode", decode(most + 1, 1000)),))).all_fit()


@pytest.mark.parametrize(
    ("hit", "tokens", "cached"),
    [(None, None, 0), (0.5, None, 50), (0.999, None, 99), (1, None, 99), (0, None, 0), (None, 99, 99), (None, "0", 0)],
)
def test_tokens_in_the_prefix_cache(hit: float | None, tokens: object, cached: int) -> None:
    """Of 100 tokens, as a share or in tokens: at least one is computed."""
    assert cached_prefix(100, hit, tokens) == cached
    for wrong in ((0.5, 50), (None, 100)):
        with pytest.raises(InputError, match="--cached-prefix"):
            cached_prefix(100, *wrong)


@pytest.mark.parametrize(
    ("segments", "batch", "new", "context", "name"),
    [
        ("32x1@4k,1x512@0", 33, 512, 4096, "mixed"), ("2x1@100,3x1@7", 5, 1, 100, "decode"),
        ("4x700@20", 4, 700, 719, "prefill"), ("1x1@8,2x1@8", 3, 1, 8, "decode"),
    ],
)  # fmt: skip
def test_a_step_by_segments(segments: str, batch: int, new: int, context: int, name: str) -> None:
    """Sequences of all, the longest prompt, and what the longest has cached before its last token; equal ones are one."""
    workload = prepare(MODEL, HARDWARE, segments=segments).workload
    assert (workload.batch, workload.input_len, workload.context, workload.output_len) == (batch, new, context, None)
    ((phase, step),) = workload.steps
    assert (phase, workload.segmented, sum(segment.count for segment in step)) == (name, True, batch)
    assert len(step) == len({(segment.new, segment.cached, segment.decode) for segment in step})


def test_experts_of_a_card_without_measurements_add_nothing() -> None:
    """What engines run beside the grouped products was measured on some cards alone."""
    added = [prepare("qwen3-30b-a3b", hardware).steps for hardware in ("h200-sxm", "b200-sxm", "mi300x")]
    assert [steps.experts > 0 for steps in added if steps is not None] == [True, True, False]
    dense = [prepare(MODEL, hardware).steps for hardware in ("h200-sxm", "mi300x")]
    assert dense[0] == dense[1]


@pytest.mark.parametrize(
    ("options", "exchange"),
    [({"dp": 8, "ep": 8}, "all_gather"), ({"dp": 16, "ep": 16}, "all_to_all"), ({"dp": 8, "ep": 8, "deepep_mode": "normal"},
     "all_to_all")],
)  # fmt: skip
def test_how_tokens_go_to_their_experts(options: dict[str, Any], exchange: str) -> None:
    """Inside a server of eight as the engine does it by itself; over more with kernels that send them."""
    assert prepare("deepseek-v3", "dgx-h100", **options).deployment.expert_exchange == exchange
