"""Softmax attention and Mamba-2 side by side in one layer (Falcon-H1): both read the same input, their outputs are added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, Operators, Sharding, State, Weight
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mamba import state_space_duality, weights_of_mamba2
from roofline.numeric import Expr
from roofline.operators.add import Add
from roofline.specs.base import Whole


class AttentionAndMamba2(GroupedQueryAttention):
    """The keys of `gqa` and, under `mamba_` or as there, those of `mamba2`.

    Tensor-parallel devices divide the heads of both and sum the two outputs, added, with one all-reduce.

    Source: Falcon-H1, arXiv:2507.22448, section 2.
    """

    sharding: ClassVar[dict[str, Sharding]] = {
        "num_attention_heads": "exact", "num_key_value_heads": "replicate", "mamba_num_heads": "exact",
        "n_groups": "replicate",
    }  # fmt: skip

    kind: Literal["gqa_and_mamba2"]  # type: ignore[assignment]
    mamba_num_heads: Whole = Field(ge=1)
    mamba_head_dim: Whole = Field(ge=1)
    n_groups: Whole = Field(default=1, ge=1, description="groups of heads that share B and C")
    ssm_state_size: Whole = Field(ge=1, description="rows of a head's state")
    conv_kernel: Whole = Field(default=4, ge=1, description="tokens that the convolution sees, the token itself included")
    chunk_size: Whole = Field(default=256, ge=1, description="tokens of a chunk in the scan of a prompt")
    use_conv_bias: bool = True
    use_bias: bool = Field(default=False, description="biases of Mamba-2's projections")
    mamba_rms_norm: bool = Field(default=True, description="a norm with Mamba-2's gate; false: the gate alone")

    @model_validator(mode="after")
    def _groups_divide(self) -> AttentionAndMamba2:
        if self.mamba_num_heads % self.n_groups:
            msg = f"n_groups ({self.n_groups}) must divide mamba_num_heads ({self.mamba_num_heads})"
            raise ValueError(msg)
        return self

    def operators(self, site: BlockContext) -> Operators:
        """Those of attention, those of Mamba-2 under `ssm/`, and the sum of the two outputs."""
        operators: Operators = super().operators(site)
        beside = state_space_duality(
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
        operators |= {f"ssm/{name}": operator for name, operator in beside.items()}
        operators["sum"] = Add(elements=site.tokens * site.hidden_size, dtypes=site.precision.dtypes("norm"))
        return operators

    def state(self) -> State:
        """The last inputs of the convolution, and one matrix per head of Mamba-2."""
        inner: Expr = self.mamba_num_heads * self.mamba_head_dim
        convolved = inner + 2 * self.n_groups * self.ssm_state_size
        return State(conv=convolved, conv_kernel=self.conv_kernel, recurrent=inner * self.ssm_state_size)

    def describe(self) -> str:
        """Attention as there, and the state's heads."""
        return f"{super().describe()}, beside Mamba-2, {self.mamba_num_heads} heads of {self.mamba_head_dim}"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        yield from super().checkpoint_weights(hidden)
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
