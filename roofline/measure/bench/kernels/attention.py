"""Attention over a KV cache, of heads that share keys and of the latents of MLA, by each of torch's backends or written out."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, first_line, whole
from roofline.measure.bench.point import EAGER
from roofline.numeric import Expr
from roofline.operators.attention import keys_read


class _OverCache(Kernel):
    """What attention over a cache has in common."""

    def masks(self, new: float, keys: float, window: Any = None) -> Any:
        """The mask as a tensor, where one is needed."""
        if self.whole_products:
            return None
        return mask_of(whole(new), whole(keys), window, self.point.backend, self.place.device)

    def attend(self, q: Any, k: Any, v: Any, seen: Any) -> Any:
        """Every query against what it sees."""
        causal = q.shape[2] > 1 and not self.whole_products
        return attend(q, k, v, backend=self.point.backend, causal=causal, seen=seen)


class GroupedQueries(_OverCache):
    """Attention whose keys and values lie as engines keep them: [batch, tokens, heads, width]."""

    ops: ClassVar[tuple[str, ...]] = ("attention_prefill", "attention_decode")

    def inputs(self) -> tuple[Any, ...]:
        """Queries, the keys and values in sight, and the mask where a window cuts it."""
        op, place = self.operator(), self.place
        keys, new = whole(keys_read(op.new, op.cached, op.window)), whole(op.new)
        q = place.random(op.batch, new, op.n_heads, op.head_dim, dtype=self.dtype).transpose(1, 2)
        k, v = (place.random(op.batch, keys, op.n_kv_heads, op.head_dim, dtype=self.dtype).transpose(1, 2) for _ in "kv")
        return q, k, v, self.masks(new, keys, op.window)

    def run(self, *inputs: Any) -> Any:
        """Every query against what it sees."""
        q, k, v, seen = inputs
        return self.attend(q, k, v, seen)


class Latents(_OverCache):
    """MLA. Absorbed: all heads are the queries of one wide key, and values are a part of the key. Expanded: keys and values
    a head, the rotated part of the key repeated for each, as kernels want it."""

    ops: ClassVar[tuple[str, ...]] = ("mla_prefill", "mla_decode")

    def inputs(self) -> tuple[Any, ...]:
        """Queries and latents, or queries, keys and values."""
        op, place = self.operator(), self.place
        keys = op.new + op.cached
        width = op.r_kv + op.d_rope if op.absorbed else op.d_nope + op.d_rope
        q = place.random(op.batch, op.new, op.n_heads, width, dtype=self.dtype).transpose(1, 2)
        seen = self.masks(op.new, keys)
        if op.absorbed:
            return q, place.random(op.batch, keys, 1, width, dtype=self.dtype).transpose(1, 2), None, seen
        k = place.random(op.batch, keys, op.n_heads, width, dtype=self.dtype).transpose(1, 2)
        return q, k, place.random(op.batch, keys, op.n_heads, op.d_v, dtype=self.dtype).transpose(1, 2), seen

    def run(self, *inputs: Any) -> Any:
        """Every query against what it sees."""
        q, k, v, seen = inputs
        op = self.operator()
        return self.attend(q, k, k[..., : whole(op.r_kv)] if op.absorbed else v, seen)


BACKENDS = {
    "sdpa-flash": SDPBackend.FLASH_ATTENTION,
    "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa-math": SDPBackend.MATH,
}


def mask(new: int, keys: int, window: Expr | None, device: Any) -> Any:
    """Which of the `keys` each of the `new` queries sees; the last query stands at the last key."""
    query = torch.arange(keys - new, keys, device=device).unsqueeze(1)
    key = torch.arange(keys, device=device)
    allowed = key <= query
    return allowed if window is None else allowed & (query - key < window)


def mask_of(new: int, keys: int, window: Expr | None, backend: str, device: Any) -> Any:
    """The mask as a tensor, where a flag does not say it to a kernel; None where it does, or where there is nothing to hide.

    NB: torch says "aligned at the last key" (a chunk of a prompt) to two of its CUDA kernels only.
    """
    if new == 1:
        return None
    windowed = window is not None and window < keys
    by_flag = new == keys or (device.type == "cuda" and backend in ("sdpa-flash", "sdpa-efficient"))
    return mask(new, keys, window, device) if windowed or backend == EAGER or not by_flag else None


def attend(q: Any, k: Any, v: Any, *, backend: str, causal: bool, seen: Any = None) -> Any:
    """Attention of q[B, n_q, S_q, d] to k, v[B, n_kv, S_kv, d]; `seen` is a mask where causality alone does not say it."""
    if backend == EAGER:
        return _eager(q, k, v, seen)
    whole = q.shape[2] == k.shape[2]
    bias = seen
    if causal and seen is None and not whole:
        bias = causal_lower_right(q.shape[2], k.shape[2])
    with sdpa_kernel(BACKENDS[backend]):
        try:
            return functional.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, is_causal=causal and whole and seen is None, enable_gqa=q.shape[1] != k.shape[1]
            )
        except RuntimeError as error:
            raise NotRunnableError(f"{backend}: {first_line(error)}") from None


def _eager(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Scores, softmax, values. The queries that share keys are the rows of one product: no key is repeated."""
    batch, n_q, new, d = q.shape
    n_kv, keys = k.shape[1], k.shape[2]
    shared = q.reshape(batch, n_kv, n_q // n_kv * new, d)
    scores = shared @ k.transpose(2, 3) * d**-0.5
    if seen is not None:
        scores = scores.view(batch, n_q, new, keys).masked_fill(~seen, float("-inf")).view_as(scores)
    return (torch.softmax(scores, dim=-1) @ v).view(batch, n_q, new, v.shape[3])
