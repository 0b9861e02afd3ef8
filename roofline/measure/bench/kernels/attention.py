"""Attention over a KV cache, of heads that share keys and of the latents of MLA."""

from __future__ import annotations

from typing import Any, ClassVar

from roofline.measure.bench.kernels.attend import attend, mask_of
from roofline.measure.bench.kernels.base import Kernel
from roofline.measure.bench.place import whole
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
