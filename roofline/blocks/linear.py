"""One matrix instead of a block (Nemotron-NAS, `replace_with_linear`): a layer whose attention or feed-forward block
was found to need no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from roofline.blocks.base import BlockContext, FeedForwardBlock, MixerBlock, Operators, Weight
from roofline.operators.gemm import Gemm


def _product(site: BlockContext, path: str, *, bias: bool) -> Operators:
    """A square matrix of the hidden size. Nothing divides it: every tensor-parallel device has the whole of it.

    Source: Bercovich et al. 2024 (Puzzle), arXiv:2411.19146, section 2.
    """
    width, dtypes = site.hidden_size, site.precision.dtypes(f"{path}/linear")
    return {"linear": Gemm(m=site.tokens, n=width, k=width, bias=bias, dtypes=dtypes)}


class LinearMixer(MixerBlock):
    """A linear layer instead of attention: no token meets another, and nothing is cached."""

    divided: ClassVar[bool] = False

    kind: Literal["linear_mixer"]
    bias: bool = False

    def operators(self, site: BlockContext) -> Operators:
        """One product, hidden_size x hidden_size."""
        return _product(site, self.path, bias=self.bias)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """The matrix."""
        yield Weight("linear.mixer", (hidden, hidden), "attention/linear", bias=hidden * self.bias)


class LinearMlp(FeedForwardBlock):
    """A linear layer instead of a feed-forward block."""

    divided: ClassVar[bool] = False

    kind: Literal["linear_mlp"]
    bias: bool = False

    def operators(self, site: BlockContext) -> Operators:
        """One product, hidden_size x hidden_size."""
        return _product(site, self.path, bias=self.bias)

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """The matrix."""
        yield Weight("linear.mlp", (hidden, hidden), "mlp/linear", bias=hidden * self.bias)
