"""The non-linearity of a feed-forward block: plain (GELU, SiLU, ReLU) or gated (SwiGLU, GeGLU)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation(Operator):
    """Apply a non-linearity to `rows` vectors of `width`; gated: the product with a second vector of the same width.

    SiLU is counted as 4 FLOP an element (negate, exponential, add, divide), and so is every other function in its
    place; the gate's product is a fifth. Inputs are read once (two of them when gated), the output is written once.
    NB: engines fuse this with neither of the two matrix products around it.

    >>> Activation(rows=2, width=8, gated=True).cost()  # 5*16 FLOP; 2 B*(2*16 in + 16 out)
    Cost(vector_flops=80, activation_bytes=96)

    Source: Shazeer 2020, arXiv:2002.05202, eq. 5 and 6.
    """

    kind: ClassVar[str] = "activation"
    rows: Expr
    width: Expr
    gated: bool = True

    def cost(self) -> Cost:
        """4 or 5 FLOP an element; inputs and output once."""
        elements = self.rows * self.width
        flops, tensors = (5, 3) if self.gated else (4, 2)
        return Cost(vector_flops=flops * elements, activation_bytes=tensors * elements * self.dtypes.activation.bytes)
