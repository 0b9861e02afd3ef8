"""Number formats: size of an element, and the matrix peak that takes it."""

from __future__ import annotations

import pytest

from roofline.dtypes import BF16, FORMATS, Dtypes, Precision, parse_dtype
from roofline.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "bits"), [("fp32", 32), ("bf16", 16), ("fp16", 16), ("fp8", 8), ("int8", 8), ("int4", 4), ("fp4", 4)]
)
def test_size_is_bits_over_eight(name: str, bits: int) -> None:
    """An element takes as many bits as its name says."""
    assert parse_dtype(name).bytes == bits / 8


def test_every_format_is_covered_above() -> None:
    """A new format needs a line in a test of sizes."""
    assert set(FORMATS) == {"fp32", "bf16", "fp16", "fp8", "int8", "int4", "fp4", "q8_0", "q4_0"}


@pytest.mark.parametrize(("name", "bits"), [("q8_0", 8), ("q4_0", 4)])
def test_blocks_of_32_have_a_scale_of_16_bits(name: str, bits: int) -> None:
    """GGML's blocks, of which caches may be: https://github.com/ggml-org/ggml, src/ggml-common.h."""
    assert parse_dtype(name).bytes == (32 * bits + 16) / 8 / 32


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("bfloat16", "bf16"),
        ("torch.bfloat16", "bf16"),
        ("float16", "fp16"),
        ("half", "fp16"),
        ("torch.float32", "fp32"),
        ("fp8_e4m3", "fp8"),
        ("fp8_e5m2", "fp8"),
        ("float8_e4m3fn", "fp8"),
        ("BF16", "bf16"),
        (" bf16 ", "bf16"),
    ],
)
def test_spellings_of_torch_and_engines(spelling: str, name: str) -> None:
    """The spellings of config.json and of engines' flags mean the same formats."""
    assert parse_dtype(spelling).name == name


def test_unknown_dtype_lists_the_known() -> None:
    """An unknown dtype is answered with the nearest, and with all."""
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'bf61'\. Did you mean bf16.*Known: fp32, bf16, fp16"):
        parse_dtype("bf61")


def test_four_bit_formats_are_not_multiplied_as_they_are() -> None:
    """int4 has no matrix peak of its own: it is converted to the dtype of the activations."""
    assert FORMATS["int4"].multiply is None
    mixed = Dtypes(weight=FORMATS["int4"], activation=FORMATS["fp16"], kv=FORMATS["fp16"])
    assert mixed.matrix == "fp16"
    assert BF16.matrix == "bf16"


def test_precision_gives_each_role_its_format() -> None:
    """A role that is listed has its own weights; all others have the model's."""
    precision = Precision(
        weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["fp8"], roles=(("experts", FORMATS["int4"]),)
    )
    assert precision.dtypes("experts").weight.name == "int4"
    assert precision.dtypes("linear").weight.name == "bf16"
    assert precision.dtypes("experts").kv.name == "fp8"
