"""Rotary position embedding of queries and keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope(Operator):
    """Rotate `heads` vectors per token by the angles of its position, `rotary_dim` elements of each.

    A pair of elements takes 4 multiplies and 2 adds: 3 FLOP per element. In place: the rotated elements are read and
    written once. NB: the cosines and sines of a position are one row for all heads and are left out.

    >>> Rope(tokens=2, heads=3, rotary_dim=8).cost()  # 3*48 FLOP; 2 B*(48 in + 48 out)
    Cost(vector_flops=144, activation_bytes=192)

    Source: Su et al. 2021, arXiv:2104.09864, eq. 34.
    """

    kind: ClassVar[str] = "rope"
    record_op: ClassVar[str] = "rope"
    tokens: Expr
    heads: Expr
    rotary_dim: Expr

    def cost(self) -> Cost:
        """3 FLOP per element; rotated elements read and written once."""
        elements = self.tokens * self.heads * self.rotary_dim
        return Cost(vector_flops=3 * elements, activation_bytes=2 * elements * self.dtypes.activation.bytes)
