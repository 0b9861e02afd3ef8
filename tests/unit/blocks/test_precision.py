"""Which formats a deployment has, once the model's file, the flags and the hardware have spoken."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

import roofline
from roofline.blocks.model import Model
from roofline.blocks.precision import resolve_precision
from roofline.dtypes import Precision
from roofline.errors import InputError
from roofline.graph.build import CANONICAL, build
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.floor import floor_parts
from roofline.specs.deployment import Deployment
from roofline.specs.source import Assumption


def _resolve(model: str, hardware: str, **flags: str) -> tuple[Precision, dict[str, Assumption]]:
    peaks = roofline.load_hardware(hardware).accelerator.peak_flops
    precision, notes = resolve_precision(roofline.load_model(model), Deployment(**flags), peaks)  # type: ignore[arg-type]
    return precision, {note.name: note for note in notes}


def test_default_is_what_the_model_says() -> None:
    """bf16 weights, activations as the weights, KV as the activations; all on record as defaults."""
    precision, notes = _resolve("llama-3.1-8b", "a100-sxm-80gb")
    assert (precision.weight.name, precision.activation.name, precision.kv.name) == ("bf16", "bf16", "bf16")
    assert {notes[name].origin for name in ("dtype", "activation_dtype", "kv_cache_dtype")} == {"default"}


@pytest.mark.parametrize(("hardware", "multiplied"), [("h100-sxm", "fp8"), ("a100-sxm-80gb", None)])
def test_a_scheme_is_multiplied_where_the_hardware_can(hardware: str, multiplied: str | None) -> None:
    """Where nothing is said of activations, fp8 is multiplied on an H100, and on an A100, which cannot, widened."""
    assert _resolve("llama-3.1-8b", hardware, quantization="fp8")[0].dtypes("linear").weight.multiply == multiplied


def test_what_the_hardware_multiplies_stays() -> None:
    """An H100 multiplies fp16 as well as bf16: a model in fp16 stays so."""
    model = roofline.load_model("llama-3.1-8b").model_copy(update={"dtype": "fp16"})
    precision, _ = resolve_precision(model, Deployment(), roofline.load_hardware("h100-sxm").accelerator.peak_flops)
    assert (precision.weight.name, precision.activation.name) == ("fp16", "fp16")


def test_v100_computes_in_fp16() -> None:
    """A V100 has no bf16: weights and activations are fp16, of two bytes as well, and the result says why."""
    precision, notes = _resolve("llama-3.1-8b", "v100-sxm2-32gb")
    assert precision.activation.name == "fp16"
    assert precision.kv.name == "fp16"
    assert precision.weight.name == "fp16"
    assert notes["dtype"].origin == "default"
    assert "no matrix units for the bf16" in notes["dtype"].why


def test_fp8_weights_on_a100_are_multiplied_as_bf16() -> None:
    """An A100 cannot multiply fp8: one byte is read a weight, bf16 is multiplied, and the result says so."""
    precision, notes = _resolve("llama-3.1-8b", "a100-sxm-80gb", dtype="fp8")
    assert precision.dtypes("linear").weight.bytes == 1
    assert precision.activation.name == "bf16"
    assert notes["matrix_dtype"].value == "bf16"
    assert "cannot multiply fp8" in notes["matrix_dtype"].why
    a100 = roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", dtype="fp8")
    assert {op.dtype for op in a100.decode.operators if op.cost.matrix_flops} == {"bf16"}  # type: ignore[union-attr]


def test_fp8_weights_on_h100_are_multiplied_as_fp8() -> None:
    """An H100 can: no note, and linear operators run at the fp8 peak while attention stays in bf16."""
    _, notes = _resolve("llama-3.1-8b", "h100-sxm", dtype="fp8")
    assert "matrix_dtype" not in notes
    step = roofline.analyze("llama-3.1-8b", "h100-sxm", dtype="fp8").decode
    assert step is not None
    assert {op.kind: op.dtype for op in step.operators if op.cost.matrix_flops} == {"gemm": "fp8", "attention": "bf16"}


@pytest.mark.parametrize(
    ("hardware", "flags", "batch"),
    [
        # 1 byte a weight, 2 FLOP a weight and sequence: 197e12 / (2 * 819e9); the scaling book plans with 120
        ("tpu-v5e", {"dtype": "int8", "activation_dtype": "bf16"}, 197e12 / 819e9 / 2),
        ("h100-sxm", {"dtype": "fp8", "activation_dtype": "bf16"}, 989.4e12 / 3350e9 / 2),
        ("h100-sxm", {"dtype": "fp8"}, 1978.9e12 / 3350e9 / 2),
        ("h100-sxm", {"dtype": "int4", "activation_dtype": "bf16"}, 989.4e12 / 3350e9 / 4),
    ],
)
def test_stated_activations_decide_the_peak(hardware: str, flags: dict[str, str], batch: float) -> None:
    """Weights of 8 bits beside activations that are stated to have 16 are multiplied in 16.

    Source: Austin et al., "How to Scale Your Model", 2025, chapter 1 (int8 weights, bf16 FLOP: batch 120 on a TPU v5e).
    """
    limits = roofline.analyze("llama-3.1-70b", hardware, ignore_capacity=True, **flags).limits  # type: ignore[arg-type]
    assert limits.critical_batch_linear == pytest.approx(batch, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "bits", "peak"),
    [
        ("w8a16", 8 + 16 / 4096 + 128 / 4096**2, "bf16"),  # a scale of 16 bits an output, 16 bytes of a shape
        ("w4a16", 4 + 16 / 128 + 128 / 4096**2, "bf16"),  # a scale of 16 bits for 128 inputs
        ("w8a8", 8 + 16 / 4096, "int8"),
        ("w4a8", 4 + 16 / 128 + 128 / 4096**2, "int8"),
        ("w4a4", 4 + 8 / 16 + 64 / 4096**2, "fp4"),
    ],
)
@pytest.mark.parametrize("stated", [{}, {"activation_dtype": "bf16"}])
def test_schemes_by_widths(name: str, bits: float, peak: str, stated: dict[str, str]) -> None:
    """Their names state the widths of weights and of activations in products, `--activation-dtype` or not."""
    precision, _ = _resolve("llama-3.1-8b", "b200-sxm", quantization=name, **stated)
    gemm = Gemm(m=1, n=4096, k=4096, dtypes=precision.dtypes("linear"))
    assert gemm.held_bytes == 4096**2 * bits / 8
    hardware = roofline.load_hardware("b200-sxm")
    assert matrix_dtype(gemm, hardware) == peak
    if peak == "bf16":  # in the floor too: AWQ, which states nothing, may be widened to 8 bits there
        awq = Gemm(m=1, n=4096, k=4096, dtypes=_resolve("llama-3.1-8b", "b200-sxm", quantization="awq")[0].dtypes("linear"))
        seconds = [floor_parts(one, hardware)["matrix"] for one in (gemm, awq)]
        assert seconds[0] == pytest.approx(seconds[1] * hardware.peak("fp8") / hardware.peak("bf16"))


def test_schemes_of_the_flags_and_stated_activations() -> None:
    """A scheme that quantises activations where engines choose (fp8) leaves them at 16 bits where that is stated."""
    precision, notes = _resolve("llama-3.1-8b", "h100-sxm", quantization="fp8", activation_dtype="bf16")
    assert precision.dtypes("linear").matrix == "bf16"
    assert "activations are stated" in notes["matrix_dtype"].why
    with pytest.raises(InputError, match="Did you mean w8a16"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", quantization="w8a15")


@pytest.mark.parametrize("hardware", ["a100-sxm-80gb", "h100-sxm", "b200-sxm"])
def test_int4_is_multiplied_nowhere(hardware: str) -> None:
    """int4 weights are half a byte and are multiplied in the activations' dtype."""
    precision, notes = _resolve("llama-3.1-8b", hardware, dtype="int4")
    assert precision.weight.bytes == 0.5
    assert notes["matrix_dtype"].value == "bf16"


def test_dtype_is_of_all_weights() -> None:
    """--dtype covers embedding, norms and LM head: fp8 halves the weights of bf16 exactly."""
    whole = roofline.analyze("llama-3.1-8b", "h100-sxm").memory.weights_bytes
    assert whole == 2 * 8_030_261_248  # the model card's parameters
    assert roofline.analyze("llama-3.1-8b", "h100-sxm", dtype="fp8").memory.weights_bytes == whole / 2


def test_quantization_is_of_the_linear_layers() -> None:
    """--quantization leaves embedding and LM head (525,336,576 each) and norms (65 x 4096) at two bytes."""
    linear = 8_030_261_248 - 2 * 525_336_576 - 65 * 4096
    scales = 32 * 7 * 4  # a layer has seven matrices, each with one scale of fp32
    expected = linear * 1 + scales + (2 * 525_336_576 + 65 * 4096) * 2
    assert roofline.analyze("llama-3.1-8b", "h100-sxm", quantization="fp8").memory.weights_bytes == expected


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        ("int8", 8 + 16 / 4096),
        ("awq", 4 + 20 / 128),
        ("gptq", 4 + 20 / 128 + 32 / 4096),
        ("mxfp4", 4 + 8 / 32),
        ("nvfp4", 4 + 8 / 16 + 64 / 4096**2),
        ("fp8_block", 8 + 32 / 128**2),
    ],
)
def test_scales_are_counted(scheme: str, bits: float) -> None:
    """A group of weights has a scale (and a zero point): in a matrix of 4096 x 4096 their bits are spread over the group."""
    precision, notes = _resolve("llama-3.1-8b", "h100-sxm", quantization=scheme)
    gemm = Gemm(m=1, n=4096, k=4096, dtypes=precision.dtypes("linear"))
    assert gemm.held_bytes == gemm.cost().weight_bytes == 4096**2 * bits / 8
    assert precision.dtypes("embedding").weight.name == "bf16"
    assert notes["quantization"].origin == "given"


def test_gpt_oss_has_mxfp4_experts_alone() -> None:
    """The file says which weights are quantised: the experts; attention, router and embedding are bf16."""
    precision, notes = _resolve("gpt-oss-20b", "h100-sxm")
    assert precision.dtypes("experts").weight.name == "mxfp4"
    assert {precision.dtypes(role).weight.name for role in ("linear", "router", "embedding", "lm_head", "norm")} == {"bf16"}
    assert notes["quantization"].origin == "default"
    assert "the model's file" in notes["quantization"].why


def test_flags_override_the_published_quantization() -> None:
    """--dtype means all weights, and --quantization none means none."""
    for flags in ({"dtype": "bf16"}, {"quantization": "none"}):
        precision, _ = _resolve("gpt-oss-20b", "h100-sxm", **flags)
        assert precision.dtypes("experts").weight.name == "bf16"


def test_dtype_and_quantization_together() -> None:
    """--quantization covers the linear layers, --dtype the rest."""
    precision, _ = _resolve("llama-3.1-8b", "h100-sxm", dtype="fp16", quantization="awq")
    assert precision.dtypes("linear").weight.name == "awq"
    assert precision.dtypes("embedding").weight.name == "fp16"
    assert precision.activation.name == "fp16"


@pytest.mark.parametrize(
    ("hardware", "dtype"), [("v100-sxm2-16gb", "bf16"), ("h100-sxm", "int8"), ("a100-sxm-80gb", "fp8"), ("h100-sxm", "int4")]
)
def test_activations_that_cannot_be_multiplied_are_refused(hardware: str, dtype: str) -> None:
    """What is asked for by name is not replaced: an activation dtype without matrix units is refused."""
    with pytest.raises(InputError, match=f"activation dtype.*{dtype}.*fp16"):
        roofline.analyze("llama-3.2-1b", hardware, activation_dtype=dtype)


def test_auto_is_not_given() -> None:
    """The engines' `auto` means the default."""
    precision, notes = _resolve("llama-3.1-8b", "h100-sxm", dtype="auto", kv_cache_dtype="auto")
    assert (precision.weight.name, precision.kv.name) == ("bf16", "bf16")
    assert notes["dtype"].origin == "default"


def test_kv_cache_dtype_halves_the_cache() -> None:
    """fp8 keys and values are half of bf16's; attention still computes in bf16."""
    wide, narrow = (roofline.analyze("llama-3.1-8b", "h100-sxm", kv_cache_dtype=dtype) for dtype in ("bf16", "fp8_e4m3"))
    assert narrow.memory.kv_bytes_per_token == wide.memory.kv_bytes_per_token / 2
    assert narrow.decode.cost.kv_read_bytes == wide.decode.cost.kv_read_bytes / 2  # type: ignore[union-attr]
    assert narrow.decode.cost.matrix_flops == wide.decode.cost.matrix_flops  # type: ignore[union-attr]


def _quantized(name: str, *schemes: dict[str, object], **unquantized: list[str]) -> Model:
    data = roofline.load_model(name).model_dump()
    for layer, roles in unquantized.items():
        data["layer_types"][layer]["unquantized"] = roles
    return Model.model_validate({**data, "quantization": list(schemes)})


def _read(model: Model, **flags: str) -> tuple[Precision, list[Assumption]]:
    peaks = roofline.load_hardware("b200-sxm").accelerator.peak_flops
    return resolve_precision(model, Deployment(**flags), peaks)  # type: ignore[arg-type]


def _weights(model: Model, precision: Precision) -> dict[str, str]:
    graph = build(model, Deployment(), precision, CANONICAL)
    return {path: op.dtypes.weight.name for path, (op, _) in graph.items() if isinstance(op, (Gemm, GroupedGemm))}


def test_roles_of_a_layer() -> None:
    """Each product asks for its own role: here the experts alone and the LM head are quantised, in two schemes."""
    model = _quantized("deepseek-v2-lite", {"name": "mxfp4", "roles": ["experts"]}, {"name": "fp8", "roles": ["lm_head"]})
    found = _weights(model, _read(model)[0])
    quantised = {path: name for path, name in found.items() if name != "bf16"}
    experts = {f"layers/moe/moe/experts/{name}_proj": "mxfp4" for name in ("up", "down")}
    assert quantised == {**experts, "lm_head": "fp8"}


@pytest.mark.parametrize(
    ("role", "paths"),
    [
        ("attention", ["layers/moe/attention/o_proj", "layers/moe/attention/q_proj", "layers/dense/attention/v_up"]),
        ("attention/o_proj", ["layers/moe/attention/o_proj", "layers/dense/attention/o_proj"]),
        ("mlp", ["layers/dense/mlp/gate_up_proj", "layers/dense/mlp/down_proj"]),
        ("shared_experts", ["layers/moe/moe/shared/up_proj", "layers/moe/moe/shared/down_proj"]),
        ("router", ["layers/moe/moe/router"]),
    ],
)
def test_a_role_is_of_its_products(role: str, paths: list[str]) -> None:
    """What a role covers, by the paths of the products."""
    model = _quantized("deepseek-v2-lite", {"name": "fp8", "roles": [role]})
    quantised = {path for path, name in _weights(model, _read(model)[0]).items() if name == "fp8"}
    assert set(paths) <= quantised
    assert {path.split("/")[2] for path in quantised} == {path.split("/")[2] for path in paths}


def test_linear_is_all_but_experts() -> None:
    """Attention, feed-forward blocks and shared experts; routers are not."""
    model = _quantized("deepseek-v2-lite", {"name": "fp8", "roles": ["linear"]})
    bare = {path for path, name in _weights(model, _read(model)[0]).items() if name == "bf16"}
    assert bare == {"lm_head", "layers/moe/moe/router", "layers/moe/moe/experts/up_proj", "layers/moe/moe/experts/down_proj"}


def test_layers_that_are_not_quantised() -> None:
    """Dense layers keep attention, and both notes say so; --quantization replaces the file's scheme and its exemptions."""
    model = _quantized("deepseek-v2-lite", {"name": "fp8"}, dense=["attention"])
    precision, notes = _read(model)
    found = _weights(model, precision)
    assert {found[path] for path in found if path.startswith("layers/dense/attention")} == {"bf16"}
    assert {found[path] for path in found if path.startswith(("layers/dense/mlp", "layers/moe/attention"))} == {"fp8"}
    assert any("attention weights of dense layers are not quantised" in note.why for note in notes)
    given, _ = _read(model, quantization="fp8")
    assert _weights(model, given)["layers/dense/attention/o_proj"] == "fp8"
    assert "bf16" in _weights(model, _read(model, quantization="none")[0]).values()


def test_kv_cache_of_the_file() -> None:
    """A checkpoint that has scales for an 8-bit cache is run with one, unless the flags say otherwise."""
    model = _quantized("llama-3.1-8b", {"name": "nvfp4", "kv_cache_dtype": "fp8"})
    precision, notes = _read(model)
    (note,) = (note for note in notes if note.name == "kv_cache_dtype")
    assert (precision.kv.name, note.origin) == ("fp8", "default")
    assert "the model's file" in note.why
    assert _read(model, kv_cache_dtype="bf16")[0].kv.name == "bf16"
    assert _read(model, quantization="none")[0].kv.name == "bf16"


def test_one_role_has_one_scheme() -> None:
    """Two schemes for the same weights contradict each other."""
    with pytest.raises(ValidationError, match="attention is quantised as fp8, but linear as awq"):
        _quantized("llama-3.1-8b", {"name": "awq"}, {"name": "fp8", "roles": ["attention"]})


def test_exemption_from_nothing() -> None:
    """A layer of a model that is not quantised cannot be exempt."""
    with pytest.raises(ValidationError, match="not quantised"):
        _quantized("llama-3.1-8b", decoder=["attention"])


def test_bf16_on_a_card_without_it() -> None:
    """A T4 has no bf16: the error says why, and what it has."""
    with pytest.raises(
        InputError, match=r"^activation dtype bf16: this hardware has no matrix units for it. Works here: fp32, fp16"
    ):
        roofline.analyze("llama-3.2-1b", "t4", activation_dtype="bf16")
