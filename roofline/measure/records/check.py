"""Whether the cells of a table are what records hold, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import RooflineError, UnknownNameError
from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.formats import canonical, dtypes
from roofline.measure.records.ops import Rule, registry

if TYPE_CHECKING:
    import pandas as pd

FILE, LINE = "file", "line"
"""Columns that a table gets when it is read: where each row stands."""
MAX_COUNT = 2**53  # above it a float no longer holds every whole number


@dataclass(slots=True)
class Refusal:
    """Rows of a file that are not used: the line of the first, why, and how many there are of that kind."""

    path: Path
    line: int
    why: str
    kind: str
    rows: int = 1

    def __str__(self) -> str:
        more = f" (and {self.rows - 1:,} more like it)" if self.rows > 1 else ""
        return f"{self.path}:{self.line}: {self.why}{more}"


def merged(refusals: Iterable[Refusal]) -> list[Refusal]:
    """One refusal a file and kind, with how many rows it stands for; the first of each gives its line and words."""
    found: dict[tuple[Path, str], Refusal] = {}
    for refusal in refusals:
        first = found.setdefault((refusal.path, refusal.kind), refusal)
        if first is not refusal:
            first.rows += refusal.rows
    return list(found.values())


class Checker:
    """Checks a raw table: each check refuses the rows that fail it, and the next ones see only what is left."""

    def __init__(self, path: Path, raw: pd.DataFrame) -> None:
        self.path, self.refusals = path, list[Refusal]()
        self.frame = raw

    def good(self) -> pd.DataFrame:
        """The rows that pass, with numbers as floats (empty: NaN) and texts as strings (empty: "")."""
        for name, column in COLUMNS.items():
            self._text(name) if column.kind == "text" else self._number(name, whole=column.kind == "count")
        for name in ("distribution", "cache", "pinned"):
            self.frame = self.frame.assign(**{name: self.frame[name].str.lower()})
        self._known("op", registry())
        self._known("cache", ("cold", "warm", ""))
        self._each("dtype", dtypes)
        self._each("kv_dtype", lambda name: dtypes("bf16", name))
        for name in ("dtype", "kv_dtype"):
            spelling = {value: canonical(value) for value in self.frame[name].unique()}
            self.frame = self.frame.assign(**{name: self.frame[name].map(spelling).astype(object)})
        self._latency()
        for op, rule in registry().items():
            self._dimensions(op, rule)
        return self.frame[[LINE, *COLUMNS]].assign(**{FILE: str(self.path)})

    def _refuse(self, bad: Any, kind: str, why: Callable[[Any], str]) -> None:
        """Drop the rows of a mask; the first of them gives the message."""
        if not bad.any():
            return
        first = self.frame[bad].iloc[0]
        self.refusals.append(Refusal(self.path, int(first[LINE]), why(first), kind, int(bad.sum())))
        self.frame = self.frame[~bad]

    def _text(self, name: str) -> None:
        if name not in self.frame:
            self.frame = self.frame.assign(**{name: ""})
        else:
            cells = self.frame[name].astype(object).fillna("").astype(str).str.strip()
            self.frame = self.frame.assign(**{name: cells})
            broken = self.frame[name].str.contains("[\\r\\n]")
            self._refuse(broken, f"{name} broken", lambda _: f"{name}: the cell holds a line break; is a quote not closed?")

    def _number(self, name: str, *, whole: bool) -> None:
        import numpy as np
        import pandas as pd

        if name not in self.frame:
            self.frame = self.frame.assign(**{name: np.nan})
            return
        cells = self.frame[name]
        if pd.api.types.is_string_dtype(cells):
            cells = cells.str.strip()
            cells = cells.mask(cells == "")
        values = pd.to_numeric(cells, errors="coerce").astype(float)
        self.frame = self.frame.assign(**{name: values})
        what = "whole number" if whole else "number"
        unit = " of microseconds" if name.endswith("_us") else " of bytes" if name.endswith("bytes") else ""
        hint = "; quantities have no unit in a table" if unit else ""
        unreadable = values.isna() & cells.notna() | np.isinf(values)
        self._refuse(
            unreadable, f"{name} unreadable", lambda row: f"{name}: {str(cells[row.name])!r:.40} is no {what}{unit}{hint}"
        )
        if whole:
            values = self.frame[name]
            odd = values.notna() & ((values % 1 != 0) | (values < 0) | (values > MAX_COUNT))
            self._refuse(odd, f"{name} not whole", lambda row: f"{name}: {row[name]:g} is no {what}{unit} of any size")

    def _known(self, name: str, known: Any) -> None:
        self._refuse(
            ~self.frame[name].isin(list(known)),
            f"{name} unknown",
            lambda row: str(UnknownNameError(name, row[name], known, list_all=True)) if row[name] else f"{name} is empty",
        )

    def _each(self, name: str, parse: Callable[[str], Any]) -> None:
        """Refuse the values that a parser refuses. An empty cell is one where the column is needed."""

        @cache
        def problem(value: str) -> str | None:
            if not value:
                return f"{name} is empty" if name == "dtype" else None
            try:
                parse(value)
            except RooflineError as error:
                return str(error)
            return None

        bad = {value for value in self.frame[name].unique() if problem(value)}
        self._refuse(self.frame[name].isin(bad), f"{name} unknown", lambda row: str(problem(row[name])))

    def _latency(self) -> None:
        values = self.frame["latency_us"]
        self._refuse(values.isna(), "latency_us empty", lambda row: "latency_us is empty")
        values = self.frame["latency_us"]
        self._refuse(values <= 0, "latency_us negative", lambda row: f"latency_us: {row['latency_us']:g} is not above 0")

    def _dimensions(self, op: str, rule: Rule) -> None:
        """What the rule of an op asks of its rows."""
        if not (self.frame["op"] == op).any():
            return

        def refuse(what: str, bad: Any, why: str) -> None:
            mask = (self.frame["op"] == op) & bad
            self._refuse(mask, f"{op} {what}", lambda row: why.format(**{str(name): row[name] for name in row.index}))

        for name in rule.needs:
            refuse(f"{name} empty", self.frame[name].isna(), f"{op} needs {name}, which is empty")
        for name in (*rule.needs, *rule.optional):
            least = rule.at_least.get(name, 1)
            refuse(f"{name} small", self.frame[name] < least, f"{name}: {{{name}:g}} is less than {least}")
        for low, high in rule.order:
            more = f"{low} ({{{low}:g}}) is more than {high} ({{{high}:g}})"
            refuse(f"{low} {high}", self.frame[low] > self.frame[high], more)
        for part, whole in rule.divides:
            uneven = f"{part} ({{{part}:g}}) does not divide {whole} ({{{whole}:g}})"
            refuse(f"{part} {whole}", self.frame[whole] % self.frame[part] > 0, uneven)
        for name, allowed in rule.allowed.items():
            other = f"{name}: {{{name}:g}} is not known for {op}, only {' or '.join(map(str, allowed))}"
            refuse(f"{name} other", ~self.frame[name].isin(allowed), other)
