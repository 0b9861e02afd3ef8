"""Grouped-query attention to blocks of keys (MiniMax-M3): an indexer scores keys, and each KV head sees what it chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, Cache, Operators, Weight, per_segment
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.numeric import minimum
from roofline.operators.attention import Attention
from roofline.operators.block_scores import BlockScores
from roofline.operators.block_sparse_attention import BlockSparseAttention
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.operators.top_k import TopK
from roofline.specs.base import Whole


class BlockSparseGroupedQueryAttention(GroupedQueryAttention):
    """The keys of `gqa`, and those of an indexer that has a head for each KV head and one key per token for all of them.

    The indexer's queries and its key are further columns of the fused projection, as engines store it; both are normalised and
    rotated as those of attention are. The key is cached beside keys and values. Tensor-parallel devices divide the indexer's
    heads as the KV heads, and each holds all of its keys. NB: engines may keep these in another dtype than the KV cache.

    Source: MiniMax-M3 in transformers and in vLLM.
    """

    kind: Literal["block_sparse_gqa"]  # type: ignore[assignment]
    index_head_dim: Whole = Field(ge=1, description="width of an indexer's head, and of its cached key")
    index_block_size: Whole = Field(ge=1, description="tokens of a block of keys")
    index_topk_blocks: Whole = Field(ge=1, description="blocks that a query attends to, at most, its own among them")

    @model_validator(mode="after")
    def _plain(self) -> BlockSparseGroupedQueryAttention:
        known = {"kind", "num_attention_heads", "num_key_value_heads", "head_dim", "qk_norm", "rotary_dim"}
        known |= {name for name in type(self).model_fields if name.startswith("index_")}
        if other := sorted(name for name in self.model_fields_set - known if getattr(self, name)):
            msg = f"{other[0]} is not known beside blocks of keys that an indexer chooses: leave it out"
            raise ValueError(msg)
        return self

    def operators(self, site: BlockContext) -> Operators:
        """Those of attention, with the indexer's columns in the projection, its choice, and attention to what it chose."""
        operators: Operators = {}
        segments = {"core" + suffix: (reads, segment) for suffix, reads, segment in per_segment(site)}
        for name, operator in super().operators(site).items():
            if isinstance(operator, Attention):
                _, segment = segments[name]
                operators[name] = BlockSparseAttention(
                    batch=segment.count,
                    new=segment.new,
                    cached=segment.cached,
                    n_heads=self.num_attention_heads,
                    n_kv_heads=self.num_key_value_heads,
                    head_dim=self.head_dim,
                    block=self.index_block_size,
                    chosen_blocks=self.index_topk_blocks,
                    shared_prefix=site.conventions.shared_prefix,
                    prefix_reads=segments[name][0],
                    mask=site.conventions.mask,
                    eager=site.conventions.attention == "eager",
                    dtypes=operator.dtypes,
                )
            elif name == "qkv_proj" and isinstance(operator, Gemm):
                queries, key = self.num_key_value_heads * self.index_head_dim, self.index_head_dim
                stored = (*operator.stored, (queries, site.hidden_size), (key, site.hidden_size))
                operators[name] = replace(operator, n=operator.n + queries + key, stored=stored)
            else:
                operators[name] = operator
            if name == "kv_write":
                operators |= self._indexer(site)
        return operators

    def _indexer(self, site: BlockContext) -> Operators:
        """Norms and rotation of its queries and key, the key into the cache, scores of blocks and their choice."""
        n, width, vector = self.num_key_value_heads, self.index_head_dim, site.precision.dtypes("norm")
        operators: Operators = {}
        if self.qk_norm == "head":
            operators["indexer/q_norm"] = Norm(rows=site.tokens * n, width=width, dtypes=vector)
            operators["indexer/k_norm"] = Norm(rows=site.tokens, width=width, dtypes=vector)
        if self.rotary_dim != 0:
            rotated = minimum(self.head_dim if self.rotary_dim is None else self.rotary_dim, self.index_head_dim)
            operators["indexer/rope"] = Rope(tokens=site.tokens, heads=n + 1, rotary_dim=rotated, dtypes=vector)
        operators["indexer/k_write"] = Copy(elements=site.tokens * width, write="cache", dtypes=vector)
        for suffix, reads, segment in per_segment(site):
            scores = BlockScores(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=n,
                head_dim=width,
                block=self.index_block_size,
                shared_prefix=site.conventions.shared_prefix,
                prefix_reads=reads,
                mask=site.conventions.mask,
                dtypes=vector,
            )
            operators["indexer/scores" + suffix] = scores
            operators["indexer/top_k" + suffix] = TopK(scores=scores.scores, dtypes=vector)
        return operators

    def cache(self) -> Cache:
        """A key and a value for each KV head, and the indexer's key."""
        return Cache(2 * self.num_key_value_heads * self.head_dim + self.index_head_dim)

    @property
    def selected(self) -> tuple[int, str] | None:
        """At most the keys of the chosen blocks."""
        return self.index_topk_blocks * self.index_block_size, "keys"

    def describe(self) -> str:
        """Attention as there, and the blocks."""
        return f"{super().describe()}, in {self.index_topk_blocks} blocks of {self.index_block_size} keys"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        yield from super().checkpoint_weights(hidden)
        width = self.index_head_dim
        yield Weight("indexer.q", (self.num_key_value_heads * width, hidden), "attention/qkv_proj")
        yield Weight("indexer.k", (width, hidden), "attention/qkv_proj")
        if self.qk_norm == "head":
            yield Weight("indexer.q_norm", (width,))
            yield Weight("indexer.k_norm", (width,))
