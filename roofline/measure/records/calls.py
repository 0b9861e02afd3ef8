"""Rows of one structure as one call of a rule: many records are predicted by one formula on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.formats import dtypes
from roofline.measure.records.ops import Call, registry
from roofline.measure.records.ops.base import Operators
from roofline.measure.records.tables import gathered, ungated

if TYPE_CHECKING:
    import pandas as pd

# What is structure in a formula: the same for all rows of a call.
_STRUCTURE = ["file", "source", "backend", "cache", "gpu", "op", "dtype", "kv_dtype", "distribution", "kernel", "world"]
_COUNTS = tuple(name for name, column in COLUMNS.items() if column.kind == "count")
# Columns that a rule looks at where they are filled: rows with and without one are calls of their own.
_OPTIONAL = sorted({name for rule in registry().values() for name in rule.optional})


def alike(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Rows of one structure."""
    keys: list[Any] = [frame[name] for name in _STRUCTURE] + [(frame["window"] > 0).rename("windowed")]
    keys.append((frame["q_len"] == 1).rename("one_token"))  # decode, which engines have other kernels for
    keys += [ungated(frame).rename("ungated"), gathered(frame).rename("gathered")]
    keys += [frame[name].notna().rename(f"has_{name}") for name in _OPTIONAL]
    for _, rows in frame.groupby(keys, dropna=False, sort=False, observed=True):
        yield rows


def call(rows: pd.DataFrame) -> Call:
    """What a rule sees of rows of one structure: arrays of the columns that are filled in all of them."""
    first = rows.iloc[0]
    filled = [name for name in _COUNTS if rows[name].notna().all()]
    numbers: dict[str, Any] = {name: rows[name].to_numpy() for name in filled}
    if "world" in numbers:
        numbers["world"] = int(first["world"])
    if first["q_len"] == 1:
        numbers["q_len"] = 1
    if not first["window"] > 0:
        numbers.pop("window", None)
    texts = {name: str(first[name]) for name in ("distribution", "kernel")}
    texts["ungated"] = "yes" if ungated(rows.iloc[:1]).all() else ""
    return Call(dtypes(first["dtype"], first["kv_dtype"]), numbers, texts)


def of_rows(rows: pd.DataFrame) -> Operators:
    """The operators of rows of one structure."""
    return registry()[str(rows["op"].iloc[0])].operators(call(rows))
