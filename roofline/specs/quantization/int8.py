"""INT8: activations and weights (W8A8), or weights alone (W8A16)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import ActivationScheme, ScaleDtype, Scheme, scales


class Int8(Scheme):
    """Elements of 8 bits, one scale a matrix or an output channel; `int-quantized` of compressed-tensors."""

    source: ClassVar[str] = "https://docs.vllm.ai/en/stable/features/quantization/int8.html; SmoothQuant, arXiv:2211.10438"
    name: Literal["int8"]
    strategy: Literal["tensor", "channel"] = Field(default="channel", description="what has a scale: a matrix, or each output")
    scale_dtype: ScaleDtype = "bf16"
    symmetric: bool = Field(default=True, description="no zero points beside the scales of weights")
    activation_scheme: ActivationScheme = "dynamic"

    @property
    def format(self) -> Format:
        """One byte an element; scales, zero points of one byte, and the scale of inputs where it is stored."""
        rows = None if self.strategy == "tensor" else 1
        beside = [scales("weight_scale", self.scale_dtype, rows)]
        if not self.symmetric:
            beside.append(Beside("weight_zero_point", 1, rows, None))
        if self.activation_scheme == "static":
            beside.append(scales("input_scale", self.scale_dtype, None))
        return Format("int8", 1, None if self.activation_scheme == "none" else "int8", tuple(beside))
