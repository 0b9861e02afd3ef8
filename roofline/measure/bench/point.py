"""A point: one thing to measure, the columns that identify it, the operators that predict it; the scope of suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from roofline.cost import ZERO, Cost
from roofline.measure.records.columns import COLUMNS, RESULTS, dtypes
from roofline.measure.records.ops import RECORD_OPS, Call, Operators

Suite = Literal["ceilings", "operators", "transfers", "collectives"]
SUITES: tuple[Suite, ...] = ("ceilings", "operators", "transfers", "collectives")
_SOURCE = "roofline"


@dataclass(frozen=True)
class Point:
    """One thing to measure. Points of a lower `tier` tell more, and are measured first.

    Attributes:
        suite: which it belongs to.
        op: the op of its record (`roofline.measure.records.ops`).
        dtype: the column `dtype`.
        numbers: columns of kind `count`, by name.
        texts: columns of kind `text`, by name.
        backend: the column `backend`.
        cache: whether inputs come from device memory ("cold") or may be in a cache ("warm").
        tier: 0 to 2.
    """

    suite: Suite
    op: str
    dtype: str
    numbers: Mapping[str, int]
    texts: Mapping[str, str] = field(default_factory=dict)
    backend: str = "torch"
    cache: Literal["cold", "warm"] = "cold"
    tier: int = 1
    timing: Literal["auto", "eager"] = "auto"
    """eager: launched call by call, also where a CUDA graph could be replayed."""

    @cached_property
    def operators(self) -> Operators:
        """The operators of the point with the times that each runs, as `roofline.measure.validate` makes them of its record.

        Raises:
            RooflineError: if the op is unknown, or cannot be made of the columns.
        """
        numbers = {name: value for name, value in self.numbers.items() if name != "window" or value}
        return RECORD_OPS[self.op].operators(Call(dtypes(self.dtype), numbers, self.texts))

    @cached_property
    def cost(self) -> Cost:
        """The sum of the operators' costs: FLOP and bytes of one call."""
        return sum((operator.cost() * repeat for operator, repeat in self.operators.values()), ZERO)

    @property
    def kind(self) -> tuple[str, str, str]:
        """What has rates of its own: op, dtype, backend."""
        return self.op, self.dtype, self.backend

    def columns(self, gpu: str, version: str) -> dict[str, str]:
        """The columns that identify its record, as text.

        Args:
            gpu: the id of the device.
            version: of torch, or of the package that the backend is.
        """
        values: dict[str, Any] = dict.fromkeys((name for name in COLUMNS if name not in RESULTS), "")
        values |= {"source": _SOURCE, "gpu": gpu, "op": self.op, "dtype": self.dtype, "backend": self.backend}
        values |= {"version": version, "cache": self.cache, **self.numbers, **self.texts}
        return {name: str(value) for name, value in values.items()}

    def __str__(self) -> str:
        dims = [f"{name}={value}" for name, value in self.numbers.items() if not (name == "window" and not value)]
        words = [word for word in self.texts.values() if word]
        return " ".join([self.op, self.dtype, *dims, *words, self.backend, self.cache])


_RIDGE = 100
"""FLOP that count as much as a byte where points are ordered by their work: ridge points of hosts are lower, of accelerators
higher."""


def in_order(points: list[Point]) -> list[Point]:
    """Points in the order to measure them: lower tiers first, in a tier kernels by turns, so that a short run has some of each.

    Of each kernel those with the least work come first: its rate is known when the large ones come, which can then be left out
    untried where they would take too long. Ceilings of tier 0 go before all else: every other figure is compared with them.
    """
    turns: dict[tuple[object, ...], int] = {}
    keyed = []
    for point, work in sorted(((point, _work(point)) for point in points), key=lambda pair: pair[1]):
        first = point.suite == "ceilings" and point.tier == 0
        turn = (first, point.tier, *point.kind)
        turns[turn] = turns.get(turn, 0) + 1
        keyed.append(((not first, point.tier, turns[turn], work), point))
    return [point for _, point in sorted(keyed, key=lambda pair: pair[0])]


def _work(point: Point) -> float:
    return float(point.cost.matrix_flops + _RIDGE * point.cost.bytes)


MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Scope:
    """What suites are limited to: one device.

    Attributes:
        kind: of the device.
        cache_bytes: of its last cache.
        dtypes: those of operators; ceilings are measured for every dtype that the device may multiply.
        devices: the number of devices for collectives.
    """

    kind: Literal["cuda", "cpu"]
    cache_bytes: int
    dtypes: tuple[str, ...]
    devices: int = 1

    @property
    def large(self) -> bool:
        """A datacenter accelerator, as opposed to a host's processor, which is a thousand times slower."""
        return self.kind == "cuda"

    @property
    def attention_backends(self) -> tuple[str, ...]:
        """The backends of torch's attention that such a device may have."""
        return ("sdpa-flash", "sdpa-cudnn", "sdpa-efficient", "sdpa-math") if self.large else ("sdpa-flash", "sdpa-math")

    @property
    def attention_packages(self) -> tuple[str, ...]:
        """The backends of attention that are packages of their own; which of them are installed a run finds out."""
        return tuple(PACKAGES) if self.large else ()

    @property
    def elementwise_backends(self) -> tuple[str, ...]:
        """The backends of element-wise ops. Compiling needs Triton on a GPU; on a host a C++ compiler, and is left out."""
        return ("torch", "compiled") if self.large else ("torch",)

    @property
    def expert_backends(self) -> tuple[str, ...]:
        """The backends of experts: one grouped GEMM, or one GEMM per expert."""
        return ("grouped", "loop") if self.large else ("loop",)


@dataclass(frozen=True, slots=True)
class Package:
    """A package with attention kernels: what is imported, what is installed, and the tokens of a page of its KV cache."""

    module: str
    distribution: str
    page: int


PACKAGES = {
    # FlashAttention 2 takes pages of 256 tokens or multiples; 16 is the block of vLLM, with either of the other two.
    "flash-attn-2": Package("flash_attn", "flash-attn", 256),
    "flash-attn-3": Package("flash_attn_interface", "flash-attn-3", 16),
    "flashinfer": Package("flashinfer", "flashinfer-python", 16),
}
"""Backends of attention that are not torch's."""
VARLEN = "varlen"
"""Prompts of a batch one after the other, without a cache."""


def package_kernel(backend: str, new: int, keys: int) -> str:
    """The column `kernel` of attention by a package: "varlen" for whole prompts in FlashAttention, else the size of its pages.

    >>> package_kernel("flash-attn-2", 64, 64), package_kernel("flashinfer", 1, 64)
    ('varlen', 'pages of 16 tokens')
    """
    return VARLEN if new == keys and backend.startswith("flash-attn") else f"pages of {PACKAGES[backend].page} tokens"


# Values of the columns `kernel` and `backend` that choose how an op is run: suites write them, kernels read them.

PREQUANTISED = "prequantised"
"""Activations of an fp8 GEMM were quantised before the call."""
FAST = "prequantised, fast accumulation"
"""Likewise, and sums are kept in the matrix units' own precision: the rate that datasheets state."""
PER_ROW = "a scale per row"
"""Rows of activations and of weights have a scale each, not the whole matrices."""
OVERLAPPED = "beside a product"
"""A copy on a stream of its own, while the matrix units are busy."""
BOTH_WAYS = "both ways"
"""A copy, while as many bytes are copied in the other direction."""
COMPILED = "compiled"
"""Fused by torch's compiler."""
EAGER = "eager"
"""Attention written out: scores, softmax, values."""
GROUPED, LOOP = "grouped", "loop"
"""The GEMMs of experts: one grouped GEMM, or one per expert."""
