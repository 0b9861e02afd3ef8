"""The lightning indexer of sparse attention: it scores every key for every query, and keeps the best."""

from __future__ import annotations

from typing import Literal

from roofline.blocks.base import Operators, Site, per_segment
from roofline.numeric import Expr
from roofline.operators.index_scores import IndexScores
from roofline.operators.top_k import TopK


def chosen(
    site: Site, n_heads: Expr, head_dim: Expr, *, ratio: Expr | None = None, head_sum: Literal["matrix", "vector"] = "matrix"
) -> Operators:
    """Scores of the keys, or of entries that stand for `ratio` tokens, and the choice, for each segment."""
    vector, found = site.precision.dtypes("norm"), Operators()
    for suffix, reads, segment in per_segment(site):
        scores = IndexScores(
            batch=segment.count,
            new=segment.new,
            cached=segment.cached,
            n_heads=n_heads,
            head_dim=head_dim,
            ratio=ratio,
            shared_prefix=site.conventions.shared_prefix,
            prefix_reads=reads,
            mask=site.conventions.mask,
            head_sum=head_sum,
            dtypes=vector,
        )
        found["indexer/scores" + suffix] = scores
        found["indexer/top_k" + suffix] = TopK(scores=scores.scores, dtypes=vector)
    return found
