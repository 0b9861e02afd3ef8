"""Attention over a KV cache, of heads that share keys and of MLA's latents: by torch's backends, packages, or written out."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from roofline.measure.bench.kernels.attention_packages import PackageAttention
from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, first_line, whole
from roofline.measure.bench.point import EAGER, PACKAGES
from roofline.numeric import Expr
from roofline.operators.attention import keys_read


class _OverCache(Kernel):
    """What attention over a cache has in common."""

    def _mask(self, new: float, keys: float, window: Any = None) -> Any:
        """The mask as a tensor where one is needed (`mask_of`), else None."""
        if self.unmasked:
            return None
        return mask_of(whole(new), whole(keys), window, self.point.backend, self.factory.device)

    def _attend(self, q: Any, k: Any, v: Any, seen: Any) -> Any:
        """Attention of each query to the keys that it sees."""
        causal = q.shape[2] > 1 and not self.unmasked
        return attend(q, k, v, backend=self.point.backend, causal=causal, seen=seen)


class GroupedQueries(_OverCache):
    """Attention whose keys and values are laid out as in engines: [batch, tokens, heads, width], or in pages."""

    ops: ClassVar[tuple[str, ...]] = ("attention_prefill", "attention_decode")
    _package: PackageAttention | None = None

    def inputs(self) -> tuple[Any, ...]:
        """Queries, the keys and values inside the window, and the mask where one is needed.

        Of a package: queries, keys and values as it wants them (`PackageAttention`).
        """
        op, factory = self.operator(), self.factory
        if self.point.backend in PACKAGES:
            if self._package is None:
                self._package = PackageAttention(self.point.backend, op, factory, self.dtype)
            return self._package.inputs()
        keys, new = whole(keys_read(op.new, op.cached, op.window)), whole(op.new)
        q = factory.random(op.batch, new, op.n_heads, op.head_dim, dtype=self.dtype).transpose(1, 2)
        k, v = (factory.random(op.batch, keys, op.n_kv_heads, op.head_dim, dtype=self.dtype).transpose(1, 2) for _ in "kv")
        return q, k, v, self._mask(new, keys, op.window)

    def run(self, *inputs: Any) -> Any:
        """Attention of each query to the keys that it sees."""
        if self._package is not None:
            return self._package.run(*inputs)
        q, k, v, seen = inputs
        return self._attend(q, k, v, seen)


class Latents(_OverCache):
    """MLA. Absorbed: all heads are the queries of one wide key, and values are a part of the key. Expanded: keys and values
    a head, the rotated part of the key repeated for each, as kernels want it."""

    ops: ClassVar[tuple[str, ...]] = ("mla_prefill", "mla_decode")

    def inputs(self) -> tuple[Any, ...]:
        """Queries and latents, or queries, keys and values."""
        op, factory = self.operator(), self.factory
        keys = op.new + op.cached
        width = op.r_kv + op.d_rope if op.absorbed else op.d_nope + op.d_rope
        q = factory.random(op.batch, op.new, op.n_heads, width, dtype=self.dtype).transpose(1, 2)
        seen = self._mask(op.new, keys)
        if op.absorbed:
            return q, factory.random(op.batch, keys, 1, width, dtype=self.dtype).transpose(1, 2), None, seen
        k = factory.random(op.batch, keys, op.n_heads, width, dtype=self.dtype).transpose(1, 2)
        return q, k, factory.random(op.batch, keys, op.n_heads, op.d_v, dtype=self.dtype).transpose(1, 2), seen

    def run(self, *inputs: Any) -> Any:
        """Attention of each query to the keys that it sees."""
        q, k, v, seen = inputs
        op = self.operator()
        return self._attend(q, k, k[..., : whole(op.r_kv)] if op.absorbed else v, seen)


_BACKENDS = {
    "sdpa-flash": SDPBackend.FLASH_ATTENTION,
    "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa-math": SDPBackend.MATH,
}


def mask(new: int, keys: int, window: Expr | None, device: Any) -> Any:
    """A causal mask: a boolean tensor of shape [new, keys], true where a query sees a key; the last query is at the last key.

    Args:
        new: the number of queries.
        keys: the number of keys, at least `new`.
        window: the number of keys that a query sees, its own included; None: all before it.
        device: where the tensor is made.
    """
    query = torch.arange(keys - new, keys, device=device).unsqueeze(1)
    key = torch.arange(keys, device=device)
    allowed = key <= query
    return allowed if window is None else allowed & (query - key < window)


def mask_of(new: int, keys: int, window: Expr | None, backend: str, device: Any) -> Any:
    """The mask of `mask`, if the backend needs it as a tensor; None where a flag is enough, or every query sees every key.

    NB: only two of torch's CUDA backends take a flag for a mask that is aligned at the last key (a chunk of a prompt).
    """
    if new == 1:
        return None
    windowed = window is not None and window < keys
    by_flag = new == keys or (device.type == "cuda" and backend in ("sdpa-flash", "sdpa-efficient"))
    if windowed or backend == EAGER or not by_flag:
        return mask(new, keys, window, device)
    if new != keys:
        _lower_right()  # imported here, where nothing is timed
    return None


@cache
def _lower_right() -> Any:
    """Return torch's mask that is aligned at the last key. NB: its module loads torch's compiler, which takes a second."""
    from torch.nn.attention.bias import causal_lower_right

    return causal_lower_right


def attend(q: Any, k: Any, v: Any, *, backend: str, causal: bool, seen: Any = None) -> Any:
    """Attention of queries to keys, by one of torch's backends or written out.

    Args:
        q: shape [batch, query heads, new tokens, head width].
        k: shape [batch, KV heads, all tokens, head width].
        v: shape [batch, KV heads, all tokens, value width].
        backend: "eager" or a key of `_BACKENDS`.
        causal: whether a query sees only the keys up to its own; ignored where `seen` is given.
        seen: a mask of shape [new tokens, all tokens], true where a query sees a key; "eager" masks by it alone.

    Returns:
        Shape [batch, query heads, new tokens, value width].

    Raises:
        NotRunnableError: if torch has no such kernel for these tensors.
    """
    if backend == EAGER:
        return _eager(q, k, v, seen)
    whole = q.shape[2] == k.shape[2]
    bias = seen
    if causal and seen is None and not whole:
        bias = _lower_right()(q.shape[2], k.shape[2])
    with sdpa_kernel(_BACKENDS[backend]):
        try:
            return functional.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, is_causal=causal and whole and seen is None, enable_gqa=q.shape[1] != k.shape[1]
            )
        except RuntimeError as error:
            raise NotRunnableError(f"{backend}: {first_line(error)}") from None


def _eager(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Scores, softmax, values. The queries that share keys are the rows of one GEMM: no key is repeated."""
    batch, n_q, new, d = q.shape
    n_kv, keys = k.shape[1], k.shape[2]
    shared = q.reshape(batch, n_kv, n_q // n_kv * new, d)
    scores = shared @ k.transpose(2, 3) * d**-0.5
    if seen is not None:
        scores = scores.view(batch, n_q, new, keys).masked_fill(~seen, float("-inf")).view_as(scores)
    return (torch.softmax(scores, dim=-1) @ v).view(batch, n_q, new, v.shape[3])
