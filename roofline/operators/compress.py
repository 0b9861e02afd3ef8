"""Compression of the KV cache: several tokens become one entry, a learned weighted mean of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr, minimum
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress(Operator):
    """Make an entry of `width` of every `ratio` tokens, where a step completes them.

    Each token brings values and gates of `width` elements. An entry is the sum of its tokens' values, weighted by the softmax
    over the tokens of gate + position bias, element by element. With `overlap` a token brings twice as much: an entry takes
    one half from its own tokens and the other from those of the entry before, so that each element is still read once.

    8 vector FLOP per element: bias, softmax (scale left out, 5 with the division), multiply, add. Values and gates of the
    tokens that an entry stands for are read once and the entry is written once, as an activation that is normalised and
    rotated before it is kept. Tokens whose entry is not complete cost nothing here. NB: the first entry of a sequence has no
    tokens before it and reads less than is counted.

    >>> Compress(batch=1, new=6, cached=3, ratio=4, width=8).cost()
    ... # tokens 4 and 8 complete 2 entries: 8*2*4*8; bias 2 B*4*8; 2 B*(2*2*4*8 in + 2*8 out)
    Cost(vector_flops=512, weight_bytes=64, activation_bytes=288)

    Source: DeepSeek-V4 technical report, section 2.3 (eq. 9 to 12 and 20 to 23).
    """

    kind: ClassVar[str] = "compress"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    ratio: Expr
    width: Expr
    overlap: bool = False
    held: bool = True
    """Whether the position bias is counted as held here (not by another segment of the same step)."""

    @property
    def made(self) -> Expr:
        """Entries that the step completes, over all sequences."""
        return self.batch * (entries(self.cached + self.new, self.ratio) - entries(self.cached, self.ratio))

    def cost(self) -> Cost:
        """A softmax and a weighted sum over the tokens of each entry (8 FLOP per element); values, gates and entries once."""
        elements = self.made * self._group()
        return Cost(
            vector_flops=8 * elements,
            weight_bytes=self._group() * minimum(self.made, 1) * self.dtypes.weight.bytes,
            activation_bytes=(2 * elements + self.made * self.width) * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """A position bias for each element that the tokens of one entry bring; 0 where another segment's operator holds it."""
        return self._group() if self.held else 0

    def _group(self) -> Expr:
        """Elements that the tokens of one entry bring."""
        return self.ratio * self.width * (2 if self.overlap else 1)
