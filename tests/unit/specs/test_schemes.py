"""Each scheme's bytes are those of the tensors that its library stores for a weight matrix."""

from __future__ import annotations

import math
from typing import Any

import pytest

from roofline.dtypes import FORMATS, Dtypes
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.norm import Norm
from roofline.specs.quantization import Scheme, scheme, schemes

torch = pytest.importorskip("torch", reason="PyTorch, whose tensors are counted, is not installed")
N, K = 384, 640  # outputs and inputs: multiples of 128
ODD_N, ODD_K = 300, 960  # neither is, and 300 is no multiple of 32


def _empty(*shape: int, dtype: str) -> Any:
    return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")


def _packed(n: int, k: int) -> dict[str, Any]:
    return {"weight": _empty(n, k // 2, dtype="uint8")}


def awq(n: int, k: int, group: int) -> dict[str, Any]:
    """WQLinear_GEMM of AutoAWQ: eight outputs in an int32."""
    return {
        "qweight": _empty(k, n // 8, dtype="int32"),
        "qzeros": _empty(k // group, n // 8, dtype="int32"),
        "scales": _empty(k // group, n, dtype="float16"),
    }


def gptq(n: int, k: int, group: int, bits: int) -> dict[str, Any]:
    """QuantLinear of AutoGPTQ: 32 inputs in `bits` int32."""
    groups = math.ceil(k / group)
    return {
        "qweight": _empty(k // 32 * bits, n, dtype="int32"),
        "qzeros": _empty(groups, n // 32 * bits, dtype="int32"),
        "scales": _empty(groups, n, dtype="float16"),
        "g_idx": _empty(k, dtype="int32"),
    }


def packed_int(n: int, k: int, group: int, bits: int) -> dict[str, Any]:
    """PackedQuantizationCompressor of compressed-tensors: 32/bits inputs in an int32."""
    return {
        "weight_packed": _empty(n, k * bits // 32, dtype="int32"),
        "weight_scale": _empty(n, k // group, dtype="bfloat16"),
        "weight_shape": _empty(2, dtype="int64"),
    }


def fp8_block(n: int, k: int, dtype: str) -> dict[str, Any]:
    """DeepSeek's: a scale for each 128 x 128, or what is left of it at the edges."""
    return {
        "weight": _empty(n, k, dtype="float8_e4m3fn"),
        "weight_scale_inv": _empty(math.ceil(n / 128), math.ceil(k / 128), dtype=dtype),
    }


def nf4(n: int, k: int, *, double: bool) -> dict[str, Any]:
    """Linear4bit of bitsandbytes: one row of bytes, a scale for 64 elements."""
    blocks = math.ceil(n * k / 64)
    found = {"weight": _empty(n * k // 2, 1, dtype="uint8"), "quant_map": _empty(16, dtype="float32")}
    if not double:
        return {**found, "absmax": _empty(blocks, dtype="float32")}
    return {
        **found,
        "absmax": _empty(blocks, dtype="uint8"),
        "nested_absmax": _empty(math.ceil(blocks / 256), dtype="float32"),
        "nested_quant_map": _empty(256, dtype="float32"),
    }


_FP8 = {"weight": _empty(N, K, dtype="float8_e4m3fn")}
_INT8 = {"weight": _empty(N, K, dtype="int8")}
_ONE = _empty(1, dtype="float32")
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[int, int], dict[str, Any]]] = {
    "fp8": ({"name": "fp8"}, (N, K), {**_FP8, "weight_scale": _ONE}),
    "fp8 static": ({"name": "fp8", "activation_scheme": "static"}, (N, K), {**_FP8, "weight_scale": _ONE, "input_scale": _ONE}),
    "fp8 channel": (
        {"name": "fp8", "strategy": "channel", "scale_dtype": "bf16"},
        (N, K),
        {**_FP8, "weight_scale": _empty(N, 1, dtype="bfloat16")},
    ),
    "fp8_block": ({"name": "fp8_block"}, (N, K), fp8_block(N, K, "float32")),
    "fp8_block edge": ({"name": "fp8_block", "scale_dtype": "bf16"}, (ODD_N, ODD_K), fp8_block(ODD_N, ODD_K, "bfloat16")),
    "int8": ({"name": "int8"}, (N, K), {**_INT8, "weight_scale": _empty(N, 1, dtype="bfloat16")}),
    "int8 asymmetric": (
        {"name": "int8", "symmetric": False},
        (N, K),
        {**_INT8, "weight_scale": _empty(N, 1, dtype="bfloat16"), "weight_zero_point": _empty(N, 1, dtype="int8")},
    ),
    "awq": ({"name": "awq"}, (N, K), awq(N, K, 128)),
    "awq 64": ({"name": "awq", "group_size": 64}, (N, K), awq(N, K, 64)),
    **{f"gptq {bits}": ({"name": "gptq", "bits": bits}, (N, K), gptq(N, K, 128, bits)) for bits in (2, 3, 4, 8)},
    "gptq all": ({"name": "gptq", "group_size": -1}, (N, K), gptq(N, K, K, 4)),
    "gptq left over": ({"name": "gptq"}, (N, ODD_K), gptq(N, ODD_K, 128, 4)),
    "pack_quantized": ({"name": "pack_quantized"}, (N, K), packed_int(N, K, 128, 4)),
    "pack_quantized 8": ({"name": "pack_quantized", "bits": 8, "group_size": -1}, (N, K), packed_int(N, K, K, 8)),
    "pack_quantized zeros": (
        {"name": "pack_quantized", "group_size": 32, "symmetric": False, "g_idx": True},
        (N, K),
        {
            **packed_int(N, K, 32, 4),
            "weight_zero_point": _empty(N // 8, K // 32, dtype="int32"),
            "weight_g_idx": _empty(K, dtype="int32"),
        },
    ),
    "mxfp4": (
        {"name": "mxfp4"},
        (N, K),
        {"blocks": _empty(N, K // 32, 16, dtype="uint8"), "scales": _empty(N, K // 32, dtype="uint8")},
    ),
    "mxfp8": ({"name": "mxfp8"}, (N, K), {**_FP8, "weight_scale": _empty(N, K // 32, dtype="uint8")}),
    "nvfp4": (
        {"name": "nvfp4"},
        (N, K),
        {
            **_packed(N, K),
            "weight_scale": _empty(N, K // 16, dtype="float8_e4m3fn"),
            "weight_scale_2": _empty(dtype="float32"),
            "input_scale": _empty(dtype="float32"),
        },
    ),
    "nvfp4 weights": (
        {"name": "nvfp4", "activation_scheme": "none"},
        (N, K),
        {
            **_packed(N, K),
            "weight_scale": _empty(N, K // 16, dtype="float8_e4m3fn"),
            "weight_scale_2": _empty(dtype="float32"),
        },
    ),
    "nf4": ({"name": "nf4"}, (N, K), nf4(N, K, double=False)),
    "nf4 double": ({"name": "nf4", "double_quant": True}, (ODD_N, ODD_K), nf4(ODD_N, ODD_K, double=True)),
    "llm_int8": (
        {"name": "llm_int8"},
        (N, K),
        {**_INT8, "SCB": _empty(N, dtype="float32"), "weight_format": _empty(dtype="uint8")},
    ),
    "w8a16": ({"name": "w8a16"}, (N, K), packed_int(N, K, K, 8)),
    "w4a16": ({"name": "w4a16"}, (N, K), packed_int(N, K, 128, 4)),
    "gptq of AutoRound": (
        {"name": "gptq", "g_idx": False},
        (N, K),
        {name: tensor for name, tensor in gptq(N, K, 128, 4).items() if name != "g_idx"},
    ),
    "affine, as MLX packs it": (
        {"name": "affine", "bits": 6, "group_size": 64},
        (N, K),
        {
            "weight": _empty(N, K * 6 // 32, dtype="uint32"),
            "scales": _empty(N, K // 64, dtype="bfloat16"),
            "biases": _empty(N, K // 64, dtype="bfloat16"),
        },
    ),
    "bitnet": (
        {"name": "bitnet"},
        (N, K),
        {"weight": _empty(N // 4, K, dtype="uint8"), "weight_scale": _empty(1, dtype="bfloat16")},  # AutoBitLinear
    ),
    "aqlm 1x16": (
        {"name": "aqlm"},
        (N, K),
        {
            "codes": _empty(N, K // 8, 1, dtype="int16"),
            "codebooks": _empty(1, 2**16, 1, 8, dtype="float16"),
            "scales": _empty(N, 1, 1, 1, dtype="float16"),
        },
    ),
    "aqlm 2x8": (
        {"name": "aqlm", "num_codebooks": 2, "nbits_per_codebook": 8},
        (N, K),
        {
            "codes": _empty(N, K // 8, 2, dtype="int8"),
            "codebooks": _empty(2, 2**8, 1, 8, dtype="float16"),
            "scales": _empty(N, 1, 1, 1, dtype="float16"),
        },
    ),
    "higgs": (
        {"name": "higgs"},
        (N, 512),
        {
            "weight": _empty(N * 4 // 16, 512, dtype="int16"),
            "scales": _empty(N, 512 // 256, dtype="bfloat16"),
            "tables": _empty(16, dtype="bfloat16"),
            "tables2": _empty(16, 16, 2, dtype="bfloat16"),
        },
    ),
    "mean_bits": ({"name": "mean_bits", "bits": 4.25}, (N, K), {"all": _empty(N * K * 17 // 32, dtype="uint8")}),
    "torchao int8": (
        {"name": "int8", "symmetric": False, "scale_dtype": "fp32", "activation_scheme": "none"},
        (N, K),
        {  # Int8WeightOnlyConfig of torchao 0.18
            "qdata": _empty(N, K, dtype="int8"),
            "weight_scale": _empty(N, 1, dtype="float32"),
            "weight_zero_point": _empty(N, 1, dtype="int8"),
        },
    ),
    "ggml q4_k": (
        {"name": "ggml", "types": [["q4_k", 1]]},
        (N, 3 * 256),
        {
            "weight": _empty(N, 3 * (2 * 2 + 12 + 128), dtype="uint8")
        },  # d, dmin, 6-bit scales and minima of 8 parts, 4 bits each
    ),
    "ggml of two types": (
        {"name": "ggml", "types": [["q6_k", 1], ["q8_0", 3]]},  # a quarter of the outputs in 6 bits, the others in 8
        (N, 256),
        {
            "q6_k": _empty(N // 4, 2 + 128 + 64 + 16, dtype="uint8"),
            "q8_0": _empty(3 * N // 4, 256 // 32 * (2 + 32), dtype="uint8"),
        },
    ),
    "w4a8": ({"name": "w4a8"}, (N, K), packed_int(N, K, 128, 4)),
    "w8a8": ({"name": "w8a8"}, (N, K), {**_INT8, "weight_scale": _empty(N, 1, dtype="bfloat16")}),
    "w4a4": (
        {"name": "w4a4"},
        (N, K),
        {
            **_packed(N, K),
            "weight_scale": _empty(N, K // 16, dtype="float8_e4m3fn"),
            "weight_scale_2": _empty(dtype="float32"),
            "input_scale": _empty(dtype="float32"),
        },
    ),
}
"""Keys of a scheme, the shape of a weight, and the tensors that a checkpoint has in its place."""


def _scheme(keys: dict[str, Any]) -> Scheme:
    return schemes()[keys["name"]].model_validate(keys)


def _dtypes(chosen: Scheme) -> Dtypes:
    return Dtypes(weight=chosen.format, activation=FORMATS["bf16"], kv=FORMATS["bf16"], bias=FORMATS["bf16"])


@pytest.mark.parametrize(("keys", "shape", "tensors"), LAYOUTS.values(), ids=LAYOUTS)
def test_bytes_of_the_stored_tensors(keys: dict[str, Any], shape: tuple[int, int], tensors: dict[str, Any]) -> None:
    """A matrix takes as many bytes as its tensors together, and what is beside the elements bears the tensors' names."""
    (n, k), chosen = shape, _scheme(keys)
    gemm = Gemm(m=1, n=n, k=k, dtypes=_dtypes(chosen))
    assert gemm.held_bytes == gemm.cost().weight_bytes == sum(tensor.nbytes for tensor in tensors.values())
    for tensor in chosen.format.metadata:
        assert tensor.size((n, k)) == tensors[tensor.name].nbytes, tensor.name


def test_every_scheme_has_a_layout() -> None:
    """A new scheme cannot be forgotten here."""
    assert {keys["name"] for keys, _, _ in LAYOUTS.values()} == set(schemes())


@pytest.mark.parametrize("name", schemes())
def test_every_scheme_says_where_it_is_from(name: str) -> None:
    """A paper or an address, and words."""
    assert "arXiv" in scheme(name).source or "https://" in scheme(name).source
    assert scheme(name).described.startswith(f"{scheme(name).format.bytes * 8:g} bits an element")
    assert type(scheme(name)).__doc__ != Scheme.__doc__


def test_biases_are_not_quantised() -> None:
    """gpt-oss: an expert's matrix in MXFP4, its biases in bf16: 32 of 16 blocks of 16 + 1 bytes, and 32 x 2 bytes."""
    dtypes = _dtypes(scheme("mxfp4"))
    gemm = Gemm(m=1, n=32, k=512, bias=True, dtypes=dtypes)
    assert gemm.held_bytes == 32 * 16 * (16 + 1) + 32 * 2
    grouped = GroupedGemm(tokens=1, n=32, k=512, experts=8, top_k=2, distinct=2, bias=True, dtypes=dtypes)
    assert grouped.held_bytes == 8 * gemm.held_bytes
    assert grouped.cost().weight_bytes == 2 * gemm.held_bytes


def test_parts_of_a_fused_product_have_scales_of_their_own() -> None:
    """Q of 320 outputs, K and V of 64 each, in blocks of 128 x 128: 3 + 1 + 1 rows of blocks, where one matrix of 448 had 4."""
    dtypes = _dtypes(scheme("fp8_block"))
    one = Gemm(m=1, n=448, k=256, dtypes=dtypes)
    three = Gemm(m=1, n=448, k=256, stored=((320, 256), (64, 256), (64, 256)), dtypes=dtypes)
    assert one.held_bytes == 448 * 256 + 4 * 2 * 4
    assert three.held_bytes == three.cost().weight_bytes == 448 * 256 + (3 + 1 + 1) * 2 * 4


def test_a_batch_of_matrices_has_scales_each() -> None:
    """Four matrices with one scale of four bytes each."""
    assert Gemm(m=1, n=8, k=8, batch=4, dtypes=_dtypes(scheme("fp8"))).held_bytes == 4 * (8 * 8 + 4)


def test_a_quantised_table() -> None:
    """A row of 64 in MXFP4 is 32 + 2 bytes; a step reads the rows of its tokens."""
    table = Embedding(tokens=3, width=64, entries=100, dtypes=_dtypes(scheme("mxfp4")))
    assert table.held_bytes == 100 * (32 + 2)
    assert table.cost().weight_bytes == 3 * (32 + 2)


def test_what_is_no_matrix_cannot_be_quantised() -> None:
    """How a vector would be stored is not known, and it is not guessed."""
    with pytest.raises(TypeError, match="norm holds no matrix"):
        _ = Norm(rows=1, width=8, dtypes=_dtypes(scheme("fp8"))).held_bytes


def test_weights_alone_are_multiplied_as_activations() -> None:
    """A scheme that leaves activations as they are runs at their matrix peak; W4A8 at that of 8 bits."""
    assert {name for name in schemes() if scheme(name).format.multiply is None} == {
        "affine", "aqlm", "awq", "ggml", "gptq", "higgs", "mean_bits", "mxfp4", "nf4", "pack_quantized", "w4a16", "w8a16",
    }  # fmt: skip
    assert _scheme({"name": "fp8", "activation_scheme": "none"}).format.multiply is None
    assert _scheme({"name": "pack_quantized", "activations": "int8"}).format.multiply == "int8"
    assert _scheme({"name": "mxfp4", "activations": "fp4"}).format.multiply == "fp4"


def test_one_name_and_its_spellings() -> None:
    """As engines write them."""
    assert scheme(" FP8-Block ").name == "fp8_block"
