"""Multi-head latent attention (DeepSeek-V2): keys and values of all heads are expanded from one cached latent; with an
indexer (DeepSeek-V3.2) each query attends to a few chosen ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import (
    BlockContext,
    Cache,
    MixerBlock,
    Operators,
    Sharding,
    Weight,
    indexer_operators,
    kv_all_gather,
    merge_partial_outputs,
    per_segment,
    query_all_gather,
)
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.attention import per_rank, shared_prefix_in_window
from roofline.operators.compress import Compress
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole
from roofline.specs.engine import CacheKind
from roofline.specs.workload import Segment


class LatentAttentionBlock(MixerBlock):
    """MLA. Prefill expands keys and values from the latents of all tokens it sees; decode absorbs the expansion into
    the queries (q W_UK) and the outputs (W_UV) and works on the latents themselves. The two are equal in result.

    The weights of `kv_b_proj` (expanded) and of `q_absorb` with `v_up` (absorbed) are the same parameters.
    The latent cache has no heads to divide: every tensor-parallel device holds all of it.

    With `index_topk` the attention is sparse (DSA): a query sees at most that many keys, those that an indexer scores
    highest. The indexer's own queries come from the compressed queries, its one key per token from the layer's input; the key
    is cached beside the latent. A layer that has `index_topk` but no indexer takes the choice of a layer before it. Sparse
    attention gathers latents, so it is always absorbed, prompts too; expanded, it is dense attention under a mask, as
    `--mask full` is in both forms. Devices of a tensor-parallel group each score all keys, as engines do.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact"}
    cache_replicated: ClassVar[bool] = True
    conventions: ClassVar[frozenset[str]] = frozenset({"mla"})

    kind: Literal["mla"]
    num_attention_heads: Whole = Field(ge=1)
    q_lora_rank: Whole | None = Field(default=None, ge=1, description="rank of the compressed queries; none: not compressed")
    kv_lora_rank: Whole = Field(ge=1)
    qk_nope_head_dim: Whole = Field(ge=1)
    qk_rope_head_dim: Whole = Field(ge=0, description="rotated elements; 0: none, and no key beside the latent")
    v_head_dim: Whole = Field(ge=1)
    use_rope: bool = Field(default=True, description="false: the part that is shared by all heads is kept but not rotated")
    attention_bias: bool = Field(default=False, description="biases of the down projections and of the output projection")
    output_gate: Literal["none", "headwise", "elementwise"] = Field(
        default="none", description="sigmoid gates on the output of attention: one per query head, or one per element"
    )
    sinks: bool = Field(default=False, description="one learned attention sink per query head")
    index_n_heads: Whole | None = Field(default=None, ge=1, description="heads of the indexer; none: the layer has none")
    index_head_dim: Whole | None = Field(default=None, ge=1, description="width of an indexer's head, and of its cached key")
    index_topk: Whole | None = Field(default=None, ge=1, description="keys that a query attends to, at most; none: all")
    index_kpool: Whole | None = Field(
        default=None, ge=2, description="tokens whose keys the indexer makes one of, and chooses together; none: each alone"
    )

    @model_validator(mode="after")
    def _consistent(self) -> LatentAttentionBlock:
        if (self.index_n_heads is None) != (self.index_head_dim is None):
            msg = "index_n_heads and index_head_dim make an indexer together: give both, or neither"
            raise ValueError(msg)
        if self.index_n_heads is not None and (self.index_topk is None or self.q_lora_rank is None):
            missing = "index_topk" if self.index_topk is None else "q_lora_rank"
            msg = f"an indexer needs {missing}: it chooses index_topk keys for queries that it makes from the compressed ones"
            raise ValueError(msg)
        if self.index_kpool is not None and (self.index_topk is None or self.index_topk % self.index_kpool):
            msg = f"index_kpool ({self.index_kpool}) must divide index_topk ({self.index_topk}): keys are chosen as whole pools"
            raise ValueError(msg)
        return self

    @property
    def _rotates(self) -> bool:
        return self.use_rope and self.qk_rope_head_dim > 0

    def operators(self, site: BlockContext) -> Operators:
        """Projections down and up, the latent into the cache, attention in the form of each segment, output."""
        n, d_model = self.num_attention_heads, site.hidden_size
        d_qk = self.qk_nope_head_dim + self.qk_rope_head_dim
        latent = self.kv_lora_rank + self.qk_rope_head_dim
        vector, output = site.precision.dtypes("norm"), site.precision.dtypes("attention/o_proj")
        down, up = site.precision.dtypes("attention/a_proj"), site.precision.dtypes("attention/q_b_proj")
        operators: Operators = {}
        if self.q_lora_rank is None:
            operators["q_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=d_model, dtypes=up)
            operators["kv_a_proj"] = Gemm(m=site.tokens, n=latent, k=d_model, bias=self.attention_bias, dtypes=down)
        else:
            # one fused projection, as engines store it: the input is read once for both
            operators["qkv_a_proj"] = Gemm(
                m=site.tokens,
                n=self.q_lora_rank + latent,
                k=d_model,
                bias=self.attention_bias,
                stored=((self.q_lora_rank, d_model), (latent, d_model)),
                dtypes=down,
            )
            operators["q_a_norm"] = Norm(rows=site.tokens, width=self.q_lora_rank, dtypes=vector)
            operators["q_b_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=self.q_lora_rank, dtypes=up)
        operators["kv_a_norm"] = Norm(rows=site.tokens, width=self.kv_lora_rank, dtypes=vector)
        if self._rotates:
            operators["rope"] = Rope(tokens=site.tokens, heads=n + 1, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        operators["kv_write"] = Copy(elements=site.written_tokens * latent, write="cache", dtypes=vector)
        if self.index_n_heads is not None:
            operators |= self._indexer(site)
        operators |= self._cores(site)
        if self.output_gate != "none":
            spread = self.v_head_dim if self.output_gate == "headwise" else 1
            gates = n if self.output_gate == "headwise" else n * self.v_head_dim
            operators["gate_proj"] = Gemm(
                m=site.tokens, n=gates, k=d_model, dtypes=site.precision.dtypes("attention/gate_proj")
            )
            operators["output_gate"] = Activation(rows=site.tokens, width=gates, spread=spread, dtypes=vector)
        operators["o_proj"] = Gemm(m=site.tokens, n=d_model, k=n * self.v_head_dim, bias=self.attention_bias, dtypes=output)
        return operators

    def _indexer(self, site: BlockContext) -> Operators:
        """Queries, key and weights of heads, the key into the cache, scores and choice."""
        n: Expr = self.index_n_heads
        d: Expr = self.index_head_dim
        tokens = site.tokens
        chooser, vector = site.precision.dtypes("attention/indexer"), site.precision.dtypes("norm")
        operators: Operators = {
            "indexer/wq_b": Gemm(m=tokens, n=n * d, k=self.q_lora_rank, dtypes=chooser),
            "indexer/wk": Gemm(m=tokens, n=d, k=site.hidden_size, dtypes=chooser),
            "indexer/k_norm": Norm(rows=tokens, width=d, function="layernorm", bias=True, dtypes=vector),
            # weights of heads are too small to be quantised, and are not
            "indexer/weights_proj": Gemm(m=tokens, n=n, k=site.hidden_size, dtypes=site.precision.dtypes("router")),
        }
        if self._rotates:
            operators["indexer/rope"] = Rope(tokens=tokens, heads=n + 1, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        if self.index_kpool is not None:
            return operators | self._pools(site, self.index_kpool, d) | indexer_operators(site, n, d, ratio=self.index_kpool)
        operators["indexer/k_write"] = Copy(elements=tokens * d, write="cache", dtypes=vector)
        return operators | indexer_operators(site, n, d)

    def _pools(self, site: BlockContext, pool: Expr, width: Expr) -> Operators:
        """Gates of the new tokens' keys, and the mean keys of the pools that they complete, into the cache.

        NB: keys and gates of tokens whose pool is not complete wait outside of the cache; their bytes are not counted.
        """
        vector = site.precision.dtypes("norm")
        # the gates are not quantised, as the weights of heads
        gates = Gemm(m=site.tokens, n=width, k=site.hidden_size, dtypes=site.precision.dtypes("router"))
        operators: Operators = {"indexer/gate_proj": gates}
        made: Expr = 0
        for suffix, _, segment in per_segment(site):
            compress = Compress(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                ratio=pool,
                width=width,
                held=segment is site.step[0],
                dtypes=vector,
            )
            operators["indexer/compress" + suffix] = compress
            made = made + compress.made
        operators["indexer/k_write"] = Copy(elements=made * width, write="cache", dtypes=vector)
        return operators

    def _cores(self, site: BlockContext) -> Operators:
        """Attention of each segment, between products that take the tokens of all segments in the same form at once."""
        n, rank, d_nope, d_v = self.num_attention_heads, self.kv_lora_rank, self.qk_nope_head_dim, self.v_head_dim
        expand, vector = site.precision.dtypes("attention/kv_b_proj"), site.precision.dtypes("norm")
        choices = site.conventions
        absorbed_tokens: Expr = 0
        expanded_tokens: Expr = 0
        before: Operators = {}
        cores: Operators = {}
        ranks = None if site.context_ranks == 1 else site.context_ranks

        def absorbs_in(segment: Segment) -> bool:
            return choices.mla == "absorb" or (choices.mla == "auto" and (segment.decode or self.index_topk is not None))

        for suffix, reads, segment in per_segment(site, form=absorbs_in):
            absorbed = absorbs_in(segment)
            of_keys = site.key_ranks if site.key_ranks > 1 else None
            query_ranks, key_ranks = (None, of_keys) if segment.decode else (ranks, None)
            before |= kv_all_gather(site, segment, rank + self.qk_rope_head_dim, vector, suffix)
            if absorbed:
                absorbed_tokens = absorbed_tokens + per_rank(segment.tokens, query_ranks)
            else:
                # Expansion needs the latents of every token in sight, so those of earlier steps are fetched from the cache.
                # NB: where queries are divided, each device expands all of them, which are gathered narrow.
                common = shared_prefix_in_window(choices.shared_prefix, segment.cached, None)
                fetched = per_rank(segment.count * (segment.cached - common) + reads * common, key_ranks)
                expanded_tokens = expanded_tokens + per_rank(segment.tokens, key_ranks) + fetched
                if query_ranks is None and not (isinstance(segment.cached, int) and segment.cached == 0):
                    latents = fetched * (rank + self.qk_rope_head_dim)
                    before["kv_fetch" + suffix] = Copy(elements=latents, read="cache", dtypes=vector)
            cores |= query_all_gather(site, segment, n, rank + self.qk_rope_head_dim, vector, suffix)
            cores["core" + suffix] = LatentAttention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=n * site.decode_ranks if segment.decode else n,
                r_kv=rank,
                d_nope=d_nope,
                d_rope=self.qk_rope_head_dim,
                d_v=d_v,
                shared_prefix=choices.shared_prefix,
                prefix_reads=reads,
                absorbed=absorbed,
                chosen=self.index_topk if absorbed else None,
                pool=self.index_kpool if absorbed else None,
                mask=choices.mask,
                eager=choices.attention == "eager",
                sinks=self.sinks and segment is site.step[0],
                query_ranks=query_ranks,
                key_ranks=key_ranks,
                dtypes=vector,
            )
            cores |= merge_partial_outputs(site, segment, n, rank if absorbed else d_v, vector, suffix)
        operators: Operators = before
        if not (isinstance(expanded_tokens, int) and expanded_tokens == 0):
            operators["kv_b_proj"] = Gemm(m=expanded_tokens, n=n * (d_nope + d_v), k=rank, dtypes=expand)
        absorbs = not (isinstance(absorbed_tokens, int) and absorbed_tokens == 0)
        if absorbs:
            # Stored as rows of kv_b_proj. NB: what is stored once a matrix is counted for either part.
            part = ((n * d_nope, rank),)
            operators["q_absorb"] = Gemm(batch=n, m=absorbed_tokens, n=rank, k=d_nope, stored=part, dtypes=expand)
        operators |= cores
        if absorbs:
            operators["v_up"] = Gemm(batch=n, m=absorbed_tokens, n=d_v, k=rank, stored=((n * d_v, rank),), dtypes=expand)
        return operators

    def cache(self) -> Cache:
        """The latent and the rotated key, and the indexer's key where each token has one."""
        index = 0 if self.index_kpool is not None else self.index_head_dim or 0
        return Cache(self.kv_lora_rank + self.qk_rope_head_dim + index, index=index)

    def caches(self) -> tuple[Cache, ...]:
        """That of `cache`, and the keys of whole pools of an indexer of its own."""
        if self.index_kpool is None or self.index_head_dim is None:
            return (self.cache(),)
        return self.cache(), Cache(self.index_head_dim, ratio=self.index_kpool, index=self.index_head_dim)

    def cache_kinds(self) -> set[CacheKind]:
        """The latents of all tokens, and the keys of an indexer of its own."""
        if self.index_kpool is not None:
            return {"latent", "compressed"}
        return {"latent"} if self.index_head_dim is None else {"latent", "indexer"}

    @property
    def selected(self) -> tuple[int, str] | None:
        """At most `index_topk` keys."""
        return None if self.index_topk is None else (self.index_topk, "keys")

    def describe(self) -> str:
        """Its kind and heads."""
        return f"{self.kind.upper()}, {self.num_attention_heads} heads"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        n, rank, biased = self.num_attention_heads, self.kv_lora_rank, self.attention_bias
        d_qk, latent = self.qk_nope_head_dim + self.qk_rope_head_dim, rank + self.qk_rope_head_dim
        if (rank_q := self.q_lora_rank) is None:
            yield Weight("mla.q", (n * d_qk, hidden), "attention/q_b_proj")
        else:
            yield Weight("mla.q_a", (rank_q, hidden), "attention/a_proj", bias=rank_q * biased)
            yield Weight("mla.q_a_norm", (rank_q,))
            yield Weight("mla.q_b", (n * d_qk, rank_q), "attention/q_b_proj")
        yield Weight("mla.kv_a", (latent, hidden), "attention/a_proj", bias=latent * biased)
        yield Weight("mla.kv_a_norm", (rank,))
        yield Weight("mla.kv_b", (n * (self.qk_nope_head_dim + self.v_head_dim), rank), "attention/kv_b_proj")
        if self.output_gate != "none":
            gates = n if self.output_gate == "headwise" else n * self.v_head_dim
            yield Weight("mla.gate", (gates, hidden), "attention/gate_proj")
        if self.sinks:
            yield Weight("mla.sinks", (n,))
        yield Weight("mla.o", (hidden, n * self.v_head_dim), "attention/o_proj", bias=hidden * biased)
        if self.index_n_heads is not None:
            d: Expr = self.index_head_dim
            yield Weight("indexer.q_b", (self.index_n_heads * d, rank_q or 0), "attention/indexer")
            yield Weight("indexer.k", (d, hidden), "attention/indexer")
            yield Weight("indexer.k_norm", (d,), bias=d)
            yield Weight("indexer.weights", (self.index_n_heads, hidden), "router")
            if self.index_kpool is not None:
                yield Weight("indexer.gate", (d, hidden), "router")
                yield Weight("indexer.positions", (self.index_kpool, d))
