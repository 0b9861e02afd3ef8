"""What is told of every point of a grid, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from roofline.numeric import Expr, maximum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.predict.grid import Piece

    Array = NDArray[Any]

RESOURCES = ("compute", "memory", "link")
"""What may bind, as the codes of `bound_by` count it; of equal shares the first, as in `analyze`."""


@dataclass(frozen=True, slots=True)
class Column:
    """One answer at every point."""

    of: Callable[[Piece], Expr]
    needs: tuple[str, ...]
    meaning: str
    dtype: str = "float64"
    estimated: bool = False


def _binding(piece: Piece) -> Array:
    import numpy as np

    compute, memory, link = (piece.work[kind] for kind in RESOURCES)
    by_two = np.where(np.asarray(memory) > compute, 1, 0)
    return np.where(np.asarray(link) > maximum(compute, memory), 2, by_two)


COLUMNS: dict[str, Column] = {
    "time_bound_s": Column(lambda at: at.work["bound"], ("bound",), "seconds with perfect overlap, of the fullest stage"),
    "time_sum_s": Column(lambda at: at.work["sum"], ("sum",), "seconds with no overlap, likewise"),
    "time_estimate_s": Column(lambda at: at.time.seconds, (), "seconds as kernels and the engine take", estimated=True),
    "time_low_s": Column(lambda at: at.time.low, (), "8 of 10 measurements lie above", estimated=True),
    "time_high_s": Column(lambda at: at.time.high, (), "and below this", estimated=True),
    "step_bound_s": Column(lambda at: at.through, ("bound",), "seconds through all pipeline stages, at the bound"),
    "step_estimate_s": Column(lambda at: at.whole.seconds, (), "likewise, as measured kernels take", estimated=True),
    "step_low_s": Column(lambda at: at.whole.low, (), "its interval, from", estimated=True),
    "step_high_s": Column(lambda at: at.whole.high, (), "to", estimated=True),
    "flops": Column(lambda at: at.work["flops"], ("flops",), "FLOP of a device of the fullest stage"),
    "bytes": Column(lambda at: at.work["bytes"], ("bytes",), "bytes of its memory traffic"),
    "arithmetic_intensity": Column(lambda at: at.work["flops"] / at.work["bytes"], ("flops", "bytes"), "FLOP per byte"),
    "bound_by": Column(_binding, RESOURCES, "the resource with the largest share of the bound", "int8"),
    "memory_bytes": Column(
        lambda at: reduce(maximum, (at.budget - usable + needed for needed, usable in at.held)),
        ("room",),
        "weights, allocated cache and state, activations and reserve, of the stage that has least room",
    ),
    "fits": Column(
        lambda at: reduce(_both, (needed <= usable for needed, usable in at.held)), ("room",), "in every stage", "bool"
    ),
    "tokens_per_s": Column(lambda at: at.produced / at.through, ("bound",), "of the whole deployment, at the bound"),
    "tokens_per_s_estimate": Column(
        lambda at: at.produced / at.whole.seconds, (), "of the whole deployment, as measured kernels take", estimated=True
    ),
    "tokens_per_s_per_device": Column(
        lambda at: at.produced / at.through / at.devices, ("bound",), "of one device, at the bound"
    ),
    "tokens_per_s_per_device_estimate": Column(
        lambda at: at.produced / at.whole.seconds / at.devices, (), "of one device, as measured kernels take", estimated=True
    ),
}  # fmt: skip


def _both(one: Expr, other: Expr) -> Expr:
    return one & other
