"""Hyper-connections, the way out: a block's output is added to residual streams that are mixed among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperExpand(Operator):
    """New streams of a token: a streams x streams matrix times the old ones, plus the block's output times a weight each.

    The mixing is a product of streams x streams by streams x width: 2 streams^2 width matrix FLOP a token. The output's
    share is a multiply and an add an element. The streams and the output are read once, the streams written once.

    >>> HyperExpand(tokens=3, width=8, streams=4).cost()  # 3*2*16*8; 3*2*4*8; 2 B*3*(4*8 + 8 in, 4*8 out)
    Cost(matrix_flops=768, vector_flops=192, activation_bytes=432)

    Source: Xie et al. 2025 (mHC), arXiv:2512.24880, eq. 3.
    """

    kind: ClassVar[str] = "hyper_expand"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    width: Expr
    streams: Expr

    def cost(self) -> Cost:
        """Mixing and addition; streams in and out, the output in."""
        elements = self.tokens * self.streams * self.width
        return Cost(
            matrix_flops=2 * elements * self.streams,
            vector_flops=2 * elements,
            activation_bytes=(2 * elements + self.tokens * self.width) * self.dtypes.activation.bytes,
        )
