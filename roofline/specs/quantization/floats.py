"""Floating-point formats of weights: FP8 (per matrix, channel or block), MXFP8, MXFP4, NVFP4, and NF4 of bitsandbytes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format, Metadata
from roofline.specs.base import Whole
from roofline.specs.quantization.base import ActivationScheme, ScaleDtype, Scheme, per_matrix, scales


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
        metadata = [scales("weight_scale", self.scale_dtype, None if self.strategy == "tensor" else 1)]
        if self.activation_scheme == "static":
            metadata.append(scales("input_scale", self.scale_dtype, None))
        return Format("fp8", 1, None if self.activation_scheme == "none" else "fp8", tuple(metadata))


Length = Annotated[Whole, Field(ge=1)]


class Fp8Block(Scheme):
    """Elements of 8 bits in blocks of rows x columns, a block at the edge being smaller. Activations are scaled on the way,
    128 of a token at a time.

    `weight_scale_inv` is fp32 in DeepSeek's checkpoints and in engines' memory, bf16 in Qwen's, e8m0 in those of
    DeepSeek-V4.
    """

    source: ClassVar[str] = "DeepSeek-V3, arXiv:2412.19437, section 3.3.2"
    name: Literal["fp8_block"]
    weight_block_size: tuple[Length, Length] = Field(default=(128, 128), description="outputs and inputs of a block")
    scale_dtype: ScaleDtype = "fp32"

    @property
    def format(self) -> Format:
        """One byte an element; a scale a block."""
        rows, columns = self.weight_block_size
        return Format("fp8_block", 1, "fp8", (scales("weight_scale_inv", self.scale_dtype, rows, columns),))


class Mxfp4(Scheme):
    """Two elements in a byte, and an 8-bit exponent for each 32 inputs of an output: 4.25 bits a weight. Activations stay as
    they are (gpt-oss), or are quantised on the way."""

    source: ClassVar[str] = "OCP Microscaling Formats v1.0, section 5; arXiv:2310.10537"
    name: Literal["mxfp4"]
    activations: Literal["none", "fp8", "fp4"] = Field(default="none", description="what activations are quantised to")

    @property
    def format(self) -> Format:
        """`blocks` [n, k/32, 16] and `scales` [n, k/32], both uint8."""
        return Format("mxfp4", 0.5, None if self.activations == "none" else self.activations, (Metadata("scales", 1, 1, 32),))


class Mxfp8(Scheme):
    """A byte an element, and an 8-bit exponent for each 32 inputs of an output: 8.25 bits a weight. Activations are quantised
    on the way."""

    source: ClassVar[str] = "OCP Microscaling Formats v1.0, section 5; arXiv:2310.10537"
    name: Literal["mxfp8"]

    @property
    def format(self) -> Format:
        """`weight` [n, k] fp8 and `weight_scale` [n, k/32] uint8."""
        return Format("mxfp8", 1, "fp8", (Metadata("weight_scale", 1, 1, 32),))


class Nf4(Scheme):
    """Two elements in a byte, the matrix as one row of them; 64 share the largest absolute value, which may be quantised to a
    byte in its turn, 256 of those sharing an fp32 scale. Weights are unpacked and multiplied as activations.

    NB: the text that describes the state of each matrix in a checkpoint (about 100 bytes of JSON) is not counted.
    """

    source: ClassVar[str] = (
        "QLoRA, arXiv:2305.14314, section 3; layout: https://github.com/bitsandbytes-foundation/bitsandbytes"
    )
    name: Literal["nf4"]
    double_quant: bool = Field(default=False, description="whether the scales are quantised (bnb_4bit_use_double_quant)")

    @property
    def format(self) -> Format:
        """`weight` [n*k/2] uint8, `absmax`, the 16 values of `quant_map`, and the tables of the second quantisation."""
        metadata = [Metadata("absmax", 1 if self.double_quant else 4, elements=64), per_matrix("quant_map", 16 * 4)]
        if self.double_quant:
            metadata += [Metadata("nested_absmax", 4, elements=64 * 256), per_matrix("nested_quant_map", 256 * 4)]
        return Format("nf4", 0.5, None, tuple(metadata))


class Nvfp4(Scheme):
    """Two elements in a byte. Activations are brought to fp4 as well: their blocks are scaled on the way, their global scale
    is stored. ModelOpt and compressed-tensors (`nvfp4-pack-quantized`) differ in names alone."""

    source: ClassVar[str] = "arXiv:2509.25149, section 2; layout: https://github.com/NVIDIA/Model-Optimizer"
    name: Literal["nvfp4"]
    activation_scheme: Literal["static", "none"] = Field(default="static", description="whether activations are quantised too")

    @property
    def format(self) -> Format:
        """`weight` [n, k/2] uint8, `weight_scale` [n, k/16] fp8, `weight_scale_2` and `input_scale`, one fp32 each."""
        metadata = [Metadata("weight_scale", 1, 1, 16), per_matrix("weight_scale_2", 4)]
        if self.activation_scheme == "static":
            metadata.append(per_matrix("input_scale", 4))
        return Format("nvfp4", 0.5, None if self.activation_scheme == "none" else "fp4", tuple(metadata))
