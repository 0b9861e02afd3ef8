"""Kernels: how torch runs the operators of a point."""

from __future__ import annotations

from roofline.measure.bench.kernels.attention import GroupedQueries, Latents
from roofline.measure.bench.kernels.base import Kernel, TensorFactory
from roofline.measure.bench.kernels.decoder import Layer, Step
from roofline.measure.bench.kernels.operators import Elementwise, Experts, Gemms, InMemory, ToHost
from roofline.measure.bench.point import Point

__all__ = ["KERNELS", "Kernel", "make"]

KERNELS: dict[str, type[Kernel]] = {
    op: kernel
    for kernel in (GroupedQueries, Latents, Gemms, Experts, Elementwise, InMemory, ToHost, Layer, Step)
    for op in kernel.ops
}
"""Kernels by the op that they run."""


def make(point: Point, factory: TensorFactory, *, unmasked: bool = False) -> Kernel:
    """The kernel that runs the op of a point.

    Args:
        point: what is measured.
        factory: makes its tensors.
        unmasked: attention without a mask, so that a counter of FLOP sees every query with every key; never for timing.

    Raises:
        KeyError: if no kernel runs its op.
    """
    return KERNELS[point.op](point, factory, unmasked=unmasked)
