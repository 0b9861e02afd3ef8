"""Softmax attention with grouped queries: multi-head (n_kv = n_q), grouped-query, multi-query (n_kv = 1)."""

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
    kv_all_gather,
    merge_partial_outputs,
    per_segment,
    query_all_gather,
)
from roofline.dtypes import Shape
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.attention import Attention
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole


class GroupedQueryAttention(MixerBlock):
    """Attention whose n_q query heads share n_kv key and value heads. Q, K and V are one fused projection, as engines
    store it: the input is read once for the three, and for a gate on the output that has the queries' width."""

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact", "num_key_value_heads": "replicate"}

    kind: Literal["gqa"]
    num_attention_heads: Whole = Field(ge=1)
    num_key_value_heads: Whole = Field(ge=1)
    head_dim: Whole = Field(ge=1)
    v_head_dim: Whole | None = Field(default=None, ge=1, description="elements of a value head; default: head_dim")
    sliding_window: Whole | None = Field(default=None, ge=1, description="tokens that a query sees, itself included")
    attention_chunk_size: Whole | None = Field(
        default=None, ge=1, description="length of the chunks into which a sequence is cut; a query sees its own"
    )
    attention_k_eq_v: bool = Field(default=False, description="values are the keys' projection; the cache holds both")
    fused_weights: bool = Field(
        default=False, description="checkpoints have the projections of queries, keys and values as one matrix"
    )
    causal: bool = Field(default=True, description="false: every token of a prompt sees all of it")
    kv_shared: bool = Field(
        default=False, description="keys and values are those of an earlier layer: no projections of them, no cache of its own"
    )
    q_lora_rank: Whole | None = Field(
        default=None, ge=1, description="width to which queries are compressed, with a norm there; none: not compressed"
    )
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "head", "full", "l2", "key"] = Field(
        default="none",
        description="norm of queries and keys: none, one weight for all heads, one over the whole width, without a weight, or "
        "of keys alone (one weight for all heads)",
    )
    q_norm_weight: bool = Field(default=True, description="false: the norm of queries has no weight; that of keys has one")
    k_norm_weight: bool = Field(default=True, description="false: the norm of keys has no weight; that of queries has one")
    qk_norm_function: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    qk_norm_bias: bool = False
    v_norm: bool = Field(default=False, description="values are normalised too, head by head, without a weight")
    rotary_dim: Whole | None = Field(default=None, ge=0, description="rotated elements of a head; 0: none; default: all")
    sinks: bool = Field(default=False, description="one learned attention sink per query head")
    sink_tokens: Whole = Field(default=0, ge=0, description="learned keys and values of each KV head that every query sees")
    sink_values: bool = Field(
        default=True, description="false: the values of `sink_tokens` are 0, their keys alone are learned"
    )
    output_gate: Literal["none", "headwise", "elementwise"] = Field(
        default="none", description="sigmoid gates on the output of attention: one per query head, or one per element"
    )
    gate_scale: bool = Field(default=False, description="a learned scale of each gate, where gates are one per element")
    gate_bias: bool = Field(default=False, description="a bias of each query head on gates that are one per element")

    output_norm: bool = Field(default=False, description="a norm of all heads' outputs before the output projection (RMSNorm)")
    output_norm_weight: bool = Field(default=True, description="false: that norm has no weight")

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
        if self.sliding_window is not None and self.attention_chunk_size is not None:
            msg = "sliding_window and attention_chunk_size exclude each other: give one"
            raise ValueError(msg)
        if self.attention_k_eq_v and self.v_head_dim not in (None, self.head_dim):
            msg = f"attention_k_eq_v wants values as wide as keys: v_head_dim is {self.v_head_dim}, head_dim {self.head_dim}"
            raise ValueError(msg)
        if self.q_lora_rank is not None and (self.kv_shared or self.qkv_bias or self.output_gate == "elementwise"):
            msg = "q_lora_rank is known without kv_shared, qkv_bias and elementwise gates: leave those out"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _norms_exist(self) -> GroupedQueryAttention:
        if self.qk_norm == "none" and (self.qk_norm_bias or self.qk_norm_function != "rmsnorm"):
            msg = "qk_norm_function and qk_norm_bias want a qk_norm, which is none: give head, full or l2"
            raise ValueError(msg)
        if self.qk_norm == "l2" and self.qk_norm_bias:
            msg = "qk_norm: l2 has no weight, and no bias beside it: give qk_norm_bias: false"
            raise ValueError(msg)
        if not self.q_norm_weight and (self.qk_norm != "head" or self.qk_norm_bias):
            msg = "q_norm_weight: false wants qk_norm: head, without biases"
            raise ValueError(msg)
        if self.sink_tokens and (self.sinks or self.kv_shared):
            msg = "sink_tokens go without sinks and kv_shared: give one"
            raise ValueError(msg)
        if not self.k_norm_weight and (self.qk_norm != "full" or self.qk_norm_bias):
            msg = "k_norm_weight: false wants qk_norm: full, without biases"
            raise ValueError(msg)
        if (self.gate_bias or self.gate_scale) and self.output_gate != "elementwise":
            msg = f"gate_bias and gate_scale want output_gate: elementwise, which is {self.output_gate}"
            raise ValueError(msg)
        if not self.output_norm_weight and not self.output_norm:
            msg = "output_norm_weight: false wants output_norm: true"
            raise ValueError(msg)
        return self

    @property
    def shareable(self) -> bool:
        """Without sinks and biases of gates."""
        return not (self.sinks or self.sink_tokens or self.gate_bias)

    @property
    def _d_v(self) -> int:
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def _reach(self) -> int | None:
        return self.sliding_window if self.attention_chunk_size is None else self.attention_chunk_size

    def operators(self, site: BlockContext) -> Operators:
        """Projection, norm and rotation of queries and keys, the new keys and values into the cache, attention, output."""
        n_q, n_kv, d_head, d_v = self.num_attention_heads, self.num_key_value_heads, self.head_dim, self._d_v
        vector = site.precision.dtypes("norm")
        operators: Operators = {
            "q_proj" if self.kv_shared else "qkv_proj": Gemm(
                m=site.tokens,
                n=self._projected(),
                k=site.hidden_size,
                bias=self.qkv_bias,
                stored=self._stored(site.hidden_size),
                dtypes=site.precision.dtypes("attention/qkv_proj"),
            )
        }
        if self.output_gate == "headwise":
            operators["gate_proj"] = Gemm(
                m=site.tokens, n=n_q, k=site.hidden_size, dtypes=site.precision.dtypes("attention/gate_proj")
            )
        if self.q_lora_rank is not None:
            operators["q_a_norm"] = Norm(rows=site.tokens, width=self.q_lora_rank, dtypes=vector)
            expand = site.precision.dtypes("attention/q_b_proj")
            operators["q_b_proj"] = Gemm(m=site.tokens, n=n_q * d_head, k=self.q_lora_rank, dtypes=expand)
        operators |= self._norms(site)
        if self.rotary_dim != 0:
            rotated = d_head if self.rotary_dim is None else self.rotary_dim
            heads = n_q if self.kv_shared else n_q + n_kv
            operators["rope"] = Rope(tokens=site.tokens, heads=heads, rotary_dim=rotated, dtypes=vector)
        if not self.kv_shared:
            operators["kv_write"] = Copy(elements=site.written_tokens * n_kv * (d_head + d_v), write="cache", dtypes=vector)
        operators |= self._cores(site, self._reach)
        operators |= self._after_cores(site)
        output = site.precision.dtypes("attention/o_proj")
        operators["o_proj"] = Gemm(m=site.tokens, n=site.hidden_size, k=n_q * d_v, bias=self.o_bias, dtypes=output)
        return operators

    def _cores(self, site: BlockContext, reach: Expr | None, name: str = "core") -> Operators:
        """Attention of each segment, whose queries see `reach` tokens (None: all), as an operator of that name."""
        n_q, n_kv, d_head, d_v = self.num_attention_heads, self.num_key_value_heads, self.head_dim, self._d_v
        vector, choices = site.precision.dtypes("norm"), site.conventions
        chunked = self.attention_chunk_size is not None
        ranks = None if site.context_ranks == 1 else site.context_ranks
        operators: Operators = {}
        for suffix, reads, segment in per_segment(site, reach, chunked=chunked):
            operators |= kv_all_gather(site, segment, n_kv * (d_head + d_v), vector, suffix)
            operators |= query_all_gather(site, segment, n_q, d_head, vector, suffix)
            operators[name + suffix] = Attention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=n_q * site.decode_ranks if segment.decode else n_q,
                n_kv_heads=n_kv,
                head_dim=d_head,
                v_head_dim=self.v_head_dim,
                window=reach,
                chunked=chunked,
                shared_prefix=choices.shared_prefix,
                prefix_reads=reads,
                mask=choices.mask if self.causal else "full",
                eager=choices.attention == "eager",
                sinks=self.sinks and segment is site.step[0],
                sink_tokens=self.sink_tokens or None,
                sink_values=self.sink_values,
                borrowed=segment is not site.step[0],
                query_ranks=None if segment.decode else ranks,
                key_ranks=site.key_ranks if segment.decode and site.key_ranks > 1 else None,
                decode=segment.decode,
                dtypes=vector,
            )
            operators |= merge_partial_outputs(site, segment, n_q, d_v, vector, suffix)
        return operators

    def _after_cores(self, site: BlockContext) -> Operators:
        """Gates on the outputs of attention, and a norm of them."""
        n_q, d_v, vector = self.num_attention_heads, self._d_v, site.precision.dtypes("norm")
        operators: Operators = {}
        if self.output_gate == "elementwise":
            # NB: the sums with biases and the products with scales are not counted
            learned = (n_q if self.gate_bias else 0) + (n_q * d_v if self.gate_scale else 0)
            operators["output_gate"] = Activation(rows=site.tokens, width=n_q * d_v, learned=learned, dtypes=vector)
        elif self.output_gate == "headwise":
            operators["output_gate"] = Activation(rows=site.tokens, width=n_q, spread=d_v, dtypes=vector)
        if self.output_norm:
            # NB: with several devices the sum of squares that they exchange, one number per token, is not counted
            weight = self.output_norm_weight
            operators["output_norm"] = Norm(rows=site.tokens, width=n_q * d_v, weight=weight, dtypes=vector)
        return operators

    def _projected(self) -> Expr:
        """Width of the fused projection: queries, gates of their number, and the keys and values that are the layer's own."""
        n_q, n_kv, gated = self.num_attention_heads, self.num_key_value_heads, self.output_gate == "elementwise"
        keys, values = (0 if self.kv_shared else n_kv), (0 if self.kv_shared or self.attention_k_eq_v else n_kv)
        if self.q_lora_rank is not None:
            return self.q_lora_rank + keys * self.head_dim + values * self._d_v
        if self.v_head_dim is None:
            return ((2 if gated else 1) * n_q + keys + values) * self.head_dim
        return (n_q + keys) * self.head_dim + ((n_q if gated else 0) + values) * self.v_head_dim

    def _stored(self, d_model: Expr) -> tuple[Shape, ...]:
        """The projections as a checkpoint has them: queries, with gates of their number, keys, and values."""
        if self.fused_weights:
            return ((self._projected(), d_model),)
        n_q, n_kv, d_head = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        gates = n_q * self._d_v if self.output_gate == "elementwise" else 0
        queries = ((n_q * d_head + gates if self.q_lora_rank is None else self.q_lora_rank, d_model),)
        if self.kv_shared:
            return queries
        values = () if self.attention_k_eq_v else ((n_kv * self._d_v, d_model),)
        return (*queries, (n_kv * d_head, d_model), *values)

    def _norms(self, site: BlockContext) -> Operators:
        """Of queries, and of the keys and values that are the layer's own."""
        n_kv, vector = self.num_key_value_heads, site.precision.dtypes("norm")
        norms: Operators = {}
        if self.qk_norm != "none":
            for name, heads in self._normed():
                over_all = self.qk_norm == "full"
                norms[name] = Norm(
                    rows=site.tokens if over_all else site.tokens * heads,
                    width=heads * self.head_dim if over_all else self.head_dim,
                    function=self.qk_norm_function,
                    bias=self.qk_norm_bias,
                    weight=self._has_weight(name),
                    dtypes=vector,
                )
        if self.v_norm and not self.kv_shared:
            norms["v_norm"] = Norm(rows=site.tokens * n_kv, width=self._d_v, weight=False, dtypes=vector)
        return norms

    def _has_weight(self, norm: str) -> bool:
        """Whether the norm of queries or of keys ("q_norm", "k_norm") has a weight."""
        return self.qk_norm != "l2" and (self.q_norm_weight if norm == "q_norm" else self.k_norm_weight)

    def _normed(self) -> tuple[tuple[str, int], ...]:
        """Names of the norms of queries and of the layer's own keys, and how many heads each is of."""
        own = (("q_norm", self.num_attention_heads), ("k_norm", self.num_key_value_heads))
        if self.qk_norm == "key":
            return () if self.kv_shared else own[1:]
        return own[:1] if self.kv_shared else own

    def cache(self) -> Cache | None:
        """A key and a value for each KV head; none where they are another layer's."""
        if self.kv_shared:
            return None
        per_token = self.num_key_value_heads * (self.head_dim + self._d_v)
        return Cache(per_token, self._reach, chunked=self.attention_chunk_size is not None)

    @property
    def kv_shape(self) -> tuple[int, int, int]:
        """KV heads and widths of its own cache, or of the one that it reads."""
        return self.num_key_value_heads, self.head_dim, self._d_v

    @property
    def reads_earlier_cache(self) -> bool:
        """Whether `kv_shared` is set."""
        return self.kv_shared

    def without_window(self) -> MixerBlock | None:
        """The block without window and chunks; None if it has neither."""
        if self._reach is None:
            return None
        return self.model_copy(update={"sliding_window": None, "attention_chunk_size": None})

    def describe(self) -> str:
        """Its kind, heads, and their width."""
        query, cached = self.num_attention_heads, self.num_key_value_heads
        name = "MHA" if query == cached else "MQA" if cached == 1 else "GQA"
        heads = f"{query} heads" if query == cached else f"{query} query and {cached} KV heads"
        return f"{name}, {heads} of {self.head_dim}"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        n_q, n_kv, d = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        d_v = self.v_head_dim or d
        inputs: list[tuple[str, int]] = [("q", n_q * d) if self.q_lora_rank is None else ("q_a", self.q_lora_rank)]
        if self.output_gate == "elementwise":
            inputs.append(("q_gate", n_q * d_v))
        if not self.kv_shared:
            inputs += [("k", n_kv * d)] + ([] if self.attention_k_eq_v else [("v", n_kv * d_v)])
        for name, rows in inputs:
            yield Weight(f"attention.{name}", (rows, hidden), "attention/qkv_proj", bias=rows * self.qkv_bias)
        if self.q_lora_rank is not None:
            yield Weight("attention.q_a_norm", (self.q_lora_rank,))
            yield Weight("attention.q_b", (n_q * d, self.q_lora_rank), "attention/q_b_proj")
        if self.output_gate == "headwise":
            yield Weight("attention.gate", (n_q, hidden), "attention/gate_proj")
        yield from self._vectors()
        yield Weight("attention.o", (hidden, n_q * d_v), "attention/o_proj", bias=hidden * self.o_bias)

    def _vectors(self) -> Iterator[Weight]:
        """The weights that are no matrices: norms, biases of gates, sinks."""
        n_q, d, d_v = self.num_attention_heads, self.head_dim, self._d_v
        if self.qk_norm in ("head", "full", "key"):
            whole = self.qk_norm == "full"
            for name, heads in self._normed():
                width = d * (heads if whole else 1)
                if self._has_weight(name):
                    yield Weight(f"attention.{name}", (width,), bias=width * self.qk_norm_bias, heads=heads if whole else 0)
        if self.gate_bias:
            yield Weight("attention.gate_bias", (n_q,))
        if self.gate_scale:
            yield Weight("attention.gate_scale", (n_q * d_v,))
        if self.sinks:
            yield Weight("attention.sinks", (n_q,))
        if self.sink_tokens:
            yield Weight("attention.sink_keys", (self.sink_tokens, self.num_key_value_heads, d))
            if self.sink_values:
                yield Weight("attention.sink_values", (self.sink_tokens, self.num_key_value_heads, d_v))
        if self.output_norm and self.output_norm_weight:
            yield Weight("attention.output_norm", (n_q * d_v,))
