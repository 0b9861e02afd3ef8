"""AWQ: 4-bit weights in groups, as AutoAWQ packs them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import GroupSize, Scheme, group


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
        columns = group(self.group_size)
        return Format("awq", 0.5, None, (Beside("scales", 2, 1, columns), Beside("qzeros", 4, 8, columns)))
