"""Partial outputs of attention weighted, so that their sum over devices is the softmax over all keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.dtypes import FP32
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale(Operator):
    """Multiply each of `rows` vectors of `width`, the outputs of attention to a part of the keys, by that part's share of
    the softmax: exp(l_i) / sum_j exp(l_j), where l_j is the logarithm of the sum of exponentials of part j of `parts`.

    Softmax over the parts: 5 vector FLOP each, as in `Attention`; one product per element. The vectors are read and written,
    the logarithms (fp32) are read.

    >>> Rescale(rows=2, width=8, parts=4).cost()  # 5*2*4 + 2*8; 2 B*(16 in + 16 out) + 4 B*8
    Cost(vector_flops=56, activation_bytes=96)

    Source: Dao et al. 2023 (parts of a split sequence are joined so), https://crfm.stanford.edu/2023/10/12/flashdecoding.html;
    Liu et al. 2023 (over devices), arXiv:2310.01889, section 3.
    """

    kind: ClassVar[str] = "rescale"
    rows: Expr
    width: Expr
    parts: Expr

    def cost(self) -> Cost:
        """A softmax over the parts, and one product per element; vectors in and out, logarithms (fp32) in."""
        elements = self.rows * self.width
        return Cost(
            vector_flops=5 * self.rows * self.parts + elements,
            activation_bytes=2 * elements * self.dtypes.activation.bytes + self.rows * self.parts * FP32.bytes,
        )
