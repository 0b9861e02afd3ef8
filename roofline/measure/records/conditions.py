"""Under which conditions a record was measured: how warm the caches were, and how experts were chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from roofline.measure.records.tables import gathered
from roofline.predict.efficiency.form import COLD, Conditions

if TYPE_CHECKING:
    import pandas as pd

_POWER_LAW = re.compile(r"power_law_([\d.]+)")
# Rows that say nothing of the cache are outside tables: AIConfigurator replays each kernel without a flush, matrices from
# six copies in turn, everything else from one; profilers of engines (Vidur) run a layer again and again.
_COPIES = {"aiconfigurator": 6.0}


def conditions(source: str, cache: str, distribution: str, *, gathered: bool = False) -> Conditions:
    """The conditions of rows of one source.

    >>> conditions("aiconfigurator", "", "power_law_1.2")
    Conditions(weights=6.0, kv=1.0, routing=1.2, gathered=False)
    >>> conditions("ours", "cold", "")
    Conditions(weights=inf, kv=inf, routing=None, gathered=False)
    """
    exponent = _POWER_LAW.fullmatch(distribution)
    routing = 0.0 if distribution == "balanced" else float(exponent[1]) if exponent else None
    if cache == "cold":
        return Conditions(COLD, COLD, routing, gathered)
    return Conditions(1.0 if cache == "warm" else _COPIES.get(source, 1.0), 1.0, routing, gathered)


def of_rows(rows: pd.DataFrame) -> Conditions:
    """The conditions of rows of one structure."""
    first = rows.iloc[0]
    texts = (str(first[name]) for name in ("source", "cache", "distribution"))
    return conditions(*texts, gathered=bool(gathered(rows.iloc[:1]).all()))
