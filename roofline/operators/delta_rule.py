"""The gated delta rule: linear attention that takes back what its state held for a key. Gated DeltaNet and KDA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr, ceil_div, ratio, triangle
from roofline.operators.scan import Scan, over_chunks


def below_diagonal(tokens: Expr) -> Expr:
    """The number of pairs of a token and an earlier one: n(n-1)/2 of n tokens.

    >>> below_diagonal(4)
    6
    """
    return triangle(tokens - 1)


def inversion(tokens: Expr) -> Expr:
    """FLOP to invert a unit lower-triangular matrix of `tokens` rows: n(n-1)(n-2)/3.

    Element (i, j) is a sum of i - j - 1 products, n(n-1)(n-2)/6 in all, of 2 FLOP each.

    >>> inversion(4)  # one row below: (2,0), (3,1) have 1 product, (3,0) has 2; an FMA is 2 FLOP
    8
    """
    return ratio(tokens * (tokens - 1) * (tokens - 2), 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRule(Scan):
    """Each value head keeps a matrix S of d_k x d_v. A token decays it, moves what S has for its key towards its value (by
    a share beta), and reads with its query.

        S_t = a_t S_(t-1)        S_t = S_t + k_t (beta_t (v_t - S_t^T k_t))^T        y_t = S_t^T q_t

    `per_channel` (KDA): a_t is a vector of d_k; else (Gated DeltaNet) one number per head. `n_heads` are those of values, in
    groups that share a query and key head.

    **One token** (`recurrent`): 7 vector FLOP per element of S (decay, S^T k 2, k delta^T and sum 2, S^T q 2) and 2 d_v a head
    for delta.

    **A prompt** is cut into chunks of c tokens. The corrections of a chunk depend on each other; they are the solution of a
    triangular system, which turns them into products (the WY or UT form). Matrix FLOP of a chunk and head, with p = c(c+1)/2
    pairs and s = c(c-1)/2 below the diagonal:

    * k k^T: 2 s d_k; the inverse T of the triangular system: c(c-1)(c-2)/3; U = T v and W = T k: 2 p (d_v + d_k);
    * W S, q S, and k^T (U - W S), which is added to S: 6 c d_k d_v;
    * scores q k^T and their product with U - W S: 2 p (d_k + d_v).

    So FLOP per token grow with c: c (3 d_k + 2 d_v) + c^2/3 + 6 d_k d_v, nearly. The last chunk is counted as long as it is.
    The inverse counts as a product because its blocks are; within the diagonal blocks it is substituted row by row, which with
    blocks of 16 is a twentieth of it at c = 64.
    NB: kernels compute whole blocks where these cross the diagonal. Value heads that share a key compute k k^T and q k^T
    each, and S before a first chunk is 0 and multiplied all the same, here as in kernels.

    Vector FLOP per token: norms of q and k (3 d_k each per key head), beta (sigmoid: 4 per head); bias, softplus, factor,
    running sum and exponentials of the decay (9 for each of its elements; 6 where one token needs no sum); k and v times
    beta, k (twice) and q times decay (4 d_k + d_v); U - W S and the sum of both outputs (2 d_v). Decay per head multiplies
    scores (3 per pair, 1 below the diagonal), one per channel the keys once more, by its inverse (2 d_k). A chunk decays S
    and adds to it (2 d_k d_v).

    >>> DeltaRule(batch=1, new=4, cached=0, n_heads=2, n_key_heads=1, d_k=8, d_v=4, chunk_size=4).cost()
    ... # 2*(2*6*8 + 8 + 2*10*12 + 6*4*8*4 + 2*10*12); 4*(6*8 + 4*2 + 9*2 + 2*(4*8 + 3*4)) + 2*(3*10 + 6) + 2*2*8*4
    ... # 2 B*2*2 of A and the bias; 2 B*4*(2*8 + 2*2*4 + 2 + 2); 4 B*2*8*4
    Cost(matrix_flops=2704, vector_flops=848, weight_bytes=8, activation_bytes=288, state_write_bytes=256)
    >>> DeltaRule(
    ...     batch=1, new=1, cached=9, n_heads=2, n_key_heads=2, d_k=8, d_v=4, chunk_size=4, per_channel=True, recurrent=True
    ... ).cost()  # 6*16 + 4*2 + 6*16 + 2*(7*8*4 + 2*4); 2 B*(2 + 16); 2 B*(2*16 + 2*8 + 2 + 16); 4 B*2*8*4
    Cost(vector_flops=664, weight_bytes=36, activation_bytes=132, state_read_bytes=256, state_write_bytes=256)

    Sources: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3; Yang et al. 2024 (the UT form of a chunk),
    arXiv:2406.06484, section 3; Kimi Team 2025 (KDA), arXiv:2510.26692, section 3.
    """

    kind: ClassVar[str] = "delta_rule"
    n_heads: Expr
    n_key_heads: Expr
    d_k: Expr
    d_v: Expr
    chunk_size: Expr
    per_channel: bool = False
    recurrent: bool = False

    def cost(self) -> Cost:
        """FLOP of the chunks' products, or of one token's update (`recurrent`); inputs, outputs and state once."""
        state = self.n_heads * self.d_k * self.d_v
        inputs = 2 * self.n_key_heads * self.d_k + 2 * self.n_heads * self.d_v + self.n_heads + self._decays
        matrix, vector = self._one_by_one() if self.recurrent else self._in_chunks()
        return Cost(
            matrix_flops=matrix,
            vector_flops=vector + self.tokens * (6 * self.n_key_heads * self.d_k + 4 * self.n_heads),
            weight_bytes=self.weights() * self.dtypes.weight.bytes,
            activation_bytes=self.tokens * inputs * self.dtypes.activation.bytes,
            state_read_bytes=self.state_read(state),
            state_write_bytes=self.state_written(state),
        )

    @property
    def _decays(self) -> Expr:
        """Elements of the decay of one token."""
        return self.n_heads * self.d_k if self.per_channel else self.n_heads

    def weights(self) -> Expr:
        """A of each head, and a bias for each element of the decay, in elements."""
        return self.n_heads + self._decays

    def _one_by_one(self) -> tuple[Expr, Expr]:
        update = self.n_heads * (7 * self.d_k * self.d_v + 2 * self.d_v)
        return 0, self.tokens * (update + 6 * self._decays)

    def _in_chunks(self) -> tuple[Expr, Expr]:
        heads, new, d_k, d_v = self.batch * self.n_heads, self.new, self.d_k, self.d_v
        pairs, before, inverse = (over_chunks(rule, new, self.chunk_size) for rule in (triangle, below_diagonal, inversion))
        matrix = heads * (2 * before * d_k + inverse + 4 * pairs * (d_k + d_v) + 6 * new * d_k * d_v)
        vector = heads * (new * (4 * d_k + 3 * d_v) + 2 * ceil_div(new, self.chunk_size) * d_k * d_v)
        decays = 2 * new * d_k if self.per_channel else 3 * pairs + before
        return matrix, vector + heads * decays + 9 * self.tokens * self._decays
