"""NVFP4: 4-bit floats with an fp8 scale for 16 of them, and an fp32 scale for the matrix."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import Scheme, a_tensor


class Nvfp4(Scheme):
    """Two elements in a byte. Activations are brought to fp4 as well: their blocks are scaled on the way, their global scale
    is stored. ModelOpt and compressed-tensors (`nvfp4-pack-quantized`) differ in names alone."""

    source: ClassVar[str] = "arXiv:2509.25149, section 2; layout: https://github.com/NVIDIA/Model-Optimizer"
    name: Literal["nvfp4"]
    activation_scheme: Literal["static", "none"] = Field(default="static", description="whether activations are quantised too")

    @property
    def format(self) -> Format:
        """`weight` [n, k/2] uint8, `weight_scale` [n, k/16] fp8, `weight_scale_2` and `input_scale`, one fp32 each."""
        beside = [Beside("weight_scale", 1, 1, 16), a_tensor("weight_scale_2", 4)]
        if self.activation_scheme == "static":
            beside.append(a_tensor("input_scale", 4))
        return Format("nvfp4", 0.5, None if self.activation_scheme == "none" else "fp4", tuple(beside))
