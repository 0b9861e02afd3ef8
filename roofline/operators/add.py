"""Element-wise addition of tensors: a residual connection that no norm follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Operator):
    """Sum of `terms` tensors of `elements`: terms - 1 FLOP per element, each term read and the sum written once.

    >>> Add(elements=16).cost()  # 16 additions; 2 B*(2 in + 1 out)*16
    Cost(vector_flops=16, activation_bytes=96)

    Source: He et al. 2016, arXiv:1512.03385, eq. 1 (the residual connection).
    """

    kind: ClassVar[str] = "add"
    record_op: ClassVar[str] = "add"
    elements: Expr
    terms: int = 2

    def cost(self) -> Cost:
        """`terms` - 1 FLOP per element; all terms read and the sum written once."""
        return Cost(
            vector_flops=(self.terms - 1) * self.elements,
            activation_bytes=(self.terms + 1) * self.elements * self.dtypes.activation.bytes,
        )
