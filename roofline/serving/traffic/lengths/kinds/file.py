"""Lengths from a file."""

from __future__ import annotations

from pathlib import Path

from roofline import files
from roofline.errors import InputError, SpecError, UnitError, UnknownNameError
from roofline.serving.traffic.lengths.base import Kind
from roofline.serving.traffic.lengths.observed import Observed
from roofline.serving.traffic.tables import Table, read_table
from roofline.specs.library import Input
from roofline.text import clean
from roofline.units import parse_count


def _place(text: str, beside: Path | None) -> tuple[Path, str | None]:
    """The file, and the column after the last colon where the whole is no file."""
    folder = beside or Path()
    path, colon, column = text.rpartition(":")
    if colon and path and not files.exists(folder / text):
        return folder / path, column.strip()
    return folder / text, None


def _column(table: Table, wanted: str | None) -> tuple[int, int]:
    """Which cell of a row is the length, and the first row that holds one."""
    header = [name.strip() for name in table.rows[0]]
    numbers = all(_is_number(name) for name in header)
    if wanted is not None:
        if numbers:
            raise SpecError(f"has no header, so no column {wanted!r}", path=table.path, line=table.lines[0])
        if wanted not in header:
            unknown = UnknownNameError("column", wanted, [name for name in header if name], list_all=True)
            raise SpecError(str(unknown), path=table.path, line=table.lines[0])
        return header.index(wanted), 1
    if len(header) > 1:
        names = "" if numbers else f": {clean(', '.join(header))}. Name one: file:{table.path}:{header[0]}"
        raise SpecError(f"has {len(header)} columns{names}", path=table.path, line=table.lines[0])
    # NB: a first line such as 12x is a mistake in a list of numbers rather than a header
    return 0, int(not numbers and not header[0][:1].isdigit() and not header[0].startswith(("-", "+", ".")))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _length(table: Table, row: int, index: int) -> int:
    cells = table.rows[row]
    try:
        if index < len(cells) and cells[index].isdecimal() and (value := int(cells[index])) and value < 2**53:
            return value
        return parse_count(cells[index].strip() if index < len(cells) else "", "a length", minimum=1)
    except UnitError as error:
        raise SpecError(str(error), path=table.path, line=table.lines[row]) from None


def _read(arguments: str, beside: Path | None) -> Observed:
    """The distribution from PATH[:COLUMN]."""
    import numpy as np

    if not arguments.strip():
        raise InputError(f"file: names no file; write {KIND.form}, such as {KIND.example}")
    path, column = _place(arguments.strip(), beside)
    table = read_table(path, "a file of lengths")
    index, first = _column(table, column)
    values = [_length(table, row, index) for row in range(first, len(table.rows))]
    if not values:
        raise SpecError("has a header and no lengths beneath it", path=path)
    ordered = np.sort(np.array(values, dtype=np.int64))
    ordered.flags.writeable = False
    return Observed(f"file:{clean(arguments.strip())}", Input("lengths", path.name, str(path), table.sha256), ordered)


KIND = Kind(
    "file",
    "file:PATH[:COLUMN]",
    "file:lengths.txt",
    "each line of a file equally likely: one whole number a line, or a column of a CSV file with a header",
    _read,
)
