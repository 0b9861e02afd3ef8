"""FP8 with one scale a matrix or an output channel."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format
from roofline.specs.quantization.base import ActivationScheme, ScaleDtype, Scheme, scales


class Fp8(Scheme):
    """Elements of 8 bits. Activations are brought to fp8 by a scale that is stored (static) or found on the way (dynamic).

    What engines make of bf16 weights with `--quantization fp8` is the default; `channel` is what compressed-tensors
    stores as FP8-dynamic and FBGEMM as fbgemm_fp8.
    """

    source: ClassVar[str] = "https://docs.vllm.ai/en/stable/features/quantization/fp8.html"
    name: Literal["fp8"]
    strategy: Literal["tensor", "channel"] = Field(default="tensor", description="what has a scale: a matrix, or each output")
    scale_dtype: ScaleDtype = "fp32"
    activation_scheme: ActivationScheme = "dynamic"

    @property
    def format(self) -> Format:
        """One byte an element; the scales of weights, and of inputs where they are stored."""
        beside = [scales("weight_scale", self.scale_dtype, None if self.strategy == "tensor" else 1)]
        if self.activation_scheme == "static":
            beside.append(scales("input_scale", self.scale_dtype, None))
        return Format("fp8", 1, None if self.activation_scheme == "none" else "fp8", tuple(beside))
