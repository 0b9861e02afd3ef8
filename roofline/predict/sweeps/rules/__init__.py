"""Rules by which points are kept, a file each. To add one: a module here with a `RULE`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Objective:
    """A column, and which end of it is wanted."""

    column: str
    largest: bool

    def __str__(self) -> str:
        return f"{self.column}:{'max' if self.largest else 'min'}"


Reduce = Callable[["pd.DataFrame", tuple[Objective, ...]], "pd.DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is kept of the points of a group. Reducing parts and then what was kept of them gives what reducing all points at
    once would give, rows in their order. Columns of the group that a result lacks are put before it."""

    name: str
    about: str
    objectives: tuple[Objective, ...]
    """By which it goes unless others are named."""
    takes: int | None
    """How many objectives; None: any number."""
    of_points: Reduce
    merge: Reduce


@cache
def registry() -> dict[str, Rule]:
    """The rules by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        rule: Rule = importlib.import_module(f"{__name__}.{module.name}").RULE
        found[rule.name] = rule
    return found
