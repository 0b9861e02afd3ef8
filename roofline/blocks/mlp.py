"""Plain feed-forward block: down(act(up(x)))."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import FeedForwardBlock, Operators, Sharding, Site
from roofline.operators.activation import Activation
from roofline.operators.gemm import Gemm
from roofline.specs.base import Whole


class Mlp(FeedForwardBlock):
    """Two matrices around a non-linearity."""

    sharding: ClassVar[dict[str, Sharding]] = {"intermediate_size": "split"}

    kind: Literal["mlp"]
    intermediate_size: Whole = Field(ge=1)
    bias: bool = False
    activation_parameters: Whole = Field(default=0, ge=0, description="learned scalars of the non-linearity (xIELU: 2)")

    def operators(self, site: Site) -> Operators:
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
