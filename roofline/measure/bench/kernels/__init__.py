"""Kernels: how torch runs the operators of a point."""

from __future__ import annotations

from roofline.measure.bench.kernels.attention import GroupedQueries, Latents
from roofline.measure.bench.kernels.base import Kernel, Place
from roofline.measure.bench.kernels.decoder import Layer, Step
from roofline.measure.bench.kernels.operators import Elementwise, Experts, InMemory, Products, ToHost
from roofline.measure.bench.point import Point

__all__ = ["KERNELS", "Kernel", "make"]

KERNELS: dict[str, type[Kernel]] = {
    op: kernel
    for kernel in (GroupedQueries, Latents, Products, Experts, Elementwise, InMemory, ToHost, Layer, Step)
    for op in kernel.ops
}
"""Kernels by the op that they run."""


def make(point: Point, place: Place, *, whole_products: bool = False) -> Kernel:
    """The kernel of a point.

    Args:
        point: what is measured.
        place: makes its tensors.
        whole_products: attention without a mask, so that a counter of FLOP sees every product.
    """
    return KERNELS[point.op](point, place, whole_products=whole_products)
