"""Softmax attention by each of torch's backends, and written out."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from roofline.measure.bench.kernels.base import NotRunnableError, first_line
from roofline.measure.bench.variants import EAGER
from roofline.numeric import Expr

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
    """The mask as a tensor, where a kernel is not told by a flag; None where it is, or where there is nothing to hide.

    NB: torch says "aligned at the last key" (a chunk of a prompt) to two of its CUDA kernels only.
    """
    if new == 1:
        return None
    windowed = window is not None and window < keys
    told = new == keys or (device.type == "cuda" and backend in ("sdpa-flash", "sdpa-efficient"))
    return mask(new, keys, window, device) if windowed or backend == EAGER or not told else None


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
