"""The rows of a trace's file. All at once where every one is whole; else one by one, to say which is not, and why."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import MissingExtraError, SpecError, UnknownNameError
from roofline.serving.traffic.columns import ANSWER, ARRIVED, COLUMNS, PROMPT, Column
from roofline.serving.traffic.tables import read_bytes, read_table
from roofline.serving.traffic.trace import Trace
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_REASONS = 5
_MOST_TOKENS = 2**40
_NEEDED = (PROMPT, ANSWER)
# A zone at the end of a date with a time: all of one file are taken to be of the same one.
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$", re.ASCII)
# NB: NumPy reads more, with a warning or as something else: zones, `today`, years whose nanoseconds no 64 bits hold.
_DATE = re.compile(r"(\d{4})-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?", re.ASCII)
_YEARS = range(1678, 2262)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of our columns as they stand, by column, with the line of each row, and rows with too few or too many."""

    path: Path
    sha256: str
    values: dict[str, Any]
    lines: list[int]
    broken: dict[int, str]
    notes: tuple[str, ...]
    unit: str = "line"

    def refuse(self, index: int, why: str) -> SpecError:
        """The error for a row."""
        return SpecError(
            why if self.unit == "line" else f"row {self.lines[index]}: {why}", path=self.path, line=self._line(index)
        )

    def _line(self, index: int) -> int | None:
        return self.lines[index] if self.unit == "line" else None


def read(path: Path, skip_bad_rows: bool) -> Trace:
    """The trace of a file."""
    import numpy as np

    cells = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    if not cells.lines:
        raise SpecError("has a header and no requests beneath it", path=path)
    whole = None if cells.broken else _at_once(cells)
    columns, bad = whole if whole is not None else _one_by_one(cells)
    if bad and not skip_bad_rows:
        index, why = next(iter(bad.items()))
        more = f" ({len(bad):,} of {len(cells.lines):,} rows are broken)" if len(bad) > 1 else ""
        raise cells.refuse(index, f"{why}{more}. --skip-bad-rows leaves such rows out")
    if len(bad) == len(cells.lines):
        index, why = next(iter(bad.items()))
        raise cells.refuse(index, f"{why}. No row of the {len(bad):,} is whole")
    reasons = [f"{cells.unit} {cells.lines[index]}: {why}" for index, why in list(bad.items())[:_REASONS]]
    arrived, notes = columns.get(ARRIVED.name), list(cells.notes)
    if arrived is not None and (np.diff(arrived) < 0).any():
        late = int((np.diff(arrived) < 0).sum())
        order = np.argsort(arrived, kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        notes.append(f"{late:,} rows arrived before the one above them: sorted by arrival")
    for column in columns.values():
        column.flags.writeable = False
    return Trace(
        name=clean(path.name),
        sha256=cells.sha256,
        path=str(path),
        arrived=columns.get(ARRIVED.name),
        prompts=columns[PROMPT.name],
        answers=columns[ANSWER.name],
        skipped=len(bad),
        reasons=tuple(reasons),
        notes=tuple(notes),
    )


def _csv(path: Path) -> _Cells:
    table = read_table(path)
    header = [name.strip() for name in table.rows[0]]
    places, notes = _places(path, header, table.lines[0])
    rows, lines = table.rows[1:], table.lines[1:]
    width = len(header)
    broken = {index: _cells_of(len(row), width) for index, row in enumerate(rows) if len(row) != width}
    if broken:
        rows = [row if len(row) == width else [""] * width for row in rows]
    columns = list(zip(*rows, strict=True))
    values = {name: columns[place] if columns else () for name, place in places.items()}
    return _Cells(path, table.sha256, values, lines, broken, notes)


def _cells_of(found: int, width: int) -> str:
    return f"{found} cells, and the header has {width}" + (" (is the file cut off?)" if found < width else "")


def _parquet(path: Path) -> _Cells:
    raw = read_bytes(path)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("reading Parquet", "parquet") from None
    try:
        table = pq.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError) as error:
        why = str(error).splitlines()[0]
        raise SpecError(f"is no Parquet file, or a truncated one ({why:.120})", path=path) from None
    places, notes = _places(path, list(table.column_names), None)
    values = {name: ["" if cell is None else str(cell) for cell in table.column(i).to_pylist()] for name, i in places.items()}
    digest = hashlib.sha256(raw).hexdigest()
    return _Cells(path, digest, values, list(range(1, table.num_rows + 1)), {}, notes, unit="row")


def _places(path: Path, header: list[str], line: int | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Where our columns stand, and which of them under other names.

    Raises:
        SpecError: one that is needed is missing, or stands there twice.
    """
    small = [name.lower() for name in header]
    places: dict[str, int] = {}
    notes = []
    for column in COLUMNS:
        found = [index for index, name in enumerate(header) if name == column.name] or [
            index for index, name in enumerate(small) if name == column.name or name in column.aliases
        ]
        if len(found) > 1:
            names = " and ".join(clean(header[index]) for index in found)
            raise SpecError(f"{names}: column {column.name} stands there more than once", path=path, line=line)
        if found:
            places[column.name] = found[0]
            if header[found[0]] != column.name:
                notes.append(f"column {clean(header[found[0]])} is read as {column.name}")
    if missing := [column for column in _NEEDED if column.name not in places]:
        raise SpecError(_missing(missing, header), path=path, line=line)
    return places, tuple(notes)


def _missing(missing: list[Column], header: list[str]) -> str:
    what = f"column{'s' if len(missing) > 1 else ''} {' and '.join(column.name for column in missing)}"
    what += " are missing" if len(missing) > 1 else " is missing"
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            return f"{what}: the cells are separated by {word}, and have to be by commas"
    if all(re.fullmatch(r"[\s\d.eE+-]*", name) for name in header):
        needed = ",".join(column.name for column in COLUMNS)
        return f"{what}: the first line holds numbers; it has to name the columns, such as {needed}"
    known = {column.name for column in COLUMNS}
    near = [text for name in header if name not in known and (text := _did_you_mean(name, missing))]
    there = f"the file has {clean(', '.join(header))[:300]}"
    return f"{what}; {there}." + (f" {near[0]}" if near else "")


def _did_you_mean(name: str, missing: list[Column]) -> str:
    text = str(UnknownNameError("column", clean(name), [column.name for column in missing]))
    return (
        f"{text.partition('. ')[2].partition('?')[0].replace('Did you mean', f'Is {clean(name)} meant to be')}?"
        if "?" in text
        else ""
    )


def _at_once(cells: _Cells) -> tuple[dict[str, Array], dict[int, str]] | None:
    """All rows by NumPy; None where one of them is broken, or may be."""
    import numpy as np

    try:
        columns = {name: np.array(cells.values[name], dtype=np.float64) for name in (PROMPT.name, ANSWER.name)}
        if ARRIVED.name in cells.values:
            columns[ARRIVED.name] = _arrivals(cells.values[ARRIVED.name])
    except ValueError:
        return None
    for name, column in columns.items():
        least = 0 if name == ARRIVED.name else 1
        # NB: a NaN fails every comparison
        if not ((column >= least) & (column < _MOST_TOKENS)).all():
            return None
        if name != ARRIVED.name and (column != np.floor(column)).any():
            return None
    return {name: column if name == ARRIVED.name else column.astype(np.int64) for name, column in columns.items()}, {}


def _arrivals(texts: Any) -> Array:
    """Seconds; of dates with times, from the first of them."""
    import numpy as np

    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        times = np.array([_moment(text) for text in texts], dtype="datetime64[ns]")
        if np.isnat(times).any():
            raise
        since: Array = (times - times.min()).astype(np.int64) / 1e9
        return since


def _moment(text: str) -> str:
    """A date with a time as NumPy takes it.

    Raises:
        ValueError: it is none.
    """
    moment = _ZONE.sub("", text.strip().replace(" ", "T", 1))
    match = _DATE.fullmatch(moment)
    if match is None or int(match[1]) not in _YEARS:
        raise ValueError(text)
    return moment


def _one_by_one(cells: _Cells) -> tuple[dict[str, Array], dict[int, str]]:
    """The rows that are whole, and what is wrong with the others."""
    import numpy as np

    kept: dict[str, list[float]] = {name: [] for name in cells.values}
    bad: dict[int, str] = {}
    dated = ARRIVED.name in cells.values and _dated(cells.values[ARRIVED.name])
    for index in range(len(cells.lines)):
        if index in cells.broken:
            bad[index] = cells.broken[index]
            continue
        try:
            row = {name: _number(name, cells.values[name][index], dated) for name in cells.values}
        except ValueError as error:
            bad[index] = str(error)
            continue
        for name, value in row.items():
            kept[name].append(value)
    if dated and kept[ARRIVED.name]:
        first = min(kept[ARRIVED.name])  # whole nanoseconds, of which a float has not all the digits
        kept[ARRIVED.name] = [(moment - first) / 1e9 for moment in kept[ARRIVED.name]]
    columns = {name: np.array(values, dtype=np.float64 if name == ARRIVED.name else np.int64) for name, values in kept.items()}
    return columns, bad


def _dated(texts: Any) -> bool:
    """Whether arrivals are dates with times, by the first cells."""
    return any(re.match(r"\s*\d{4}-\d\d-\d\d", text) for text in texts[:100])


def _number(name: str, text: str, dated: bool) -> float:
    """A cell as a number; a `ValueError` says what is wrong with it."""
    import numpy as np

    shown = repr(clean(text.strip())[:40])
    if not text.strip():
        raise ValueError(f"{name} is empty")
    if name == ARRIVED.name and dated:
        try:
            moment = np.datetime64(_moment(text), "ns")
        except ValueError:
            raise ValueError(f"{name} must be a date with a time, as in the other rows, not {shown}") from None
        if np.isnat(moment):
            raise ValueError(f"{name} must be a date with a time, as in the other rows, not {shown}")
        return int(moment.astype(np.int64))
    try:
        value = float(np.float64(text))  # reads what is read all at once, and nothing else
    except ValueError:
        value = math.nan
    if name == ARRIVED.name:
        if not 0 <= value < _MOST_TOKENS:
            raise ValueError(f"{name} must be a number of seconds, 0 or more, not {shown}")
        return value
    if not 1 <= value < _MOST_TOKENS or value != math.floor(value):
        raise ValueError(f"{name} must be a whole number of tokens, at least 1, not {shown}")
    return value
