"""GPTQ: weights of 2 to 8 bits in groups, as AutoGPTQ and GPTQModel pack them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.numeric import ratio
from roofline.specs.quantization.base import GroupSize, Scheme, group


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

    @property
    def format(self) -> Format:
        """`qweight` [k*bits/32, n], `qzeros` [k/group, n*bits/32], `g_idx` [k], all int32, and `scales` [k/group, n]."""
        columns = group(self.group_size)
        beside = (Beside("scales", 2, 1, columns), Beside("qzeros", 4 * self.bits, 32, columns), Beside("g_idx", 4, None, 1))
        return Format("gptq", ratio(self.bits, 8), None, beside)
