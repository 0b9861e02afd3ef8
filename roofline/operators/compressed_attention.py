"""Attention over a sliding window and over compressed entries of everything before, one shared key and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.attention import Mask, keys_read, pairs, shared_prefix_in_window
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import entries, entries_read, entry_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention(Operator):
    """Fused attention of DeepSeek-V4: all heads attend to one vector a key, which is key and value at once.

    A query sees the tokens of its `window` and, with `ratio`, the entries that stand for `ratio` tokens each, of all tokens
    up to its own: at most `chosen` of them where an indexer chooses. Each key costs 2 head_dim FLOP for the score and 2 for
    the value in each head, and is read once from the cache, for both. With the full mask nothing is chosen: every query
    meets every key of the window that is read and every entry.

    Softmax as in `Attention`: 5 vector FLOP per pair and head, and one division per output. NB: a sink's term in a row and its
    two bytes per head are left out.

    >>> CompressedAttention(batch=1, new=1, cached=9, n_heads=2, head_dim=8, window=3, ratio=4).cost()
    ... # 3 tokens + floor(10/4) entries: 4*8*5 pairs*2 heads; 2 B*2 heads*(8 in + 8 out); 2 B*5 keys*8
    Cost(matrix_flops=320, vector_flops=66, activation_bytes=64, kv_read_bytes=80)

    Source: DeepSeek-V4 technical report, section 2.3.
    """

    kind: ClassVar[str] = "compressed_attention"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    head_dim: Expr
    window: Expr
    ratio: Expr | None = None
    chosen: Expr | None = None
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    mask: Mask = "causal"
    eager: bool = False
    sinks: bool = False

    def cost(self) -> Cost:
        """FLOP of the pairs that the mask allows; queries, outputs, and the keys and entries in sight once."""
        queries = self.batch * self.new * self.n_heads
        seen = pairs(self.new, self.cached, self.window, self.mask)
        row = keys = keys_read(self.new, self.cached, self.window)
        shared = shared_prefix_in_window(self.shared_prefix, self.cached, self.window)
        if self.ratio is not None:
            chosen = None if self.mask == "full" else self.chosen
            read = entries_read(self.new, self.cached, self.ratio, chosen)
            seen = seen + entry_pairs(self.new, self.cached, self.ratio, chosen, self.mask)
            keys = keys + read
            row = row + entries_read(1, self.cached + self.new - 1, self.ratio, chosen)
            if chosen is None:
                shared = shared + entries(shared_prefix_in_window(self.shared_prefix, self.cached, None), self.ratio)
        seen = self.batch * self.n_heads * seen
        stored = self.batch * (keys - shared) + self.prefix_reads * shared
        activations = 2 * queries * self.head_dim
        if self.eager:
            activations = activations + 4 * queries * row  # scores: written, read, written (softmax), read
        return Cost(
            matrix_flops=4 * seen * self.head_dim,
            vector_flops=5 * seen + queries * self.head_dim,
            activation_bytes=activations * self.dtypes.activation.bytes,
            kv_read_bytes=stored * self.head_dim * self.dtypes.kv.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Learned sinks, one per query head, where the model has them; else 0."""
        return self.n_heads if self.sinks else 0
