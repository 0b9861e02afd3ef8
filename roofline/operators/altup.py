"""AltUp, which keeps several copies of the residual stream, of which a layer works on one: the way in, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class AltUpPredict(Operator):
    """AltUp, the way into a layer: each of the copies is predicted from all of them.

    Predictions of a token: a streams x streams matrix, which a small projection gave, times the copies, plus the copies.

    The product is of streams x streams by streams x width: 2 streams^2 width matrix FLOP per token. The sum is one vector FLOP
    an element. The copies are read once, the predictions written once. NB: bytes of the coefficients are left out.

    >>> AltUpPredict(tokens=3, width=8, streams=4).cost()  # 3*2*16*8; 3*4*8; 2 B*3*(4*8 in + 4*8 out)
    Cost(matrix_flops=768, vector_flops=96, activation_bytes=384)

    Source: Baykal et al. 2023, arXiv:2301.13310, algorithm 1 (predict), with Gemma 3n's coefficients, made for each token.
    """

    kind: ClassVar[str] = "altup_predict"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    width: Expr
    streams: Expr

    def cost(self) -> Cost:
        """Mixing (matrix FLOP) and addition (vector FLOP); copies in, predictions out."""
        elements = self.tokens * self.streams * self.width
        return Cost(
            matrix_flops=2 * elements * self.streams,
            vector_flops=elements,
            activation_bytes=2 * elements * self.dtypes.activation.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AltUpCorrect(Operator):
    """AltUp, the way out of a layer: each prediction is corrected by what the layer made of the one that it worked on.

    Corrected copy of a token: the prediction plus a coefficient times the difference between the layer's output and the
    prediction that was its input. The copy that the layer worked on leaves a second time, times a learned scale an element.

    Vector FLOP per token and element of the width: the difference, a multiply and an add for each copy, and the scale. The
    layer's output and the predictions are read, the copies and the scaled one written. NB: bytes of the coefficients are
    left out.

    >>> AltUpCorrect(tokens=3, width=8, streams=4).cost()  # 3*8*(1 + 2*4 + 1); 2 B*8; 2 B*3*8*(1 + 4 in, 4 + 1 out)
    Cost(vector_flops=240, weight_bytes=16, activation_bytes=480)

    Source: Baykal et al. 2023, arXiv:2301.13310, algorithm 1 (correct), with Gemma 3n's coefficients and scale.
    """

    kind: ClassVar[str] = "altup_correct"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    width: Expr
    streams: Expr

    def cost(self) -> Cost:
        """Difference, corrections and scale; output and predictions in, copies and the scaled one out."""
        elements = self.tokens * self.width
        return Cost(
            vector_flops=elements * (2 + 2 * self.streams),
            weight_bytes=self.width * self.dtypes.weight.bytes,
            activation_bytes=elements * (2 + 2 * self.streams) * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """The scale of each element."""
        return self.width
