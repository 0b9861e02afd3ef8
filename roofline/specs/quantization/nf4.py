"""4-bit weights of bitsandbytes: NF4 and FP4."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import Scheme, a_tensor


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
        beside = [Beside("absmax", 1 if self.double_quant else 4, elements=64), a_tensor("quant_map", 16 * 4)]
        if self.double_quant:
            beside += [Beside("nested_absmax", 4, elements=64 * 256), a_tensor("nested_quant_map", 256 * 4)]
        return Format("nf4", 0.5, None, tuple(beside))
