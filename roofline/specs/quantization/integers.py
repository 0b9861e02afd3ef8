"""Integer formats of weights: AWQ, GPTQ, INT8, LLM.int8() and the packed integers of compressed-tensors."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format, Metadata
from roofline.numeric import ratio
from roofline.specs.quantization.base import ActivationScheme, GroupSize, ScaleDtype, Scheme, per_matrix, scale_columns, scales


class Awq(Scheme):
    """Eight outputs in an int32; a group of inputs has an fp16 scale and a 4-bit zero point, which is stored whether it is
    used or not. Weights are unpacked and multiplied as activations.

    A group of 128 takes 128*4 + 16 + 4 bits: 4.156 a weight.
    """

    source: ClassVar[str] = "arXiv:2306.00978; layout: https://github.com/casper-hansen/AutoAWQ, awq/modules/linear/gemm.py"
    name: Literal["awq"]
    bits: Literal[4] = 4
    group_size: GroupSize = Field(default=128, description="inputs of an output that share a scale; -1: all")

    @property
    def format(self) -> Format:
        """`qweight` [k, n/8], `qzeros` [k/group, n/8], both int32, and `scales` [k/group, n]."""
        columns = scale_columns(self.group_size)
        return Format("awq", 0.5, None, (Metadata("scales", 2, 1, columns), Metadata("qzeros", 4, 8, columns)))


class Gptq(Scheme):
    """32 inputs in as many int32 as a weight has bits. A group of inputs has an fp16 scale and a zero point of as many bits
    as a weight, and each input the number of its group: both are stored also where weights are symmetric and in order.
    Weights are unpacked and multiplied as activations.

    NB: AutoGPTQ also wrote a bias of zeros for each matrix, which engines skip: it is not counted.
    """

    source: ClassVar[str] = "arXiv:2210.17323; layout: https://github.com/AutoGPTQ/AutoGPTQ, nn_modules/qlinear/qlinear_cuda.py"
    name: Literal["gptq"]
    bits: Literal[2, 3, 4, 8] = 4
    group_size: GroupSize = Field(default=128, description="inputs of an output that share a scale; -1: all")
    g_idx: bool = Field(default=True, description="the number of its group for each input")

    @property
    def format(self) -> Format:
        """`qweight` [k*bits/32, n], `qzeros` [k/group, n*bits/32], `g_idx` [k], all int32, and `scales` [k/group, n]."""
        columns = scale_columns(self.group_size)
        metadata = (
            Metadata("scales", 2, 1, columns),
            Metadata("qzeros", 4 * self.bits, 32, columns),
            *((Metadata("g_idx", 4, None, 1),) if self.g_idx else ()),
        )
        return Format("gptq", ratio(self.bits, 8), None, metadata)


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
        metadata = [scales("weight_scale", self.scale_dtype, rows)]
        if not self.symmetric:
            metadata.append(Metadata("weight_zero_point", 1, rows, None))
        if self.activation_scheme == "static":
            metadata.append(scales("input_scale", self.scale_dtype, None))
        return Format("int8", 1, None if self.activation_scheme == "none" else "int8", tuple(metadata))


class LlmInt8(Scheme):
    """A byte an element and an fp32 scale per output. Activations are quantised on the way, but for the few columns with
    outliers. NB: those columns' products in 16 bits are not modelled."""

    source: ClassVar[str] = "arXiv:2208.07339, section 3; layout: https://github.com/bitsandbytes-foundation/bitsandbytes"
    name: Literal["llm_int8"]

    @property
    def format(self) -> Format:
        """`weight` [n, k] int8, `SCB` [n] fp32, and a byte that names the layout."""
        return Format("llm_int8", 1, "int8", (scales("SCB", "fp32"), per_matrix("weight_format", 1)))


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
        columns = scale_columns(self.group_size)
        metadata = [scales("weight_scale", self.scale_dtype, 1, columns), per_matrix("weight_shape", 16)]
        if not self.symmetric:
            metadata.append(Metadata("weight_zero_point", 4, 32 // self.bits, columns))
        if self.g_idx:
            metadata.append(Metadata("weight_g_idx", 4, None, 1))
        multiply = None if self.activations == "none" else self.activations
        return Format("pack_quantized", ratio(self.bits, 8), multiply, tuple(metadata))
