"""Collectives, where there are several devices; on a host, between processes over its own loopback."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.measure.bench.point import Point
from roofline.measure.bench.suites.scope import MIB, Scope

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")
_GLOO = ("all_reduce", "all_gather", "p2p")  # what gloo has on a host


def worlds(scope: Scope) -> list[int]:
    """Sizes of groups: powers of two up to what there is. A host runs two processes."""
    if not scope.large:
        return [2]
    return [size for size in (2, 4, 8, 16) if size <= scope.devices]


def points(scope: Scope) -> Iterator[Point]:
    """Each op over message sizes."""
    sizes = [4096 * 4**step for step in range(10 if scope.large else 7)]
    for world in worlds(scope):
        for op in OPS if scope.large else _GLOO:
            if op == "p2p" and world > 2:
                continue
            for size in sizes:
                tier = 0 if op == "all_reduce" and size in (sizes[2], 16 * MIB) else 1
                yield Point(
                    "collectives", op, "bf16" if scope.large else "fp32", {"bytes": size, "world": world},
                    backend="nccl" if scope.large else "gloo", cache="warm", tier=tier, timing="eager",
                )  # fmt: skip
