"""Formats of libraries that few engines load: groups with a scale and an offset each (MLX, HQQ, torchao), codes (AQLM, HIGGS),
three values (BitNet), and weights of which only the mean of bits is known (EXL2, EXL3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format
from roofline.numeric import ratio
from roofline.specs.base import Whole
from roofline.specs.quantization.base import GroupSize, ScaleDtype, Scheme, per_matrix, scale_columns, scales


class Affine(Scheme):
    """Elements of a few bits, and for each group of inputs a scale and an offset in the same format. Weights are unpacked and
    multiplied as activations.

    MLX packs inputs into uint32 and calls the offset `biases`; HQQ stores `zero`, torchao `zero_point`. NB: HQQ packs ten
    elements of 3 bits into an int32, so that one takes 3.2.
    """

    source: ClassVar[str] = "https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html"
    name: Literal["affine"]
    bits: float = Field(default=4, gt=0, le=8, strict=True, description="of an element as it is packed")
    group_size: GroupSize = Field(default=64, description="inputs of an output that share a scale; -1: all")
    scale_dtype: ScaleDtype = "bf16"

    @property
    def format(self) -> Format:
        """`weight` [n, k*bits/32] uint32, `scales` and `biases` [n, k/group]."""
        columns = scale_columns(self.group_size)
        metadata = (scales("scales", self.scale_dtype, 1, columns), scales("biases", self.scale_dtype, 1, columns))
        return Format("affine", self.bits / 8, None, metadata)


class BitNet(Scheme):
    """Three values, four outputs in a byte, and a scale a matrix. Activations are quantised to int8 on the way."""

    source: ClassVar[str] = (
        "BitNet b1.58, arXiv:2402.17764; layout: https://huggingface.co/docs/transformers/quantization/bitnet"
    )
    name: Literal["bitnet"]

    @property
    def format(self) -> Format:
        """`weight` [n/4, k] uint8 and `weight_scale` [1]."""
        return Format("bitnet", 0.25, "int8", (per_matrix("weight_scale", 2),))


class Aqlm(Scheme):
    """Groups of inputs as sums of entries of codebooks, and a scale an output. Weights are unpacked and multiplied as
    activations."""

    source: ClassVar[str] = "arXiv:2401.06118; layout: https://github.com/Vahe1994/AQLM, inference_lib/src/aqlm/inference.py"
    name: Literal["aqlm"]
    in_group_size: Whole = Field(default=8, ge=1, description="inputs that a code stands for")
    num_codebooks: Whole = Field(default=1, ge=1, description="codes that are summed")
    nbits_per_codebook: Whole = Field(default=16, ge=1, le=16, description="bits of a code, which is stored in 1 or 2 bytes")

    @property
    def format(self) -> Format:
        """`codes` [n, k/group, codebooks] of 1 or 2 bytes, `codebooks` [codebooks, 2^bits, 1, group], `scales` [n]."""
        code = 1 if self.nbits_per_codebook <= 8 else 2
        entries = self.num_codebooks * 2**self.nbits_per_codebook * self.in_group_size
        metadata = (per_matrix("codebooks", 2 * entries), scales("scales", "fp16"))
        return Format("aqlm", ratio(self.num_codebooks * code, self.in_group_size), None, metadata)


class Higgs(Scheme):
    """Pairs of inputs as points of a grid, after a rotation, with a scale for each group. Weights are unpacked and multiplied
    as activations."""

    source: ClassVar[str] = "arXiv:2411.17525; layout: https://github.com/huggingface/transformers, integrations/higgs.py"
    name: Literal["higgs"]
    bits: Literal[2, 3, 4] = 4
    group_size: GroupSize = 256

    @property
    def format(self) -> Format:
        """`weight` [n*bits/16, k] int16, `scales` [n, k/group], `tables` [2^bits] and `tables2` [2^bits, 2^bits, 2]."""
        points = 2**self.bits
        metadata = (
            scales("scales", "bf16", 1, scale_columns(self.group_size)),
            per_matrix("tables", 2 * points),
            per_matrix("tables2", 2 * 2 * points * points),
        )
        return Format("higgs", ratio(self.bits, 8), None, metadata)


class MeanBits(Scheme):
    """Weights that differ from matrix to matrix, of which the mean is known, scales included. They are multiplied as
    activations."""

    source: ClassVar[str] = (
        "https://github.com/turboderp-org/exllamav3, doc/exl3.md; https://github.com/turboderp-org/exllamav2"
    )
    name: Literal["mean_bits"]
    bits: float = Field(default=4.0, ge=1, le=16, strict=True, description="mean of all weights of these roles")

    @property
    def format(self) -> Format:
        """As many bits an element, and nothing beside them."""
        return Format(f"{self.bits:g}-bit", self.bits / 8)
