"""Packed integers of compressed-tensors (`pack-quantized`): W4A16, W8A16, W4A8."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.numeric import ratio
from roofline.specs.quantization.base import GroupSize, ScaleDtype, Scheme, a_tensor, group, scales


class PackQuantized(Scheme):
    """Inputs of an output packed in int32, with a scale a group; zero points are packed along outputs, where there are any.
    Weights are unpacked and multiplied as activations, or in 8 bits where those are quantised."""

    source: ClassVar[str] = (
        "https://github.com/vllm-project/compressed-tensors, compressors/quantized_compressors/pack_quantized.py"
    )
    name: Literal["pack_quantized"]
    bits: Literal[2, 4, 8] = 4
    group_size: GroupSize = Field(default=128, description="inputs of an output that share a scale; -1: all")
    symmetric: bool = Field(default=True, description="no zero points")
    g_idx: bool = Field(default=False, description="the number of its group for each input (actorder: group)")
    scale_dtype: ScaleDtype = "bf16"
    activations: Literal["none", "int8", "fp8"] = Field(default="none", description="what activations are quantised to")

    @property
    def format(self) -> Format:
        """`weight_packed` [n, k*bits/32] int32, `weight_scale` [n, k/group], `weight_shape` [2] int64, ..."""
        columns = group(self.group_size)
        beside = [scales("weight_scale", self.scale_dtype, 1, columns), a_tensor("weight_shape", 16)]
        if not self.symmetric:
            beside.append(Beside("weight_zero_point", 4, 32 // self.bits, columns))
        if self.g_idx:
            beside.append(Beside("weight_g_idx", 4, None, 1))
        multiply = None if self.activations == "none" else self.activations
        return Format("pack_quantized", ratio(self.bits, 8), multiply, tuple(beside))
