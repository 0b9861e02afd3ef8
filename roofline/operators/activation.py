"""The non-linearity of a feed-forward block: plain (GELU, SiLU, ReLU) or gated (SwiGLU, GeGLU)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation(Operator):
    """Apply a non-linearity to `rows` vectors of `width`; gated: the product with a second vector of the same width.

    SiLU is counted as 4 FLOP per element (negate, exponential, add, divide), and so is every other function in its
    place; the gate's product is a fifth. Inputs are read once (two of them when gated), the output is written once. A gate
    may be one number for `spread` elements of the second vector (for all elements of an attention head).
    A few functions have learned scalars (xIELU two: alpha_p and alpha_n).
    NB: engines fuse this with neither of the two matrix products around it.

    >>> Activation(rows=2, width=8, gated=True).cost()  # 5*16 FLOP; 2 B*(2*16 in + 16 out)
    Cost(vector_flops=80, activation_bytes=96)
    >>> Activation(rows=2, width=8, spread=4).cost()  # 4*16 + 64 FLOP; 2 B*(16 gates and 64 in + 64 out)
    Cost(vector_flops=128, activation_bytes=288)

    >>> Activation(rows=2, width=8, gated=False, learned=2).cost()  # 4*16 FLOP; 2 B*2 scalars; 2 B*(16 in + 16 out)
    Cost(vector_flops=64, weight_bytes=4, activation_bytes=64)

    Sources: Shazeer 2020, arXiv:2002.05202, eq. 5 and 6; Qiu et al. 2025 (gates a head), arXiv:2505.06708, section 2.2; learned
    scalars: Huang and Schlag 2024, arXiv:2411.13010, section 3.
    """

    kind: ClassVar[str] = "activation"
    record_op: ClassVar[str] = "silu_mul"
    rows: Expr
    width: Expr
    gated: bool = True
    spread: Expr = 1
    learned: int = 0
    borrowed: bool = False
    """The learned scalars are another operator's: read here, held there."""

    def cost(self) -> Cost:
        """4 FLOP per element, one more per gated element; inputs read and output written once."""
        elements = self.rows * self.width
        gated = elements * self.spread if self.gated else 0
        tensors = elements + 2 * gated if self.gated else 2 * elements
        return Cost(
            vector_flops=4 * elements + gated,
            weight_bytes=self.learned * self.dtypes.weight.bytes,
            activation_bytes=tensors * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Learned scalars of the function, in elements; 0 if they are borrowed."""
        return 0 if self.borrowed else self.learned

    def borrowing(self) -> Operator:
        """The operator with scalars that another one holds: read here, held there."""
        return replace(self, borrowed=True) if self.learned else self
