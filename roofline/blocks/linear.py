"""One matrix in the place of a block (Nemotron-NAS, `replace_with_linear`): a layer whose attention or feed-forward block
was found to need no more."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofline.blocks.base import Block, Cache, FeedForwardBlock, MixerBlock, Operators, Site
from roofline.operators.gemm import Gemm


class _Linear(Block):
    """A square matrix of the hidden size. Nothing divides it: every tensor-parallel device has the whole of it.

    Source: Bercovich et al. 2024 (Puzzle), arXiv:2411.19146, section 2.
    """

    divided: ClassVar[bool] = False
    bias: bool = False

    def operators(self, site: Site) -> Operators:
        """The product."""
        width, dtypes = site.hidden_size, site.precision.dtypes(f"{self.path}/linear")
        return {"linear": Gemm(m=site.tokens, n=width, k=width, bias=self.bias, dtypes=dtypes)}


class LinearMixer(_Linear, MixerBlock):
    """In the place of attention: no token meets another."""

    kind: Literal["linear_mixer"]

    def cache(self) -> Cache | None:
        """Nothing is kept."""
        return None


class LinearMlp(_Linear, FeedForwardBlock):
    """In the place of a feed-forward block."""

    kind: Literal["linear_mlp"]
