"""The model beside what ran: each of its operators with its kernels, and the difference of the steps from their estimate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.measure.profile.alignment import ATTENTION, Aligned, Planned, Unit
from roofline.measure.profile.operators import UNKNOWN, Costing, Work

if TYPE_CHECKING:
    from roofline.measure.profile.trace import Trace


@dataclass(slots=True)
class AlignedOperator:
    """One operator of the model beside what ran.

    Attributes:
        path: of the operator; of kernels that no operator of the model is, what they are.
        kind: of kernels.
        status: "matched"; "fused" into `into`; "missing": no kernel does it; "extra": no operator of the model.
        planned: how often the model's steps run it.
        measured: how often kernels of it ran.
        kernels: kernels in all.
        time_s: of the kernels.
        bound_s, estimate_s: of the operator in all steps; None without hardware, or of extra kernels.
        into: the operator whose kernels do its work.
    """

    path: str
    kind: str
    status: str
    planned: int = 0
    measured: int = 0
    kernels: int = 0
    time_s: float = 0.0
    bound_s: float | None = None
    estimate_s: float | None = None
    into: str = ""

    def count(self, units: Sequence[Unit], seconds: Sequence[float]) -> None:
        """Count one more call by its kernels."""
        self.measured += 1
        for unit in units:
            self.kernels += len(unit.kernels)
            self.time_s += sum(seconds[at] for at in unit.kernels)

    def plan(self, work: Work) -> None:
        """Count one more call by the model."""
        self.planned += 1
        if work.bound_s is not None:
            self.bound_s = (self.bound_s or 0.0) + work.bound_s
        if work.estimate_s is not None:
            self.estimate_s = (self.estimate_s or 0.0) + work.estimate_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data in seconds."""
        return {name: getattr(self, name) for name in self.__slots__} | {"into": self.into or None}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the difference between measured steps and their estimate.

    Attributes:
        name: path of an operator; kind of kernels that are no operator of the model; "idle", "overlap" or "steps".
        status: that of an `AlignedOperator`; "device" for what no kernel is.
        measured_s, estimate_s: in all steps, seconds.
    """

    name: str
    status: str
    measured_s: float
    estimate_s: float

    @property
    def difference_s(self) -> float:
        """Measured minus estimate."""
        return self.measured_s - self.estimate_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data in seconds."""
        return {name: getattr(self, name) for name in (*self.__slots__, "difference_s")}


@dataclass(frozen=True, slots=True)
class Difference:
    """Why steps took longer than their estimate, or less long. The parts add up to the whole.

    Attributes:
        steps: how many have an estimate.
        measured_s, estimate_s: of them all, seconds.
        parts: the one with the largest difference first.
    """

    steps: int
    measured_s: float
    estimate_s: float
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data in seconds."""
        return {
            "steps": self.steps,
            "measured_s": self.measured_s,
            "estimate_s": self.estimate_s,
            "difference_s": self.measured_s - self.estimate_s,
            "parts": [part.to_dict() for part in self.parts],
        }


def decompose(
    steps: int, measured_s: float, running_s: float, estimate_s: float, rows: Sequence[AlignedOperator]
) -> Difference:
    """Decompose the difference of steps over operators.

    Args:
        steps: their number.
        measured_s: their durations in all.
        running_s: the part of it in which some kernel runs.
        estimate_s: their estimates in all.
        rows: the operators of just these steps.

    Returns:
        A part for each operator and each kind of extra kernels; "idle" where nothing runs, "overlap" (negative) where several
        kernels run at once, and "steps" for what the estimate of a step is above that of its operators one by one.
    """
    parts = [Part(row.path, row.status, row.time_s, row.estimate_s or 0.0) for row in rows]
    kernels_s = sum(part.measured_s for part in parts)
    parts += [
        Part("idle", "device", measured_s - running_s, 0.0),
        Part("overlap", "device", running_s - kernels_s, 0.0),
        Part("steps", "device", 0.0, estimate_s - sum(part.estimate_s for part in parts)),
    ]
    ordered = sorted(parts, key=lambda part: -abs(part.difference_s))
    return Difference(steps, measured_s, estimate_s, tuple(ordered))


class Table:
    """The rows of an alignment, summed over steps."""

    def __init__(self, trace: Trace, costing: Costing) -> None:
        self.seconds, self.costing = trace.kernels.duration_s, costing
        self.rows: dict[str, AlignedOperator] = {}
        self.extras: dict[str, AlignedOperator] = {}
        self.into: dict[str, Counter[str]] = defaultdict(Counter)
        self.works: dict[tuple[Any, ...], Work] = {}

    def add(self, aligned: Aligned) -> None:
        """Count one step."""
        units_of_operator: dict[int, list[Unit]] = defaultdict(list)
        for unit, operator in zip(aligned.units, aligned.operator, strict=True):
            if operator >= 0:
                units_of_operator[operator].append(unit)
            else:
                name = unit.kind or UNKNOWN
                self.extras.setdefault(name, AlignedOperator(name, name, "extra")).count([unit], self.seconds)
        for at, entry in enumerate(aligned.planned):
            row = self.rows.setdefault(entry.path, AlignedOperator(entry.path, entry.kind, "missing"))
            if aligned.lengths_known or entry.kind not in ATTENTION:
                row.plan(self.work(entry))
            else:
                row.planned += 1
            if units := units_of_operator.get(at):
                row.count(units, self.seconds)
                self.parts(entry, units)
            elif (other := aligned.fused.get(at, -1)) >= 0:
                self.into[entry.path][aligned.planned[other].path] += 1

    def work(self, entry: Planned) -> Work:
        """The work of an operator, once for all layers of one type."""
        work = self.works.get(entry.operators)
        if work is None:
            work = self.works[entry.operators] = self.costing.planned(entry.operators)
        return work

    def parts(self, entry: Planned, units: Sequence[Unit]) -> None:
        """Operators of a joint entry that have no kernel of their own: another of its kernels does their work."""
        kinds = (entry.kind, *(unit.kind for unit in units))
        for path, kind in entry.parts:
            if kind not in kinds:
                self.rows.setdefault(path, AlignedOperator(path, kind, "missing")).planned += 1
                self.into[path][entry.path] += 1

    def result(self) -> list[AlignedOperator]:
        """The operators of the model in their order, then the kernels that are none of them, the longest first."""
        for path, row in self.rows.items():
            if row.measured >= max(self.into[path].total(), 1):
                row.status = "matched"
            elif self.into[path]:
                row.status, row.into = "fused", self.into[path].most_common(1)[0][0]
        return [*self.rows.values(), *sorted(self.extras.values(), key=lambda row: -row.time_s)]
