"""Mixture of experts: a router sends each token to its top-k experts; shared experts see every token."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import FeedForwardBlock, Operators, Sharding, Site
from roofline.dtypes import Shape
from roofline.numeric import ratio
from roofline.operators.activation import Activation
from roofline.operators.combine import Combine
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.sampling import Sampling
from roofline.specs.base import Whole


class MixtureOfExperts(FeedForwardBlock):
    """Router, routed experts (gated or plain), and shared experts, which are one dense MLP of their joint width."""

    sharding: ClassVar[dict[str, Sharding]] = {"moe_intermediate_size": "experts", "shared_intermediate_size": "split"}
    path: ClassVar[str] = "moe"

    kind: Literal["moe"]
    num_experts: Whole = Field(ge=1)
    num_experts_per_tok: Whole = Field(ge=1)
    moe_intermediate_size: Whole = Field(ge=1, description="inner width of one routed expert")
    shared_intermediate_size: Whole = Field(default=0, ge=0, description="inner width of all shared experts together")
    gated: bool = True
    bias: bool = Field(default=False, description="biases of the routed experts")
    router_bias: bool = False
    shared_gate: bool = Field(default=False, description="a learned scalar gate on the shared experts' output")

    @model_validator(mode="after")
    def _consistent(self) -> MixtureOfExperts:
        if self.num_experts_per_tok > self.num_experts:
            msg = f"num_experts_per_tok ({self.num_experts_per_tok}) is more than num_experts ({self.num_experts})"
            raise ValueError(msg)
        return self

    @property
    def experts(self) -> tuple[int, int]:
        """All of them, and those that a token uses."""
        return self.num_experts, self.num_experts_per_tok

    def operators(self, site: Site) -> Operators:
        """Router and choice; up, activation and down of the chosen experts; the weighted sum; the shared experts."""
        d_model, k = site.hidden_size, self.num_experts_per_tok
        vector, router = site.precision.dtypes("norm"), site.precision.dtypes("router")
        wide = 2 if self.gated else 1
        spread = None if site.expert_ranks == 1 else self.num_experts // site.expert_ranks

        def grouped(n: object, k_dim: object, role: str, stored: tuple[Shape, ...] = ()) -> GroupedGemm:
            return GroupedGemm(
                tokens=site.expert_tokens,
                n=n,
                k=k_dim,
                experts=self.num_experts,
                top_k=k,
                local_experts=spread,
                bias=self.bias,
                skew=site.conventions.routing_skew,
                stored=stored,
                dtypes=site.precision.dtypes(role),
            )

        # Without an exchange a device sums those of a token's k outputs that its own experts made, in expectation.
        terms = k if site.exchanged or spread is None else ratio(k * spread, self.num_experts)
        d_e = self.moe_intermediate_size
        up = grouped(wide * d_e, d_model, "experts/up_proj", ((d_e, d_model),) * wide)
        found: Operators = {
            "router": Gemm(m=site.tokens, n=self.num_experts, k=d_model, bias=self.router_bias, dtypes=router),
            "choose": Sampling(rows=site.tokens, choices=self.num_experts, dtypes=vector),
            "experts/up_proj": up,
            "experts/activation": Activation(rows=up.rows, width=self.moe_intermediate_size, gated=self.gated, dtypes=vector),
            "experts/down_proj": grouped(d_model, d_e, "experts/down_proj"),
            "combine": Combine(tokens=site.combined_tokens, width=d_model, terms=terms, dtypes=vector),
        }
        if not (isinstance(self.shared_intermediate_size, int) and self.shared_intermediate_size == 0):
            width, joint = self.shared_intermediate_size, ((self.shared_intermediate_size, d_model),) * wide
            shared_up, down = (site.precision.dtypes(f"shared_experts/{name}") for name in ("up_proj", "down_proj"))
            if self.shared_gate:
                found["shared/gate"] = Gemm(m=site.tokens, n=1, k=d_model, dtypes=router)
            found["shared/up_proj"] = Gemm(m=site.tokens, n=wide * width, k=d_model, stored=joint, dtypes=shared_up)
            found["shared/activation"] = Activation(rows=site.tokens, width=width, gated=self.gated, dtypes=vector)
            found["shared/down_proj"] = Gemm(m=site.tokens, n=d_model, k=width, dtypes=down)
        return found
