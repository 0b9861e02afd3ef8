"""What each op of a record is made of: a rule from the columns of a row to the operators that predict it.

`registry()` finds the rules by walking this package. A rule is called with plain numbers for one row, or with arrays for
many rows at once; what is structure (texts, whether there is a window, the number of ranks) is the same for all of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from roofline.measure.records.ops.base import Call, Rule

__all__ = ["Call", "Rule", "registry"]


@cache
def registry() -> dict[str, Rule]:
    """Rules by op."""
    found: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__):
        for rule in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(rule, Rule) and found.setdefault(rule.op, rule) is not rule:
                msg = f"two rules for op {rule.op!r}"
                raise TypeError(msg)
    return dict(sorted(found.items()))
