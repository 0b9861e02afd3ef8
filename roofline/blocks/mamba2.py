"""Mamba-2: a state-space model with a matrix of state for each head, computed like linear attention (SSD)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import MixerBlock, Operators, Sharding, Site, State, causal_conv, per_segment
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.operators.linear_attention import LinearAttention
from roofline.operators.norm import Norm
from roofline.specs.base import Whole


class Mamba2(MixerBlock):
    """Mamba-2 (Nemotron-H, Granite 4, Bamba, Zamba2, Falcon-H1). One projection gives the gate z, the convolved x, B and C, and
    a step for each head. B and C are shared by the heads of a group.

    NB: with several devices a group of the gated norm may be spread over some; the sum of squares that they then exchange,
    one number a token, is not counted.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"mamba_num_heads": "exact", "n_groups": "replicate"}
    path: ClassVar[str] = "mamba"

    kind: Literal["mamba2"]
    mamba_num_heads: Whole = Field(ge=1)
    mamba_head_dim: Whole = Field(ge=1)
    n_groups: Whole = Field(default=1, ge=1, description="groups of heads that share B and C")
    ssm_state_size: Whole = Field(ge=1, description="rows of a head's state")
    conv_kernel: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, the token itself included")
    chunk_size: Whole = Field(default=256, ge=1, description="tokens of a chunk in the scan of a prompt")
    use_conv_bias: bool = True
    use_bias: bool = Field(default=False, description="biases of the input and output projections")
    mamba_rms_norm: bool = Field(default=True, description="a norm with the gate; false: the gate alone")

    @model_validator(mode="after")
    def _consistent(self) -> Mamba2:
        if self.mamba_num_heads % self.n_groups:
            msg = f"n_groups ({self.n_groups}) must divide mamba_num_heads ({self.mamba_num_heads})"
            raise ValueError(msg)
        return self

    @property
    def _inner(self) -> Expr:
        return self.mamba_num_heads * self.mamba_head_dim

    @property
    def _convolved(self) -> Expr:
        """Channels of x, B and C."""
        return self._inner + 2 * self.n_groups * self.ssm_state_size

    def operators(self, site: Site) -> Operators:
        """Projection in, convolution, scan, gated norm, projection out."""
        heads, inner, tokens = self.mamba_num_heads, self._inner, site.tokens
        vector = site.precision.dtypes("norm")
        projected = inner + self._convolved + heads
        found: Operators = {
            "in_proj": Gemm(
                m=tokens, n=projected, k=site.hidden_size, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/in_proj")
            ),
            "conv": causal_conv(site, self._convolved, self.conv_kernel, bias=self.use_conv_bias),
        }
        for suffix, _, segment in per_segment(site):
            found["core" + suffix] = LinearAttention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=heads,
                n_groups=self.n_groups,
                d_k=self.ssm_state_size,
                d_v=self.mamba_head_dim,
                chunk_size=self.chunk_size,
                selective=True,
                recurrent=segment.decode,
                borrowed=segment is not site.step[0],
                dtypes=vector,
            )
        if self.mamba_rms_norm:
            found["gated_norm"] = Norm(rows=tokens, width=inner, gated=True, dtypes=vector)
        else:
            found["gate"] = Activation(rows=tokens, width=inner, gated=True, dtypes=vector)
        found["out_proj"] = Gemm(
            m=tokens, n=site.hidden_size, k=inner, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/out_proj")
        )
        return found

    def state(self) -> State:
        """The last inputs of the convolution, and a matrix a head."""
        return State(conv=self._convolved, conv_kernel=self.conv_kernel, recurrent=self._inner * self.ssm_state_size)
