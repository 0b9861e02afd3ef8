"""A ceiling, and everything that it was computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.audit.claims.floor import Floor
from roofline.audit.claims.memory import Need
from roofline.audit.claims.splits import Split
from roofline.predict.request import Request
from roofline.specs.workload import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The boldest figure that a claim of its kind could state, in the claim's unit; None where nothing fits in memory.

    `step` and `floors` are the step that it comes from, on one device of each pipeline stage; of a peak there is none.
    """

    value: float | None
    devices: int
    split: Split = field(default_factory=dict)
    request: Request | None = None
    step: Step = ()
    floors: tuple[Floor, ...] = ()
    seconds: float | None = None
    batch: int = 1
    length: int = 0
    """Tokens cached before a decode step, or tokens of a prompt."""
    need: Need | None = None
    dtype: str | None = None
    """Of a peak."""
    engine_fits: bool = True
    """Whether the engine's own rules leave room for it as well."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What kernels and engines are known to reach, in the claim's unit: at `analyze`'s bound, at the estimate, and at the
    better end of its interval. None where there is no such figure."""

    bound: float | None = None
    estimate: float | None = None
    best: float | None = None
