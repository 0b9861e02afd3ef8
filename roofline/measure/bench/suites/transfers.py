"""Transfers: between host and device, and a KV cache moved block by block against in one piece."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.measure.bench.point import Point
from roofline.measure.bench.suites.scope import GIB, MIB, Scope
from roofline.measure.bench.variants import BOTH_WAYS, OVERLAPPED

_KIB = 1024
# 16 tokens of keys and values of one layer of Llama-3.1-8B at two bytes an element: 16 x 2 x 8 x 128 x 2 bytes.
_KV_BLOCK = 64 * _KIB


def points(scope: Scope) -> Iterator[Point]:
    """Over the link where the device has memory of its own; in memory on every device."""
    if scope.large:
        yield from _over_the_link()
    whole = 256 * MIB if scope.large else 64 * MIB
    for chunk in (4 * _KIB, _KV_BLOCK, MIB, 16 * MIB):
        numbers = {"bytes": min(whole, chunk * 2048), "chunk_bytes": chunk}
        yield _blocks(numbers, 0 if chunk == _KV_BLOCK else 1)
    yield _blocks({"bytes": whole, "chunk_bytes": whole}, 0)


def _blocks(numbers: dict[str, int], tier: int) -> Point:
    """Launched one by one, as an engine moves blocks: what that costs is what is asked."""
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
