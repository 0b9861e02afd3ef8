"""Scores of blocks of keys: how much each query wants each block, in each head of an indexer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.attention import Mask, pairs, shared_prefix_in_window
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import blocks_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScores(Operator):
    """Score every key that a query sees in each of n_heads heads, and keep the largest score of each block of `block` keys.

    All heads share one key of head_dim per token. A pair costs 2 head_dim matrix FLOP per head, and one comparison. Queries and
    the indexer's cache are read once; one score for each query, head and block is written, for the choice that follows. The
    first `shared_prefix` cached tokens are the same in all sequences and are read once.

    >>> BlockScores(batch=1, new=1, cached=9, n_heads=2, head_dim=8, block=4).cost()
    ... # 2*8*10 pairs*2 heads; 10*2 comparisons; 2 B*2 heads*(8 + 3 blocks); 2 B*10 keys*8
    Cost(matrix_flops=320, vector_flops=20, activation_bytes=44, kv_read_bytes=160)

    Source: MiniMax-M3 in transformers (`MiniMaxM3VLIndexer`) and in vLLM (`minimax_m3`).
    """

    kind: ClassVar[str] = "block_scores"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    head_dim: Expr
    block: Expr
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    mask: Mask = "causal"

    @property
    def scores(self) -> Expr:
        """The number of scores written: one for each head and each block that each query sees, over all sequences."""
        return self.batch * self.n_heads * blocks_seen(self.new, self.cached, self.block)

    def cost(self) -> Cost:
        """Dot products and comparisons of every pair in every head; queries and keys read once; scores of blocks written."""
        in_heads = self.batch * self.n_heads * pairs(self.new, self.cached, None, self.mask)
        shared = shared_prefix_in_window(self.shared_prefix, self.cached, None)
        keys = self.batch * (self.cached + self.new - shared) + self.prefix_reads * shared
        queries = self.batch * self.new * self.n_heads * self.head_dim
        return Cost(
            matrix_flops=2 * in_heads * self.head_dim,
            vector_flops=in_heads,
            activation_bytes=(queries + self.scores) * self.dtypes.activation.bytes,
            kv_read_bytes=keys * self.head_dim * self.dtypes.kv.bytes,
        )
