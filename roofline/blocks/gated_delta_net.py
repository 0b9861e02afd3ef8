"""Gated DeltaNet: linear attention with the delta rule and one decay a head."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import MixerBlock, Operators, Sharding, Site, State, causal_conv, per_segment
from roofline.numeric import Expr
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.specs.base import Whole


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

    def operators(self, site: Site) -> Operators:
        """Projections in, convolution, scan, gated norm of each head, projection out."""
        heads, d_v, tokens = self.linear_num_value_heads, self.linear_value_head_dim, site.tokens
        vector = site.precision.dtypes("norm")
        found: Operators = {
            "in_proj_qkvz": Gemm(
                m=tokens,
                n=self._convolved + self._values,
                k=site.hidden_size,
                dtypes=site.precision.dtypes("mixer/in_proj_qkvz"),
            ),
            "in_proj_ba": Gemm(m=tokens, n=2 * heads, k=site.hidden_size, dtypes=site.precision.dtypes("mixer/in_proj_ba")),
            "conv": causal_conv(site, self._convolved, self.linear_conv_kernel_dim),
        }
        for suffix, _, segment in per_segment(site):
            found["core" + suffix] = DeltaRule(
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
        found["gated_norm"] = Norm(rows=tokens * heads, width=d_v, gated=True, dtypes=vector)
        found["out_proj"] = Gemm(m=tokens, n=site.hidden_size, k=self._values, dtypes=site.precision.dtypes("mixer/out_proj"))
        return found

    def state(self) -> State:
        """The last inputs of the convolution, and a matrix a value head."""
        recurrent = self._values * self.linear_key_head_dim
        return State(conv=self._convolved, conv_kernel=self.linear_conv_kernel_dim, recurrent=recurrent)
