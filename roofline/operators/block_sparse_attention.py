"""Grouped-query attention to blocks of keys that an indexer chose, one choice for each KV head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.attention import Mask, shared_prefix_in_window
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import block_keys_read, block_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSparseAttention(Operator):
    """Fused attention in which each query sees the keys of at most `chosen_blocks` of `block` tokens each, its own among them.

    After v tokens, its own included, a query sees all of them while they are no more than `chosen_blocks`; then all but one of
    these as whole blocks, and what there is of its own. A pair costs 4 head_dim matrix FLOP in each query head. The query heads
    of one KV head share a choice; chosen keys and values are read once for them. With the full mask each query meets each key.
    NB: queries of one prompt are taken to choose different blocks, until all are chosen; a prefix that sequences share is read
    for each of them, unless all is read.

    Softmax as in `Attention`: 5 vector FLOP per pair and head, and one division per output.

    >>> BlockSparseAttention(batch=1, new=1, cached=9, n_heads=4, n_kv_heads=2, head_dim=8, block=4, chosen_blocks=2).cost()
    ... # 10 tokens: a whole block and 2 of the third, 6 keys: 4*8*6*4 heads; 2 B*2*8*4 heads; 2 B*6 keys*2 heads*2*8
    Cost(matrix_flops=768, vector_flops=152, activation_bytes=128, kv_read_bytes=384)

    Source: MiniMax-M3 in transformers (`MiniMaxM3VLIndexer`) and in vLLM (`minimax_m3`).
    """

    kind: ClassVar[str] = "block_sparse_attention"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    n_kv_heads: Expr
    head_dim: Expr
    block: Expr
    chosen_blocks: Expr
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    mask: Mask = "causal"
    eager: bool = False

    def cost(self) -> Cost:
        """FLOP of the pairs that are seen; queries, outputs, and the keys and values of chosen blocks once."""
        whole = self.mask == "full"
        queries = self.batch * self.new * self.n_heads
        seen = self.batch * self.n_heads * block_pairs(self.new, self.cached, self.block, self.chosen_blocks, self.mask)
        keys = self.cached + self.new if whole else block_keys_read(self.new, self.cached, self.block, self.chosen_blocks)
        shared = shared_prefix_in_window(self.shared_prefix, self.cached, None) if whole else 0
        stored = self.batch * (keys - shared) + self.prefix_reads * shared
        activations = 2 * queries * self.head_dim
        if self.eager:
            last = self.cached + self.new - 1
            row = last + 1 if whole else block_keys_read(1, last, self.block, self.chosen_blocks)
            activations = activations + 4 * queries * row  # scores: written, read, written (softmax), read
        return Cost(
            matrix_flops=4 * seen * self.head_dim,
            vector_flops=5 * seen + queries * self.head_dim,
            activation_bytes=activations * self.dtypes.activation.bytes,
            kv_read_bytes=2 * stored * self.n_kv_heads * self.head_dim * self.dtypes.kv.bytes,
        )
