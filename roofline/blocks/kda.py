"""Kimi Delta Attention: linear attention with the delta rule and a decay for each channel of the keys."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import MixerBlock, Operators, Sharding, Site, State, causal_conv, per_segment
from roofline.numeric import Expr
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.specs.base import Whole


class KimiDeltaAttention(MixerBlock):
    """KDA (Kimi Linear, arXiv:2510.26692, section 4). Every head has a query, a key and a value of the same width, all
    convolved. Decay (f) and output gate (g) are of low rank, the width of a head: down by `a`, up to all heads by `b`. The
    down projections have no heads to divide: every tensor-parallel device computes them whole.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"linear_num_heads": "exact"}
    path: ClassVar[str] = "linear_attention"

    kind: Literal["kda"]
    linear_num_heads: Whole = Field(ge=1)
    linear_head_dim: Whole = Field(ge=1, description="width of queries, keys and values, and the rank of the gates")
    linear_conv_kernel_dim: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, itself included")
    chunk_size: Whole = Field(default=64, ge=1, description="tokens of a chunk in the scan of a prompt")

    @property
    def _width(self) -> Expr:
        return self.linear_num_heads * self.linear_head_dim

    def operators(self, site: Site) -> Operators:
        """Projections, convolution, decay and beta, scan, output gate with the norm of each head, projection out."""
        heads, d_head, width = self.linear_num_heads, self.linear_head_dim, self._width
        tokens, d_model = site.tokens, site.hidden_size
        vector = site.precision.dtypes("norm")
        found: Operators = {
            "qkv_proj": Gemm(
                m=tokens, n=3 * width, k=d_model, stored=((width, d_model),) * 3, dtypes=site.precision.dtypes("mixer/qkv_proj")
            ),
            "conv": causal_conv(site, 3 * width, self.linear_conv_kernel_dim),
            "f_a_proj": Gemm(m=tokens, n=d_head, k=d_model, dtypes=site.precision.dtypes("mixer/f_a_proj")),
            "f_b_proj": Gemm(m=tokens, n=width, k=d_head, dtypes=site.precision.dtypes("mixer/f_b_proj")),
            "b_proj": Gemm(m=tokens, n=heads, k=d_model, dtypes=site.precision.dtypes("mixer/b_proj")),
        }
        for suffix, _, segment in per_segment(site):
            found["core" + suffix] = DeltaRule(
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
        found["g_a_proj"] = Gemm(m=tokens, n=d_head, k=d_model, dtypes=site.precision.dtypes("mixer/g_a_proj"))
        found["g_b_proj"] = Gemm(m=tokens, n=width, k=d_head, dtypes=site.precision.dtypes("mixer/g_b_proj"))
        found["gated_norm"] = Norm(rows=tokens * heads, width=d_head, gated=True, dtypes=vector)
        found["o_proj"] = Gemm(m=tokens, n=d_model, k=width, dtypes=site.precision.dtypes("mixer/o_proj"))
        return found

    def state(self) -> State:
        """The last inputs of the convolutions of q, k and v, and a matrix a head."""
        recurrent = self._width * self.linear_head_dim
        return State(conv=3 * self._width, conv_kernel=self.linear_conv_kernel_dim, recurrent=recurrent)
