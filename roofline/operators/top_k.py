"""Choosing the keys with the highest scores, for sparse attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Operator):
    """Find the largest of each row of scores, `scores` in all rows together (rows of a causal mask differ in length).

    1 vector FLOP per score: no selection can do with less than one comparison each. The scores are read once. NB: kernels
    select by radix in a few passes over scores on chip; the indices that are written are too few bytes to count.

    >>> TopK(scores=200).cost()  # a comparison each; 2 B*200
    Cost(vector_flops=200, activation_bytes=400)

    Source: DeepSeek-V3.2, arXiv:2512.02556, section 2.1, eq. 2.
    """

    kind: ClassVar[str] = "top_k"
    scores: Expr

    def cost(self) -> Cost:
        """One comparison per score; the scores read once."""
        return Cost(vector_flops=self.scores, activation_bytes=self.scores * self.dtypes.activation.bytes)
