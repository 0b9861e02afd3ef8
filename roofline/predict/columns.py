"""What is told of every point of a grid, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from roofline.errors import UnknownNameError
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
    "time_bound_s": Column(
        lambda at: at.work["bound"], ("bound",), "seconds of a step on the fullest pipeline stage, with perfect overlap"
    ),
    "time_sum_s": Column(
        lambda at: at.work["sum"], ("sum",), "seconds of a step on the fullest pipeline stage, with no overlap"
    ),
    "time_estimate_s": Column(
        lambda at: at.time.seconds,
        (),
        "seconds of a step on the fullest pipeline stage, as measured kernels and the engine take",
        estimated=True,
    ),
    "time_low_s": Column(
        lambda at: at.time.low, (), "from where 8 of 10 measurements of such a step lie, in seconds", estimated=True
    ),
    "time_high_s": Column(
        lambda at: at.time.high, (), "up to where 8 of 10 measurements of such a step lie, in seconds", estimated=True
    ),
    "step_bound_s": Column(
        lambda at: at.through, ("bound",), "seconds of a step through all pipeline stages, with perfect overlap"
    ),
    "step_estimate_s": Column(
        lambda at: at.whole.seconds,
        (),
        "seconds of a step through all pipeline stages, as measured kernels and the engine take",
        estimated=True,
    ),
    "step_low_s": Column(
        lambda at: at.whole.low,
        (),
        "from where 8 of 10 measurements of a step through all stages lie, in seconds",
        estimated=True,
    ),
    "step_high_s": Column(
        lambda at: at.whole.high,
        (),
        "up to where 8 of 10 measurements of a step through all stages lie, in seconds",
        estimated=True,
    ),
    "flops": Column(lambda at: at.work["flops"], ("flops",), "FLOP of a device of the fullest pipeline stage"),
    "bytes": Column(lambda at: at.work["bytes"], ("bytes",), "bytes that cross the memory bus of such a device"),
    "arithmetic_intensity": Column(
        lambda at: at.work["flops"] / at.work["bytes"], ("flops", "bytes"), "FLOP per byte of such a device"
    ),
    "bound_by": Column(_binding, RESOURCES, "the resource with the largest share of the bound", "int8"),
    "memory_bytes": Column(
        lambda at: reduce(maximum, (at.budget - usable + needed for needed, usable in at.held)),
        ("room",),
        "weights, allocated cache and state, activations and reserve of a device of the stage that has least room",
    ),
    "fits": Column(
        lambda at: reduce(_both, (needed <= usable for needed, usable in at.held)),
        ("room",),
        "whether the devices of every stage hold it",
        "bool",
    ),
    "tokens_per_s": Column(
        lambda at: at.produced / at.through, ("bound",), "tokens a second of the whole deployment, at the bound"
    ),
    "tokens_per_s_estimate": Column(
        lambda at: at.produced / at.whole.seconds, (), "tokens a second of the whole deployment, as estimated", estimated=True
    ),
    "tokens_per_s_per_device": Column(
        lambda at: at.produced / at.through / at.devices, ("bound",), "tokens a second of one device, at the bound"
    ),
    "tokens_per_s_per_device_estimate": Column(
        lambda at: at.produced / at.whole.seconds / at.devices,
        (),
        "tokens a second of one device, as estimated",
        estimated=True,
    ),
}


def _both(one: Expr, other: Expr) -> Expr:
    return one & other


def column(name: str) -> Column:
    """A column by name.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in COLUMNS:
        raise UnknownNameError("column", name, list(COLUMNS), list_all=True)
    return COLUMNS[name]
