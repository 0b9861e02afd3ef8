"""Schemes named by the widths of weights and activations: W8A16, W4A16, W8A8, W4A8 and W4A4.

Each is the layout of another scheme, with its defaults; what its name adds is that the width of activations is stated.
16 bits: products are of the activations' format, in the floor too. 8 or 4 bits: activations are quantised for the products,
whatever `--activation-dtype` says of the stream between them.

Source: the presets of compressed-tensors, which vLLM and llm-compressor know by these names; W4A4 is there NVFP4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format
from roofline.specs.quantization.base import GroupSize, Scheme
from roofline.specs.quantization.floats import Nvfp4
from roofline.specs.quantization.integers import Int8, PackQuantized

_SOURCE = "https://github.com/vllm-project/compressed-tensors, quantization/quant_scheme.py"


class W8A16(Scheme):
    """Weights of 8 bits with a scale per output; unpacked and multiplied as 16-bit activations."""

    source: ClassVar[str] = _SOURCE
    activation_bits: ClassVar[int | None] = 16
    name: Literal["w8a16"]
    group_size: GroupSize = Field(default=-1, description="inputs of an output that share a scale; -1: all")

    @property
    def format(self) -> Format:
        """That of `pack_quantized` at 8 bits."""
        return replace(PackQuantized(name="pack_quantized", bits=8, group_size=self.group_size).format, name=self.name)


class W4A16(Scheme):
    """Weights of 4 bits with a scale per 128 inputs of an output; unpacked and multiplied as 16-bit activations."""

    source: ClassVar[str] = _SOURCE
    activation_bits: ClassVar[int | None] = 16
    name: Literal["w4a16"]
    group_size: GroupSize = Field(default=128, description="inputs of an output that share a scale; -1: all")

    @property
    def format(self) -> Format:
        """That of `pack_quantized` at 4 bits."""
        return replace(PackQuantized(name="pack_quantized", group_size=self.group_size).format, name=self.name)


class W8A8(Scheme):
    """Weights of 8 bits with a scale per output, activations quantised to int8 for the products. In fp8: the scheme `fp8`."""

    source: ClassVar[str] = _SOURCE
    activation_bits: ClassVar[int | None] = 8
    name: Literal["w8a8"]

    @property
    def format(self) -> Format:
        """That of `int8`."""
        return replace(Int8(name="int8").format, name=self.name)


class W4A8(Scheme):
    """Weights of 4 bits with a scale per 128 inputs of an output, widened to int8; activations quantised to int8."""

    source: ClassVar[str] = _SOURCE
    activation_bits: ClassVar[int | None] = 8
    name: Literal["w4a8"]
    group_size: GroupSize = Field(default=128, description="inputs of an output that share a scale; -1: all")

    @property
    def format(self) -> Format:
        """That of `pack_quantized` at 4 bits, multiplied in int8."""
        packed = PackQuantized(name="pack_quantized", group_size=self.group_size, activations="int8")
        return replace(packed.format, name=self.name)


class W4A4(Scheme):
    """Weights and activations of fp4 with a scale per 16 inputs: `nvfp4`."""

    source: ClassVar[str] = _SOURCE
    activation_bits: ClassVar[int | None] = 4
    name: Literal["w4a4"]

    @property
    def format(self) -> Format:
        """That of `nvfp4`."""
        return replace(Nvfp4(name="nvfp4").format, name=self.name)
