"""The tensor types of GGML, which GGUF files hold: blocks of elements with their scales inside."""

from __future__ import annotations

from math import gcd
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from roofline.dtypes import Format
from roofline.errors import UnknownNameError
from roofline.specs.quantization.base import Scheme

# Elements and bytes of a block. NB: the bytes are those of scales, minima, signs and high bits too.
TYPES: dict[str, tuple[int, int]] = {
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2),
    "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34),
    "q2_k": (256, 84), "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210), "q8_k": (256, 292),
    "iq1_s": (256, 50), "iq1_m": (256, 56),
    "iq2_xxs": (256, 66), "iq2_xs": (256, 74), "iq2_s": (256, 82),
    "iq3_xxs": (256, 98), "iq3_s": (256, 110),
    "iq4_nl": (32, 18), "iq4_xs": (256, 136),
    "tq1_0": (256, 54), "tq2_0": (256, 66),
    "mxfp4": (32, 17), "nvfp4": (64, 36), "q1_0": (128, 18),
}  # fmt: skip
"""Tensor types by name in lower case: elements of a block, and its bytes."""


def bytes_per_element(name: str) -> float:
    """Return the bytes of an element of a tensor type: exact, as blocks are powers of two.

    >>> bytes_per_element("q4_k"), bytes_per_element("q8_0")
    (0.5625, 1.0625)
    """
    elements, size = TYPES[name]
    return size / elements


class Ggml(Scheme):
    """Blocks of 32 to 256 inputs of an output, in each of which scales stand beside the elements. Weights are widened to
    the activations' dtype for the product.

    Matrices that one product multiplies may be of several types: `types` has how many elements are of each, and an element
    counts as their mean. NB: what kernels do otherwise, products of 8-bit integers with activations quantised on the way, is
    not modelled.
    """

    source: ClassVar[str] = "https://github.com/ggml-org/llama.cpp, ggml/src/ggml-common.h and gguf-py/gguf/constants.py"
    name: Literal["ggml"]
    roles: tuple[str, ...] = Field(default=("linear", "experts", "lm_head", "embedding"), description="which weights")
    types: tuple[tuple[str, int], ...] = Field(
        default=(("q8_0", 1),), min_length=1, description="tensor types, each with its share: how many elements it has of all"
    )

    @field_validator("types")
    @classmethod
    def _known(cls, types: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        for name, elements in types:
            if name not in TYPES:
                raise ValueError(str(UnknownNameError("tensor type", name, TYPES, list_all=True)))
            if elements < 1:
                msg = f"{name} has {elements} elements; at least 1 is needed"
                raise ValueError(msg)
        common = gcd(*(elements for _, elements in types))
        return tuple((name, elements // common) for name, elements in sorted(types, key=lambda one: (-one[1], one[0])))

    @property
    def label(self) -> str:
        """The types, that of the most elements first."""
        return "+".join(name for name, _ in self.types)

    @property
    def format(self) -> Format:
        """The bytes of an element, scales included."""
        elements = sum(count for _, count in self.types)
        return Format(self.label, sum(count * bytes_per_element(name) for name, count in self.types) / elements)

    @property
    def described(self) -> str:
        """The types and the bits of an element."""
        return f"{self.format.bytes * 8:g} bits an element, scales included ({self.label})"
