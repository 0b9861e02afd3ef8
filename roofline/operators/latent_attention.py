"""Multi-head latent attention (MLA): the cache holds one compressed latent and one rotated key per token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from roofline.cost import Cost
from roofline.dtypes import FP32
from roofline.numeric import Expr
from roofline.operators.attention import Mask, per_rank, shared_prefix_in_window, single_device_lengths
from roofline.operators.base import Operator
from roofline.operators.sparse_counts import entries_read, entry_pairs, pool_keys_read, pool_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention(Operator):
    """Fused attention of MLA, in one of its two equivalent forms.

    Absorbed (decode): queries are brought into the latent space beforehand (q W_UK, `q_absorb`) and outputs leave it
    afterwards (W_UV, `v_up`). Every head attends to the same latent of width r_kv and rotated key of width d_rope, read
    once from the cache: scores cost 2(r_kv + d_rope) FLOP per pair and head, values 2 r_kv. Multi-query attention with
    one wide head.

    Expanded (prefill): keys and values of every head were computed from the latents (`kv_b_proj`) and lie in memory as
    activations: 2(d_nope + d_rope) + 2 d_v FLOP per pair and head; K_nope, V of each head and the one rotated key per token
    are read once. NB: an engine that materialises the rotated key for each head writes and reads more.

    Sparse (absorbed with `chosen`): each query attends to the at most `chosen` keys that an indexer picked, and their
    latents alone are read. Query i sees min(cached + i, chosen) keys, as in a sliding window, wherever they lie. With the
    full mask every query meets every key, chosen or not. With `pool` keys are chosen as whole pools of that many, and the keys
    that are in no whole pool yet are seen as well. NB: chosen keys of a common prefix are read for each sequence.

    Context parallelism, queries or keys divided, as in `Attention`. Chosen keys are not divided.

    Softmax as in `Attention`: 5 vector FLOP per pair and head, and one division per output.

    >>> LatentAttention(batch=1, new=1, cached=3, n_heads=2, r_kv=16, d_nope=8, d_rope=4, d_v=8, absorbed=True).cost()
    ... # 2*(16+4+16)*4 pairs*2 heads; 2 B*2 heads*(16+4 in + 16 out); 2 B*4 tokens*(16+4)
    Cost(matrix_flops=576, vector_flops=72, activation_bytes=144, kv_read_bytes=160)
    >>> sparse = LatentAttention(
    ...     batch=1, new=1, cached=9, n_heads=2, r_kv=16, d_nope=8, d_rope=4, d_v=8, absorbed=True, chosen=4
    ... )
    >>> sparse.cost()  # 4 of 10 keys: as above
    Cost(matrix_flops=576, vector_flops=72, activation_bytes=144, kv_read_bytes=160)
    >>> LatentAttention(batch=1, new=4, cached=0, n_heads=2, r_kv=16, d_nope=8, d_rope=4, d_v=8).cost().matrix_flops
    800

    800 = 2*(8+4+8)*10 pairs*2 heads. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1 (eq. 9 to 19, absorption below);
    sparse: DeepSeek-V3.2, arXiv:2512.02556, section 2.1 (eq. 2, and its instantiation under MLA).
    """

    kind: ClassVar[str] = "latent_attention"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    r_kv: Expr
    d_nope: Expr
    d_rope: Expr
    d_v: Expr
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    absorbed: bool = False
    chosen: Expr | None = None
    pool: Expr | None = None
    mask: Mask = "causal"
    eager: bool = False
    sinks: bool = False
    query_ranks: Expr | None = None
    key_ranks: Expr | None = None

    @property
    def on_one_device(self) -> LatentAttention:
        """Attention on one device with as many pairs as each context-parallel device has; itself if there is one device."""
        if self.query_ranks is None and self.key_ranks is None:
            return self
        new, cached = single_device_lengths(self.new, self.cached, self.query_ranks, self.key_ranks)
        return replace(self, new=new, cached=cached, query_ranks=None, key_ranks=None)

    @property
    def measured_as(self) -> str:
        """The op "mla_decode" in the absorbed form, "mla_prefill" in the expanded one."""
        return "mla_decode" if self.absorbed else "mla_prefill"

    def cost(self) -> Cost:
        """FLOP of the pairs that the mask allows; queries, outputs, and the latents (or expanded keys and values) once."""
        d_score, d_out = (self.r_kv + self.d_rope, self.r_kv) if self.absorbed else (self.d_nope + self.d_rope, self.d_v)
        queries = per_rank(self.batch * self.new * self.n_heads, self.query_ranks)
        chosen = self.chosen if self.absorbed and self.mask == "causal" else None
        if chosen is None or self.pool is None:
            pairs, keys = (
                entry_pairs(self.new, self.cached, None, chosen, self.mask),
                entries_read(self.new, self.cached, None, chosen),
            )
            row = entries_read(1, self.cached + self.new - 1, None, chosen)
        else:
            pairs = pool_pairs(self.new, self.cached, self.pool, chosen, self.mask)
            keys = pool_keys_read(self.new, self.cached, self.pool, chosen)
            row = pool_keys_read(1, self.cached + self.new - 1, self.pool, chosen)
        seen = per_rank(per_rank(self.batch * self.n_heads * pairs, self.query_ranks), self.key_ranks)
        activations = queries * (d_score + d_out)
        latents: Expr = 0
        shared = shared_prefix_in_window(self.shared_prefix, self.cached, None) if chosen is None else 0
        tokens = per_rank(self.batch * (keys - shared) + self.prefix_reads * shared, self.key_ranks)
        if self.absorbed:
            latents = tokens * (self.r_kv + self.d_rope)
        else:
            activations = activations + tokens * (self.n_heads * (self.d_nope + self.d_v) + self.d_rope)
        if self.eager:
            # scores: written, read, written (softmax), read
            activations = activations + 4 * queries * per_rank(row, self.key_ranks)
        return Cost(
            matrix_flops=2 * seen * (d_score + d_out),
            vector_flops=5 * seen + queries * d_out,
            weight_bytes=self.parameters * self.dtypes.weight.bytes,
            activation_bytes=activations * self.dtypes.activation.bytes
            + (0 if self.key_ranks is None else queries * FP32.bytes),
            kv_read_bytes=latents * self.dtypes.kv.bytes,
        )

    @property
    def parameters(self) -> Expr:
        """Learned sinks, one per query head, where the model has them (HY 4); else 0. NB: their term of a row is left out."""
        return self.n_heads if self.sinks else 0
