"""Kernels of single operators: products, routed experts, element-wise passes, copies."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from torch.nn import functional

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, Place, first_line, whole
from roofline.measure.bench.point import BOTH_WAYS, COMPILED, FAST, GROUPED, OVERLAPPED, PREQUANTISED


class Products(Kernel):
    """y = x w^T in the library that torch calls. fp8: activations are quantised in the call, unless that is said to have
    been done before; scales are one a tensor. int8 gives int32."""

    ops: ClassVar[tuple[str, ...]] = ("gemm", "bmm")

    def inputs(self) -> tuple[Any, ...]:
        """Both factors, with k as the last dimension."""
        operator, place = self.operator(), self.place
        if self.point.op == "bmm" and self.dtype in ("fp8", "int8"):
            raise NotRunnableError(f"torch has no batch of {self.dtype} products")
        batch = () if self.point.op == "gemm" else (operator.batch,)
        if self.dtype == "fp8":
            before = self.point.texts.get("kernel") in (PREQUANTISED, FAST)
            x = place.random(operator.m, operator.k, dtype="fp8" if before else "bf16")
            one = torch.ones((), dtype=torch.float32, device=place.device)
            return x, place.random(operator.n, operator.k, dtype="fp8"), one
        x = place.random(*batch, operator.m, operator.k, dtype=self.dtype)
        return x, place.random(*batch, operator.n, operator.k, dtype=self.dtype, scale=0.02)

    def run(self, *inputs: Any) -> Any:
        """The product."""
        x, w, *scale = inputs
        if self.dtype == "fp8":
            if not hasattr(torch, "_scaled_mm"):
                raise NotRunnableError("this torch has no product of fp8 matrices")
            return torch._scaled_mm(  # noqa: SLF001 - the only fp8 product in all the versions that we support
                x.to(torch.float8_e4m3fn),
                w.t(),
                scale_a=scale[0],
                scale_b=scale[0],
                out_dtype=torch.bfloat16,
                use_fast_accum=self.point.texts.get("kernel") == FAST,
            )
        if self.dtype == "int8":
            return torch._int_mm(x, w.t())  # noqa: SLF001 - likewise
        return torch.mm(x, w.t()) if self.point.op == "gemm" else torch.bmm(x, w.transpose(1, 2))


@dataclass(frozen=True)
class Routing:
    """Which rows each expert has: tokens sorted by expert, and where each expert's rows end. Known to the host, so that a
    call needs no look at the device."""

    tokens: Any
    ends: list[int]
    ends_on_device: Any
    gates: Any


def route(place: Place, *, tokens: int, experts: int, topk: int, balanced: bool, dtype: str) -> Routing:
    """Balanced: the choices go round. Uniform: each token draws `topk` different experts, all equally likely."""
    chance = random.Random(f"{tokens} {experts} {topk}")  # noqa: S311 - a routing, not a secret
    rows: list[list[int]] = [[] for _ in range(experts)]
    for token in range(tokens):
        around = [(token * topk + turn) % experts for turn in range(topk)]
        for expert in around if balanced else chance.sample(range(experts), topk):
            rows[expert].append(token)
    ends, total = [], 0
    for listed in rows:
        total += len(listed)
        ends.append(total)
    order = [token for listed in rows for token in listed]
    gates = place.random(total, 1, dtype=dtype)
    return Routing(place.whole_numbers(order), ends, place.whole_numbers(ends).to(torch.int32), gates)


def multiply(rows: Any, weights: Any, routing: Routing, backend: str) -> Any:
    """rows[r] times the matrix of the expert whose row it is; weights are [experts, n, k]."""
    if backend == GROUPED:
        grouped = getattr(functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        if grouped is None:
            raise NotRunnableError("this torch has no grouped product")
        try:
            return grouped(rows, weights.transpose(1, 2), offs=routing.ends_on_device)
        except RuntimeError as error:
            raise NotRunnableError(f"grouped: {first_line(error)}") from None
    out = torch.empty(rows.shape[0], weights.shape[1], dtype=rows.dtype, device=rows.device)
    for expert, (start, end) in enumerate(zip([0, *routing.ends], routing.ends, strict=False)):
        if end > start:
            torch.mm(rows[start:end], weights[expert].t(), out=out[start:end])
    return out


def experts(x: Any, up: Any, down: Any, routing: Routing, backend: str, *, gated: bool = True) -> Any:
    """Gather each expert's rows, up, activation, down, and add what the experts of a token gave, scaled by its gates."""
    inner = multiply(x[routing.tokens], up, routing, backend)
    if gated:
        gate, value = inner.chunk(2, dim=-1)
        inner = functional.silu(gate) * value
    else:
        inner = functional.silu(inner)
    out = multiply(inner, down, routing, backend)
    return torch.zeros_like(x).index_add_(0, routing.tokens, out * routing.gates)


class Experts(Kernel):
    """All routed experts of a layer on one device."""

    ops: ClassVar[tuple[str, ...]] = ("moe",)
    composed: ClassVar[bool] = True

    def inputs(self) -> tuple[Any, ...]:
        """Tokens, both weights, and a routing."""
        up, down, place = self.operator("up_proj"), self.operator("down_proj"), self.place
        balanced = self.point.texts.get("distribution") == "balanced"
        x = place.random(up.tokens, up.k, dtype=self.dtype)
        wide = place.random(up.experts, up.n, up.k, dtype=self.dtype, scale=0.02)
        narrow = place.random(down.experts, down.n, down.k, dtype=self.dtype, scale=0.02)
        sizes = {"tokens": whole(up.tokens), "experts": whole(up.experts), "topk": whole(up.top_k)}
        return x, wide, narrow, route(place, **sizes, balanced=balanced, dtype=self.dtype)

    def run(self, *inputs: Any) -> Any:
        """Up, activation, down, sum."""
        x, up, down, routing = inputs
        return experts(x, up, down, routing, self.point.backend)


def rms_norm(x: Any, weight: Any) -> Any:
    """Each row over its root mean square, times a weight."""
    return functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate the two halves of each head by the angles of its token. Source: Su et al. 2021, arXiv:2104.09864, eq. 34."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def silu_mul(x: Any) -> Any:
    """silu(gate) * up of rows that hold both."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def draw(logits: Any) -> Any:
    """One index a row, with the probabilities of a softmax: the largest of p / e over exponential e, which asks the host
    for nothing. Source: Efraimidis and Spirakis, Information Processing Letters 97(5), 2006."""
    chances = torch.softmax(logits, dim=-1)
    return torch.argmax(chances / torch.empty_like(chances).exponential_(), dim=-1)


FUNCTIONS = {"rmsnorm": rms_norm, "rope": rope, "silu_mul": silu_mul, "add": torch.add, "sampling": draw}


@cache
def _compiled(op: str, width: int) -> Any:
    """One a width: with the width known, a row is reduced as an engine's kernel does it; the number of rows is left open."""
    del width
    return torch.compile(FUNCTIONS[op])


_BROKEN: dict[str, str] = {}
"""Why an op could not be compiled: asked once, for a compiler that fails takes seconds each time."""


class Elementwise(Kernel):
    """One pass over a tensor, or a few."""

    ops: ClassVar[tuple[str, ...]] = (*FUNCTIONS, "embedding")
    _table: Any = None
    """One table for all sets of indices: each set reads other rows of it."""

    def inputs(self) -> tuple[Any, ...]:
        """The tensors of the op."""
        op, place, dtype = self.operator(), self.place, self.dtype
        match self.point.op:
            case "rmsnorm":
                return place.random(op.rows, op.width, dtype=dtype), place.random(op.width, dtype=dtype)
            case "rope":
                angles = [place.random(op.tokens, 1, op.rotary_dim / 2, dtype=dtype) for _ in range(2)]
                return place.random(op.tokens, op.heads, op.rotary_dim, dtype=dtype), *angles
            case "silu_mul":
                return (place.random(op.rows, 2 * op.width, dtype=dtype),)
            case "add":
                return place.random(op.elements, dtype=dtype), place.random(op.elements, dtype=dtype)
            case "sampling":
                return (place.random(op.rows, op.choices, dtype=dtype),)
        if self._table is None:
            self._table = place.random(op.entries, op.width, dtype=dtype)
        return place.indices(op.tokens, op.entries), self._table

    def run(self, *inputs: Any) -> Any:
        """The op."""
        op = self.point.op
        if op == "embedding":
            return functional.embedding(*inputs)
        if self.point.backend != COMPILED:
            return FUNCTIONS[op](*inputs)
        if op in _BROKEN:
            raise NotRunnableError(_BROKEN[op])
        try:
            return _compiled(op, inputs[0].shape[-1])(*inputs)
        except Exception as error:  # noqa: BLE001 - torch's compiler, Triton's and the C compiler raise errors of their own
            _BROKEN[op] = f"compiled: {type(error).__name__}: {first_line(error)}"
            raise NotRunnableError(_BROKEN[op]) from None


WORD = 4  # bytes of the elements that are moved: fp32
_WIDTH = 8192  # of the products beside which a copy is made: 1.1 TFLOP each
_A_PRODUCT = 32 * 2**20  # bytes that a link moves in less time than the fastest of today's devices takes for one


class InMemory(Kernel):
    """Read, write, or both. In chunks: blocks are copied one call each to where a shuffled table says, as a KV cache is
    moved that was not allocated in one piece."""

    ops: ClassVar[tuple[str, ...]] = ("copy_d2d",)

    def inputs(self) -> tuple[Any, ...]:
        """Source and target."""
        size = self.point.numbers["bytes"] / WORD
        source = self.place.random(size, dtype="fp32")
        target = self.place.empty(size, dtype="fp32")
        chunk = self.point.numbers.get("chunk_bytes")
        return source, target, _block_pairs(source, target, chunk) if chunk else None

    def run(self, *inputs: Any) -> Any:
        """One pass over the bytes."""
        source, target, blocks = inputs
        if blocks is not None:
            for one, other in blocks:
                other.copy_(one)
            return None
        match self.point.texts.get("kernel"):
            case "read":
                return source.sum()
            case "write":
                return target.fill_(1.5)
        return target.copy_(source)


def _block_pairs(source: Any, target: Any, chunk: int) -> list[tuple[Any, Any]]:
    size = chunk // WORD
    order = list(range(source.numel() // size))
    shuffled = random.Random(0).sample(order, len(order))  # noqa: S311 - a block table, not a secret
    return [(source[one * size : one * size + size], target[to * size : to * size + size])
            for one, to in zip(order, shuffled, strict=True)]  # fmt: skip


class ToHost(Kernel):
    """One call, or one a chunk, over the link to the host. Beside a product: the copy runs on a stream of its own while the
    matrix units are busy. Both ways: the same bytes cross in the other direction at the same time."""

    ops: ClassVar[tuple[str, ...]] = ("copy_h2d", "copy_d2h")

    def inputs(self) -> tuple[Any, ...]:
        """Blocks on both sides, and what goes on beside them."""
        if self.place.device.type != "cuda":
            raise NotRunnableError("the device has no memory of its own")
        numbers, kind = self.point.numbers, self.point.texts.get("kernel", "")
        pinned = self.point.texts.get("pinned") == "true"
        size = whole(numbers["bytes"] / WORD)
        sides = [self._sides(size, pinned=pinned) for _ in range(2 if kind == BOTH_WAYS else 1)]
        chunk = numbers.get("chunk_bytes", numbers["bytes"])
        blocks = [_block_pairs(host, device, chunk) for host, device in sides]
        factors = [self.place.random(_WIDTH, _WIDTH, dtype="bf16") for _ in range(2)] if kind == OVERLAPPED else []
        return blocks, factors, torch.cuda.Stream() if kind else None

    def _sides(self, size: int, *, pinned: bool) -> tuple[Any, Any]:
        host, device = torch.empty(size, pin_memory=pinned), self.place.random(size, dtype="fp32")
        host.copy_(device)
        return host, device

    def run(self, *inputs: Any) -> Any:
        """All blocks, in one direction; the other direction or the product on another stream."""
        blocks, factors, other = inputs
        inward = self.point.op == "copy_h2d"
        if other is None:
            _move(blocks[0], inward=inward)
            return None
        here = torch.cuda.current_stream()
        other.wait_stream(here)
        with torch.cuda.stream(other):
            if factors:
                # Enough of them to outlast the copy: what is left over goes on beside the next one.
                product = [torch.mm(*factors) for _ in range(max(2, self.point.numbers["bytes"] // _A_PRODUCT))][-1]
            else:
                product = None
                _move(blocks[1], inward=not inward)
        _move(blocks[0], inward=inward)
        if not factors:
            here.wait_stream(other)
        return product


def _move(blocks: list[tuple[Any, Any]], *, inward: bool) -> None:
    for host, device in blocks:
        if inward:
            device.copy_(host, non_blocking=True)
        else:
            host.copy_(device, non_blocking=True)
