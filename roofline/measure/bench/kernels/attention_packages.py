"""Attention by FlashAttention and FlashInfer, where they are installed: over a paged KV cache, as engines call them.

A cache is pages of some tokens, [pages, tokens, KV heads, width], of which a shuffled table says whose they are. The new tokens
are in it already. Windows are the kernels' own affair: the cache holds every token.

Sources: Dao-AILab/flash-attention, `flash_attn/flash_attn_interface.py` and `hopper/flash_attn_interface.py`; FlashInfer's API,
https://docs.flashinfer.ai/api/attention.html.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Callable
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory, first_line, whole
from roofline.measure.bench.point import PACKAGES, VARLEN, package_kernel
from roofline.numeric import ceil_div
from roofline.operators.attention import Attention

_WORKSPACE = 128 * 2**20  # bytes, as FlashInfer recommends
_TENSOR_CORE_QUERIES = 4  # queries of a key from which on FlashInfer's decode is faster with matrix units


def missing(backend: str) -> str | None:
    """Why the package of a backend cannot be used; None where it is installed, or the backend is torch's."""
    package = PACKAGES.get(backend)
    if package is None or sys.modules.get(package.module) is not None:
        return None
    # NB: an entry of None in sys.modules is how a test takes a library away
    if package.module in sys.modules or importlib.util.find_spec(package.module) is None:
        return f"{backend}: the package {package.distribution} is not installed"
    return None


@cache
def backend_version(backend: str) -> str:
    """The version of a backend: that of its package, or of torch; empty where it is not installed."""
    if backend not in PACKAGES:
        return str(torch.__version__)
    try:
        return version(PACKAGES[backend].distribution)
    except PackageNotFoundError:
        return ""


class PackageAttention:
    """Attention of one point by a package; the table of pages is the same for all sets of inputs.

    Args:
        backend: a key of `PACKAGES`.
        operator: whose dimensions are run.
        factory: makes the tensors.
        dtype: of queries and cache: bf16 or fp16.

    Raises:
        NotRunnableError: if the package is not installed or cannot be imported, or it has no kernel for the dtype.
    """

    def __init__(self, backend: str, operator: Attention, factory: TensorFactory, dtype: str) -> None:
        if dtype not in ("bf16", "fp16"):
            raise NotRunnableError(f"{backend}: bf16 and fp16 alone, not {dtype}")
        if (why := missing(backend)) is not None:
            raise NotRunnableError(why)
        try:
            self.module = importlib.import_module(PACKAGES[backend].module)
        except Exception as error:  # noqa: BLE001 - a package for another torch or CUDA fails in ways of its own
            raise NotRunnableError(f"{backend}: cannot be imported: {first_line(error)}") from None
        self.backend, self.factory, self.dtype, self.page = backend, factory, dtype, PACKAGES[backend].page
        self.batch, self.new, self.keys = (
            whole(size) for size in (operator.batch, operator.new, operator.new + operator.cached)
        )
        self.heads, self.kv_heads = whole(operator.n_heads), whole(operator.n_kv_heads)
        self.width = whole(operator.head_dim)
        self.window = None if operator.window is None else whole(operator.window)

    @property
    def packed(self) -> bool:
        """Whether keys are those of whole prompts, one after the other, not pages of a cache."""
        return package_kernel(self.backend, self.new, self.keys) == VARLEN

    def inputs(self) -> tuple[Any, Any, Any]:
        """Queries, keys, values: shapes [tokens, heads, width] of whole prompts and of FlashInfer's queries; over a cache
        FlashAttention's queries are [batch, new tokens, heads, width]."""
        rows = (self.batch, self.new) if self.backend != "flashinfer" and not self.packed else (self.batch * self.new,)
        place = (self.batch * self.keys,) if self.packed else (self.batch * self._pages, self.page)
        random_ = self.factory.random
        q = random_(*rows, self.heads, self.width, dtype=self.dtype)
        return q, *(random_(*place, self.kv_heads, self.width, dtype=self.dtype) for _ in "kv")

    @property
    def _pages(self) -> int:
        """Pages of a sequence."""
        return int(ceil_div(self.keys, self.page))

    @cached_property
    def _table(self) -> Any:
        """The pages of each sequence, anywhere in the cache: int32 of shape [batch, pages of a sequence]."""
        pages = self.batch * self._pages
        order = random.Random(0).sample(range(pages), pages)  # noqa: S311 - a table of pages, not a secret
        return self._numbers(order).view(self.batch, self._pages)

    def _numbers(self, values: list[int]) -> Any:
        return self.factory.whole_numbers(values).to(torch.int32)

    def _ends(self, each: int) -> Any:
        """Where each sequence begins and the last one ends, at `each` entries a sequence: int32 of shape [batch + 1]."""
        return self._numbers(list(range(0, self.batch * each + 1, each)))

    def run(self, q: Any, k: Any, v: Any) -> Any:
        """Attention of each query to the keys that it sees; the shape of the queries."""
        result = self._call(q, k, v)
        return result[0] if isinstance(result, tuple) else result  # some versions add the sums of exponentials

    @cached_property
    def _call(self) -> Callable[[Any, Any, Any], Any]:
        return self._flashinfer() if self.backend == "flashinfer" else self._flash_attention()

    def _flash_attention(self) -> Callable[[Any, Any, Any], Any]:
        common = {"causal": True, "window_size": (-1, -1) if self.window is None else (self.window - 1, 0)}
        if self.packed:
            ends = self._ends(self.new)
            lengths = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": self.new, "max_seqlen_k": self.new}
            return lambda q, k, v: self.module.flash_attn_varlen_func(q, k, v, **lengths, **common)
        name = "block_table" if self.backend == "flash-attn-2" else "page_table"
        cache = {"cache_seqlens": self._numbers([self.keys] * self.batch), name: self._table}
        return lambda q, k, v: self.module.flash_attn_with_kvcache(q, k, v, **cache, **common)

    def _flashinfer(self) -> Callable[[Any, Any, Any], Any]:
        """A wrapper with its plan, which is made once: an engine makes one per step, for all layers."""
        workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=self.factory.device)
        last = self.keys - (self._pages - 1) * self.page
        tables = [self._ends(self._pages), self._table.flatten(), self._numbers([last] * self.batch)]
        sizes = (self.heads, self.kv_heads, self.width, self.page)
        kind = getattr(torch, {"bf16": "bfloat16", "fp16": "float16"}[self.dtype])
        options = {"window_left": -1 if self.window is None else self.window - 1, "q_data_type": kind, "kv_data_type": kind}
        if self.new == 1:
            cores = self.heads // self.kv_heads >= _TENSOR_CORE_QUERIES
            wrapper = self.module.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=cores)
            wrapper.plan(*tables, *sizes, **options)
        else:
            wrapper = self.module.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
            wrapper.plan(self._ends(self.new), *tables, *sizes, causal=True, **options)
        return lambda q, k, v: wrapper.run(q, (k, v))
