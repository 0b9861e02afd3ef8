"""The lightning indexer's scores: how much each query wants each key, by a few narrow heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.attention import Mask, shared_prefix_in_window
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import entries, entry_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexScores(Operator):
    """Score every key that a query sees: I = sum over n_heads of w_h ReLU(q_h . k), one key of head_dim for all heads.

    A pair costs 2 head_dim matrix FLOP per head for the dot products. The weighted sum over heads is 2 per head more: a matrix
    product (weights times scores) where `head_sum` says so, else vector work. ReLU is 1 vector FLOP per pair and head. With
    `ratio` the keys are entries that stand for that many tokens each. Queries, weights of heads and the indexer's cache are
    read once; one score a pair is written, for the choice that follows. The first `shared_prefix` cached tokens are the same
    in all sequences and are read once.

    NB: engines keep these keys and multiply them in fp8; here they have the formats of the cache and of the activations.

    >>> IndexScores(batch=1, new=1, cached=3, n_heads=2, head_dim=8).cost()
    ... # 2*(8+1)*4 pairs*2 heads; 4*2 ReLU; 2 B*(2 heads*(8 + a weight) + 4 scores); 2 B*4 keys*8
    Cost(matrix_flops=144, vector_flops=8, activation_bytes=44, kv_read_bytes=64)

    Source: DeepSeek-V3.2, arXiv:2512.02556, section 2.1, eq. 1; entries: DeepSeek-V4 technical report, section 2.3.1.
    """

    kind: ClassVar[str] = "index_scores"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    head_dim: Expr
    ratio: Expr | None = None
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    mask: Mask = "causal"
    head_sum: Literal["matrix", "vector"] = "matrix"

    @property
    def scores(self) -> Expr:
        """The number of scores written: one for each key that each query sees, over all sequences."""
        return self.batch * entry_pairs(self.new, self.cached, self.ratio, None, self.mask)

    def cost(self) -> Cost:
        """Dot products of every pair in every head; queries and keys read once; scores written."""
        in_heads = self.scores * self.n_heads
        matrix, vector = (self.head_dim + 1, 1) if self.head_sum == "matrix" else (self.head_dim, 3)
        shared = entries(shared_prefix_in_window(self.shared_prefix, self.cached, None), self.ratio)
        keys = self.batch * (entries(self.cached + self.new, self.ratio) - shared) + self.prefix_reads * shared
        queries = self.batch * self.new * self.n_heads * (self.head_dim + 1)
        return Cost(
            matrix_flops=2 * in_heads * matrix,
            vector_flops=in_heads * vector,
            activation_bytes=(queries + self.scores) * self.dtypes.activation.bytes,
            kv_read_bytes=keys * self.head_dim * self.dtypes.kv.bytes,
        )
