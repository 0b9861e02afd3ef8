"""Likely reasons for a gap, a file each. A module has `QUANTITIES`, the rows that it looks at, and `reason(row, case)`, which
gives a sentence, or nothing where it does not apply. `why()` finds them by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from roofline.audit.engine_logs.rows import Row

if TYPE_CHECKING:
    from roofline.audit.engine_logs.case import Case

_MOST = 3


@cache
def rules() -> tuple[ModuleType, ...]:
    """Every rule, the surest first (`RANK`)."""
    found = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda rule: (rule.RANK, rule.__name__)))


def why(row: Row, case: Case) -> str:
    """Likely reasons why a row is off; nothing where it is not."""
    if row.within or row.ratio is None:
        return ""
    said = [text for rule in rules() if row.quantity in rule.QUANTITIES and (text := rule.reason(row, case))]
    return "; ".join(said[:_MOST]) or "no rule explains it"
