"""Compressed attention (DeepSeek-V4): a sliding window of tokens, and entries that stand for several tokens each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, Cache, MixerBlock, Operators, Sharding, Weight, indexer_operators, per_segment
from roofline.numeric import Expr, ratio
from roofline.operators.compress import Compress
from roofline.operators.compressed_attention import CompressedAttention
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole


class CompressedAttentionBlock(MixerBlock):
    """Multi-query attention over one vector a key that is key and value at once; low-rank queries and outputs.

    Every layer sees the last `sliding_window` tokens. With `compress_ratio` it also sees one entry for each whole group of
    that many tokens: with an indexer (CSA) the groups overlap, each token brings two halves, and a query attends to the
    `index_topk` entries that score highest; without one (HCA) it attends to all entries. The indexer scores entries of its
    own, compressed likewise. The output is rotated back, because values were rotated as keys.

    The caches have no heads to divide: every tensor-parallel device holds all of them, and compresses and scores all.
    NB: a group that is not complete waits outside of the cache, as values and gates of at most compress_ratio tokens a
    sequence (twice that where groups overlap); they are written by the projection and read by `compress`, and their bytes
    are not among those of the cache.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact", "o_groups": "exact"}
    cache_replicated: ClassVar[bool] = True

    kind: Literal["csa"]
    num_attention_heads: Whole = Field(ge=1)
    head_dim: Whole = Field(ge=1, description="of queries, and of the one vector that is key and value")
    q_lora_rank: Whole = Field(ge=1, description="rank of the compressed queries")
    qk_rope_head_dim: Whole = Field(ge=0, description="rotated elements of a head")
    o_groups: Whole = Field(ge=1, description="groups of heads, each with an output projection of its own")
    o_lora_rank: Whole = Field(ge=1, description="rank of a group's output")
    sliding_window: Whole = Field(ge=1, description="tokens that a query sees uncompressed, itself included")
    compress_ratio: Whole = Field(default=0, ge=0, description="tokens that an entry stands for; 0: nothing is compressed")
    index_n_heads: Whole | None = Field(default=None, ge=1, description="heads of the indexer; none: all entries are seen")
    index_head_dim: Whole | None = Field(default=None, ge=1, description="width of an indexer's head, and of its entries")
    index_topk: Whole | None = Field(default=None, ge=1, description="entries that a query attends to, at most")
    sinks: bool = Field(default=False, description="one learned attention sink per query head")

    @model_validator(mode="after")
    def _consistent(self) -> CompressedAttentionBlock:
        given = [getattr(self, key) is not None for key in ("index_n_heads", "index_head_dim", "index_topk")]
        if any(given) and not (all(given) and self.compress_ratio):
            msg = "an indexer has index_n_heads, index_head_dim and index_topk, and needs a compress_ratio"
            raise ValueError(msg)
        if self.num_attention_heads % self.o_groups:
            msg = f"o_groups ({self.o_groups}) must divide num_attention_heads ({self.num_attention_heads})"
            raise ValueError(msg)
        if self.qk_rope_head_dim > min(self.head_dim, self.index_head_dim or self.head_dim):
            msg = f"qk_rope_head_dim ({self.qk_rope_head_dim}) is more than head_dim or index_head_dim"
            raise ValueError(msg)
        return self

    def operators(self, site: BlockContext) -> Operators:
        """Projections, the new key into the cache, entries, choice, attention, the two steps of the output projection."""
        n, d, tokens = self.num_attention_heads, self.head_dim, site.tokens
        down, up, vector = (site.precision.dtypes(role) for role in ("attention/a_proj", "attention/q_b_proj", "norm"))
        rotated, group = self.qk_rope_head_dim, ratio(n, self.o_groups)
        operators: Operators = {
            "qkv_a_proj": Gemm(
                m=tokens,
                n=self.q_lora_rank + d,
                k=site.hidden_size,
                stored=((self.q_lora_rank, site.hidden_size), (d, site.hidden_size)),
                dtypes=down,
            ),
            "q_a_norm": Norm(rows=tokens, width=self.q_lora_rank, dtypes=vector),
            "q_b_proj": Gemm(m=tokens, n=n * d, k=self.q_lora_rank, dtypes=up),
            "q_b_norm": Norm(rows=tokens * n, width=d, weight=False, dtypes=vector),
            "kv_norm": Norm(rows=tokens, width=d, dtypes=vector),
            "rope": Rope(tokens=tokens, heads=n + 1, rotary_dim=rotated, dtypes=vector),
            "kv_write": Copy(elements=tokens * d, write="cache", dtypes=vector),
        }
        if self.compress_ratio != 0:
            operators |= self._entries(site, "compressor", d)
        if self.index_n_heads is not None:
            operators |= self._indexer(site)
        operators |= self._cores(site)
        operators["rope_back"] = Rope(tokens=tokens, heads=n, rotary_dim=rotated, dtypes=vector)
        out, joint = site.precision.dtypes("attention/o_proj"), self.o_groups * self.o_lora_rank
        whole = ((joint, group * d),)  # the groups' matrices are one tensor
        operators["o_a_proj"] = Gemm(batch=self.o_groups, m=tokens, n=self.o_lora_rank, k=group * d, stored=whole, dtypes=out)
        operators["o_b_proj"] = Gemm(m=tokens, n=site.hidden_size, k=joint, dtypes=out)
        return operators

    def _entries(self, site: BlockContext, path: str, width: Expr) -> Operators:
        """Values and gates of the new tokens, and the entries of `width` that they complete, into the cache."""
        vector = site.precision.dtypes("norm")
        overlap = self.index_n_heads is not None
        # published checkpoints leave these projections unquantised
        gated = Gemm(m=site.tokens, n=(4 if overlap else 2) * width, k=site.hidden_size, dtypes=site.precision.dtypes("router"))
        operators: Operators = {f"{path}/kv_gate_proj": gated}
        made: Expr = 0
        for suffix, _, segment in per_segment(site):
            compress = Compress(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                ratio=self.compress_ratio,
                width=width,
                overlap=overlap,
                held=segment is site.step[0],
                dtypes=vector,
            )
            operators[f"{path}/compress{suffix}"] = compress
            made = made + compress.made
        operators[f"{path}/norm"] = Norm(rows=made, width=width, dtypes=vector)
        operators[f"{path}/rope"] = Rope(tokens=made, heads=1, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        operators[f"{path}/write"] = Copy(elements=made * width, write="cache", dtypes=vector)
        return operators

    def _indexer(self, site: BlockContext) -> Operators:
        """Entries of the indexer's own, its queries and weights of heads, scores and choice."""
        n: Expr = self.index_n_heads
        d: Expr = self.index_head_dim
        tokens = site.tokens
        chooser, vector = site.precision.dtypes("attention/indexer"), site.precision.dtypes("norm")
        operators = self._entries(site, "indexer/compressor", d)
        operators["indexer/q_b_proj"] = Gemm(m=tokens, n=n * d, k=self.q_lora_rank, dtypes=chooser)
        operators["indexer/weights_proj"] = Gemm(m=tokens, n=n, k=site.hidden_size, dtypes=site.precision.dtypes("router"))
        operators["indexer/rope"] = Rope(tokens=tokens, heads=n, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        return operators | indexer_operators(site, n, d, ratio=self.compress_ratio, head_sum="vector")

    def _cores(self, site: BlockContext) -> Operators:
        """Attention of each segment."""
        choices = site.conventions
        return {
            "core" + suffix: CompressedAttention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=self.num_attention_heads,
                head_dim=self.head_dim,
                window=self.sliding_window,
                ratio=None if self.compress_ratio == 0 else self.compress_ratio,
                chosen=self.index_topk,
                shared_prefix=choices.shared_prefix,
                prefix_reads=reads,
                mask=choices.mask,
                eager=choices.attention == "eager",
                sinks=self.sinks and segment is site.step[0],
                dtypes=site.precision.dtypes("norm"),
            )
            for suffix, reads, segment in per_segment(site, self.sliding_window if self.compress_ratio == 0 else None)
        }

    def cache(self) -> Cache:
        """The tokens of the window."""
        return Cache(self.head_dim, self.sliding_window)

    def caches(self) -> tuple[Cache, ...]:
        """The tokens of the window; an entry for each whole group of tokens, and the indexer's."""
        if self.compress_ratio == 0:
            return (self.cache(),)
        return self.cache(), Cache(self.head_dim + (self.index_head_dim or 0), ratio=self.compress_ratio)

    @property
    def selected(self) -> tuple[int, str] | None:
        """At most `index_topk` entries."""
        return None if self.index_topk is None else (self.index_topk, "entries")

    def describe(self) -> str:
        """Its kind and heads."""
        return f"{self.kind.upper()}, {self.num_attention_heads} heads"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        n, d, rank = self.num_attention_heads, self.head_dim, self.q_lora_rank
        joint = self.o_groups * self.o_lora_rank
        yield Weight("csa.q_a", (rank, hidden), "attention/a_proj")
        yield Weight("csa.q_a_norm", (rank,))
        yield Weight("csa.q_b", (n * d, rank), "attention/q_b_proj")
        yield Weight("csa.kv", (d, hidden), "attention/a_proj")
        yield Weight("csa.kv_norm", (d,))
        if self.sinks:
            yield Weight("csa.sinks", (n,))
        yield Weight("csa.o_a", (joint, n // self.o_groups * d), "attention/o_proj")
        yield Weight("csa.o_b", (hidden, joint), "attention/o_proj")
        overlap = 2 if self.index_n_heads is not None else 1
        if self.compress_ratio:
            yield from _compressor("compressor", d, overlap, self.compress_ratio, hidden)
        if self.index_n_heads is not None:
            d_index: Expr = self.index_head_dim
            yield from _compressor("indexer.compressor", d_index, overlap, self.compress_ratio, hidden)
            yield Weight("csa.indexer.q_b", (self.index_n_heads * d_index, rank), "attention/indexer")
            yield Weight("csa.indexer.weights", (self.index_n_heads, hidden), "router")


def _compressor(path: str, width: int, overlap: int, ratio: int, hidden: int) -> Iterator[Weight]:
    for name in ("kv", "gate"):
        yield Weight(f"csa.{path}.{name}", (overlap * width, hidden), "router")
    yield Weight(f"csa.{path}.positions", (ratio, overlap * width))
    yield Weight(f"csa.{path}.norm", (width,))
