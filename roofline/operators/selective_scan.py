"""The selective scan of Mamba: a state-space model whose step and whose ways in and out depend on the token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveScan(Scan):
    """Scan of `channels` (d_inner), each with a state h of `state_size` (N) elements.

        h_t = exp(Delta_t A) h_(t-1) + Delta_t x_t B_t        y_t = (C_t h_t + D x_t) SiLU(z_t)

    A differs from element to element of the state, so nothing of it is a matrix product: all FLOP are vector FLOP, of a
    prompt as of one token, and no chunk size is in them. An element of the state costs 7 per token (Delta A, its exponential,
    the product with h, Delta x times B, their sum, the product with C, the sum over N); a channel 11 (softplus of Delta 3,
    Delta x 1, D x added 2, the gate and its SiLU 5). NB: a scan that works on a prompt's tokens in parallel does up to twice
    as many. A of exp(A_log) is not counted.

    Read: x, Delta and z per channel, B and C per token; written: y. The state never leaves the chip between tokens.

    >>> SelectiveScan(batch=2, new=3, cached=0, channels=8, state_size=4).cost()
    ... # (7*4 + 11)*48 FLOP; 2 B*8*(4 + 1) of A and D; 2 B*(4*48 + 2*6*4); 4 B*2*8*4 written
    Cost(vector_flops=1872, weight_bytes=80, activation_bytes=480, state_write_bytes=256)
    >>> SelectiveScan(batch=2, new=1, cached=9, channels=8, state_size=4).cost().state_read_bytes  # 4 B*2*8*4
    256

    Source: Gu and Dao 2023, arXiv:2312.00752, eq. 2, algorithm 2, section 3.3.2 (the state stays on chip).
    """

    kind: ClassVar[str] = "selective_scan"
    channels: Expr
    state_size: Expr

    def cost(self) -> Cost:
        """7 FLOP per element of state and 11 per channel, for each token; inputs, output and state once."""
        inner = self.tokens * self.channels
        state = self.channels * self.state_size
        return Cost(
            vector_flops=inner * (7 * self.state_size + 11),
            weight_bytes=self.weights() * self.dtypes.weight.bytes,
            activation_bytes=(4 * inner + 2 * self.tokens * self.state_size) * self.dtypes.activation.bytes,
            state_read_bytes=self.state_read(state),
            state_write_bytes=self.state_written(state),
        )

    def weights(self) -> Expr:
        """A_log for each element of the state, D for each channel, in elements; the bias of Delta is its projection's."""
        return self.channels * (self.state_size + 1)
