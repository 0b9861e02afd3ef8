"""Read records from files and folders. A bad row is refused, by file and line, and the good ones are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, MissingExtraError, UnknownNameError
from roofline.measure.records.check import LINE, Checker, Refusal, merged
from roofline.measure.records.columns import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")
_MOST_BYTES, _LONGEST = 2**30, 2**20
_NEEDED = ("op", "dtype", "latency_us")


@dataclass(slots=True)
class Records:
    """Rows that can be used, with the columns of `COLUMNS` and `file`, `line`; what was refused, passed by, and why."""

    frame: pd.DataFrame
    refusals: list[Refusal] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    ignored_columns: list[str] = field(default_factory=list)
    passed_by: list[str] = field(default_factory=list)
    """Files in a folder that hold no records."""

    @property
    def refused(self) -> int:
        """Rows that were refused."""
        return sum(refusal.rows for refusal in self.refusals)


def read(paths: Iterable[str | Path]) -> Records:
    """The records of files (.csv, .parquet) and of all such files in folders, in which other tables may lie too."""
    import pandas as pd

    frames: list[pd.DataFrame] = []
    found = Records(pd.DataFrame())
    for path, named in _files(paths).items():
        try:
            raw, refusals, others = _raw(path)
        except InputError as error:
            if named:
                raise
            files.release(path)  # such as an earlier answer in the folder of records, which may be written again
            found.passed_by.append(str(error))
            continue
        found.files.append(path)
        found.ignored_columns += others
        checker = Checker(path, raw)
        frames.append(checker.good())
        found.refusals += sorted([*refusals, *checker.refusals], key=lambda refusal: refusal.line)
    if not found.files:
        raise InputError("\n  ".join(["no table of records is left to read", *found.passed_by]))
    found.frame = pd.concat(frames, ignore_index=True)
    found.ignored_columns = sorted(set(found.ignored_columns))
    return found


def _files(paths: Iterable[str | Path]) -> dict[Path, bool]:
    """Files, and whether each was named itself."""
    found: dict[Path, bool] = {}
    for given in paths:
        path = Path(given).expanduser()
        if files.is_folder(path):
            inside = [file for suffix in SUFFIXES for file in sorted(path.rglob(f"*{suffix}")) if not file.name.startswith(".")]
            if not inside:
                msg = f"{path}: no records in this folder: nothing in it ends in {' or '.join(SUFFIXES)}"
                raise InputError(msg)
            found |= {file: False for file in inside if file not in found}
        elif not files.exists(path):
            msg = f"{path}: no such file or folder"
            raise InputError(msg)
        elif path.suffix.lower() not in SUFFIXES:
            msg = f"{path}: records are read from {' and '.join(SUFFIXES)} files"
            raise InputError(msg)
        else:
            found[path] = True
    return found


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
    import pandas as pd

    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("reading Parquet", "parquet") from None
    try:
        table = pd.read_parquet(file)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path}: is no Parquet file, or a truncated one ({str(error).splitlines()[0]:.120})") from None
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
