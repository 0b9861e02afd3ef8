"""The engine lays its cache out otherwise."""

from __future__ import annotations

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.case import Case
from roofline.audit.engine_logs.rows import Row

RANK = 5
QUANTITIES = (AIDED,)


def reason(row: Row, case: Case) -> str:
    """Where the same bytes hold other tokens: it is the layout, or the model."""
    engine = case.request.engine
    rules = f"the rules of {engine.name} {engine.version}, by which the cache is laid out here"
    if case.log is not None and case.log.engine != engine.name:
        rules += f", for {case.log.engine} has none"
    mixed = any(part.layout.block is None for part in case.request.memory.stages)
    kinds = (
        "layers keep different things, and the engine groups and pads them otherwise than "
        if mixed
        else "the model has another cache a token, or "
    )
    return f"{kinds}{rules}" if mixed else f"{kinds}the engine another layout than {rules}"
