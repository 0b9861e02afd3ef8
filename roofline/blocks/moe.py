"""Mixture of experts: a router sends each token to its top-k experts; shared experts see every token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, FeedForwardBlock, Operators, Sharding, Weight
from roofline.dtypes import Shape
from roofline.numeric import Expr, ratio
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.collectives import ExpertRouting
from roofline.operators.combine import Combine
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.norm import Norm
from roofline.operators.sampling import Sampling
from roofline.specs.base import Whole


class MixtureOfExperts(FeedForwardBlock):
    """Router, routed experts (gated or plain), and shared experts, which are one dense MLP of their joint width.

    Latent experts (`moe_latent_size`) work on a narrower copy of the stream, made and undone by two projections; router
    and shared experts work on the stream itself. Norms inside the block are RMSNorms.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"moe_intermediate_size": "experts", "shared_intermediate_size": "split"}
    path: ClassVar[str] = "moe"
    conventions: ClassVar[frozenset[str]] = frozenset({"routing_skew"})

    kind: Literal["moe"]
    num_experts: Whole = Field(ge=1)
    num_experts_per_tok: Whole = Field(ge=1)
    moe_intermediate_size: Whole = Field(ge=1, description="inner width of one routed expert")
    shared_intermediate_size: Whole = Field(default=0, ge=0, description="inner width of all shared experts together")
    zero_expert_num: Whole = Field(
        default=0,
        ge=0,
        description="further experts, which compute nothing: the router scores them; num_experts_per_tok is without",
    )
    gated: bool = True
    bias: bool = Field(default=False, description="biases of the routed experts")
    router_bias: bool = False
    router_norm: bool = Field(default=False, description="a norm of the router's own input")
    expert_scale: bool = Field(default=False, description="a learned scale of each routed expert's gate")
    hash_routing: bool = Field(
        default=False, description="experts are looked up by the token's id; the router only weighs them"
    )
    shared_gate: bool = Field(default=False, description="a learned scalar gate on the shared experts' output")
    shared_bias: bool = Field(default=False, description="biases of the shared experts and of the latent projections")
    moe_latent_size: Whole | None = Field(
        default=None, ge=1, description="width to which tokens are projected for the routed experts; default: not at all"
    )
    n_group: Whole = Field(default=1, ge=1, description="groups of experts, of which a token's are in `topk_group`")
    topk_group: Whole = Field(default=1, ge=1, description="groups that a token's experts are in, at most")
    branch_norms: bool = Field(
        default=False, description="norms before and after the routed experts, and after the shared ones"
    )

    @model_validator(mode="after")
    def _consistent(self) -> MixtureOfExperts:
        if self.num_experts_per_tok > self.num_experts:
            msg = f"num_experts_per_tok ({self.num_experts_per_tok}) is more than num_experts ({self.num_experts})"
            raise ValueError(msg)
        if self.topk_group > self.n_group:
            msg = f"topk_group ({self.topk_group}) is more than n_group ({self.n_group})"
            raise ValueError(msg)
        if self.num_experts % self.n_group:
            msg = f"n_group ({self.n_group}) must divide num_experts ({self.num_experts})"
            raise ValueError(msg)
        if self.num_experts_per_tok > self.num_experts // self.n_group * self.topk_group:
            msg = (
                f"num_experts_per_tok ({self.num_experts_per_tok}) is more than {self.topk_group} of {self.n_group} groups have"
            )
            raise ValueError(msg)
        if self.branch_norms and not self.shared_intermediate_size:
            msg = "branch_norms wants shared experts beside the routed ones: shared_intermediate_size is 0"
            raise ValueError(msg)
        return self

    @property
    def routing(self) -> ExpertRouting:
        """Where the experts of a token may be."""
        return ExpertRouting(
            top_k=self.num_experts_per_tok, n_group=self.n_group, topk_group=self.topk_group, experts=self.num_experts
        )

    @property
    def experts(self) -> tuple[int, int]:
        """The numbers of routed experts and of those that a token uses."""
        return self.num_experts, self.num_experts_per_tok

    @property
    def branches(self) -> tuple[str, ...]:
        """Routed and shared experts, if each has a norm behind it: a norm needs whole outputs."""
        return ("experts", "shared") if self.branch_norms else ()

    @property
    def has_shared_experts(self) -> bool:
        """Whether shared experts have a width."""
        return bool(self.shared_intermediate_size)

    def routed_width(self, hidden: Expr) -> Expr:
        """The latent width if there is one, else `hidden`, in elements."""
        return hidden if self.moe_latent_size is None else self.moe_latent_size

    def describe(self) -> str:
        """Its kind, the experts that a token uses of all, and the inner widths of one and of the shared ones together."""
        shared = f", shared {self.shared_intermediate_size:,}" if self.has_shared_experts else ""
        return f"MoE, {self.num_experts_per_tok} of {self.num_experts} experts of width {self.moe_intermediate_size:,}{shared}"

    def part_of(self, operator: str) -> str:
        """Routed experts, shared experts, router or latent projections."""
        first = operator.partition("/")[0]
        names = {"experts": "experts", "shared": "shared experts", "router": "router", "latent": "latent projections"}
        return names.get(first, "moe")

    def operators(self, site: BlockContext) -> Operators:
        """Router and choice; up, activation and down of the chosen experts; the weighted sum; the shared experts."""
        d_model, k = site.hidden_size, self.num_experts_per_tok
        vector, router = site.precision.dtypes("norm"), site.precision.dtypes("router")
        wide = 2 if self.gated else 1
        slots = self.num_experts + site.redundant_experts if site.redundant_experts else self.num_experts
        spread = None if site.expert_ranks == 1 else slots // site.expert_ranks

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
                imbalance=site.conventions.expert_imbalance,
                redundant=site.redundant_experts,
                stored=stored,
                dtypes=site.precision.dtypes(role),
            )

        width = self.routed_width(d_model)
        scales = self.num_experts if self.expert_scale else 0
        d_e = self.moe_intermediate_size
        up = grouped(wide * d_e, width, "experts/up_proj", ((d_e, width),) * wide)
        # Without an exchange a device sums those of a token's k outputs that its own experts made, in expectation.
        terms = k if site.exchanged or spread is None else ratio(k * spread, slots) * up.excess
        operators: Operators = {}
        if self.router_norm:
            operators["router/norm"] = self._norm(site)
        scored = self.num_experts + self.zero_expert_num if self.zero_expert_num else self.num_experts
        operators["router"] = Gemm(m=site.tokens, n=scored, k=d_model, bias=self.router_bias, dtypes=router)
        if not self.hash_routing:
            operators["choose"] = Sampling(rows=site.tokens, choices=scored, dtypes=vector)
        if self.branch_norms:
            operators["experts/norm"] = self._norm(site)
        if self.moe_latent_size is not None:
            operators["latent/down_proj"] = self._dense(site, "mlp/latent_proj", width, d_model, m=site.combined_tokens)
        operators["experts/up_proj"] = up
        operators["experts/activation"] = Activation(rows=up.rows, width=d_e, gated=self.gated, dtypes=vector)
        operators["experts/down_proj"] = grouped(width, d_e, "experts/down_proj")
        operators["combine"] = Combine(tokens=site.combined_tokens, width=width, terms=terms, scales=scales, dtypes=vector)
        if self.moe_latent_size is not None:
            operators["latent/up_proj"] = self._dense(site, "mlp/latent_proj", d_model, width, m=site.combined_tokens)
        if self.branch_norms:
            operators["experts/post_norm"] = self._norm(site, site.stream_tokens)
        return operators | self._shared(site)

    def _shared(self, site: BlockContext) -> Operators:
        """The shared experts, where there are any, and what their outputs and those of the routed ones become."""
        width, d_model = self.shared_intermediate_size, site.hidden_size
        if isinstance(width, int) and width == 0:
            return {}
        vector, wide = site.precision.dtypes("norm"), 2 if self.gated else 1
        operators: Operators = {}
        if self.shared_gate:
            operators["shared/gate"] = Gemm(m=site.tokens, n=1, k=d_model, dtypes=site.precision.dtypes("router"))
        operators["shared/up_proj"] = self._dense(site, "shared_experts/up_proj", wide * width, d_model, parts=wide)
        operators["shared/activation"] = Activation(rows=site.tokens, width=width, gated=self.gated, dtypes=vector)
        operators["shared/down_proj"] = self._dense(site, "shared_experts/down_proj", d_model, width)
        if self.branch_norms:
            operators["shared/post_norm"] = self._norm(site, site.stream_tokens)
            operators["add"] = Add(elements=site.stream_tokens * d_model, dtypes=vector)
        return operators

    def _dense(self, site: BlockContext, role: str, n: Expr, k: Expr, m: Expr | None = None, parts: int = 1) -> Gemm:
        """A product that every token has, or every one of `m`; its weights are stored as that many equal `parts`."""
        return Gemm(
            m=site.tokens if m is None else m,
            n=n,
            k=k,
            bias=self.shared_bias,
            stored=((ratio(n, parts), k),) * parts if parts > 1 else (),
            dtypes=site.precision.dtypes(role),
        )

    def _norm(self, site: BlockContext, rows: Expr | None = None) -> Norm:
        return Norm(rows=site.tokens if rows is None else rows, width=site.hidden_size, dtypes=site.precision.dtypes("norm"))

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        experts, inner = self.num_experts, self.moe_intermediate_size
        ups = ("gate", "up") if self.gated else ("up",)
        width = self.routed_width(hidden)
        if self.router_norm:
            yield Weight("router.scale", (hidden,))
        scored = experts + self.zero_expert_num
        yield Weight("router", (scored, hidden), "router", bias=scored * self.router_bias)
        if self.expert_scale:
            yield Weight("router.expert_scale", (experts,))
        if self.branch_norms:
            yield from (Weight(f"norm.{place}", (hidden,)) for place in ("before_experts", "after_experts", "after_shared"))
        if self.moe_latent_size is not None:
            yield Weight("latent.down", (width, hidden), "mlp/latent_proj", bias=width * self.shared_bias)
            yield Weight("latent.up", (hidden, width), "mlp/latent_proj", bias=hidden * self.shared_bias)
        for name in ups:
            yield Weight(f"experts.{name}", (inner, width), "experts/up_proj", bias=inner * self.bias, copies=experts)
        yield Weight("experts.down", (width, inner), "experts/down_proj", bias=width * self.bias, copies=experts)
        if shared := self.shared_intermediate_size:
            if self.shared_gate:
                yield Weight("shared.gate_of_output", (1, hidden), "router")
            bias = self.shared_bias
            yield from (
                Weight(f"shared.{name}", (shared, hidden), "shared_experts/up_proj", bias=shared * bias) for name in ups
            )
            yield Weight("shared.down", (hidden, shared), "shared_experts/down_proj", bias=hidden * bias)
