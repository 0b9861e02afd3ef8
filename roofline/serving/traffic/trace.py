"""Traces: requests that a server has seen, when they arrived, and how long prompts and outputs were."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.tables import read_bytes, read_table
from roofline.specs.library import Input
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a trace: its name, the names that public traces have for it (in lower case), and what it holds."""

    name: str
    aliases: tuple[str, ...]
    meaning: str


# Azure's LLM inference traces of 2023 and 2024 (https://github.com/Azure/AzurePublicDataset): TIMESTAMP, ContextTokens,
# GeneratedTokens.
# BurstGPT (https://github.com/HPMLL/BurstGPT): Timestamp, Request tokens, Response tokens.
# Mooncake (https://github.com/kvcache-ai/Mooncake): JSON lines with timestamp (milliseconds), input_length, output_length,
# hash_ids (`_mooncake`).
ARRIVED = Column("arrived_at", ("timestamp",), "seconds, or dates with times")
PROMPT = Column("num_prefill_tokens", ("contexttokens", "request tokens"), "tokens of the prompt")
OUTPUT = Column("num_decode_tokens", ("generatedtokens", "response tokens"), "tokens of the output")
SESSION = Column("session_id", ("session", "conversation_id"), "the conversation that a request is a turn of")
HASHES = Column("hash_ids", (), "numbers of the prompt's blocks of 512 tokens, apart by spaces; equal ones hold the same")
COLUMNS = (ARRIVED, PROMPT, OUTPUT)
_TEXTS = (SESSION, HASHES)
"""Columns that say what prompts have in common."""
HASHED = 512
"""Tokens of a block of `hash_ids`."""
_REASONS = 5
_MOST_TOKENS = 2**40
_NEEDED = (PROMPT, OUTPUT)
# A zone at the end of a date with a time: all of one file are taken to be of the same one.
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$", re.ASCII)
# NB: NumPy reads more, with a warning or as something else: zones, `today`, years whose nanoseconds no 64 bits hold.
_DATE = re.compile(r"(\d{4})-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?", re.ASCII)
_YEARS = range(1678, 2262)


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
    hashes: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)

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


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of the known columns, by column, with the line of each row, and rows with too few or too many cells."""

    path: Path
    sha256: str
    values: dict[str, Any]
    texts: dict[str, Any]
    lines: list[int]
    broken: dict[int, str]
    notes: tuple[str, ...]
    unit: str = "line"

    def refuse(self, index: int, why: str) -> SpecError:
        """The error for a row."""
        line = self.lines[index]
        if self.unit == "line":
            return SpecError(why, path=self.path, line=line)
        return SpecError(f"row {line}: {why}", path=self.path)


def _read_file(path: Path, skip_bad_rows: bool) -> Trace:
    import numpy as np

    readers = {".parquet": _parquet, ".jsonl": _mooncake}
    cells = readers.get(path.suffix.lower(), _csv)(path)
    if not cells.lines:
        raise SpecError("has a header and no requests beneath it", path=path)
    parsed = None if cells.broken else _parse_all(cells)
    columns, bad = parsed if parsed is not None else _parse_each(cells)
    hashes = _hashes(cells, columns, bad)
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
        hashes = None if hashes is None else [hashes[index] for index in order.tolist()]
        notes.append(f"{late:,} rows arrived before the one above them: sorted by arrival")
    for column in columns.values():
        column.flags.writeable = False
    return Trace(
        name=clean(path.name),
        sha256=cells.sha256,
        path=str(path),
        arrived=columns.get(ARRIVED.name),
        prompts=columns[PROMPT.name],
        outputs=columns[OUTPUT.name],
        skipped=len(bad),
        reasons=tuple(reasons),
        notes=tuple(notes),
        sessions=columns.get(SESSION.name),
        hashes=None if hashes is None else tuple(hashes),
    )


def _hashes(cells: _Cells, columns: dict[str, Array], bad: dict[int, str]) -> list[tuple[int, ...]] | None:
    """The blocks of the valid prompts; adds the conversations of those to `columns`, by number, and broken rows to `bad`."""
    import numpy as np

    rows = [index for index in range(len(cells.lines)) if index not in bad]
    hashes: list[tuple[int, ...]] | None = None
    if (texts := cells.texts.get(HASHES.name)) is not None:
        hashes, valid = [], []
        for place, index in enumerate(rows):
            try:
                hashes.append(_block_ids(texts[index], int(columns[PROMPT.name][place])))
                valid.append(place)
            except ValueError as error:
                bad[index] = str(error)
        if len(valid) < len(rows):
            columns.update({name: column[valid] for name, column in columns.items()})
            rows = [rows[place] for place in valid]
    if (names := cells.texts.get(SESSION.name)) is not None:
        ids: dict[str, int] = {}
        sessions = [ids.setdefault(name, len(ids)) if (name := names[index].strip()) else -1 for index in rows]
        columns[SESSION.name] = np.array(sessions, dtype=np.int64)
    return hashes


def _block_ids(text: str, prompt: int) -> tuple[int, ...]:
    """The blocks of a prompt of `prompt` tokens; a `ValueError` says what is wrong with the cell."""
    try:
        blocks = tuple(map(int, text.strip().strip("[]").replace(",", " ").split()))
    except ValueError:
        blocks = (-1,)
    if min(blocks, default=0) < 0:
        raise ValueError(f"{HASHES.name} must be whole numbers apart by spaces, not {clean(text)[:40]!r}")
    if len(blocks) != (needed := -(-prompt // HASHED)):
        why = f"has {len(blocks)} blocks of {HASHED} tokens; a prompt of {prompt:,} tokens has {needed}"
        raise ValueError(f"{HASHES.name} {why}")
    return blocks


_MOONCAKE = {"timestamp": ARRIVED.name, "input_length": PROMPT.name, "output_length": OUTPUT.name}


def _mooncake(path: Path) -> _Cells:
    """The cells of JSON lines as Mooncake's traces have them; times are milliseconds."""
    raw = read_bytes(path)
    values: dict[str, list[str]] = {name: [] for name in (*_MOONCAKE.values(), HASHES.name)}
    lines: list[int] = []
    broken: dict[int, str] = {}
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        row = dict.fromkeys(values, "")
        try:
            entry = json.loads(line)
            row = {column: str(entry[name]) for name, column in _MOONCAKE.items()}
            row[ARRIVED.name] = str(float(entry["timestamp"]) / 1e3)
            row[HASHES.name] = " ".join(map(str, entry.get("hash_ids", ())))
        except (ValueError, TypeError, KeyError, AttributeError):
            broken[len(lines)] = "must be an object with timestamp (milliseconds), input_length, output_length, hash_ids"
            row = dict.fromkeys(values, "")
        lines.append(number)
        for name, value in row.items():
            values[name].append(value)
    if not any(values[HASHES.name]):
        del values[HASHES.name]
    notes = ("timestamps are milliseconds, as in Mooncake's traces",)
    return _Cells(path, hashlib.sha256(raw).hexdigest(), *_numbers_and_texts(values), lines, broken, notes)


def _csv(path: Path) -> _Cells:
    table = read_table(path)
    header = [name.strip() for name in table.rows[0]]
    indices, notes = _locate(path, header, table.lines[0])
    rows, lines = table.rows[1:], table.lines[1:]
    width = len(header)
    broken = {index: _wrong_width(len(row), width) for index, row in enumerate(rows) if len(row) != width}
    if broken:
        rows = [row if len(row) == width else [""] * width for row in rows]
    columns = list(zip(*rows, strict=True))
    cells = {name: columns[index] if columns else () for name, index in indices.items()}
    return _Cells(path, table.sha256, *_numbers_and_texts(cells), lines, broken, notes)


def _wrong_width(cells: int, width: int) -> str:
    return f"{cells} cells, and the header has {width}" + (" (is the file cut off?)" if cells < width else "")


def _parquet(path: Path) -> _Cells:
    raw = read_bytes(path)
    table = files.read_parquet(io.BytesIO(raw), path)
    indices, notes = _locate(path, list(table.column_names), None)
    cells = {name: ["" if cell is None else str(cell) for cell in table.column(i).to_pylist()] for name, i in indices.items()}
    digest = hashlib.sha256(raw).hexdigest()
    return _Cells(path, digest, *_numbers_and_texts(cells), list(range(1, table.num_rows + 1)), {}, notes, unit="row")


def _numbers_and_texts(cells: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cells of numbers, and of texts, by column."""
    texts = {column.name: cells.pop(column.name) for column in _TEXTS if column.name in cells}
    return cells, texts


def _locate(path: Path, header: list[str], line: int | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """The index of each known column, and notes on those under other names.

    Raises:
        SpecError: a required column is missing or is there twice.
    """
    lower = [name.lower() for name in header]
    indices: dict[str, int] = {}
    notes = []
    for column in (*COLUMNS, *_TEXTS):
        matches = [index for index, name in enumerate(header) if name == column.name] or [
            index for index, name in enumerate(lower) if name == column.name or name in column.aliases
        ]
        if len(matches) > 1:
            names = " and ".join(clean(header[index]) for index in matches)
            raise SpecError(f"{names}: column {column.name} is there more than once", path=path, line=line)
        if matches:
            indices[column.name] = matches[0]
            if header[matches[0]] != column.name:
                notes.append(f"column {clean(header[matches[0]])} is read as {column.name}")
    if missing := [column for column in _NEEDED if column.name not in indices]:
        raise SpecError(_missing(missing, header), path=path, line=line)
    return indices, tuple(notes)


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


def _parse_all(cells: _Cells) -> tuple[dict[str, Array], dict[int, str]] | None:
    """All rows by NumPy; None if one of them is broken, or may be."""
    import numpy as np

    try:
        columns = {name: np.array(cells.values[name], dtype=np.float64) for name in (PROMPT.name, OUTPUT.name)}
        if ARRIVED.name in cells.values:
            columns[ARRIVED.name] = _arrivals(cells.values[ARRIVED.name])
    except ValueError:
        return None
    for name, column in columns.items():
        minimum = 0 if name == ARRIVED.name else 1
        # NB: a NaN fails every comparison
        if not ((column >= minimum) & (column < _MOST_TOKENS)).all():
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
        return np.asarray((times - times.min()).astype(np.int64) / 1e9)


def _moment(text: str) -> str:
    """A date with a time as NumPy parses it; a `ValueError` if it is none."""
    moment = _ZONE.sub("", text.strip().replace(" ", "T", 1))
    match = _DATE.fullmatch(moment)
    if match is None or int(match[1]) not in _YEARS:
        raise ValueError(text)
    return moment


def _parse_each(cells: _Cells) -> tuple[dict[str, Array], dict[int, str]]:
    """The valid rows, and what is wrong with the others."""
    import numpy as np

    valid: dict[str, list[float]] = {name: [] for name in cells.values}
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
            valid[name].append(value)
    if dated and valid[ARRIVED.name]:
        first = min(valid[ARRIVED.name])  # whole nanoseconds, of which a float has not all the digits
        valid[ARRIVED.name] = [(moment - first) / 1e9 for moment in valid[ARRIVED.name]]
    columns = {name: np.array(values, dtype=np.float64 if name == ARRIVED.name else np.int64) for name, values in valid.items()}
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
    columns = [trace.prompts.tolist(), trace.outputs.tolist()]
    names = [PROMPT.name, OUTPUT.name]
    if trace.arrived is not None:
        columns.insert(0, [f"{at:.6f}" for at in trace.arrived.tolist()])
        names.insert(0, ARRIVED.name)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
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
