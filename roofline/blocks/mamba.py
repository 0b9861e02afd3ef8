"""State-space mixers: Mamba, with a state for each channel, and Mamba-2 (SSD), with a matrix of state for each head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, MixerBlock, Operators, Sharding, State, Weight, causal_conv, per_segment
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.operators.linear_attention import LinearAttention
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

    def operators(self, site: BlockContext) -> Operators:
        """Projection in, convolution, Delta, B and C, scan with its gate, projection out."""
        inner, state, rank = self.mamba_d_inner, self.ssm_state_size, self.time_step_rank
        tokens, d_model = site.tokens, site.hidden_size
        vector = site.precision.dtypes("norm")
        operators: Operators = {
            "in_proj": Gemm(
                m=tokens, n=2 * inner, k=d_model, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/in_proj")
            ),
            "conv": causal_conv(site, inner, self.conv_kernel, bias=self.use_conv_bias),
            "x_proj": Gemm(m=tokens, n=rank + 2 * state, k=inner, dtypes=site.precision.dtypes("mixer/x_proj")),
        }
        if self.ssm_norms:
            operators["dt_norm"] = Norm(rows=tokens, width=rank, dtypes=vector)
            operators["b_norm"] = Norm(rows=tokens, width=state, dtypes=vector)
            operators["c_norm"] = Norm(rows=tokens, width=state, dtypes=vector)
        operators["dt_proj"] = Gemm(m=tokens, n=inner, k=rank, bias=True, dtypes=site.precision.dtypes("mixer/dt_proj"))
        for suffix, _, segment in per_segment(site):
            operators["core" + suffix] = SelectiveScan(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                channels=inner,
                state_size=state,
                borrowed=segment is not site.step[0],
                dtypes=vector,
            )
        operators["out_proj"] = Gemm(
            m=tokens, n=d_model, k=inner, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/out_proj")
        )
        return operators

    def state(self) -> State:
        """The channels' last inputs, and N elements of state each."""
        return State(conv=self.mamba_d_inner, conv_kernel=self.conv_kernel, recurrent=self.mamba_d_inner * self.ssm_state_size)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        inner, state, rank = self.mamba_d_inner, self.ssm_state_size, self.time_step_rank
        yield Weight("mamba.in", (2 * inner, hidden), "mixer/in_proj", bias=2 * inner * self.use_bias)
        yield Weight("mamba.conv", (inner, 1, self.conv_kernel), bias=inner * self.use_conv_bias)
        yield Weight("mamba.x", (rank + 2 * state, inner), "mixer/x_proj")
        if self.ssm_norms:
            yield from (Weight(f"mamba.{name}_norm", (width,)) for name, width in (("dt", rank), ("b", state), ("c", state)))
        yield Weight("mamba.dt", (inner, rank), "mixer/dt_proj", bias=inner)
        yield Weight("mamba.A_log", (inner, state))
        yield Weight("mamba.D", (inner,))
        yield Weight("mamba.out", (hidden, inner), "mixer/out_proj", bias=hidden * self.use_bias)


def state_space_duality(
    site: BlockContext, *, heads: Expr, head_dim: Expr, groups: Expr, state_size: Expr, conv_kernel: Expr, chunk_size: Expr,
    conv_bias: bool, bias: bool, gated_norm: bool,
) -> Operators:  # fmt: skip
    """The operators of a Mamba-2 mixer: projection in, convolution, scan, gated norm or gate, projection out.

    Args:
        site: width of the residual stream, step, formats and conventions.
        heads: on this device.
        head_dim: elements of a head.
        groups: groups of heads that share B and C, on this device.
        state_size: rows of a head's state.
        conv_kernel: tokens that the convolution sees.
        chunk_size: tokens of a chunk in the scan of a prompt.
        conv_bias: whether the convolution has a bias.
        bias: whether the two projections have biases.
        gated_norm: whether the gate comes with a norm.
    """
    tokens, inner = site.tokens, heads * head_dim
    vector = site.precision.dtypes("norm")
    convolved = inner + 2 * groups * state_size
    projected = inner + convolved + heads
    operators: Operators = {
        "in_proj": Gemm(m=tokens, n=projected, k=site.hidden_size, bias=bias, dtypes=site.precision.dtypes("mixer/in_proj")),
        "conv": causal_conv(site, convolved, conv_kernel, bias=conv_bias),
    }
    for suffix, _, segment in per_segment(site):
        operators["core" + suffix] = LinearAttention(
            batch=segment.count,
            new=segment.new,
            cached=segment.cached,
            n_heads=heads,
            n_groups=groups,
            d_k=state_size,
            d_v=head_dim,
            chunk_size=chunk_size,
            selective=True,
            recurrent=segment.decode,
            borrowed=segment is not site.step[0],
            dtypes=vector,
        )
    if gated_norm:
        operators["gated_norm"] = Norm(rows=tokens, width=inner, gated=True, dtypes=vector)
    else:
        operators["gate"] = Activation(rows=tokens, width=inner, gated=True, dtypes=vector)
    operators["out_proj"] = Gemm(
        m=tokens, n=site.hidden_size, k=inner, bias=bias, dtypes=site.precision.dtypes("mixer/out_proj")
    )
    return operators


def weights_of_mamba2(
    hidden: int, heads: int, head_dim: int, groups: int, state_size: int, conv_kernel: int, *,
    conv_bias: bool, bias: bool, gated_norm: bool,
) -> Iterator[Weight]:  # fmt: skip
    """The weights of a Mamba-2 mixer in a checkpoint, from the sizes that `state_space_duality` takes."""
    inner = heads * head_dim
    convolved = inner + 2 * groups * state_size
    rows = inner + convolved + heads
    yield Weight("mamba.in", (rows, hidden), "mixer/in_proj", bias=rows * bias)
    yield Weight("mamba.conv", (convolved, 1, conv_kernel), bias=convolved * conv_bias)
    yield from (Weight(f"mamba.{name}", (heads,)) for name in ("A_log", "D", "dt_bias"))
    if gated_norm:
        yield Weight("mamba.norm", (inner,))
    yield Weight("mamba.out", (hidden, inner), "mixer/out_proj", bias=hidden * bias)


class Mamba2(MixerBlock):
    """Mamba-2 (Nemotron-H, Granite 4, Bamba, Zamba2, Falcon-H1). One projection gives the gate z, the convolved x, B and C, and
    a step for each head. B and C are shared by the heads of a group.

    NB: with several devices a group of the gated norm may be spread over some; the sum of squares that they then exchange,
    one number per token, is not counted.
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

    def operators(self, site: BlockContext) -> Operators:
        """Projection in, convolution, scan, gated norm, projection out."""
        return state_space_duality(
            site,
            heads=self.mamba_num_heads,
            head_dim=self.mamba_head_dim,
            groups=self.n_groups,
            state_size=self.ssm_state_size,
            conv_kernel=self.conv_kernel,
            chunk_size=self.chunk_size,
            conv_bias=self.use_conv_bias,
            bias=self.use_bias,
            gated_norm=self.mamba_rms_norm,
        )

    def state(self) -> State:
        """The last inputs of the convolution, and one matrix per head."""
        return State(conv=self._convolved, conv_kernel=self.conv_kernel, recurrent=self._inner * self.ssm_state_size)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        yield from weights_of_mamba2(
            hidden,
            self.mamba_num_heads,
            self.mamba_head_dim,
            self.n_groups,
            self.ssm_state_size,
            self.conv_kernel,
            conv_bias=self.use_conv_bias,
            bias=self.use_bias,
            gated_norm=self.mamba_rms_norm,
        )
