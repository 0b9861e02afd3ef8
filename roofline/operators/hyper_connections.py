"""Hyper-connections, which mix several residual streams: the way into a block, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperCollapse(Operator):
    """Hyper-connections, the way in: several residual streams become the one input of a block.

    Weighted sum of `streams` vectors of `width` per token, by weights that a projection of all of them gave.

    Vector FLOP per token: 2 an element of the streams for their common root mean square (the projection's inputs are
    normalised: the factor is applied to its outputs), 2 an element for the sum, and with `rounds` the coefficients that
    leave the block again: Sinkhorn's iterations make the streams^2 of them doubly stochastic, in each round a sum and a
    division an element for rows and for columns. The streams are read once, the sum is written once.
    NB: sigmoids and the first softmax, a handful of FLOP per token, are left out; so are the coefficients' bytes.

    >>> HyperCollapse(tokens=3, width=8, streams=4, rounds=20, scales=3).cost()
    ... # 3*(4*4*8 + 20*4*16); 2 B*3 scales; 2 B*3*(4*8 in + 8 out)
    Cost(vector_flops=4224, weight_bytes=6, activation_bytes=240)

    Source: Xie et al. 2025 (mHC), arXiv:2512.24880, section 4.2 (eq. 7 to 9).
    """

    kind: ClassVar[str] = "hyper_collapse"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    width: Expr
    streams: Expr
    rounds: Expr = 0
    scales: Expr = 0

    def cost(self) -> Cost:
        """Root mean square, sum and mixing coefficients; streams read, sum written."""
        elements = self.tokens * self.streams * self.width
        return Cost(
            vector_flops=4 * elements + 4 * self.tokens * self.rounds * self.streams * self.streams,
            weight_bytes=self.scales * self.dtypes.weight.bytes,
            activation_bytes=(elements + self.tokens * self.width) * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Learned scales, one for each kind of coefficient, in elements."""
        return self.scales


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperExpand(Operator):
    """Hyper-connections, the way out: a block's output is added to residual streams that are mixed among themselves.

    New streams of a token: a streams x streams matrix times the old ones, plus the block's output times a weight each.

    The mixing is a product of streams x streams by streams x width: 2 streams^2 width matrix FLOP per token. The output's
    share is a multiply and an add an element. The streams and the output are read once, the streams written once. Streams that
    are not `mixed` (independent hyper-connections, HY 4) stay what they are, but for the output's share.

    >>> HyperExpand(tokens=3, width=8, streams=4).cost()  # 3*2*16*8; 3*2*4*8; 2 B*3*(4*8 + 8 in, 4*8 out)
    Cost(matrix_flops=768, vector_flops=192, activation_bytes=432)
    >>> HyperExpand(tokens=3, width=8, streams=4, mixed=False).cost()
    Cost(vector_flops=192, activation_bytes=432)

    Source: Xie et al. 2025 (mHC), arXiv:2512.24880, eq. 3; not mixed: HY 4 in transformers and in vLLM.
    """

    kind: ClassVar[str] = "hyper_expand"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    width: Expr
    streams: Expr
    mixed: bool = True

    def cost(self) -> Cost:
        """Mixing (matrix FLOP) and addition (vector FLOP); streams in and out, the block's output in."""
        elements = self.tokens * self.streams * self.width
        return Cost(
            matrix_flops=2 * elements * self.streams if self.mixed else 0,
            vector_flops=2 * elements,
            activation_bytes=(2 * elements + self.tokens * self.width) * self.dtypes.activation.bytes,
        )
