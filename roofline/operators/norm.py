"""RMSNorm and LayerNorm, with the addition of the residual stream fused in front."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm(Operator):
    """Normalise `rows` vectors of `width`, after adding `adds` tensors to the residual stream.

    RMSNorm is 4 FLOP per element: square, accumulate, scale by the reciprocal root, multiply by the weight (a square
    root and a division a row are left out). LayerNorm is 7: accumulate the mean, subtract, square, accumulate, scale,
    weight, bias. Without a weight both are one less. Each addition is one more. Bytes: the input is read and the output
    written once; a fused addition reads each added tensor and writes the sum, which is the new residual stream. A `gated`
    norm multiplies by a non-linearity of a second tensor, before or after: it reads that too, and does 5 more an element
    (4 as in `Activation`, and the product).

    The intensity of RMSNorm is therefore 4 FLOP / (2 + 2) B = 1 FLOP/byte at two bytes per element, less with the
    addition; it does not depend on the number of tokens.

    >>> Norm(rows=2, width=8).cost()  # 4*16 FLOP; 2 B*8 weights; 2 B*(16 in + 16 out)
    Cost(vector_flops=64, weight_bytes=16, activation_bytes=64)
    >>> Norm(rows=2, width=8, adds=1).cost()  # 5*16 FLOP; reads two, writes the sum and the result: 2 B*4*16
    Cost(vector_flops=80, weight_bytes=16, activation_bytes=128)
    >>> Norm(rows=2, width=8, gated=True).cost()  # (4 + 5)*16 FLOP; two in, one out: 2 B*3*16
    Cost(vector_flops=144, weight_bytes=16, activation_bytes=96)

    Sources: Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4; Ba et al. 2016, arXiv:1607.06450, eq. 3 and 4; gated: Dao and Gu
    2024 (Mamba-2), arXiv:2405.21060, section 7.1.
    """

    kind: ClassVar[str] = "norm"
    record_op: ClassVar[str] = "rmsnorm"
    rows: Expr
    width: Expr
    adds: int = 0
    function: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    bias: bool = False
    weight: bool = True
    """Whether there is a weight at all (an L2 norm of queries and keys has none)."""
    gated: bool = False
    borrowed: bool = False
    """The weights are another operator's: read here, held there."""
    # Vectors that share one weight (the heads of a qk-norm) are rows; weights of their own (a norm over all heads) are width.

    def cost(self) -> Cost:
        """4 (RMSNorm) or 7 (LayerNorm) FLOP per element and one per addition; input, added tensors and outputs once."""
        elements = self.rows * self.width
        tensors = (2 if self.adds == 0 else 3 + self.adds) + (1 if self.gated else 0)
        each = (4 if self.function == "rmsnorm" else 7) - (0 if self.weight else 1) + (5 if self.gated else 0)
        return Cost(
            vector_flops=elements * (each + self.adds),
            weight_bytes=self._weights() * self.dtypes.weight.bytes,
            activation_bytes=tensors * elements * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """One weight per element of the width, and one bias, where the norm has them; 0 if they are borrowed."""
        return 0 if self.borrowed else self._weights()

    def borrowing(self) -> Operator:
        """The operator with weights that another one holds: read here, held there."""
        return replace(self, borrowed=True) if self.weight or self.bias else self

    def _weights(self) -> Expr:
        return self.width * (self.weight + self.bias)
