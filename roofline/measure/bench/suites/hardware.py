"""Suites of the hardware alone: ceilings (the best rates of memory and matrix units, the cost of a launch), transfers between
host and device or block by block, collectives between devices or, on a host, between processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from roofline.measure.bench.point import BOTH_WAYS, FAST, GIB, MIB, OVERLAPPED, PREQUANTISED, Point, Scope

_PEAK_DTYPES = {"cuda": ("bf16", "fp16", "tf32", "fp8", "int8", "fp32"), "cpu": ("fp32", "bf16", "int8", "fp16")}


def ceilings(scope: Scope) -> Iterator[Point]:
    """Points for the ceilings of a device: copies in memory, square GEMMs, kernel launches."""
    yield from _memory(scope)
    yield from _gemms(scope)
    yield from _launches(scope)


def _memory(scope: Scope) -> Iterator[Point]:
    """Read, write and both, far beyond the cache; then the ramp of a copy by size, from memory and from the cache."""
    largest = 2 * GIB if scope.large else 256 * MIB
    for size in (largest, largest // 4):
        for kernel in ("copy", "read", "write"):
            yield _memory_pass(size, kernel, "cold", tier=0)
    width = 4096
    numbers = {"tokens": largest // 4 // (4 * width), "hidden": width}  # two reads for a write: on a host faster than a copy
    yield Point("ceilings", "add", "fp32", numbers, tier=0)
    size = 4096
    while size <= largest:
        yield _memory_pass(size, "copy", "warm", tier=1 if size * 2 < scope.cache_bytes else 2)
        yield _memory_pass(size, "read", "warm", tier=1 if size < scope.cache_bytes else 2)
        if size >= MIB:
            yield _memory_pass(size, "copy", "cold", tier=1)
        size *= 4


def _memory_pass(size: int, kernel: str, cache: Literal["cold", "warm"], tier: int) -> Point:
    return Point("ceilings", "copy_d2d", "fp32", {"bytes": size}, {"kernel": kernel}, cache=cache, tier=tier)


def _gemms(scope: Scope) -> Iterator[Point]:
    """Square GEMMs, small to large: where the rate stops rising is the peak."""
    sizes = (2048, 4096, 8192, 16384) if scope.large else (256, 512, 1024, 2048)
    for dtype in _PEAK_DTYPES[scope.kind]:
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


_KIB = 1024
# 16 tokens of keys and values of one layer of Llama-3.1-8B at two bytes an element: 16 x 2 x 8 x 128 x 2 bytes.
_KV_BLOCK = 64 * _KIB


def transfers(scope: Scope) -> Iterator[Point]:
    """Points for copies: over the link to the host where the device has its own memory; block by block in memory."""
    if scope.large:
        yield from _over_the_link()
    whole = 256 * MIB if scope.large else 64 * MIB
    for chunk in (4 * _KIB, _KV_BLOCK, MIB, 16 * MIB):
        numbers = {"bytes": min(whole, chunk * 2048), "chunk_bytes": chunk}
        yield _blocks(numbers, 0 if chunk == _KV_BLOCK else 1)
    yield _blocks({"bytes": whole, "chunk_bytes": whole}, 0)


def _blocks(numbers: dict[str, int], tier: int) -> Point:
    """Launched one by one, as an engine moves blocks: what that costs is what is measured."""
    return Point("transfers", "copy_d2d", "fp32", numbers, {"kernel": "copy"}, tier=tier, timing="eager")


def _over_the_link() -> Iterator[Point]:
    chunks = [4 * _KIB * 4**step for step in range(10)]  # 4 KiB to 1 GiB
    for op in ("copy_h2d", "copy_d2h"):
        for pinned in ("true", "false"):
            for chunk in chunks:
                large = chunk >= 256 * MIB
                yield _copy(op, chunk, chunk, pinned, tier=0 if large and pinned == "true" else 1)
                if chunk <= 4 * MIB:  # one call against many, of a cache that has many blocks
                    yield _copy(op, min(chunk * 2048, 256 * MIB), chunk, pinned, tier=0 if chunk == _KV_BLOCK else 1)
        for kernel in (BOTH_WAYS, OVERLAPPED):
            for chunk in (_KV_BLOCK, MIB, 16 * MIB, 256 * MIB):
                yield _copy(op, 256 * MIB if chunk >= MIB else 64 * MIB, chunk, "true", 0 if chunk == 256 * MIB else 1, kernel)
    yield _copy("copy_h2d", GIB, GIB, "true", 0)


def _copy(op: str, size: int, chunk: int, pinned: str, tier: int, kernel: str = "") -> Point:
    numbers = {"bytes": size, "chunk_bytes": chunk}
    texts = {"kernel": kernel, "pinned": pinned}
    # Caches are left as they are: the link is slower than what feeds it.
    return Point("transfers", op, "fp32", numbers, texts, cache="warm", tier=tier, timing="eager")


_OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")
_GLOO = ("all_reduce", "all_gather", "p2p")  # what gloo has on a host


def collectives(scope: Scope) -> Iterator[Point]:
    """Points for each collective over message sizes, for groups of 2, 4, 8 and 16 devices (a host: 2 processes)."""
    sizes = [4096 * 4**step for step in range(10 if scope.large else 7)]
    # powers of two up to the number of devices; a host runs two processes
    for world in [size for size in (2, 4, 8, 16) if size <= scope.devices] if scope.large else [2]:
        for op in _OPS if scope.large else _GLOO:
            if op == "p2p" and world > 2:
                continue
            for size in sizes:
                tier = 0 if op == "all_reduce" and size in (sizes[2], 16 * MIB) else 1
                yield Point(
                    "collectives", op, "bf16" if scope.large else "fp32", {"bytes": size, "world": world},
                    backend="nccl" if scope.large else "gloo", cache="warm", tier=tier, timing="eager",
                )  # fmt: skip
