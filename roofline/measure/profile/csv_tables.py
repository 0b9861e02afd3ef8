"""CSV tables as NVIDIA's profilers print them: after other lines, with numbers like "1,205.50" and units in words."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from roofline import files
from roofline.errors import SpecError
from roofline.measure.profile.kineto import MAX_BYTES

_LONGEST = 2**20
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:\.\d{3})*,\d+")
_PREFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_UNITS = ("second", "seconds", "sec", "s", "byte", "bytes", "B", "hz", "Hz", "cycle", "inst", "sector", "op", "ops")


@dataclass(slots=True)
class CsvTable:
    """A table within a text: its header, and its rows as they are read.

    Attributes:
        path: the file.
        header: names of the columns.
        line: of the header.
        errors: lines before the header in which the profiler reports an error.
        notes: after all rows are read, what was left out.
    """

    path: Path
    header: list[str]
    line: int
    errors: list[str]
    _lines: _Lines
    notes: list[str] = field(default_factory=list)

    def index(self, *names: str) -> int | None:
        """The position of the first of these columns that the table has; None if it has none."""
        return next((self.header.index(name) for name in names if name in self.header), None)

    def rows(self, is_row: Callable[[list[str]], bool], *, to_empty_line: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Rows with their lines. Others, such as what the profiled program prints, are left out, and `notes` has them.

        Args:
            is_row: whether cells are a whole row.
            to_empty_line: whether an empty line ends the table, as between the reports of `nsys stats`.
        """
        # strict: an open quotation mark at the end of the file is an error, by which a truncated file is known
        reader = csv.reader(self._lines, strict=True)
        bad: list[int] = []
        has_rows, last_is_bad = False, False
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error:
                bad.append(self.line + reader.line_num)
                last_is_bad = True
                continue
            if not any(cells):
                if to_empty_line and has_rows and not cells:
                    break
                continue
            if is_row(cells):
                has_rows, last_is_bad = True, False
                yield self.line + reader.line_num, cells
            elif not cells[0].startswith("=="):  # lines of ncu itself
                bad.append(self.line + reader.line_num)
                last_is_bad = True
        if bad and last_is_bad and not self._lines.ended:
            self.notes.append(f"line {bad.pop()} is cut off: the file is truncated, and what is before that line was read")
        if bad:
            what = "1 line inside the table is no row" if len(bad) == 1 else f"{len(bad):,} lines inside the table are no rows"
            self.notes.append(f"{what} of it and {'is' if len(bad) == 1 else 'are'} left out, the first at line {bad[0]}")


class _Lines:
    """Lines of which none can fill memory; `ended` says whether the last one has an end."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.ended = True

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(_LONGEST)
        if not line:
            raise StopIteration
        self.ended = line.endswith(("\n", "\r"))
        return line


@contextmanager
def open_table(path: Path, is_header: Callable[[list[str]], bool]) -> Iterator[CsvTable]:
    """Open a file and read up to the header of a table. Without one, the table has no columns.

    Args:
        path: of text in UTF-8, or in UTF-16 with its mark, as PowerShell writes it.
        is_header: whether cells are the header.

    Raises:
        SpecError: no such file, a folder, larger than 64 GiB, cannot be read, empty.
    """
    with files.open_input(path, MAX_BYTES, "a profiler trace") as file:
        start = file.peek(2)[:2]
        if not start:
            raise SpecError("the file is empty", path=path)
        encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
        try:
            lines, errors = _Lines(text), list[str]()
            for number, line in enumerate(lines, 1):
                if "," in line and is_header(cells := _cells(line)):
                    yield CsvTable(path, cells, number, errors, lines)
                    return
                if line.startswith("==ERROR=="):
                    errors.append(line.removeprefix("==ERROR==").strip())
            yield CsvTable(path, [], 0, errors, lines)
        finally:
            text.detach()  # the file is closed by the one who opened it


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.strip()], strict=True), [])]
    except csv.Error:
        return []


def number(cell: str) -> float | None:
    """The number in a cell, None if it has none ("n/a", "").

    Raises:
        ValueError: a decimal comma.

    >>> number("1,205.50"), number("4.2e-05"), number("n/a")
    (1205.5, 4.2e-05, None)
    """
    cell = cell.strip()
    if _NUMBER.fullmatch(cell):
        value = float(cell.replace(",", ""))
        return value if math.isfinite(value) else None
    if _DECIMAL_COMMA.fullmatch(cell):
        raise ValueError(f"{cell!r} has a decimal comma: export it again with LC_ALL=C")
    return None


def whole(cell: str, limit: int) -> int:
    """The number of a stream or device in a cell, 0 where there is none below the limit."""
    cell = cell.strip()
    return value if cell.isdecimal() and len(cell) < 20 and (value := int(cell)) < limit else 0


def scale(unit: str) -> float | None:
    """The factor from a unit to seconds, bytes, or whatever it counts; None for an unknown unit.

    >>> scale("usecond"), scale("Mbyte"), scale("Gbyte/second"), scale("byte/ns"), scale("")
    (1e-06, 1000000.0, 1000000000.0, 1000000000.0, 1.0)
    """
    above, slash, below = unit.strip().partition("/")
    factor = _scale(above)
    if factor is None or not slash:
        return factor
    return None if (per := _scale(below)) is None else factor / per


def _scale(unit: str) -> float | None:
    if not unit or unit == "%":
        return 1.0
    endings = (unit[: -len(name)] for name in _UNITS if unit.endswith(name))
    return next((_PREFIXES[prefix] for prefix in endings if prefix in _PREFIXES), None)
