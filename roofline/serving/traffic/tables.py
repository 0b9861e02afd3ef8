"""CSV tables: cells of text with their line numbers. A large file is read in batches and never held whole."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from roofline import files
from roofline.errors import SpecError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

MAX_BYTES = 2**30
BATCH_ROWS = 2**16


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as text, with the line that each ends on; the first row may be a header. Empty lines are left out."""

    path: Path
    rows: list[list[str]]
    lines: list[int]
    sha256: str


class _Hashing(io.RawIOBase):
    """A file that is read once from its start, and the hash of what has been read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        self._hash.update(data)
        return len(data)

    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def hashing(path: Path, what: str = "a trace") -> Iterator[tuple[io.BufferedReader, Callable[[], str]]]:
    """Open a file of at most 1 GiB: its content, and a function that returns the hash of what has been read of it.

    Raises:
        SpecError: no such file, a folder; more than 1 GiB, when that has been read.
    """
    with files.open_again(path, MAX_BYTES, what) as file:
        raw = _Hashing(file)
        yield io.BufferedReader(raw, 2**20), raw.sha256


def read_bytes(path: Path, what: str = "a trace") -> bytes:
    """The bytes of a file.

    Args:
        path: the file.
        what: what the file is, for messages.

    Raises:
        SpecError: no such file, a folder, more than 1 GiB, empty.
    """
    raw = files.read_bytes(path, MAX_BYTES, what)
    if not raw.strip():
        raise SpecError("the file is empty", path=path)
    return raw


def read_batches(path: Path, what: str = "a trace") -> Iterator[Table]:
    """The cells of a CSV file (comma, UTF-8), as text: `BATCH_ROWS` rows at a time, the hash of what has been read so far.

    The first row that is not blank begins the first batch. The last batch may be empty, and has the hash of the whole file.

    Args:
        path: the file.
        what: what the file is, for messages.

    Raises:
        SpecError: no such file, not a text file, empty, no CSV, more than 1 GiB.
    """
    rows: list[list[str]] = []
    lines: list[int] = []
    blank = True
    with hashing(path, what) as (file, sha256):
        start = file.peek(4)[:4]
        reader = csv.reader(_without_null(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), path, start))
        try:
            for row in reader:
                if blank and not "".join(row).strip():
                    continue
                blank = False
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
                    if len(rows) == BATCH_ROWS:
                        yield Table(path, rows, lines, sha256())
                        rows, lines = [], []
        except csv.Error as error:
            raise SpecError(f"is no CSV: {error}", path=path, line=reader.line_num) from None
        except UnicodeDecodeError:
            raise SpecError(f"is not a text file (UTF-8){_hint(start)}", path=path) from None
        if blank:
            raise SpecError("the file is empty", path=path)
        yield Table(path, rows, lines, sha256())


def _without_null(text: io.TextIOWrapper, path: Path, start: bytes) -> Iterator[str]:
    for line in text:
        if "\0" in line:
            raise SpecError(f"is not a text file: it holds null characters{_hint(start)}", path=path)
        yield line


def batched(rows: Iterable[T]) -> Iterator[list[T]]:
    """`BATCH_ROWS` rows at a time."""
    left = iter(rows)
    while batch := list(islice(left, BATCH_ROWS)):
        yield batch


def read_table(path: Path, what: str = "a trace") -> Table:
    """The cells of a CSV file, whole; arguments and errors as of `read_batches`."""
    batches = list(read_batches(path, what))
    return Table(
        path,
        list(chain.from_iterable(batch.rows for batch in batches)),
        list(chain.from_iterable(batch.lines for batch in batches)),
        batches[-1].sha256,
    )


def _hint(raw: bytes) -> str:
    for start, what in ((b"\x1f\x8b", "gzip"), (b"PK", "zip"), (b"\x28\xb5\x2f\xfd", "zstd")):
        if raw.startswith(start):
            return f": it is compressed ({what}); unpack it first"
    return ": it is Parquet; call it .parquet" if raw.startswith(b"PAR1") else ""
