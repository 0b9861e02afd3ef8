"""Softmax attention with grouped queries: multi-head (n_kv = n_q), grouped-query, multi-query (n_kv = 1)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import Cache, MixerBlock, Operators, Sharding, Site, per_segment
from roofline.operators.attention import Attention
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole


class GroupedQueryAttention(MixerBlock):
    """Attention whose n_q query heads share n_kv key and value heads. Q, K and V are one fused projection, as engines
    store it: the input is read once for the three."""

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact", "num_key_value_heads": "replicate"}

    kind: Literal["gqa"]
    num_attention_heads: Whole = Field(ge=1)
    num_key_value_heads: Whole = Field(ge=1)
    head_dim: Whole = Field(ge=1)
    sliding_window: Whole | None = Field(default=None, ge=1, description="tokens that a query sees, itself included")
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = Field(
        default="none", description="norm of queries and keys: none, one weight for all heads, or one over the whole width"
    )
    rotary_dim: Whole | None = Field(default=None, ge=0, description="rotated elements of a head; 0: none; default: all")
    sinks: bool = Field(default=False, description="one learned attention sink a query head")

    @model_validator(mode="after")
    def _consistent(self) -> GroupedQueryAttention:
        if self.num_attention_heads % self.num_key_value_heads:
            msg = (
                f"num_key_value_heads ({self.num_key_value_heads}) must divide num_attention_heads ({self.num_attention_heads})"
            )
            raise ValueError(msg)
        if self.rotary_dim is not None and self.rotary_dim > self.head_dim:
            msg = f"rotary_dim ({self.rotary_dim}) is more than head_dim ({self.head_dim})"
            raise ValueError(msg)
        return self

    def operators(self, site: Site) -> Operators:
        """Projection, norm and rotation of queries and keys, the new keys and values into the cache, attention, output."""
        n_q, n_kv, d_head = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        vector = site.precision.dtypes("norm")
        choices = site.conventions
        found: Operators = {
            "qkv_proj": Gemm(
                m=site.tokens,
                n=(n_q + 2 * n_kv) * d_head,
                k=site.hidden_size,
                bias=self.qkv_bias,
                stored=tuple((heads * d_head, site.hidden_size) for heads in (n_q, n_kv, n_kv)),
                dtypes=site.precision.dtypes("attention/qkv_proj"),
            )
        }
        if self.qk_norm == "head":
            found["q_norm"] = Norm(rows=site.tokens * n_q, width=d_head, dtypes=vector)
            found["k_norm"] = Norm(rows=site.tokens * n_kv, width=d_head, dtypes=vector)
        elif self.qk_norm == "full":
            found["q_norm"] = Norm(rows=site.tokens, width=n_q * d_head, dtypes=vector)
            found["k_norm"] = Norm(rows=site.tokens, width=n_kv * d_head, dtypes=vector)
        if self.rotary_dim != 0:
            rotated = d_head if self.rotary_dim is None else self.rotary_dim
            found["rope"] = Rope(tokens=site.tokens, heads=n_q + n_kv, rotary_dim=rotated, dtypes=vector)
        found["kv_write"] = Copy(elements=2 * site.tokens * n_kv * d_head, write="cache", dtypes=vector)
        for suffix, reads, segment in per_segment(site, self.sliding_window):
            found["core" + suffix] = Attention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=n_q,
                n_kv_heads=n_kv,
                head_dim=d_head,
                window=self.sliding_window,
                shared_prefix=choices.shared_prefix,
                prefix_reads=reads,
                mask=choices.mask,
                eager=choices.attention == "eager",
                sinks=self.sinks and segment is site.step[0],
                dtypes=vector,
            )
        output = site.precision.dtypes("attention/o_proj")
        found["o_proj"] = Gemm(m=site.tokens, n=site.hidden_size, k=n_q * d_head, bias=self.o_bias, dtypes=output)
        return found

    def cache(self) -> Cache:
        """A key and a value for each KV head."""
        return Cache(2 * self.num_key_value_heads * self.head_dim, self.sliding_window)
