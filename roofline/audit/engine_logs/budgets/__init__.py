"""How engines divide a device's memory, a file each engine: the module `budgets/<engine>.py` has a function `budget`."""

from __future__ import annotations

import importlib

from roofline.audit.engine_logs.budgets.base import Budget, Part
from roofline.predict.memory import StageMemory
from roofline.predict.request import Request

__all__ = ["Budget", "Part", "budget"]


def budget(engine: str, request: Request, part: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> Budget:
    """The budget of an engine on a device of a pipeline stage."""
    found: Budget = importlib.import_module(f"{__name__}.{engine}").budget(request, part, release, eager=eager)
    return found
