"""A sweep that was carried out: its rows, and what is known of the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.predict.columns import COLUMNS
from roofline.predict.compiled import PHASES
from roofline.predict.sweeps.axes import WORKLOAD
from roofline.predict.sweeps.evaluate import FORMATS
from roofline.predict.sweeps.reduce import Objective
from roofline.report.view.points import spread

if TYPE_CHECKING:
    import pandas as pd

COUNTED = ("column", "low", "high", "count")
"""Columns of a histogram."""
LENGTH = {"prefill": "input_len", "decode": "context"}
"""The column that says how long sequences are."""


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Rows as `roofline.predict.sweeps.folder.read` gives them, and the description as of `Sweep.describe`."""

    name: str
    """Of the file or the folder."""
    frame: pd.DataFrame
    described: dict[str, Any] | None = None
    """None of a file that holds rows alone."""
    refused: tuple[dict[str, Any], ...] = ()
    points: int | None = None
    """Of the whole grid."""
    grid: dict[str, list[Any]] = field(init=False)
    """Values by axis; of rows alone those that they have."""

    def __post_init__(self) -> None:
        given = (self.described or {}).get("grid")
        object.__setattr__(self, "grid", dict(given) if given else self._values())

    def _values(self) -> dict[str, list[Any]]:
        known = {*COLUMNS, *FORMATS, *COUNTED, "devices"}
        return {
            str(name): list(self.frame[name].dropna().drop_duplicates()) for name in self.frame.columns if name not in known
        }

    @property
    def rule(self) -> str:
        """By which points were kept; "" if all were."""
        reduced = (self.described or {}).get("reduce")
        if reduced:
            return str(reduced["rule"])
        return "histogram" if set(COUNTED) <= set(self.frame.columns) else ""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What points were kept by."""
        reduced = (self.described or {}).get("reduce") or {}
        parts = (str(text).rpartition(":") for text in reduced.get("objectives", ()))
        return tuple(Objective(column, way == "max") for column, _, way in parts)

    @property
    def by(self) -> tuple[str, ...]:
        """Axes each of whose values has a result of its own."""
        reduced = (self.described or {}).get("reduce") or {}
        listed = [str(name) for name in reduced.get("by", ()) if name != "phase"]
        if not listed and self.rule == "histogram":
            listed = [str(name) for name in self.frame.columns if name not in ("phase", *COUNTED)]
        return tuple(name for name in listed if name in self.frame.columns)

    @property
    def phases(self) -> list[tuple[str, pd.DataFrame]]:
        """The rows of each phase that has any."""
        found = ((phase, self.frame[self.frame["phase"] == phase]) for phase in PHASES)
        return [(phase, rows) for phase, rows in found if len(rows)]

    @property
    def outer(self) -> list[str]:
        """Axes before the workload's, but the phase."""
        return [name for name in self.grid if name not in (*WORKLOAD, "phase") and name in self.frame.columns]

    @property
    def varied(self) -> list[str]:
        """Those of them that have more than one value."""
        return [name for name in self.outer if len(self.grid[name]) > 1]

    @property
    def staged(self) -> bool:
        """Whether there are pipelines, where a step takes longer than its fullest stage."""
        return any(value not in (None, 1) for value in self.grid.get("pp", ()))

    def configurations(self, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
        """Rows by the values of the outer axes, in the order of the grid, each with what it is called."""
        return [
            (self.called(dict(zip(self.outer, values, strict=True))), group)
            for values, group in rows.groupby(self.outer, sort=False, observed=True, dropna=False)
        ]

    def grouped(self, rows: pd.DataFrame, axes: list[str]) -> list[tuple[str, pd.DataFrame]]:
        """Rows by the values of some axes; of no axes all of them."""
        if not axes:
            return [(self.called(rows.iloc[0].to_dict()) if self.outer else "all", rows)]
        return [
            (", ".join(phrase(axis, value) for axis, value in zip(axes, values, strict=True)), group)
            for values, group in rows.groupby(axes, sort=False, observed=True, dropna=False)
        ]

    def called(self, values: Mapping[Any, Any]) -> str:
        """A configuration in words: what varies, or its model and hardware.

        `values` may be a row.
        """
        names = self.varied or [name for name in ("model", "hardware") if name in self.outer]
        return ", ".join(phrase(name, values[name]) for name in names)


def some(values: list[Value], most: int) -> list[Value]:
    """At most so many, evenly, the first and the last of them always."""
    return [values[place] for place in spread(list(range(len(values))), most)] if most > 1 else values[:most]


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most so many rows, likewise."""
    return rows.iloc[some(list(range(len(rows))), most)]


def phrase(axis: str, value: Any) -> str:
    """An axis and its value.

    >>> phrase("tp", 2), phrase("hardware", "h100-sxm"), phrase("kv_cache_dtype", None)
    ('tp 2', 'h100-sxm', 'default kv-cache-dtype')
    """
    name = axis.replace("_", "-")
    if absent(value):
        return f"default {name}"
    return written(value) if axis in ("model", "hardware", "phase") else f"{name} {written(value)}"


def absent(value: Any) -> bool:
    """None, NaN or NA: of an axis the default, of an answer that there is none."""
    return value is None or str(value) in ("nan", "<NA>")


def written(value: Any) -> str:
    """A value of an axis."""
    if absent(value):
        return "default"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of numbers of which one is absent
    return str(value) if isinstance(value, str | bool | float) else f"{value:,}" if _whole(value) else str(value)


def _whole(value: Any) -> bool:
    return hasattr(value, "bit_length") or type(value).__name__.startswith(("int", "uint"))
