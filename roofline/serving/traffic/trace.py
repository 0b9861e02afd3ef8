"""Traces: requests that a server has seen, when they arrived, and how long prompts and outputs were."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, SpecError
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.tables import BATCH_ROWS
from roofline.serving.traffic.trace_formats import ARRIVED, HASHES, OUTPUT, PROMPT, SESSION, Cells, Column, source
from roofline.specs.library import Input
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

HASHED = 512
"""Tokens of a block of `hash_ids`."""
_REASONS = 5
_MOST_TOKENS = 2**40
# A zone at the end of a date with a time: all of one file are taken to be of the same one.
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$", re.ASCII)
# NB: NumPy reads more, with a warning or as something else: zones, `today`, years whose nanoseconds no 64 bits hold.
_DATE = re.compile(r"(\d{4})-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?", re.ASCII)
_YEARS = range(1678, 2262)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Numbers of the blocks of prompts, one after another.

    Args:
        ids: uint64.
        ends: behind the last block of each prompt, int64, shape (requests,).
    """

    ids: Array
    ends: Array

    @classmethod
    def of_prompts(cls, ids: Array, prompts: Array) -> Blocks:
        """Blocks of prompts by their tokens: a prompt has as many as cover it."""
        return cls(ids, (-(-prompts // HASHED)).cumsum())

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return tuple(self.ids[self.ends[index - 1] if index else 0 : self.ends[index]].tolist())

    def take(self, order: Array) -> Blocks:
        """The blocks of prompts in another order, by their indices; one may be there repeatedly."""
        import numpy as np

        lengths = np.diff(self.ends, prepend=0)
        starts, count = (self.ends - lengths)[order], lengths[order]
        ends = count.cumsum()
        within = np.arange(int(ends[-1])) - np.repeat(ends - count, count)
        return Blocks(self.ids[np.repeat(starts, count) + within], ends)


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival. Arrays are read-only, of shape (requests,).

    Args:
        name: of the file.
        sha256: hash of the file's content.
        path: of the file.
        arrived: arrival times in seconds, float64, ascending; None if the file has no such column.
        prompts: prompt tokens, int64, at least 1.
        outputs: output tokens, int64, at least 1.
        skipped: number of broken rows that were left out.
        reasons: what was wrong with the first of them, with the line.
        notes: columns under other names, rows that were sorted.
        sessions: number of each request's conversation, int64; None if the file has no such column.
        hashes: numbers of the blocks of `HASHED` tokens of each prompt; None if the file has no such column.
    """

    name: str
    sha256: str
    path: str
    arrived: Array | None = field(repr=False)
    prompts: Array = field(repr=False)
    outputs: Array = field(repr=False)
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sessions: Array | None = field(default=None, repr=False)
    hashes: Blocks | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def shares(self) -> bool:
        """Whether it says what prompts have in common."""
        return self.sessions is not None or self.hashes is not None

    @property
    def input(self) -> Input:
        """The file, for the inputs of a result."""
        return Input("trace", self.name, self.path, self.sha256)

    @property
    def mean_prompt(self) -> float:
        """Mean tokens per prompt."""
        return float(self.prompts.mean())

    @property
    def mean_output(self) -> float:
        """Mean tokens per output."""
        return float(self.outputs.mean())

    @property
    def duration(self) -> float | None:
        """Seconds from the first arrival to the last; None if the trace has no arrival times."""
        return None if self.arrived is None else float(self.arrived[-1] - self.arrived[0])

    @property
    def rate(self) -> float | None:
        """Requests/s: times between arrivals over the duration; None without arrival times, or if all arrive at once."""
        return (len(self) - 1) / self.duration if self.duration else None

    @cached_property
    def interarrival_cv(self) -> float | None:
        """Coefficient of variation of the times between arrivals: 1 for Poisson arrivals, more for bursts; None where `rate`
        is."""
        if self.arrived is None or not self.duration:
            return None
        import numpy as np

        gaps = np.diff(self.arrived)
        return float(gaps.std() / gaps.mean())

    def lengths(self) -> Pairs:
        """Pairs of prompt and output tokens of every request, without the arrival times."""
        return Pairs(self.input, self.prompts, self.outputs)


def read_trace(path: str | Path, skip_bad_rows: bool = False) -> Trace:
    """Read a trace from a CSV or Parquet file, from Mooncake's JSON lines, or from the folder of a measured run
    (`engine_run.py`).

    Columns are `arrived_at` (seconds, optional), `num_prefill_tokens` and `num_decode_tokens`, or as Azure and BurstGPT call
    them; `session_id` and `hash_ids`, optional, say what prompts have in common; others are ignored.

    Args:
        path: the file, or the folder.
        skip_bad_rows: leave broken rows out and count them; else the first one is an error.

    Raises:
        SpecError: no such file, no table, a missing or duplicate column, a broken row with its line, no valid row.
        MissingExtraError: Parquet without pyarrow.
    """
    location = Path(path).expanduser()
    if files.is_folder(location):
        from roofline.serving.traffic.engine_run import read_run

        return read_run(location, skip_bad_rows).trace
    return _read_file(location, skip_bad_rows)


@dataclass(slots=True)
class _Rows:
    """What has been read of a trace: valid rows as arrays, a batch after another, and what is wrong with the others."""

    count: int = 0
    bad: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)
    """Line and reason of the first broken rows."""
    dated: bool = False
    """Whether arrivals are dates with times, by the first cells."""
    columns: dict[str, list[Array]] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)

    def add(self, cells: Cells) -> None:
        """Parse a batch."""
        if not self.count:
            self.dated = ARRIVED.name in cells.values and _dated(cells.values[ARRIVED.name])
        parsed = None if cells.broken else _parse_all(cells, self.dated)
        columns, bad = parsed if parsed is not None else _parse_each(cells, self.dated)
        self._add_shared(cells, columns, bad)
        for name, column in columns.items():
            self.columns.setdefault(name, []).append(column)
        first = sorted(bad)[: _REASONS - len(self.reasons)]
        self.reasons += [(cells.lines[index], bad[index]) for index in first]
        self.count += len(cells.lines)
        self.bad += len(bad)

    def _add_shared(self, cells: Cells, columns: dict[str, Array], bad: dict[int, str]) -> None:
        """Adds what the valid prompts have in common to `columns`, and rows whose blocks are broken to `bad`."""
        import numpy as np

        if not cells.texts:
            return
        rows = [index for index in range(len(cells.lines)) if index not in bad]
        if (texts := cells.texts.get(HASHES.name)) is not None:
            blocks, valid = [], []
            for place, index in enumerate(rows):
                try:
                    blocks.append(_block_ids(texts[index], int(columns[PROMPT.name][place])))
                    valid.append(place)
                except ValueError as error:
                    bad[index] = str(error)
            if len(valid) < len(rows):
                columns.update({name: column[valid] for name, column in columns.items()})
                rows = [rows[place] for place in valid]
            columns[HASHES.name] = np.array([*chain.from_iterable(blocks)], dtype=np.uint64)
        if (names := cells.texts.get(SESSION.name)) is not None:
            ids = self.sessions
            numbers = [ids.setdefault(name, len(ids)) if (name := names[index].strip()) else -1 for index in rows]
            columns[SESSION.name] = np.array(numbers, dtype=np.int64)

    def column(self, column: Column) -> Array | None:
        """All valid cells of a column; frees the batches."""
        import numpy as np

        parts = self.columns.pop(column.name, None)
        return None if parts is None else np.concatenate(parts)


def _read_file(path: Path, skip_bad_rows: bool) -> Trace:
    import numpy as np

    file = source(path)
    rows = _Rows()
    for cells in file.batches():
        rows.add(cells)
    if not rows.count:
        raise SpecError("has a header and no requests beneath it", path=path)
    if rows.bad and (not skip_bad_rows or rows.bad == rows.count):
        line, why = rows.reasons[0]
        if skip_bad_rows:
            why = f"{why}. No row of the {rows.bad:,} is whole"
        else:
            more = f" ({rows.bad:,} of {rows.count:,} rows are broken)" if rows.bad > 1 else ""
            why = f"{why}{more}. --skip-bad-rows leaves such rows out"
        raise SpecError(why, path=path, line=line) if file.unit == "line" else SpecError(f"row {line}: {why}", path=path)
    prompts, outputs, arrived, sessions = (rows.column(column) for column in (PROMPT, OUTPUT, ARRIVED, SESSION))
    assert prompts is not None  # noqa: S101 - narrows the type: the header has both columns
    assert outputs is not None  # noqa: S101
    ids = rows.column(HASHES)
    hashes = None if ids is None else Blocks.of_prompts(ids, prompts)
    notes = list(file.notes)
    if arrived is not None:
        if rows.dated:
            arrived = (arrived - arrived.min()) / 1e9
        if late := int((arrived[1:] < arrived[:-1]).sum()):
            order = np.argsort(arrived, kind="stable")
            prompts, outputs, arrived = prompts[order], outputs[order], arrived[order]
            sessions = None if sessions is None else sessions[order]
            hashes = None if hashes is None else hashes.take(order)
            notes.append(f"{late:,} rows arrived before the one above them: sorted by arrival")
    for column in (prompts, outputs, arrived, sessions):
        if column is not None:
            column.flags.writeable = False
    return Trace(
        name=clean(path.name),
        sha256=file.sha256,
        path=str(path),
        arrived=arrived,
        prompts=prompts,
        outputs=outputs,
        skipped=rows.bad,
        reasons=tuple(f"{file.unit} {line}: {why}" for line, why in rows.reasons),
        notes=tuple(notes),
        sessions=sessions,
        hashes=hashes,
    )


def _block_ids(text: str, prompt: int) -> tuple[int, ...]:
    """The blocks of a prompt of `prompt` tokens; a `ValueError` says what is wrong with the cell."""
    try:
        blocks = tuple(map(int, text.strip().strip("[]").replace(",", " ").split()))
    except ValueError:
        blocks = (-1,)
    if min(blocks, default=0) < 0 or max(blocks, default=0) >= 2**64:
        raise ValueError(f"{HASHES.name} must be whole numbers below 2**64 apart by spaces, not {clean(text)[:40]!r}")
    if len(blocks) != (needed := -(-prompt // HASHED)):
        why = f"has {len(blocks)} blocks of {HASHED} tokens; a prompt of {prompt:,} tokens has {needed}"
        raise ValueError(f"{HASHES.name} {why}")
    return blocks


def _parse_all(cells: Cells, dated: bool) -> tuple[dict[str, Array], dict[int, str]] | None:
    """All rows by NumPy; None if one of them is broken, or may be. Arrivals are seconds, of dates whole nanoseconds."""
    import numpy as np

    try:
        columns = {
            name: np.array(cells.values[name], dtype=np.float64)
            for name in cells.values
            if not (name == ARRIVED.name and dated)
        }
    except ValueError:
        return None
    for name, column in columns.items():
        minimum = 0 if name == ARRIVED.name else 1
        # NB: a NaN fails every comparison
        if not ((column >= minimum) & (column < _MOST_TOKENS)).all():
            return None
        if name != ARRIVED.name and (column != np.floor(column)).any():
            return None
    columns = {name: column if name == ARRIVED.name else column.astype(np.int64) for name, column in columns.items()}
    if dated:
        try:
            times = np.array([_moment(text) for text in cells.values[ARRIVED.name]], dtype="datetime64[ns]")
        except ValueError:
            return None
        if np.isnat(times).any():
            return None
        columns[ARRIVED.name] = times.astype(np.int64)
    return columns, {}


def _moment(text: str) -> str:
    """A date with a time as NumPy parses it; a `ValueError` if it is none."""
    moment = _ZONE.sub("", text.strip().replace(" ", "T", 1))
    match = _DATE.fullmatch(moment)
    if match is None or int(match[1]) not in _YEARS:
        raise ValueError(text)
    return moment


def _parse_each(cells: Cells, dated: bool) -> tuple[dict[str, Array], dict[int, str]]:
    """The valid rows, and what is wrong with the others."""
    import numpy as np

    valid: dict[str, list[float]] = {name: [] for name in cells.values}
    bad: dict[int, str] = {}
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
            valid[name].append(value)
    seconds = {ARRIVED.name} - ({ARRIVED.name} if dated else set())
    columns = {name: np.array(values, dtype=np.float64 if name in seconds else np.int64) for name, values in valid.items()}
    return columns, bad


def _dated(texts: Any) -> bool:
    """Whether arrivals are dates with times, by the first cells."""
    return any(re.match(r"\s*\d{4}-\d\d-\d\d", text) for text in texts[:100])


def _number(name: str, text: str, dated: bool) -> float:
    """A cell as a number; a `ValueError` says what is wrong with it."""
    import numpy as np

    quoted = repr(clean(text.strip())[:40])
    if not text.strip():
        raise ValueError(f"{name} is empty")
    if name == ARRIVED.name and dated:
        try:
            moment = np.datetime64(_moment(text), "ns")
        except ValueError:
            raise ValueError(f"{name} must be a date with a time, as in the other rows, not {quoted}") from None
        if np.isnat(moment):
            raise ValueError(f"{name} must be a date with a time, as in the other rows, not {quoted}")
        return int(moment.astype(np.int64))
    try:
        value = float(np.float64(text))  # reads what is read all at once, and nothing else
    except ValueError:
        value = math.nan
    if name == ARRIVED.name:
        if not 0 <= value < _MOST_TOKENS:
            raise ValueError(f"{name} must be a number of seconds, 0 or more, not {quoted}")
        return value
    if not 1 <= value < _MOST_TOKENS or value != math.floor(value):
        raise ValueError(f"{name} must be a whole number of tokens, at least 1, not {quoted}")
    return value


def as_csv(trace: Trace) -> str:
    """Format a trace as CSV text with a header: `arrived_at` (seconds to the microsecond, if the trace has arrival times),
    `num_prefill_tokens`, `num_decode_tokens`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    arrived = trace.arrived
    writer.writerow([*(() if arrived is None else (ARRIVED.name,)), PROMPT.name, OUTPUT.name])
    for start in range(0, len(trace), BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        times = () if arrived is None else ([f"{at:.6f}" for at in arrived[part].tolist()],)
        writer.writerows(zip(*times, trace.prompts[part].tolist(), trace.outputs[part].tolist(), strict=True))
    return out.getvalue()


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace to a `.csv` file in the columns of `as_csv`, which `read_trace` reads.

    Raises:
        InputError: another suffix, or the file cannot be written.
    """
    location = Path(path)
    if location.suffix.lower() != ".csv":
        raise InputError(f"cannot write {location}: a trace is written as .csv")
    files.write_whole(location, as_csv(trace).encode())
