"""What makes the draft: what a step of it takes, and what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.graph import Graph
from roofline.predict.bounds import times
from roofline.predict.memory import MemoryModel
from roofline.predict.request import Request
from roofline.predict.result import Duration
from roofline.predict.timing import duration, stage_estimate
from roofline.specs.assumption import Assumption
from roofline.specs.library import Input
from roofline.specs.workload import Step


@dataclass(frozen=True, slots=True)
class Draft:
    """A maker of drafts. Without a `step` the draft costs nothing; without a `memory` it keeps nothing."""

    name: str
    step: Callable[[Step], Duration] | None = None
    """Seconds of one step of the draft: a decode step, or the prefill of a prompt."""
    memory: MemoryModel | None = None
    """Of which the caches are held beside the model's."""
    weights_bytes: float = 0.0
    """Of one device."""
    notes: tuple[Assumption, ...] = ()
    inputs: tuple[Input, ...] = ()


NO_TIME = Duration(0.0, None, 0.0, 0.0, 0.0)


def timed(request: Request, graph: Graph) -> Duration:
    """Seconds of some operators, one after another: the bound, and the estimate of their kernels."""
    bound = float(sum(times(op, op.cost() * repeat, request.hardware).bound for op, repeat in graph.values()))
    return duration(bound, None, stage_estimate(request, graph)[0])


def total(*parts: Duration) -> Duration:
    """Times one after another. Estimates of one deployment are off in the same direction: their ends add up."""
    found = {}
    for name in ("bound", "estimate", "low", "high"):
        values = [getattr(part, name) for part in parts]
        found[name] = None if any(value is None for value in values) else sum(values)
    return Duration(found["bound"], None, found["estimate"], found["low"], found["high"])


def scaled(span: Duration, factor: float) -> Duration:
    """So many times a time."""
    ends = [None if value is None else value * factor for value in (span.bound, span.estimate, span.low, span.high)]
    return Duration(ends[0], None, *ends[1:])
