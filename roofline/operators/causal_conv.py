"""Short causal convolution, one filter per channel, mostly with a SiLU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalConv(Operator):
    """Convolve each of `channels` with a filter of its own over the last `kernel` tokens; then SiLU, in the same kernel,
    unless there is no `activation`.

    An output is `kernel` multiply-adds, begun from the bias where there is one, and 4 FLOP of SiLU. All are vector FLOP: with
    one filter per channel there is no matrix to multiply. Inputs are read once and outputs written once.

    The state of a sequence is its last kernel - 1 inputs, in the activations' format: read by those of the `sequences`
    that are `resumed`, written by all. NB: written whole, as engines shift it, also where one token is new.

    >>> CausalConv(tokens=6, sequences=2, resumed=1, channels=8, kernel=4).cost()
    ... # (2*4 + 4)*48 FLOP; 2 B*8*4 weights; 2 B*(48 in + 48 out); 2 B*8*3 read by one, written by two
    Cost(vector_flops=576, weight_bytes=64, activation_bytes=192, state_read_bytes=48, state_write_bytes=96)
    >>> CausalConv(tokens=1, sequences=1, resumed=1, channels=8, kernel=4, bias=True).parameters  # 8 filters of 4 + 1
    40

    Source: Gu and Dao 2023 (Mamba), arXiv:2312.00752, section 3.4 and figure 3; Fu et al. 2022 (H3), arXiv:2212.14052.
    """

    kind: ClassVar[str] = "causal_conv"
    multiplies_weights: ClassVar[bool] = False
    tokens: Expr
    sequences: Expr
    resumed: Expr
    channels: Expr
    kernel: Expr
    bias: bool = False
    activation: bool = True

    def cost(self) -> Cost:
        """2 kernel + 4 FLOP per output (multiply-adds and SiLU); inputs, outputs and state once."""
        outputs, size = self.tokens * self.channels, self.dtypes.activation.bytes
        state = self.channels * (self.kernel - 1) * size
        return Cost(
            vector_flops=(2 * self.kernel + (4 if self.activation else 0)) * outputs,
            weight_bytes=self.parameters * self.dtypes.weight.bytes,
            activation_bytes=2 * outputs * size,
            state_read_bytes=self.resumed * state,
            state_write_bytes=self.sequences * state,
        )

    @property
    def parameters(self) -> Expr:
        """One filter of `kernel` weights per channel, and its bias, in elements."""
        return self.channels * (self.kernel + (1 if self.bias else 0))
