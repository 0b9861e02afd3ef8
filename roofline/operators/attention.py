"""Softmax attention over a KV cache: multi-head, grouped-query, multi-query, sliding window, chunks, shared prefix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from roofline.cost import Cost
from roofline.dtypes import FP32
from roofline.numeric import Expr, floor_div, maximum, minimum, plus, ratio, triangle
from roofline.operators.base import Operator

Mask = Literal["causal", "full"]


def keys_read(new: Expr, cached: Expr, window: Expr | None, *, chunked: bool = False) -> Expr:
    """The number of keys of one sequence that at least one of the new queries sees, and that are therefore read.

    The new keys, and the cached ones within the window. The first new query sees itself and the window - 1 tokens before it.

    Args:
        new: new tokens of the sequence.
        cached: tokens in the KV cache before the step.
        window: tokens that a query sees, itself included; None: all.
        chunked: the window does not slide: a query sees its own chunk of `window` tokens up to itself.

    >>> keys_read(1, 4095, None), keys_read(1, 4095, 128), keys_read(4, 10, 3)
    (4096, 128, 6)
    >>> keys_read(1, 4095, 128, chunked=True), keys_read(1, 4096, 128, chunked=True)  # last and first of a chunk
    (128, 1)
    """
    if window is not None and chunked:
        return new + cached - window * floor_div(cached, window)
    return new + (cached if window is None else minimum(cached, window - 1))


def _seen_by_chunks(tokens: Expr, chunk: Expr) -> Expr:
    """Pairs of the first `tokens` tokens of a sequence: all of the whole chunks and of the one that is not whole.

    >>> _seen_by_chunks(5, 3)  # 1+2+3 and 1+2
    9
    """
    whole = floor_div(tokens, chunk)
    return whole * triangle(chunk) + triangle(tokens - whole * chunk)


def pairs(new: Expr, cached: Expr, window: Expr | None, mask: Mask, *, chunked: bool = False) -> Expr:
    """The number of (query, key) pairs of one sequence that the mask lets through.

    Causal: query i (from 1) sees min(cached + i, window) keys. Up to i = window - cached the window does not bind;
    those m queries see cached*m + m(m+1)/2 keys and the others `window` each. `chunked`: query i sees the keys of its own
    chunk of `window` tokens up to itself; whole chunks have w(w+1)/2 pairs and the rest of r tokens r(r+1)/2, and the pairs of
    the cached tokens are subtracted. Full: every query sees every key that is read (with chunks: that is kept).

    Args:
        new: new tokens (queries) of the sequence.
        cached: tokens in the KV cache before the step.
        window: tokens that a query sees, itself included; None: all.
        mask: "causal", or "full" for no mask.
        chunked: as in `keys_read`.

    >>> pairs(4, 0, None, "causal"), pairs(4, 10, None, "causal")  # 1+2+3+4 and 11+12+13+14
    (10, 50)
    >>> pairs(4, 1, 3, "causal"), pairs(4, 0, None, "full")  # 2+3+3+3 and 4*4
    (11, 16)
    >>> pairs(4, 1, 3, "causal", chunked=True)  # positions 1, 2 | 3, 4: 2+3 and 1+2
    8
    """
    if mask == "full":
        return new * keys_read(new, cached, window)
    if window is None:
        return new * cached + triangle(new)
    if chunked:
        if isinstance(new, int) and new == 1:
            return keys_read(new, cached, window, chunked=True)  # the same number, in fewer terms
        return _seen_by_chunks(cached + new, window) - _seen_by_chunks(cached, window)
    inside = minimum(maximum(window - cached, 0), new)
    return inside * cached + triangle(inside) + (new - inside) * window


def shared_prefix_in_window(prefix: Expr, cached: Expr, window: Expr | None, *, chunked: bool = False) -> Expr:
    """The number of cached tokens of a common prefix that the next token still sees: within its window, or its chunk.

    Args:
        prefix: tokens at the start of every sequence that are the same in all.
        cached: tokens in the KV cache of one sequence.
        window: tokens that a query sees, itself included; None: all.
        chunked: as in `keys_read`.

    >>> shared_prefix_in_window(100, 40, None), shared_prefix_in_window(100, 500, 401), shared_prefix_in_window(100, 500, 128)
    (40, 0, 0)
    >>> shared_prefix_in_window(100, 500, 451)  # 50 tokens are out of sight
    50
    >>> window = {"window": 64, "chunked": True}  # chunks start at 448 and 64
    >>> shared_prefix_in_window(100, 500, **window), shared_prefix_in_window(100, 120, **window)
    (0, 36)
    """
    if isinstance(prefix, int) and prefix == 0:
        return 0
    held = minimum(prefix, cached)
    if window is None:
        return held
    left_behind = window * floor_div(cached, window) if chunked else maximum(cached - (window - 1), 0)
    return maximum(held - left_behind, 0)


def per_rank(value: Expr, ranks: Expr | None) -> Expr:
    """The share of one device in a value that `ranks` devices divide evenly; the whole value if `ranks` is None.

    >>> per_rank(12, None), per_rank(12, 4), per_rank(10, 4)
    (12, 3, 2.5)
    """
    return value if ranks is None else ratio(value, ranks)


def single_device_lengths(new: Expr, cached: Expr, query_ranks: Expr | None, key_ranks: Expr | None) -> tuple[Expr, Expr]:
    """New and cached tokens of an attention on one device with as many pairs as each device of a context-parallel group has.

    Keys divided: (S_q + S_c)/c keys, the last of them the new ones'. Queries divided: S_q/c of them, after as many keys as
    leave each the S_c + S_q/2 that it sees on average.

    Args:
        new: new tokens of the sequence.
        cached: tokens in the KV cache before the step.
        query_ranks: devices that divide the queries; None: one.
        key_ranks: devices that divide the keys; None: one.

    >>> single_device_lengths(1, 4095, None, 4)  # 1024 keys
    (1, 1023)
    >>> single_device_lengths(64, 100, 4, None), pairs(64, 100, None, "causal") / 4  # 16*124 + 136 = 2120 pairs
    ((16, 124), 2120.0)
    """
    if key_ranks is not None:
        cached = maximum(ratio(cached + new, key_ranks) - new, 0)
    if query_ranks is not None:
        own = ratio(new, query_ranks)
        new, cached = own, cached + ratio(new - own, 2)
    return new, cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(Operator):
    """Fused attention of `batch` sequences, each with `new` queries after `cached` tokens.

    Each allowed pair costs a dot product of length head_dim (scores) and an update of length v_head_dim (values) in
    each query head: 2*(head_dim + v_head_dim) matrix FLOP; with equal widths and no mask 4 S_q S_kv n_q d_head. Queries
    are read and outputs written once; each key and value that a sequence sees is read once for all its query heads
    (n_kv heads are stored, not n_q). K and V of the new tokens were written to the cache before. The first
    `shared_prefix` cached tokens are the same in all sequences and are read once for the batch (`prefix_reads`, 0 where
    another segment of the same step has read them). `chunked`: the window does not slide; a sequence is cut into chunks of
    `window` tokens, and a query sees its own chunk up to itself.

    Paged attention (vLLM): the cache is stored in blocks of, say, 16 tokens anywhere in memory, which a block table lists. The
    kernel reads the same keys and values. NB: the block table and the empty slots of a sequence's last block are not counted
    here; what blocks allocate is counted with memory.

    Context parallelism: `query_ranks` devices share the queries so that each has as many pairs (the first and the last of 2c
    pieces of a prompt, the second and the last but one, ...), and the one with the last piece reads every key; `key_ranks`
    devices share the keys, and each has a partial output of every query, with the logarithm of its sum of exponentials (fp32).

    Softmax is 5 vector FLOP per pair and head (scale, maximum, subtract, exponential, sum), and one division per output.
    `eager` writes and reads the whole matrix of scores between the three kernels (QK^T, softmax, PV).
    NB: soft-capping of scores and the sinks' one extra term per row are not counted. Sinks that are keys and values
    (`sink_tokens`) are: every query meets them. They are read as weights, once for all sequences, though vLLM has a copy of
    them in the first blocks of its cache.

    >>> Attention(batch=1, new=1, cached=3, n_heads=4, n_kv_heads=2, head_dim=8).cost()
    ... # 2*(8+8)*4 pairs*4 heads; 2 B*(8 in + 8 out)*4 heads; 2 B*4 keys*2 heads*(8+8)
    Cost(matrix_flops=512, vector_flops=112, activation_bytes=128, kv_read_bytes=256)
    >>> Attention(batch=1, new=1, cached=3, n_heads=4, n_kv_heads=2, head_dim=8, key_ranks=2).cost()
    ... # half of the pairs and keys; 4 heads have a number of 4 B more to write
    Cost(matrix_flops=256, vector_flops=72, activation_bytes=144, kv_read_bytes=128)
    >>> Attention(batch=1, new=1, cached=3, n_heads=4, n_kv_heads=2, head_dim=8, sink_tokens=2).cost()
    ... # 2 keys more: 2*(8+8)*6 pairs*4 heads; 2 B*2 sinks*2 heads*(8+8) of weights
    Cost(matrix_flops=768, vector_flops=152, weight_bytes=128, activation_bytes=128, kv_read_bytes=256)

    Sources: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Ainslie et al. 2023 (GQA), arXiv:2305.13245; Dao et al. 2022
    (fused, reads Q, K, V once), arXiv:2205.14135; Kwon et al. 2023 (paged attention), arXiv:2309.06180, section 4.1;
    Jiang et al. 2023 (sliding window), arXiv:2310.06825, section 2;
    Meta 2025 (chunks of Llama 4), https://ai.meta.com/blog/llama-4-multimodal-intelligence/; Dubey et al. 2024 (queries
    shared by context-parallel ranks), arXiv:2407.21783, section 3.3.2; Yang et al. 2024 (and keys), arXiv:2411.01783.
    """

    kind: ClassVar[str] = "attention"
    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    n_heads: Expr
    n_kv_heads: Expr
    head_dim: Expr
    v_head_dim: Expr | None = None
    window: Expr | None = None
    chunked: bool = False
    shared_prefix: Expr = 0
    prefix_reads: Expr = 1
    mask: Mask = "causal"
    eager: bool = False
    sinks: bool = False
    sink_tokens: Expr | None = None
    """Learned keys and values that every query sees beside the sequence's, whatever the window; None: none."""
    sink_values: bool = True
    """Whether the values of these are learned; else they are 0."""
    borrowed: bool = False
    """The learned keys and values are another segment's: seen here, read and held there."""
    query_ranks: Expr | None = None
    key_ranks: Expr | None = None
    decode: bool = False
    """Whether its queries are generated tokens, not those of a prompt."""

    @property
    def on_one_device(self) -> Attention:
        """Attention on one device with as many pairs as each context-parallel device has; itself if there is one device."""
        if self.query_ranks is None and self.key_ranks is None:
            return self
        new, cached = single_device_lengths(self.new, self.cached, self.query_ranks, self.key_ranks)
        return replace(self, new=new, cached=cached, query_ranks=None, key_ranks=None)

    @property
    def measured_as(self) -> str:
        """The kernel by the phase, not by the length: a prompt of one token takes the path of prompts.

        SGLang (`forward_extend`, `forward_decode`) and TensorRT-LLM (context, generation) choose so. NB: vLLM goes by the
        queries of a sequence, or by the most of them in a step, and computes a lone prompt of one token as a generated one.
        Several generated tokens per sequence, as drafts have, are measured in prompts alone.
        """
        return "attention_decode" if self.decode and isinstance(self.new, int) and self.new == 1 else "attention_prefill"

    def cost(self) -> Cost:
        """FLOP of the pairs that the mask allows; queries, outputs, and the keys and values in sight once."""
        d_v = self.head_dim if self.v_head_dim is None else self.v_head_dim
        heads = self.batch * self.n_heads
        chunked = self.chunked and self.mask == "causal"  # unmasked, the whole of what the cache keeps is read
        seen = pairs(self.new, self.cached, self.window, self.mask, chunked=chunked)
        keys = keys_read(self.new, self.cached, self.window, chunked=chunked)
        shared = shared_prefix_in_window(self.shared_prefix, self.cached, self.window, chunked=chunked)
        if self.sink_tokens is not None:
            seen = seen + self.new * self.sink_tokens
        new = per_rank(self.new, self.query_ranks)
        seen = per_rank(per_rank(seen, self.query_ranks), self.key_ranks)
        stored = self.n_kv_heads * (self.head_dim + d_v) * self.dtypes.kv.bytes
        # NB: what depends on the batch alone and what on the lengths alone is put together first, for grids of both
        return Cost(
            matrix_flops=heads * (2 * (self.head_dim + d_v)) * seen,
            vector_flops=heads * (5 * seen + new * d_v),
            weight_bytes=self.parameters * self.dtypes.weight.bytes,
            activation_bytes=self.activation_bytes,
            kv_read_bytes=per_rank(
                plus(self.batch * stored * (keys - shared), self.prefix_reads * shared * stored), self.key_ranks
            ),
        )

    def factored(self) -> tuple[Operator, Expr]:
        """Attention of one sequence and the batch; itself and 1 where sequences share a prefix or sinks."""
        if self.sinks or self.sink_tokens is not None or not (isinstance(self.shared_prefix, int) and self.shared_prefix == 0):
            return self, 1
        return replace(self, batch=1), self.batch

    @property
    def activation_bytes(self) -> Expr:
        """Bytes of queries and outputs; with `eager` also of the scores: written, read, written (softmax), read."""
        queries = per_rank(self.batch * self.new * self.n_heads, self.query_ranks)
        elements = queries * (self.head_dim + (self.head_dim if self.v_head_dim is None else self.v_head_dim))
        if self.eager:
            chunked = self.chunked and self.mask == "causal"
            keys = per_rank(keys_read(self.new, self.cached, self.window, chunked=chunked), self.key_ranks)
            elements = elements + 4 * queries * keys
        size = elements * self.dtypes.activation.bytes
        return size if self.key_ranks is None else size + queries * FP32.bytes

    @property
    def parameters(self) -> Expr:
        """Learned sinks: one per query head (gpt-oss), or keys and values of each KV head (openPangu); else 0."""
        if self.sink_tokens is not None:
            d_v = self.head_dim if self.v_head_dim is None else self.v_head_dim
            width = self.head_dim + (d_v if self.sink_values else 0)
            return 0 if self.borrowed else self.sink_tokens * self.n_kv_heads * width
        return self.n_heads if self.sinks else 0
