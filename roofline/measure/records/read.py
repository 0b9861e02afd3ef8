"""Read records from files and folders. A bad row is refused, by file and line, and the good ones are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from math import nan
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, RooflineError, SpecError, UnknownNameError
from roofline.measure.records.columns import COLUMNS, canonical, dtypes
from roofline.measure.records.ops import RECORD_OPS, RecordOp

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".parquet")
_MOST_BYTES, _MOST_ROWS, _LONGEST = 2**28, 4_000_000, 2**20
"""Of a file, which is held whole: a row takes about 1.5 kB of memory. Characters of a line."""
_NEEDED = ("op", "dtype", "latency_us")


@dataclass(slots=True)
class Records:
    """The result of `read`: rows that can be used, and what was refused or passed by, and why."""

    frame: pd.DataFrame
    refusals: list[Refusal] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    ignored_columns: list[str] = field(default_factory=list)
    passed_by: list[str] = field(default_factory=list)
    """Files in a folder that hold no records."""

    @property
    def refused(self) -> int:
        """The number of rows that were refused."""
        return sum(refusal.rows for refusal in self.refusals)


def read(paths: Iterable[str | Path]) -> Records:
    """Read the records of files and folders; bad rows are refused by file and line, and the good ones stay.

    Args:
        paths: files (.csv, .parquet), and folders, of which all such files are read, subfolders included. A file that was
            found in a folder and holds no records is passed by.

    Returns:
        `frame` has one row per record: the columns of `COLUMNS` (numbers are floats with NaN for empty cells, texts are
        strings with "" for empty cells, latencies in microseconds), `file` and `line`.

    Raises:
        InputError: if a path does not exist, is too large, is not a table of records, or if no table is left to read.
        MissingExtraError: if reading Parquet needs a package that is not installed.
    """
    import pandas as pd

    frames: list[pd.DataFrame] = []
    records = Records(pd.DataFrame())
    for path, named in _files(paths).items():
        try:
            raw, refusals, others = _raw(path)
        except InputError as error:
            if named:
                raise
            files.release(path)  # such as an earlier result in the folder of records, which may be written again
            records.passed_by.append(str(error))
            continue
        records.files.append(path)
        records.ignored_columns += others
        checker = _Checker(path, raw)
        frames.append(checker.good())
        records.refusals += sorted([*refusals, *checker.refusals], key=lambda refusal: refusal.line)
    if not records.files:
        raise InputError("\n  ".join(["no table of records is left to read", *records.passed_by]))
    records.frame = pd.concat(frames, ignore_index=True)
    records.ignored_columns = sorted(set(records.ignored_columns))
    return records


def _files(paths: Iterable[str | Path]) -> dict[Path, bool]:
    """Files, and whether each was named itself."""
    named: dict[Path, bool] = {}
    for given in paths:
        path = Path(given).expanduser()
        if files.is_folder(path):
            inside = [
                file for suffix in _SUFFIXES for file in sorted(path.rglob(f"*{suffix}")) if not file.name.startswith(".")
            ]
            if not inside:
                msg = f"{path}: no records in this folder: nothing in it ends in {' or '.join(_SUFFIXES)}"
                raise InputError(msg)
            named |= {file: False for file in inside if file not in named}
        elif not files.exists(path):
            msg = f"{path}: no such file or folder"
            raise InputError(msg)
        elif path.suffix.lower() not in _SUFFIXES:
            msg = f"{path}: records are read from {' and '.join(_SUFFIXES)} files"
            raise InputError(msg)
        else:
            named[path] = True
    return named


def _raw(path: Path) -> tuple[pd.DataFrame, list[Refusal], list[str]]:
    """The cells of our columns as they stand, with the line of each row; rows that are none; names of other columns."""
    with files.open_input(path, _MOST_BYTES, "a table of records") as file:
        try:
            raw, refusals, others = _parquet(path, file) if path.suffix.lower() == ".parquet" else _csv(path, file)
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not UTF-8 text, although it ends in .csv") from None
    if missing := [name for name in _NEEDED if name not in raw.columns]:
        raise InputError(f"{path}:1: {_missing(missing, others)}")
    return raw, refusals, others


def _missing(missing: list[str], others: list[str]) -> str:
    what = f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing"
    if "latency_us" in missing and (near := [name for name in others if name.startswith(("latency", "time"))]):
        return f"{what}; it has {', '.join(near)}: give the latency of a call in microseconds as latency_us"
    near = [text for name in missing if "Did you mean" in (text := str(UnknownNameError("column", name, others)))]
    hint = f" It has {', '.join(others)}, which is not known." if near else ""
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(others) == 1 and separator in others[0]:
            return f"its cells are separated by {word}, and have to be by commas"
    return f"{what}, so that these are no records.{hint}"


def _parquet(path: Path, file: IO[bytes]) -> tuple[pd.DataFrame, list[Refusal], list[str]]:
    table: pd.DataFrame = files.read_parquet(file, path, max_rows=_MOST_ROWS).to_pandas()
    table = table.reset_index(drop=True)
    raw = table[[name for name in table.columns if name in COLUMNS]]
    return raw.assign(**{LINE: range(1, len(raw) + 1)}), [], [str(name) for name in table.columns if name not in COLUMNS]


def _lines(path: Path, text: IO[str]) -> Iterator[str]:
    """Lines of which none can fill memory."""
    for number in count(1):
        line = text.readline(_LONGEST)
        if len(line) == _LONGEST:
            raise InputError(f"{path}:{number}: a line of {_LONGEST:,} characters or more is none of records")
        if not line:
            return
        yield line


def _csv(path: Path, file: IO[bytes]) -> tuple[pd.DataFrame, list[Refusal], list[str]]:
    import pandas as pd

    rows: list[list[Any]] = []
    refusals: list[Refusal] = []
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(_lines(path, text))
        header = [name.strip() for name in next(reader, [])]
        if doubled := sorted({name for name in header if name and header.count(name) > 1}):
            raise InputError(f"{path}:1: column {doubled[0]} stands there twice")
        try:
            for cells in reader:
                if len(rows) + len(refusals) == _MOST_ROWS:  # what is refused takes memory too
                    raise SpecError(f"has more than {_MOST_ROWS:,} rows; at most {_MOST_ROWS:,} are read", path=path)
                if len(cells) == len(header):
                    rows.append([*cells, reader.line_num])
                elif cells:
                    few = len(cells) < len(header)
                    why = f"{len(cells)} cells, and the header has {len(header)}" + ("; is the file cut off?" if few else "")
                    refusals.append(Refusal(path, reader.line_num, why, "cells"))
        except csv.Error as error:
            refusals.append(Refusal(path, reader.line_num, f"is no CSV from here on: {error}", "csv"))
    ours = {index: name for index, name in enumerate(header) if name in COLUMNS}
    table = pd.DataFrame(rows, columns=range(len(header) + 1))
    raw = table[[*ours, len(header)]].rename(columns={**ours, len(header): LINE})
    return raw, merged(refusals), [name for name in header if name and name not in COLUMNS]


FILE, LINE = "file", "line"
"""Columns that a table gets when it is read: where each row stands."""
_MAX_COUNT = 2**53  # above it a float no longer holds every whole number


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
    """One refusal per file and kind, with the number of its rows; the first of each gives the line and the reason.

    NB: the first refusal of each kind is changed in place.
    """
    firsts: dict[tuple[Path, str], Refusal] = {}
    for refusal in refusals:
        first = firsts.setdefault((refusal.path, refusal.kind), refusal)
        if first is not refusal:
            first.rows += refusal.rows
    return list(firsts.values())


class _Checker:
    """Checks a raw table: each check refuses the rows that fail it, and the next ones see only what is left."""

    def __init__(self, path: Path, raw: pd.DataFrame) -> None:
        self.path, self.refusals = path, list[Refusal]()
        self.frame = raw

    def good(self) -> pd.DataFrame:
        """The rows that pass, with numbers as floats (empty: NaN) and texts as strings (empty: "")."""
        absent = {name: "" if column.kind == "text" else nan for name, column in COLUMNS.items() if name not in self.frame}
        self.frame = self.frame.assign(**absent)
        for name, column in COLUMNS.items():
            if name in absent:
                continue
            self._text(name) if column.kind == "text" else self._number(name, whole=column.kind == "count")
        for name in ("distribution", "cache", "pinned"):
            self.frame = self.frame.assign(**{name: self.frame[name].str.lower()})
        self._known("op", RECORD_OPS)
        self._known("cache", ("cold", "warm", ""))
        self._each("dtype", dtypes)
        self._each("kv_dtype", lambda name: dtypes("bf16", name))
        for name in ("dtype", "kv_dtype"):
            spelling = {value: canonical(value) for value in self.frame[name].unique()}
            self.frame = self.frame.assign(**{name: self.frame[name].map(spelling).astype(object)})
        self._latency()
        for op in RECORD_OPS.values():
            self._dimensions(op)
        return self.frame[[LINE, *COLUMNS]].assign(**{FILE: str(self.path)})

    def _refuse(self, bad: Any, kind: str, why: Callable[[Any], str]) -> None:
        """Drop the rows of a mask; the first of them gives the message."""
        if not bad.any():
            return
        first = self.frame[bad].iloc[0]
        self.refusals.append(Refusal(self.path, int(first[LINE]), why(first), kind, int(bad.sum())))
        self.frame = self.frame[~bad]

    def _text(self, name: str) -> None:
        cells = self.frame[name].astype(object).fillna("").astype(str).str.strip()
        self.frame = self.frame.assign(**{name: cells})
        broken = self.frame[name].str.contains("[\\r\\n]")
        self._refuse(broken, f"{name} broken", lambda _: f"{name}: the cell holds a line break; is a quote not closed?")

    def _number(self, name: str, *, whole: bool) -> None:
        import numpy as np
        import pandas as pd

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
            odd = values.notna() & ((values % 1 != 0) | (values < 0) | (values > _MAX_COUNT))
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

    def _dimensions(self, op: RecordOp) -> None:
        """Refuse rows of an op that break what must hold for its columns."""
        import numpy as np

        names = {*op.needs, *op.optional, *op.allowed, *(name for pair in (*op.order, *op.divides) for name in pair)}

        def of_op() -> tuple[Any, dict[str, Any]]:
            rows = self.frame[self.frame["op"] == op.op]
            return rows.index, {name: rows[name].to_numpy() for name in names}

        index, cells = of_op()
        if not len(index):
            return

        def refuse(what: str, bad: Any, why: str) -> None:
            # NB: by NumPy, since pandas takes a tenth of a millisecond for each of some twenty checks of an op
            nonlocal index, cells
            if bad.any():
                mask = self.frame.index.isin(index[bad])
                self._refuse(mask, f"{op.op} {what}", lambda row: why.format(**{str(name): row[name] for name in row.index}))
                index, cells = of_op()

        for name in op.needs:
            refuse(f"{name} empty", np.isnan(cells[name]), f"{op.op} needs {name}, which is empty")
        for name in (*op.needs, *op.optional):
            least = op.at_least.get(name, 1)
            below = f"{name}: {{{name}:g}} is less than {least}"
            refuse(f"{name} small", cells[name] < least, below)
        for low, high in op.order:
            more = f"{low} ({{{low}:g}}) is more than {high} ({{{high}:g}})"
            refuse(f"{low} {high}", cells[low] > cells[high], more)
        for part, whole in op.divides:
            uneven = f"{part} ({{{part}:g}}) does not divide {whole} ({{{whole}:g}})"
            refuse(f"{part} {whole}", cells[whole] % cells[part] > 0, uneven)
        for name, allowed in op.allowed.items():
            other = f"{name}: {{{name}:g}} is not known for {op.op}, only {' or '.join(map(str, allowed))}"
            refuse(f"{name} other", ~np.isin(cells[name], allowed), other)
