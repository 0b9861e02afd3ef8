"""Lightning Attention: linear attention whose decay is a constant of each head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, MixerBlock, Operators, Sharding, State, Weight, per_segment
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.operators.linear_attention import LinearAttention
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole


class LightningAttention(MixerBlock):
    """Lightning Attention (MiniMax-01, MiniMax-M1; arXiv:2501.08313, section 2.2). Q, K and V pass a SiLU; the output is
    normalised over all heads and gated by the sigmoid of a projection of its own. There is no convolution.

    In Ling and Ring 2.5 queries and keys are normalised head by head and rotated instead, and the output is normalised in
    groups of heads, which costs as much.

    NB: with several devices the norm's sum of squares is exchanged, one number per token; that is not counted.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact"}
    path: ClassVar[str] = "linear_attention"

    kind: Literal["lightning_attention"]
    num_attention_heads: Whole = Field(ge=1)
    head_dim: Whole = Field(ge=1)
    chunk_size: Whole = Field(default=256, ge=1, description="tokens of a chunk in the scan of a prompt (MiniMax: block_size)")
    activation: bool = Field(default=True, description="queries, keys and values pass a SiLU")
    qk_norm: bool = Field(default=False, description="norms of queries and keys, one weight for all heads (RMSNorm)")
    rotary_dim: Whole = Field(default=0, ge=0, description="rotated elements of a head; 0: none")
    qkv_bias: bool = False
    o_bias: bool = False

    @model_validator(mode="after")
    def _rotates_what_is_there(self) -> LightningAttention:
        if self.rotary_dim > self.head_dim:
            msg = f"rotary_dim ({self.rotary_dim}) is more than head_dim ({self.head_dim})"
            raise ValueError(msg)
        return self

    def operators(self, site: BlockContext) -> Operators:
        """Projection and SiLU (or norms and rotation), scan, norm, output gate, projection out."""
        heads, d_head, tokens, d_model = self.num_attention_heads, self.head_dim, site.tokens, site.hidden_size
        width = heads * d_head
        vector = site.precision.dtypes("norm")
        operators: Operators = {
            "qkv_proj": Gemm(
                m=tokens, n=3 * width, k=d_model, bias=self.qkv_bias, dtypes=site.precision.dtypes("mixer/qkv_proj")
            ),
        }
        if self.activation:
            operators["activation"] = Activation(rows=tokens, width=3 * width, gated=False, dtypes=vector)
        if self.qk_norm:
            operators["q_norm"] = Norm(rows=tokens * heads, width=d_head, dtypes=vector)
            operators["k_norm"] = Norm(rows=tokens * heads, width=d_head, dtypes=vector)
        if self.rotary_dim:
            operators["rope"] = Rope(tokens=tokens, heads=2 * heads, rotary_dim=self.rotary_dim, dtypes=vector)
        for suffix, _, segment in per_segment(site):
            operators["core" + suffix] = LinearAttention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=heads,
                n_groups=heads,
                d_k=d_head,
                d_v=d_head,
                chunk_size=self.chunk_size,
                recurrent=segment.decode,
                dtypes=vector,
            )
        operators["o_norm"] = Norm(rows=tokens, width=width, dtypes=vector)
        operators["output_gate"] = Gemm(m=tokens, n=width, k=d_model, dtypes=site.precision.dtypes("mixer/output_gate"))
        operators["gate"] = Activation(rows=tokens, width=width, gated=True, dtypes=vector)
        output = site.precision.dtypes("mixer/out_proj")
        operators["out_proj"] = Gemm(m=tokens, n=d_model, k=width, bias=self.o_bias, dtypes=output)
        return operators

    def state(self) -> State:
        """One square matrix per head."""
        return State(recurrent=self.num_attention_heads * self.head_dim * self.head_dim)

    def describe(self) -> str:
        """Its kind and heads."""
        return f"{super().describe()}, {self.num_attention_heads} heads"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        width = self.num_attention_heads * self.head_dim
        yield Weight("lightning.qkv", (3 * width, hidden), "mixer/qkv_proj", bias=3 * width * self.qkv_bias)
        if self.qk_norm:
            yield from (Weight(f"lightning.{name}_norm", (self.head_dim,)) for name in "qk")
        yield Weight("lightning.norm", (width,))
        yield Weight("lightning.gate", (width, hidden), "mixer/output_gate")
        yield Weight("lightning.out", (hidden, width), "mixer/out_proj", bias=hidden * self.o_bias)
