"""FP8 with one scale for each block of a matrix."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Format
from roofline.specs.base import Whole
from roofline.specs.quantization.base import ScaleDtype, Scheme, scales

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
