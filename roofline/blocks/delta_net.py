"""Linear attention with the delta rule: Gated DeltaNet (one decay per head), Kimi Delta Attention (one per key channel)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, MixerBlock, Operators, Sharding, State, Weight, causal_conv, per_segment
from roofline.numeric import Expr
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.specs.base import Whole


class KimiDeltaAttention(MixerBlock):
    """KDA (Kimi Linear, arXiv:2510.26692, section 4). Every head has a query, a key and a value of the same width, all
    convolved. Decay (f) and output gate (g) are of low rank (unless `full_rank_gates`), the width of a head: down by `a`, up to
    all heads by `b`. The down projections have no heads to divide: every tensor-parallel device computes them whole.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"linear_num_heads": "exact"}
    path: ClassVar[str] = "linear_attention"

    kind: Literal["kda"]
    linear_num_heads: Whole = Field(ge=1)
    linear_head_dim: Whole = Field(ge=1, description="width of queries, keys and values, and the rank of the gates")
    linear_conv_kernel_dim: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, itself included")
    chunk_size: Whole = Field(default=64, ge=1, description="tokens of a chunk in the scan of a prompt")
    full_rank_gates: bool = Field(default=False, description="decay and output gate have one matrix each, not two of low rank")

    @property
    def _width(self) -> Expr:
        return self.linear_num_heads * self.linear_head_dim

    def operators(self, site: BlockContext) -> Operators:
        """Projections, convolution, decay and beta, scan, output gate with the norm of each head, projection out."""
        heads, d_head, width = self.linear_num_heads, self.linear_head_dim, self._width
        tokens, d_model = site.tokens, site.hidden_size
        vector = site.precision.dtypes("norm")
        operators: Operators = {
            "qkv_proj": Gemm(
                m=tokens, n=3 * width, k=d_model, stored=((width, d_model),) * 3, dtypes=site.precision.dtypes("mixer/qkv_proj")
            ),
            "conv": causal_conv(site, 3 * width, self.linear_conv_kernel_dim),
        }
        operators |= self._gate(site, "f")
        operators["b_proj"] = Gemm(m=tokens, n=heads, k=d_model, dtypes=site.precision.dtypes("mixer/b_proj"))
        for suffix, _, segment in per_segment(site):
            operators["core" + suffix] = DeltaRule(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=heads,
                n_key_heads=heads,
                d_k=d_head,
                d_v=d_head,
                chunk_size=self.chunk_size,
                per_channel=True,
                recurrent=segment.decode,
                borrowed=segment is not site.step[0],
                dtypes=vector,
            )
        operators |= self._gate(site, "g")
        operators["gated_norm"] = Norm(rows=tokens * heads, width=d_head, gated=True, dtypes=vector)
        operators["o_proj"] = Gemm(m=tokens, n=d_model, k=width, dtypes=site.precision.dtypes("mixer/o_proj"))
        return operators

    def _gate(self, site: BlockContext, name: str) -> Operators:
        """Decay or output gate: one product, or one down to the width of a head and one up to all of them."""
        tokens, width, rank = site.tokens, self._width, self.linear_head_dim
        dtypes = site.precision.dtypes(f"mixer/{name}_b_proj")
        if self.full_rank_gates:
            return {f"{name}_proj": Gemm(m=tokens, n=width, k=site.hidden_size, dtypes=dtypes)}
        down = site.precision.dtypes(f"mixer/{name}_a_proj")
        return {
            f"{name}_a_proj": Gemm(m=tokens, n=rank, k=site.hidden_size, dtypes=down),
            f"{name}_b_proj": Gemm(m=tokens, n=width, k=rank, dtypes=dtypes),
        }

    def state(self) -> State:
        """The last inputs of the convolutions of q, k and v, and one matrix per head."""
        recurrent = self._width * self.linear_head_dim
        return State(conv=3 * self._width, conv_kernel=self.linear_conv_kernel_dim, recurrent=recurrent)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        heads, d = self.linear_num_heads, self.linear_head_dim
        width = heads * d
        for name in "qkv":
            yield Weight(f"kda.{name}", (width, hidden), "mixer/qkv_proj")
        for name in "qkv":
            yield Weight(f"kda.{name}_conv", (width, 1, self.linear_conv_kernel_dim))
        for gate in "fg":
            if self.full_rank_gates:
                yield Weight(f"kda.{gate}", (width, hidden), f"mixer/{gate}_b_proj")
                continue
            yield Weight(f"kda.{gate}_a", (d, hidden), f"mixer/{gate}_a_proj")
            yield Weight(f"kda.{gate}_b", (width, d), f"mixer/{gate}_b_proj")
        yield Weight("kda.b", (heads, hidden), "mixer/b_proj")
        yield Weight("kda.A_log", (heads,))
        yield Weight("kda.dt_bias", (width,))
        yield Weight("kda.norm", (d,))
        yield Weight("kda.o", (hidden, width), "mixer/o_proj")


class GatedDeltaNet(MixerBlock):
    """Gated DeltaNet (Qwen3-Next, Qwen3.5; arXiv:2412.06464, section 3.4). One projection gives q, k, v and the output's gate
    z, a small one beta and the decay of each value head. Value heads share query and key heads in groups."""

    sharding: ClassVar[dict[str, Sharding]] = {"linear_num_key_heads": "exact", "linear_num_value_heads": "exact"}
    path: ClassVar[str] = "linear_attention"

    kind: Literal["gated_delta_net"]
    linear_num_key_heads: Whole = Field(ge=1, description="query heads, and as many key heads")
    linear_num_value_heads: Whole = Field(ge=1)
    linear_key_head_dim: Whole = Field(ge=1)
    linear_value_head_dim: Whole = Field(ge=1)
    linear_conv_kernel_dim: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, itself included")
    chunk_size: Whole = Field(default=64, ge=1, description="tokens of a chunk in the scan of a prompt")
    fused_weights: bool = Field(
        default=True, description="false: checkpoints have q, k and v apart from z, and b apart from a (Qwen3.5)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> GatedDeltaNet:
        if self.linear_num_value_heads % self.linear_num_key_heads:
            msg = (
                f"linear_num_key_heads ({self.linear_num_key_heads}) must divide linear_num_value_heads "
                f"({self.linear_num_value_heads})"
            )
            raise ValueError(msg)
        return self

    @property
    def _values(self) -> Expr:
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def _convolved(self) -> Expr:
        """Channels of q, k and v."""
        return 2 * self.linear_num_key_heads * self.linear_key_head_dim + self._values

    def operators(self, site: BlockContext) -> Operators:
        """Projections in, convolution, scan, gated norm of each head, projection out."""
        heads, d_v, tokens = self.linear_num_value_heads, self.linear_value_head_dim, site.tokens
        vector, d_model = site.precision.dtypes("norm"), site.hidden_size
        apart = not self.fused_weights
        operators: Operators = {
            "in_proj_qkvz": Gemm(
                m=tokens,
                n=self._convolved + self._values,
                k=d_model,
                stored=((self._convolved, d_model), (self._values, d_model)) if apart else (),
                dtypes=site.precision.dtypes("mixer/in_proj_qkvz"),
            ),
            "in_proj_ba": Gemm(
                m=tokens,
                n=2 * heads,
                k=d_model,
                stored=((heads, d_model),) * 2 if apart else (),
                dtypes=site.precision.dtypes("mixer/in_proj_ba"),
            ),
            "conv": causal_conv(site, self._convolved, self.linear_conv_kernel_dim),
        }
        for suffix, _, segment in per_segment(site):
            operators["core" + suffix] = DeltaRule(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=heads,
                n_key_heads=self.linear_num_key_heads,
                d_k=self.linear_key_head_dim,
                d_v=d_v,
                chunk_size=self.chunk_size,
                recurrent=segment.decode,
                borrowed=segment is not site.step[0],
                dtypes=vector,
            )
        operators["gated_norm"] = Norm(rows=tokens * heads, width=d_v, gated=True, dtypes=vector)
        operators["out_proj"] = Gemm(
            m=tokens, n=site.hidden_size, k=self._values, dtypes=site.precision.dtypes("mixer/out_proj")
        )
        return operators

    def state(self) -> State:
        """The last inputs of the convolution, and one matrix per value head."""
        recurrent = self._values * self.linear_key_head_dim
        return State(conv=self._convolved, conv_kernel=self.linear_conv_kernel_dim, recurrent=recurrent)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        heads = self.linear_num_value_heads
        keys, values = self.linear_num_key_heads * self.linear_key_head_dim, heads * self.linear_value_head_dim
        yield Weight("delta.qkv", (2 * keys + values, hidden), "mixer/in_proj_qkvz")
        yield Weight("delta.z", (values, hidden), "mixer/in_proj_qkvz")
        yield Weight("delta.b", (heads, hidden), "mixer/in_proj_ba")
        yield Weight("delta.a", (heads, hidden), "mixer/in_proj_ba")
        yield Weight("delta.conv", (2 * keys + values, 1, self.linear_conv_kernel_dim))
        yield Weight("delta.A_log", (heads,))
        yield Weight("delta.dt_bias", (heads,))
        yield Weight("delta.norm", (self.linear_value_head_dim,))
        yield Weight("delta.out", (hidden, values), "mixer/out_proj")
