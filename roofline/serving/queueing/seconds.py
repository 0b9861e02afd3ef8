"""Seconds of a step of a deployment: at the bound, and as an engine takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.numeric import Expr
from roofline.predict.compiled import Compiled
from roofline.specs.workload import Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BOUND, ESTIMATE = "bound", "estimate"


def step_seconds(steps: Compiled, step: Step, sequences: Expr) -> dict[str, Array]:
    """`bound`: no kernel is faster than the hardware. `estimate`: kernels as measured, and what the engine adds to a step of so
    many sequences of one replica, with the launches that it hides taken off; NaN where no fit applies. Counts may be arrays."""
    took = steps.times(step)
    return {BOUND: took.bound, ESTIMATE: took.kernels + steps.request.engine_seconds(sequences)}
