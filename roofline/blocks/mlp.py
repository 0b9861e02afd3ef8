"""Dense feed-forward blocks: plain, down(act(up(x))), and gated (SwiGLU, GeGLU), down(act(gate(x)) * up(x))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import BlockContext, FeedForwardBlock, Operators, Sharding, Weight
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.specs.base import Whole


class Mlp(FeedForwardBlock):
    """Two matrices around a non-linearity."""

    sharding: ClassVar[dict[str, Sharding]] = {"intermediate_size": "split"}

    kind: Literal["mlp"]
    intermediate_size: Whole = Field(ge=1)
    bias: bool = False
    activation_parameters: Whole = Field(default=0, ge=0, description="learned scalars of the non-linearity (xIELU: 2)")

    @property
    def shareable(self) -> bool:
        """Always."""
        return True

    def operators(self, site: BlockContext) -> Operators:
        """Up, activation, down."""
        d_ff, up, down = self.intermediate_size, site.precision.dtypes("mlp/up_proj"), site.precision.dtypes("mlp/down_proj")
        return {
            "up_proj": Gemm(m=site.tokens, n=d_ff, k=site.hidden_size, bias=self.bias, dtypes=up),
            "activation": Activation(
                rows=site.tokens,
                width=d_ff,
                gated=False,
                learned=self.activation_parameters,
                dtypes=site.precision.dtypes("norm"),
            ),
            "down_proj": Gemm(m=site.tokens, n=site.hidden_size, k=d_ff, bias=self.bias, dtypes=down),
        }

    def describe(self) -> str:
        """Its kind and inner width."""
        return f"MLP, width {self.intermediate_size:,}"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Two matrices, and the scalars of the non-linearity."""
        width = self.intermediate_size
        yield Weight("mlp.up", (width, hidden), "mlp/up_proj", bias=width * self.bias)
        yield Weight("mlp.down", (hidden, width), "mlp/down_proj", bias=hidden * self.bias)
        yield from (Weight(f"mlp.activation_{number}", (1,)) for number in range(self.activation_parameters))


class GatedMlp(FeedForwardBlock):
    """Three matrices; gate and up are one fused projection, as engines store it: the input is read once for both."""

    sharding: ClassVar[dict[str, Sharding]] = {"intermediate_size": "split"}

    kind: Literal["gated_mlp"]
    intermediate_size: Whole = Field(ge=1)
    bias: bool = False
    down_bias: bool = Field(default=False, description="a bias of the last matrix, also where the others have none")
    sparse_activation: bool = Field(
        default=False, description="what is below a quantile of a token's gates, by their mean and deviation, becomes zero"
    )
    inner_norm: bool = Field(default=False, description="a norm before the last matrix (RMSNorm)")
    inner_norm_weight: bool = Field(default=True, description="false: that norm has no weight")
    inner_scales: bool = Field(default=False, description="a learned scale of each output of gate and up")
    fused_weights: bool = Field(default=False, description="checkpoints have gate and up as one matrix")

    @property
    def shareable(self) -> bool:
        """Always."""
        return True

    def operators(self, site: BlockContext) -> Operators:
        """Gate and up together, activation, down."""
        d_ff, d_model = self.intermediate_size, site.hidden_size
        up, down = site.precision.dtypes("mlp/gate_up_proj"), site.precision.dtypes("mlp/down_proj")
        stored = ((2 * d_ff, d_model),) if self.fused_weights else ((d_ff, d_model),) * 2
        vector = site.precision.dtypes("norm")
        operators: Operators = {
            "gate_up_proj": Gemm(m=site.tokens, n=2 * d_ff, k=d_model, bias=self.bias, stored=stored, dtypes=up),
        }
        if self.sparse_activation:
            # NB: mean, deviation and cut-off are 6 FLOP an element, a LayerNorm's without weight and bias. The products are not
            # sparse: zeros are multiplied. With several devices each has the mean and the deviation of its part.
            operators["cut_off"] = Norm(rows=site.tokens, width=d_ff, function="layernorm", weight=False, dtypes=vector)
        # NB: the products with scales are not counted
        scales = 2 * d_ff if self.inner_scales else 0
        operators["activation"] = Activation(rows=site.tokens, width=d_ff, gated=True, learned=scales, dtypes=vector)
        if self.inner_norm:
            # NB: with several devices the sum of squares that they exchange, one number per token, is not counted
            operators["inner_norm"] = Norm(rows=site.tokens, width=d_ff, weight=self.inner_norm_weight, dtypes=vector)
        biased = self.bias or self.down_bias
        operators["down_proj"] = Gemm(m=site.tokens, n=d_model, k=d_ff, bias=biased, dtypes=down)
        return operators

    def describe(self) -> str:
        """Its kind and inner width."""
        return f"gated MLP, width {self.intermediate_size:,}"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Three matrices."""
        width = self.intermediate_size
        yield from (
            Weight(f"mlp.{name}", (width, hidden), "mlp/gate_up_proj", bias=width * self.bias) for name in ("gate", "up")
        )
        if self.inner_norm and self.inner_norm_weight:
            yield Weight("mlp.inner_norm", (width,))
        if self.inner_scales:
            yield from (Weight(f"mlp.{name}_scale", (width,)) for name in ("gate", "up"))
        yield Weight("mlp.down", (hidden, width), "mlp/down_proj", bias=hidden * (self.bias or self.down_bias))
