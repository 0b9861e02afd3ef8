"""Ceilings: what memory and matrix units can do at best, and what a launch costs. Everything else is compared with these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from roofline.measure.bench.point import Point
from roofline.measure.bench.suites.scope import GIB, MIB, Scope
from roofline.measure.bench.variants import FAST, PREQUANTISED

_DTYPES = {"cuda": ("bf16", "fp16", "tf32", "fp8", "int8", "fp32"), "cpu": ("fp32", "bf16", "int8", "fp16")}


def points(scope: Scope) -> Iterator[Point]:
    """Copies, products, launches."""
    yield from _memory(scope)
    yield from _products(scope)
    yield from _launches(scope)


def _memory(scope: Scope) -> Iterator[Point]:
    """Read, write and both, far beyond the cache; then the ramp of a copy by size, from memory and from the cache."""
    largest = 2 * GIB if scope.large else 256 * MIB
    for size in (largest, largest // 4):
        for kernel in ("copy", "read", "write"):
            yield _pass(size, kernel, "cold", tier=0)
    width = 4096
    numbers = {"tokens": largest // 4 // (4 * width), "hidden": width}  # two reads for a write: on a host faster than a copy
    yield Point("ceilings", "add", "fp32", numbers, tier=0)
    size = 4096
    while size <= largest:
        yield _pass(size, "copy", "warm", tier=1 if size * 2 < scope.cache_bytes else 2)
        yield _pass(size, "read", "warm", tier=1 if size < scope.cache_bytes else 2)
        if size >= MIB:
            yield _pass(size, "copy", "cold", tier=1)
        size *= 4


def _pass(size: int, kernel: str, cache: Literal["cold", "warm"], tier: int) -> Point:
    return Point("ceilings", "copy_d2d", "fp32", {"bytes": size}, {"kernel": kernel}, cache=cache, tier=tier)


def _products(scope: Scope) -> Iterator[Point]:
    """Square products, small to large: where the rate stops rising is the peak."""
    sizes = (2048, 4096, 8192, 16384) if scope.large else (256, 512, 1024, 2048)
    for dtype in _DTYPES[scope.kind]:
        for size in sizes:
            if dtype == "fp32" and size > 8192:
                continue  # 0.2 s a call and nothing new
            for kernel in (PREQUANTISED, FAST) if dtype == "fp8" else ("",):
                numbers = {"m": size, "n": size, "k": size}
                tier = 0 if size >= sizes[1] else 1
                yield Point("ceilings", "gemm", dtype, numbers, {"kernel": kernel}, cache="warm", tier=tier)


def _launches(scope: Scope) -> Iterator[Point]:
    """The smallest kernel there is, launched one by one and, where there are graphs, from one."""
    numbers = {"tokens": 1, "hidden": 1}
    yield Point("ceilings", "add", "fp32", numbers, {"kernel": "launch"}, cache="warm", tier=0, timing="eager")
    if scope.large:
        yield Point("ceilings", "add", "fp32", numbers, {"kernel": "launch in a graph"}, cache="warm", tier=0)
