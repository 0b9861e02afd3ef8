"""Gated short convolutions (LFM2): what mixes tokens is a causal convolution over a few of them, between two gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import BlockContext, MixerBlock, Operators, Sharding, State, Weight, causal_conv
from roofline.operators.add import Add
from roofline.operators.gemm import Gemm
from roofline.specs.base import Whole


class ShortConvolution(MixerBlock):
    """One projection gives B, C and x, each `conv_dim` wide; x is gated by B, convolved, and gated by C.
    A gate is a product of two tensors, which costs what their sum would.

    Source: LFM2, https://huggingface.co/LiquidAI/LFM2-1.2B, and its class in transformers.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"conv_dim": "exact"}
    path: ClassVar[str] = "short_conv"

    kind: Literal["short_conv"]
    conv_dim: Whole = Field(ge=1, description="channels of the convolution")
    conv_kernel: Whole = Field(ge=1, description="tokens that the convolution sees, the token itself included")
    use_bias: bool = Field(default=False, description="biases of the projections and of the convolution")

    def operators(self, site: BlockContext) -> Operators:
        """Projection in, first gate, convolution, second gate, projection out."""
        width, tokens, vector = self.conv_dim, site.tokens, site.precision.dtypes("norm")
        rows, columns = width, site.hidden_size
        return {
            "in_proj": Gemm(
                m=tokens, n=3 * width, k=site.hidden_size, bias=self.use_bias, stored=((rows, columns),) * 3,
                dtypes=site.precision.dtypes("mixer/in_proj"),
            ),
            "input_gate": Add(elements=tokens * width, dtypes=vector),
            "conv": causal_conv(site, width, self.conv_kernel, bias=self.use_bias, activation=False),
            "output_gate": Add(elements=tokens * width, dtypes=vector),
            "out_proj": Gemm(
                m=tokens, n=site.hidden_size, k=width, bias=self.use_bias, dtypes=site.precision.dtypes("mixer/out_proj")
            ),
        }  # fmt: skip

    def state(self) -> State:
        """The channels' last inputs."""
        return State(conv=self.conv_dim, conv_kernel=self.conv_kernel)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Names, shapes and roles, as published checkpoints have them."""
        width = self.conv_dim
        yield Weight("short_conv.in", (3 * width, hidden), "mixer/in_proj", bias=3 * width * self.use_bias)
        yield Weight("short_conv.conv", (width, 1, self.conv_kernel), bias=width * self.use_bias)
        yield Weight("short_conv.out", (hidden, width), "mixer/out_proj", bias=hidden * self.use_bias)
