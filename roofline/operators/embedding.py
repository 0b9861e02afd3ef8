"""Embedding lookup: one row of a table per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Operator):
    """Gather `tokens` rows of `width` from a table of `entries` rows.

    No FLOP. The rows that are needed are read and written once, never the table. NB: two tokens with the same id read
    the row twice.

    >>> Embedding(tokens=3, width=8, entries=100).cost()  # 2 B*3*8 read from the table, as much written
    Cost(weight_bytes=48, activation_bytes=48)

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.
    """

    kind: ClassVar[str] = "embedding"
    record_op: ClassVar[str] = "embedding"
    tokens: Expr
    width: Expr
    entries: Expr

    def cost(self) -> Cost:
        """The tokens' rows, read from the table and written as activations; no FLOP."""
        rows = self.tokens * self.width
        return Cost(
            weight_bytes=rows * self.dtypes.weight.bytes + self.tokens * self.metadata_bytes,
            activation_bytes=rows * self.dtypes.activation.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Elements of the whole table."""
        return self.entries * self.width

    @property
    def held_bytes(self) -> Expr:
        """Bytes of the whole table with its scales."""
        return self.parameters * self.dtypes.weight.bytes + self.dtypes.weight.metadata_bytes(((self.entries, self.width),))

    @property
    def metadata_bytes(self) -> Expr:
        """Bytes of the scales of one row."""
        return self.dtypes.weight.metadata_bytes(((1, self.width),))
