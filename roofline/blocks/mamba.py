"""Mamba: a selective state-space model with a state for each channel."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import MixerBlock, Operators, Sharding, Site, State, causal_conv, per_segment
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.operators.selective_scan import SelectiveScan
from roofline.specs.base import Whole


class Mamba(MixerBlock):
    """Mamba-1 (Jamba). Two streams of width d_inner: one is convolved and scanned, the other gates the result. The step
    Delta, and B and C, come from the convolved stream by `x_proj`; Delta is of low rank and widened by `dt_proj`.

    A tensor-parallel device has part of the channels, so that each has part of every output of `x_proj`: they are summed.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"mamba_d_inner": "exact"}
    summed: ClassVar[frozenset[str]] = frozenset({"x_proj"})
    path: ClassVar[str] = "mamba"

    kind: Literal["mamba"]
    mamba_d_inner: Whole = Field(ge=1, description="channels: expand x hidden_size")
    ssm_state_size: Whole = Field(ge=1, description="elements of state a channel")
    time_step_rank: Whole = Field(ge=1, description="rank of the step Delta")
    conv_kernel: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, the token itself included")
    use_conv_bias: bool = True
    use_bias: bool = Field(default=False, description="biases of the input and output projections")
    ssm_norms: bool = Field(default=False, description="norms of Delta, B and C (Jamba)")

    def operators(self, site: Site) -> Operators:
        """Projection in, convolution, Delta, B and C, scan with its gate, projection out."""
        inner, state, rank = self.mamba_d_inner, self.ssm_state_size, self.time_step_rank
        tokens, d_model = site.tokens, site.hidden_size
        vector = site.precision.dtypes("norm")
        found: Operators = {
            "in_proj": Gemm(
                m=tokens, n=2 * inner, k=d_model, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/in_proj")
            ),
            "conv": causal_conv(site, inner, self.conv_kernel, bias=self.use_conv_bias),
            "x_proj": Gemm(m=tokens, n=rank + 2 * state, k=inner, dtypes=site.precision.dtypes("mixer/x_proj")),
        }
        if self.ssm_norms:
            found["dt_norm"] = Norm(rows=tokens, width=rank, dtypes=vector)
            found["b_norm"] = Norm(rows=tokens, width=state, dtypes=vector)
            found["c_norm"] = Norm(rows=tokens, width=state, dtypes=vector)
        found["dt_proj"] = Gemm(m=tokens, n=inner, k=rank, bias=True, dtypes=site.precision.dtypes("mixer/dt_proj"))
        for suffix, _, segment in per_segment(site):
            found["core" + suffix] = SelectiveScan(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                channels=inner,
                state_size=state,
                borrowed=segment is not site.step[0],
                dtypes=vector,
            )
        found["out_proj"] = Gemm(
            m=tokens, n=d_model, k=inner, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/out_proj")
        )
        return found

    def state(self) -> State:
        """The channels' last inputs, and N elements of state each."""
        return State(conv=self.mamba_d_inner, conv_kernel=self.conv_kernel, recurrent=self.mamba_d_inner * self.ssm_state_size)
