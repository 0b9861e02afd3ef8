"""Linear attention whose state decays by one factor a head: Mamba-2 (SSD) and Lightning Attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr, ceil_div, triangle
from roofline.operators.scan import Scan, over_chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention(Scan):
    """Each head keeps a matrix S of d_k x d_v, to which every token adds and from which every token reads.

        S_t = a_t S_(t-1) + k_t v_t^T        y_t = q_t^T S_t

    In Mamba-2 d_k is the state size and d_v the head's width; q, k and v are C, B and Delta x; a_t = exp(Delta_t A) depends on
    the token (`selective`), D x is added to the output; heads share q and k by `n_groups`. In Lightning Attention a is a
    constant of the head, and every head has q and k of its own.

    **One token** (`recurrent`): 5 vector FLOP per element of S (decay, k v^T, their sum, the product with q, its sum).

    **A prompt** is cut into chunks of c tokens. Within a chunk tokens see each other as in attention without softmax, a chunk
    sees what came before through S. With p = c(c+1)/2 pairs that the mask lets through, a chunk costs these matrix FLOP:

    * scores q k^T: 2 p d_k a group (they are the same for all its heads), times v: 2 p d_v a head;
    * q S, of what came before: 2 c d_k d_v a head; what the chunk adds to S, k^T v: 2 c d_k d_v a head.

    So FLOP per token grow with c: c (n_groups d_k + n_heads d_v) + 4 n_heads d_k d_v, nearly. Small chunks take fewer, and read
    and write S more often on chip. The last chunk is counted as long as it is.
    NB: kernels compute whole blocks where these cross the diagonal. S before a first chunk is 0, and multiplied all the same,
    here as in kernels.

    Vector FLOP of a chunk and head: the pairs' decay (3 a pair: subtract, exponential, multiply; 1 with constant decay), the
    decay of k and of q S and the sum of both outputs (c (d_k + 2 d_v)), decay of S and sum (2 d_k d_v). Selective: bias and
    softplus of Delta, Delta A, its running sum and two exponentials (9 per token), Delta x and D x (3 d_v per token); 6 and 3
    d_v where one token needs no running sum.

    >>> LinearAttention(batch=1, new=6, cached=0, n_heads=2, n_groups=1, d_k=8, d_v=4, chunk_size=4).cost()
    ... # 10 + 3 pairs: 2*13*8 + 2*2*13*4; 2*2*2*6*8*4; 2*(13 + 6*(8+2*4) + 2*2*8*4); 2 B*6*(2*2*4 + 2*8); 4 B*2*8*4
    Cost(matrix_flops=1952, vector_flops=474, activation_bytes=384, state_write_bytes=256)
    >>> LinearAttention(
    ...     batch=1, new=1, cached=9, n_heads=2, n_groups=1, d_k=8, d_v=4, chunk_size=4, selective=True, recurrent=True
    ... ).cost()  # 2*(5*8*4 + 6 + 3*4); 2 B*3*2 of A, D and the bias; 2 B*(2*2*4 + 2*8 + 2); 4 B*2*8*4
    Cost(vector_flops=356, weight_bytes=12, activation_bytes=68, state_read_bytes=256, state_write_bytes=256)

    Sources: Dao and Gu 2024 (Mamba-2), arXiv:2405.21060, section 6 (the four steps of a chunk) and 7.2 (groups); Qin et al.
    2024 (Lightning Attention-2), arXiv:2401.04658, algorithm 1; Katharopoulos et al. 2020, arXiv:2006.16236 (recurrent form).
    """

    kind: ClassVar[str] = "linear_attention"
    n_heads: Expr
    n_groups: Expr
    d_k: Expr
    d_v: Expr
    chunk_size: Expr
    selective: bool = False
    recurrent: bool = False

    def cost(self) -> Cost:
        """FLOP of the chunks' products, or of one token's update (`recurrent`); inputs, outputs and state once."""
        state = self.n_heads * self.d_k * self.d_v
        inputs = 2 * self.n_heads * self.d_v + 2 * self.n_groups * self.d_k + (self.n_heads if self.selective else 0)
        matrix, vector = self._one_by_one() if self.recurrent else self._in_chunks()
        return Cost(
            matrix_flops=matrix,
            vector_flops=vector,
            weight_bytes=self.weights() * self.dtypes.weight.bytes,
            activation_bytes=self.tokens * inputs * self.dtypes.activation.bytes,
            state_read_bytes=self.state_read(state),
            state_write_bytes=self.state_written(state),
        )

    def weights(self) -> Expr:
        """A, D and the bias of Delta, one of each per head, in elements; 0 with a constant decay."""
        return 3 * self.n_heads if self.selective else 0

    def _one_by_one(self) -> tuple[Expr, Expr]:
        heads = self.tokens * self.n_heads
        return 0, heads * (5 * self.d_k * self.d_v + (6 + 3 * self.d_v if self.selective else 0))

    def _in_chunks(self) -> tuple[Expr, Expr]:
        heads, tokens = self.batch * self.n_heads, self.tokens
        pairs = over_chunks(triangle, self.new, self.chunk_size)
        chunks = ceil_div(self.new, self.chunk_size)
        matrix = (
            2 * self.batch * pairs * (self.n_groups * self.d_k + self.n_heads * self.d_v)
            + 4 * tokens * self.n_heads * self.d_k * self.d_v
        )
        inside = (3 if self.selective else 1) * pairs + self.new * (self.d_k + 2 * self.d_v)
        vector = heads * (inside + 2 * chunks * self.d_k * self.d_v)
        return matrix, vector + (heads * self.new * (9 + 3 * self.d_v) if self.selective else 0)
