"""The weighted sum of what a token's experts returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Combine(Operator):
    """Sum of `terms` vectors of `width` for each of `tokens`, each scaled by its gate.

    A multiply and an add an element of each term: 2 vector FLOP. Every term is read once, the sum written once. `scales`
    learned numbers, one per expert, multiply the gates: too few FLOP and bytes to count but for the weights.

    >>> Combine(tokens=3, width=8, terms=2).cost()  # 2*48 FLOP; 2 B*(48 in + 24 out)
    Cost(vector_flops=96, activation_bytes=144)

    Source: Mixtral of Experts, arXiv:2401.04088, section 2.1.
    """

    kind: ClassVar[str] = "combine"
    tokens: Expr
    width: Expr
    terms: Expr
    scales: Expr = 0

    def cost(self) -> Cost:
        """2 FLOP per element of each term; terms read and sum written once."""
        elements = self.tokens * self.width
        return Cost(
            vector_flops=2 * elements * self.terms,
            weight_bytes=self.scales * self.dtypes.weight.bytes,
            activation_bytes=elements * (self.terms + 1) * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Learned scales of the gates, one per expert, where the model has them (Gemma 4)."""
        return self.scales
