"""Kernels of single operators: GEMMs, routed experts, element-wise passes, copies."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from torch.nn import functional

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, TensorFactory, first_line, whole
from roofline.measure.bench.point import BOTH_WAYS, COMPILED, FAST, GROUPED, OVERLAPPED, PER_ROW, PREQUANTISED
from roofline.measure.records.columns import WEIGHT_ONLY

_FLOAT8 = ("fp8", "fp8_block")
_BLOCK = 128  # rows and columns of an fp8_block weight, and columns of activations, that share a scale
_ALIGNED = 4  # fp32 scales: 16 bytes
_INNER_K_TILES = 8  # of CUDA's packed int4 weights: 8 tiles of 16 inputs


class Gemms(Kernel):
    """y = x w^T in the library that torch calls.

    fp8: activations are cast in the call, unless the point's `kernel` says that they were before; one scale per tensor, with
    `PER_ROW` per row of x and of w; fp8_block: per 128 columns of each row of x, per 128 x 128 block of w. int8 gives int32.
    Weight-only formats: packed as torch wants them on the device, and multiplied with bf16 activations.
    """

    ops: ClassVar[tuple[str, ...]] = ("gemm", "bmm")
    _weights: tuple[Any, Any] | None = None

    def inputs(self) -> tuple[Any, ...]:
        """The factors x[m, k] and w[n, k], after the batch if there is one; then the scales, where there are any."""
        operator, factory = self.operator(), self.factory
        if self.point.op == "bmm" and self.dtype not in ("fp32", "tf32", "bf16", "fp16"):
            raise NotRunnableError(f"torch has no batched {self.dtype} GEMM")
        batch = () if self.point.op == "gemm" else (operator.batch,)
        if self.dtype in WEIGHT_ONLY:
            if self._weights is None:
                self._weights = self._packed(operator.n, operator.k)
            # packing takes longer than multiplying: each set has a copy
            return factory.random(operator.m, operator.k, dtype="bf16"), *(tensor.clone() for tensor in self._weights)
        if self.dtype in _FLOAT8:
            before = self.point.texts.get("kernel") in (PREQUANTISED, FAST)
            x = factory.random(operator.m, operator.k, dtype="fp8" if before else "bf16")
            return x, factory.random(operator.n, operator.k, dtype="fp8"), *self._scales(operator.m, operator.n, operator.k)
        x = factory.random(*batch, operator.m, operator.k, dtype=self.dtype)
        return x, factory.random(*batch, operator.n, operator.k, dtype=self.dtype, scale=0.02)

    def _packed(self, n: float, k: float) -> tuple[Any, Any]:
        """Weights as torch's kernel of the device takes them, and their scales: of int4 [k / group, n, 2], zeros included."""
        factory = self.factory
        if self.dtype == "int8_wo":
            return factory.random(n, k, dtype="int8"), factory.scales(n, dtype="bf16")
        group = WEIGHT_ONLY[self.dtype].metadata[0].columns
        assert group is not None  # noqa: S101 - they are named by it
        if whole(k) % group or whole(k) % (16 * _INNER_K_TILES) or whole(n) % 16:
            raise NotRunnableError("torch packs int4 weights with n a multiple of 16, and k of 128 and of the group")
        numbers, scales = factory.nibbles(n, k), factory.scales(k / group, n, 2, dtype="bf16")
        if factory.device.type == "cpu":
            return torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, _INNER_K_TILES), scales  # noqa: SLF001
        pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(torch.uint8)
        return torch.ops.aten._convert_weight_to_int4pack(pairs, _INNER_K_TILES), scales  # noqa: SLF001

    def _scales(self, m: float, n: float, k: float) -> tuple[Any, Any]:
        """The scales of x and of w^T, in the layouts that `torch._scaled_mm` tells the kinds of scales by."""
        factory = self.factory
        if self.dtype == "fp8_block":
            blocks = -(-whole(k) // _BLOCK)
            of_rows = factory.scales(blocks, m).t()  # the rows of a column lie together
            padded = -(-blocks // _ALIGNED) * _ALIGNED
            return of_rows, factory.scales(-(-whole(n) // _BLOCK), padded)[:, :blocks].t()
        if self.point.texts.get("kernel") == PER_ROW:
            return factory.scales(m, 1), factory.scales(1, n)
        one = torch.ones((), dtype=torch.float32, device=factory.device)
        return one, one

    def run(self, *inputs: Any) -> Any:
        """The product y[m, n], after the batch if there is one."""
        x, w, *scale = inputs
        if self.dtype in _FLOAT8:
            return scaled(x, w, *scale, fast=self.point.texts.get("kernel") == FAST)
        if self.dtype == "int8_wo":
            return torch.ops.aten._weight_int8pack_mm(x, w, *scale)  # noqa: SLF001 - what torchao calls
        if self.dtype in WEIGHT_ONLY:
            aten = torch.ops.aten
            multiply = aten._weight_int4pack_mm_for_cpu if x.device.type == "cpu" else aten._weight_int4pack_mm  # noqa: SLF001
            return multiply(x, w, WEIGHT_ONLY[self.dtype].metadata[0].columns, *scale)
        if self.dtype == "int8":
            return torch._int_mm(x, w.t())  # noqa: SLF001 - the only one
        return torch.mm(x, w.t()) if self.point.op == "gemm" else torch.bmm(x, w.transpose(1, 2))


def scaled(x: Any, w: Any, scale_x: Any, scale_w: Any, *, fast: bool = False) -> Any:
    """The fp8 product (x scale_x) (w^T scale_w) in bf16, with x cast to fp8 where it is not.

    Args:
        x: shape [m, k].
        w: fp8, shape [n, k].
        scale_x: fp32: one number, or shape [m, 1], or [m, k / 128].
        scale_w: fp32: one number, or shape [1, n], or [k / 128, n / 128].
        fast: whether sums are kept in the matrix units' own precision.

    Raises:
        NotRunnableError: if torch has no fp8 GEMM with such scales on this device.
    """
    if not hasattr(torch, "_scaled_mm"):
        raise NotRunnableError("this torch has no fp8 GEMM")
    try:
        return torch._scaled_mm(  # noqa: SLF001 - the only fp8 GEMM in all the versions that we support
            x.to(torch.float8_e4m3fn), w.t(), scale_a=scale_x, scale_b=scale_w, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise NotRunnableError(f"fp8: {first_line(error)}") from None


@dataclass(frozen=True)
class Routing:
    """The rows of each expert. The host has them too, so that a call does not wait for the device.

    Attributes:
        tokens: indices of tokens, sorted by expert, shape [rows].
        ends: the end of each expert's rows in `tokens`.
        ends_on_device: the same as a tensor of int32, shape [experts].
        gates: the weight of each row in the sum of its token, shape [rows, 1].
    """

    tokens: Any
    ends: list[int]
    ends_on_device: Any
    gates: Any


def route(factory: TensorFactory, *, tokens: int, experts: int, topk: int, balanced: bool, dtype: str) -> Routing:
    """Make a routing of tokens to experts, the same for the same sizes.

    Args:
        factory: makes the tensors.
        tokens: the number of tokens.
        experts: the number of experts.
        topk: the number of experts of each token.
        balanced: whether experts take turns; otherwise each token draws `topk` different experts, all equally likely.
        dtype: of the gates.
    """
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
    gates = factory.random(total, 1, dtype=dtype)
    return Routing(factory.whole_numbers(order), ends, factory.whole_numbers(ends).to(torch.int32), gates)


_WEIGHT = 0.02  # the size of weights; the scale of fp8 ones, whose elements are around 1: smaller ones would lose digits


def _multiply(rows: Any, weights: Any, routing: Routing, backend: str) -> Any:
    """Each of rows[rows, k] times the matrix of its expert, of weights[experts, n, k]; shape [rows, n].

    fp8 weights: rows are cast to fp8 too, and the result is bf16. Grouped, there is a scale for each row of both.
    """
    float8 = weights.dtype == torch.float8_e4m3fn
    if backend == GROUPED:
        grouped = None if float8 else getattr(functional, "grouped_mm", None)
        grouped = grouped or getattr(torch, "_scaled_grouped_mm" if float8 else "_grouped_mm", None)
        if grouped is None:
            raise NotRunnableError(f"this torch has no grouped {'fp8 ' if float8 else ''}GEMM")
        scales: dict[str, Any] = {}
        if float8:
            scales = {"scale_a": rows.new_ones(rows.shape[0], dtype=torch.float32), "out_dtype": torch.bfloat16}
            scales["scale_b"] = torch.full(weights.shape[:2], _WEIGHT, device=rows.device)
        try:
            return grouped(rows.to(weights.dtype), weights.transpose(1, 2), offs=routing.ends_on_device, **scales)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise NotRunnableError(f"grouped: {first_line(error)}") from None
    parts = [(slice(*ends), w) for *ends, w in zip([0, *routing.ends], routing.ends, weights, strict=False)]
    if float8:
        scales_of = (rows.new_ones((), dtype=torch.float32), rows.new_full((), _WEIGHT, dtype=torch.float32))
        return torch.cat([scaled(rows[part], w, *scales_of) for part, w in parts if part.stop > part.start])
    out = torch.empty(rows.shape[0], weights.shape[1], dtype=rows.dtype, device=rows.device)
    for part, w in parts:
        if part.stop > part.start:
            torch.mm(rows[part], w.t(), out=out[part])
    return out


def experts(x: Any, up: Any, down: Any, routing: Routing, backend: str, *, gated: bool = True) -> Any:
    """The routed experts of a layer: gather rows, up, activation, down, sum of each token's experts times their gates.

    Args:
        x: tokens, shape [tokens, hidden].
        up: shape [experts, inner, hidden], with `gated` [experts, 2 inner, hidden].
        down: shape [experts, hidden, inner].
        routing: the experts of each token.
        backend: "grouped" or "loop".
        gated: whether the activation is SiLU(gate) * up; otherwise SiLU.

    Returns:
        Shape [tokens, hidden].

    Raises:
        NotRunnableError: if torch has no grouped GEMM for these tensors.
    """
    inner = _multiply(x[routing.tokens], up, routing, backend)
    if gated:
        gate, value = inner.chunk(2, dim=-1)
        inner = functional.silu(gate) * value
    else:
        inner = functional.silu(inner)
    out = _multiply(inner, down, routing, backend)
    return torch.zeros_like(x).index_add_(0, routing.tokens, out * routing.gates)


class Experts(Kernel):
    """All routed experts of a layer on one device."""

    ops: ClassVar[tuple[str, ...]] = ("moe",)
    composed: ClassVar[bool] = True

    def inputs(self) -> tuple[Any, ...]:
        """Tokens, both weights, and a routing."""
        up, down, factory = self.operator("up_proj"), self.operator("down_proj"), self.factory
        balanced = self.point.texts.get("distribution") == "balanced"
        stream = "bf16" if self.dtype == "fp8" else self.dtype
        x = factory.random(up.tokens, up.k, dtype=stream)
        scale = 1.0 if self.dtype == "fp8" else _WEIGHT
        wide = factory.random(up.experts, up.n, up.k, dtype=self.dtype, scale=scale)
        narrow = factory.random(down.experts, down.n, down.k, dtype=self.dtype, scale=scale)
        sizes = {"tokens": whole(up.tokens), "experts": whole(up.experts), "topk": whole(up.top_k)}
        return x, wide, narrow, route(factory, **sizes, balanced=balanced, dtype=stream)

    def run(self, *inputs: Any) -> Any:
        """Up, activation, down, sum."""
        x, up, down, routing = inputs
        return experts(x, up, down, routing, self.point.backend)


def rms_norm(x: Any, weight: Any) -> Any:
    """RMSNorm: each row of x[..., width] over its root mean square (epsilon 1e-5), times weight[width]."""
    return functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """RoPE: rotate the two halves of each head of x[..., heads, width] by the angles of its token.

    Args:
        x: shape [..., heads, width].
        cos: of the angles, shape [..., 1, width / 2].
        sin: of the same angles.

    Source: Su et al. 2021, arXiv:2104.09864, eq. 34.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _silu_mul(x: Any) -> Any:
    """silu(gate) * up of rows that hold both."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def draw(logits: Any) -> Any:
    """Sample one index per row of logits[rows, choices] with the probabilities of their softmax; shape [rows].

    It is the index of the largest p / e with exponential random e, which needs no synchronisation with the host.

    Source: Efraimidis and Spirakis, Information Processing Letters 97(5), 2006.
    """
    chances = torch.softmax(logits, dim=-1)
    return torch.argmax(chances / torch.empty_like(chances).exponential_(), dim=-1)


_FUNCTIONS = {"rmsnorm": rms_norm, "rope": rope, "silu_mul": _silu_mul, "add": torch.add, "sampling": draw}


@cache
def _compiled(op: str, width: int) -> Any:
    """One per width: with the width known, a row is reduced as an engine's kernel does it; the number of rows is left open."""
    del width
    return torch.compile(_FUNCTIONS[op])


_BROKEN: dict[str, str] = {}
"""The reason why an op could not be compiled: tried once, since a compiler that fails takes seconds each time."""


class Elementwise(Kernel):
    """One pass over a tensor, or a few."""

    ops: ClassVar[tuple[str, ...]] = (*_FUNCTIONS, "embedding")
    _table: Any = None
    """One table for all sets of indices: each set reads other rows of it."""

    def inputs(self) -> tuple[Any, ...]:
        """The tensors of the op."""
        op, factory, dtype = self.operator(), self.factory, self.dtype
        match self.point.op:
            case "rmsnorm":
                return factory.random(op.rows, op.width, dtype=dtype), factory.random(op.width, dtype=dtype)
            case "rope":
                angles = [factory.random(op.tokens, 1, op.rotary_dim / 2, dtype=dtype) for _ in range(2)]
                return factory.random(op.tokens, op.heads, op.rotary_dim, dtype=dtype), *angles
            case "silu_mul":
                return (factory.random(op.rows, 2 * op.width, dtype=dtype),)
            case "add":
                return factory.random(op.elements, dtype=dtype), factory.random(op.elements, dtype=dtype)
            case "sampling":
                return (factory.random(op.rows, op.choices, dtype=dtype),)
        if self._table is None:
            self._table = factory.random(op.entries, op.width, dtype=dtype)
        return factory.indices(op.tokens, op.entries), self._table

    def run(self, *inputs: Any) -> Any:
        """The op."""
        op = self.point.op
        if op == "embedding":
            return functional.embedding(*inputs)
        if self.point.backend != COMPILED:
            return _FUNCTIONS[op](*inputs)
        if op in _BROKEN:
            raise NotRunnableError(_BROKEN[op])
        try:
            return _compiled(op, inputs[0].shape[-1])(*inputs)
        except Exception as error:  # noqa: BLE001 - torch's compiler, Triton's and the C compiler raise errors of their own
            _BROKEN[op] = f"compiled: {type(error).__name__}: {first_line(error)}"
            raise NotRunnableError(_BROKEN[op]) from None


_WORD = 4  # bytes of the elements that are moved: fp32
_WIDTH = 8192  # of the GEMMs that run meanwhile: 1.1 TFLOP each
_BYTES_PER_GEMM = 32 * 2**20  # bytes that a link moves in less time than the fastest of today's devices takes for one


class InMemory(Kernel):
    """Read, write, or both. In chunks: blocks are copied one call each to places of a shuffled table, as in a paged KV
    cache."""

    ops: ClassVar[tuple[str, ...]] = ("copy_d2d",)

    def inputs(self) -> tuple[Any, ...]:
        """Source and target."""
        size = self.point.numbers["bytes"] / _WORD
        source = self.factory.random(size, dtype="fp32")
        target = self.factory.empty(size, dtype="fp32")
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
    size = chunk // _WORD
    order = list(range(source.numel() // size))
    shuffled = random.Random(0).sample(order, len(order))  # noqa: S311 - a block table, not a secret
    return [(source[one * size : one * size + size], target[to * size : to * size + size])
            for one, to in zip(order, shuffled, strict=True)]  # fmt: skip


class ToHost(Kernel):
    """One call, or one per chunk, over the link to the host. "beside a product": the copy runs on its own stream while
    GEMMs run on another. "both ways": the same bytes are copied in the other direction at the same time."""

    ops: ClassVar[tuple[str, ...]] = ("copy_h2d", "copy_d2h")

    def inputs(self) -> tuple[Any, ...]:
        """Blocks on both sides, the factors of the GEMMs that run meanwhile, and their stream."""
        if self.factory.device.type != "cuda":
            raise NotRunnableError("the device has no memory of its own")
        numbers, kind = self.point.numbers, self.point.texts.get("kernel", "")
        pinned = self.point.texts.get("pinned") == "true"
        size = whole(numbers["bytes"] / _WORD)
        sides = [self._sides(size, pinned=pinned) for _ in range(2 if kind == BOTH_WAYS else 1)]
        chunk = numbers.get("chunk_bytes", numbers["bytes"])
        blocks = [_block_pairs(host, device, chunk) for host, device in sides]
        factors = [self.factory.random(_WIDTH, _WIDTH, dtype="bf16") for _ in range(2)] if kind == OVERLAPPED else []
        return blocks, factors, torch.cuda.Stream() if kind else None

    def _sides(self, size: int, *, pinned: bool) -> tuple[Any, Any]:
        host, device = torch.empty(size, pin_memory=pinned), self.factory.random(size, dtype="fp32")
        host.copy_(device)
        return host, device

    def run(self, *inputs: Any) -> Any:
        """Copy all blocks in one direction; the other direction or the GEMMs run on another stream."""
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
                last = [torch.mm(*factors) for _ in range(max(2, self.point.numbers["bytes"] // _BYTES_PER_GEMM))][-1]
            else:
                last = None
                _move(blocks[1], inward=not inward)
        _move(blocks[0], inward=inward)
        if not factors:
            here.wait_stream(other)
        return last


def _move(blocks: list[tuple[Any, Any]], *, inward: bool) -> None:
    for host, device in blocks:
        if inward:
            device.copy_(host, non_blocking=True)
        else:
            host.copy_(device, non_blocking=True)
