"""Choosing from scores: the next token from the logits, or a token's experts from the router's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Operator):
    """Softmax over `rows` vectors of `choices` scores, and a draw (or a top-k) from each.

    6 vector FLOP per score: maximum, subtract, exponential, sum, divide, compare. The scores are read once; the chosen
    indices are too few bytes to count.

    >>> Sampling(rows=2, choices=100).cost()  # 6*200 FLOP; 2 B*200
    Cost(vector_flops=1200, activation_bytes=400)

    Source: Holtzman et al. 2019, arXiv:1904.09751, section 4.2 (temperature, a special case of which is the arg max).
    """

    kind: ClassVar[str] = "sampling"
    record_op: ClassVar[str] = "sampling"
    rows: Expr
    choices: Expr

    def cost(self) -> Cost:
        """6 FLOP per score; the scores read once."""
        scores = self.rows * self.choices
        return Cost(vector_flops=6 * scores, activation_bytes=scores * self.dtypes.activation.bytes)
