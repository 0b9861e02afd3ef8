"""CSV tables: cells of text with their line numbers."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

from roofline import files
from roofline.errors import SpecError

_MAX_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as text, with the line that each ends on; the first row may be a header. Empty lines are left out."""

    path: Path
    rows: list[list[str]]
    lines: list[int]
    sha256: str


def read_bytes(path: Path, what: str = "a trace") -> bytes:
    """The bytes of a file.

    Args:
        path: the file.
        what: what the file is, for messages.

    Raises:
        SpecError: no such file, a folder, more than 1 GiB, empty.
    """
    raw = files.read_bytes(path, _MAX_BYTES, what)
    if not raw.strip():
        raise SpecError("the file is empty", path=path)
    return raw


def read_table(path: Path, what: str = "a trace") -> Table:
    """The cells of a CSV file (comma, UTF-8), as text.

    Args:
        path: the file.
        what: what the file is, for messages.

    Raises:
        SpecError: no such file, not a text file, empty, no CSV.
    """
    raw = read_bytes(path, what)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(f"is not a text file (UTF-8){_hint(raw)}", path=path) from None
    if "\0" in text:
        raise SpecError(f"is not a text file: it holds null characters{_hint(raw)}", path=path)
    rows, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise SpecError(f"is no CSV: {error}", path=path, line=reader.line_num) from None
    return Table(path, rows, lines, hashlib.sha256(raw).hexdigest())


def _hint(raw: bytes) -> str:
    for start, what in ((b"\x1f\x8b", "gzip"), (b"PK", "zip"), (b"\x28\xb5\x2f\xfd", "zstd")):
        if raw.startswith(start):
            return f": it is compressed ({what}); unpack it first"
    return ": it is Parquet; call it .parquet" if raw.startswith(b"PAR1") else ""
