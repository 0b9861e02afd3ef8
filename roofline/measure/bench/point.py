"""One thing to measure, the columns that identify it and the operators that predict it; what a suite is cut to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from roofline.cost import ZERO, Cost
from roofline.measure.records.columns import COLUMNS, RESULTS, dtypes
from roofline.measure.records.ops import RULES, Call, Operators

Suite = Literal["ceilings", "operators", "transfers", "collectives"]
SUITES: tuple[Suite, ...] = ("ceilings", "operators", "transfers", "collectives")
SOURCE = "roofline"


@dataclass(frozen=True)
class Point:
    """`numbers` and `texts` are columns of a record. Points of a lower `tier` tell more, and are measured first."""

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
        """The operators of the point, as `roofline.measure.validate` will make them of its record."""
        numbers = {name: value for name, value in self.numbers.items() if name != "window" or value}
        return RULES[self.op].operators(Call(dtypes(self.dtype), numbers, self.texts))

    @cached_property
    def cost(self) -> Cost:
        """What all of them cost."""
        return sum((operator.cost() * repeat for operator, repeat in self.operators.values()), ZERO)

    def columns(self, gpu: str, version: str) -> dict[str, str]:
        """What identifies its record, as text."""
        values: dict[str, Any] = dict.fromkeys((name for name in COLUMNS if name not in RESULTS), "")
        values |= {"source": SOURCE, "gpu": gpu, "op": self.op, "dtype": self.dtype, "backend": self.backend}
        values |= {"version": version, "cache": self.cache, **self.numbers, **self.texts}
        return {name: str(value) for name, value in values.items()}

    def __str__(self) -> str:
        dims = [f"{name}={value}" for name, value in self.numbers.items() if not (name == "window" and not value)]
        words = [word for word in self.texts.values() if word]
        return " ".join([self.op, self.dtype, *dims, *words, self.backend, self.cache])


def in_order(points: list[Point]) -> list[Point]:
    """Lower tiers first; within one the ops take turns, so that a run that is stopped has seen something of each.

    Ceilings go before all else: every other figure is compared with them.
    """
    turns: dict[tuple[str, str], int] = {}
    keyed = []
    for point in points:
        kind = (point.op, point.backend)
        turns[kind] = turns.get(kind, 0) + 1
        first = point.suite == "ceilings" and point.tier == 0
        keyed.append(((not first, point.tier, turns[kind]), point))
    return [point for _, point in sorted(keyed, key=lambda pair: pair[0])]


MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Scope:
    """`dtypes` are those of the operators; ceilings are measured for every dtype that the device may multiply."""

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
        """Backends of torch's attention that such a device may have."""
        return ("sdpa-flash", "sdpa-cudnn", "sdpa-efficient", "sdpa-math") if self.large else ("sdpa-flash", "sdpa-math")

    @property
    def elementwise_backends(self) -> tuple[str, ...]:
        """Compiling needs Triton on a GPU; on the host it would need a C++ compiler, and is left out."""
        return ("torch", "compiled") if self.large else ("torch",)

    @property
    def expert_backends(self) -> tuple[str, ...]:
        """One grouped product, or one product an expert."""
        return ("grouped", "loop") if self.large else ("loop",)


# Values of the columns `kernel` and `backend` that choose how an op is run: suites write them, kernels read them.

PREQUANTISED = "prequantised"
"""Activations of an fp8 product were quantised before the call."""
FAST = "prequantised, fast accumulation"
"""Likewise, and sums are kept in the matrix units' own precision: the rate that datasheets state."""
OVERLAPPED = "beside a product"
"""A copy on a stream of its own, while the matrix units are busy."""
BOTH_WAYS = "both ways"
"""A copy, while as much crosses the link in the other direction."""
COMPILED = "compiled"
"""Fused by torch's compiler."""
EAGER = "eager"
"""Attention written out: scores, softmax, values."""
GROUPED, LOOP = "grouped", "loop"
"""The products of experts: one grouped product, or one an expert."""
