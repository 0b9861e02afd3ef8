"""Gated feed-forward block (SwiGLU, GeGLU): down(act(gate(x)) * up(x))."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import FeedForwardBlock, Operators, Sharding, Site
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.specs.base import Whole


class GatedMlp(FeedForwardBlock):
    """Three matrices; gate and up are one fused projection, as engines store it: the input is read once for both."""

    sharding: ClassVar[dict[str, Sharding]] = {"intermediate_size": "split"}

    kind: Literal["gated_mlp"]
    intermediate_size: Whole = Field(ge=1)
    bias: bool = False

    def operators(self, site: Site) -> Operators:
        """Gate and up together, activation, down."""
        d_ff, d_model = self.intermediate_size, site.hidden_size
        up, down = site.precision.dtypes("mlp/gate_up_proj"), site.precision.dtypes("mlp/down_proj")
        two = ((d_ff, d_model),) * 2
        return {
            "gate_up_proj": Gemm(m=site.tokens, n=2 * d_ff, k=d_model, bias=self.bias, stored=two, dtypes=up),
            "activation": Activation(rows=site.tokens, width=d_ff, gated=True, dtypes=site.precision.dtypes("norm")),
            "down_proj": Gemm(m=site.tokens, n=d_model, k=d_ff, bias=self.bias, dtypes=down),
        }
