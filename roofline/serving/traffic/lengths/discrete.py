"""Discrete distributions of lengths: one length, whole numbers of a range, observed lengths, lengths of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, SpecError, UnitError, UnknownNameError
from roofline.serving.traffic.lengths.base import DistributionFamily, Lengths
from roofline.serving.traffic.tables import Table, read_table
from roofline.specs.library import Input
from roofline.text import clean
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Uniform(Lengths):
    """Whole lengths from `low` to `high`, both included: mean (low + high)/2, variance ((high - low + 1)^2 - 1)/12."""

    low: int
    high: int

    @property
    def _count(self) -> int:
        return self.high - self.low + 1

    @property
    def mean(self) -> float:
        """Midpoint, in tokens."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        """Variance of the discrete uniform distribution, in tokens squared."""
        return (self._count**2 - 1) / 12

    @property
    def minimum(self) -> int:
        """LO, in tokens."""
        return self.low

    @property
    def maximum(self) -> int:
        """HI, in tokens."""
        return self.high

    def below(self, fraction: float) -> float:
        """The integral of the quantile function, a staircase, in tokens: whole steps, and a part of the next one."""
        whole = min(int(fraction * self._count), self._count - 1)
        steps = whole * self.low + whole * (whole - 1) / 2
        return (steps + (fraction * self._count - whole) * (self.low + whole)) / self._count

    def quantile(self, fraction: float) -> int:
        """The length that the fraction does not exceed, in tokens."""
        return self.low + min(int(fraction * self._count), self._count - 1)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draw `size` lengths in tokens: int64, shape (size,)."""
        return rng.integers(self.low, self.high, size, endpoint=True)


@dataclass(frozen=True, slots=True)
class Observed(Lengths):
    """Observed lengths, each equally likely. The variance is that of the observations (divided by their number).

    Args:
        source: the file.
        ordered: the lengths, shortest first: int64, shape (observations,).
    """

    source: Input
    ordered: NDArray[np.int64] = field(compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The file."""
        return (self.source,)

    @property
    def mean(self) -> float:
        """Mean, in tokens."""
        return float(self.ordered.mean())

    @property
    def variance(self) -> float:
        """Variance, in tokens squared."""
        return float(self.ordered.var())

    @property
    def minimum(self) -> int:
        """Shortest observation, in tokens."""
        return int(self.ordered[0])

    @property
    def maximum(self) -> int:
        """Longest observation, in tokens."""
        return int(self.ordered[-1])

    def below(self, fraction: float) -> float:
        """The sum of the shortest observations, and a part of the next, over the number of observations, in tokens."""
        count = len(self.ordered)
        whole = min(int(fraction * count), count - 1)
        return float(self.ordered[:whole].sum() + (fraction * count - whole) * self.ordered[whole]) / count

    def quantile(self, fraction: float) -> int:
        """The observation that the fraction does not exceed, in tokens."""
        return int(self.ordered[min(int(fraction * len(self.ordered)), len(self.ordered) - 1)])

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draw `size` observations with replacement, in tokens: int64, shape (size,)."""
        return self.ordered[rng.integers(0, len(self.ordered), size)]


def _read_fixed(arguments: str, folder: Path | None) -> Uniform:
    """A number: the uniform distribution from it to itself."""
    del folder
    length = parse_count(arguments, "a length", minimum=1)
    return Uniform(str(length), length, length)


def _read_uniform(arguments: str, folder: Path | None) -> Uniform:
    """LO:HI."""
    del folder
    parts = UNIFORM.split(arguments, 2, "two lengths")
    low, high = (parse_count(part, name, minimum=1) for part, name in zip(parts, ("LO", "HI"), strict=True))
    if low > high:
        raise InputError(f"LO is {low:,} and HI is {high:,}: the lower one comes first, such as {UNIFORM.example}")
    return Uniform(f"uniform:{low}:{high}", low, high)


def _read_file(arguments: str, folder: Path | None) -> Observed:
    """PATH[:COLUMN]."""
    import numpy as np

    if not arguments.strip():
        raise InputError(f"file: names no file; write {FILE.syntax}, such as {FILE.example}")
    path, column = _path_and_column(arguments.strip(), folder)
    table = read_table(path, "a file of lengths")
    index, first = _locate_column(table, column)
    values = [_cell_length(table, row, index) for row in range(first, len(table.rows))]
    if not values:
        raise SpecError("has a header and no lengths beneath it", path=path)
    ordered = np.sort(np.array(values, dtype=np.int64))
    ordered.flags.writeable = False
    return Observed(f"file:{clean(arguments.strip())}", Input("lengths", path.name, str(path), table.sha256), ordered)


def _path_and_column(text: str, folder: Path | None) -> tuple[Path, str | None]:
    """The file, and the column after the last colon if the whole text is no file."""
    home = folder or Path()
    path, colon, column = text.rpartition(":")
    drive = len(path) == 1 and column[:1] in ("/", "\\")  # of Windows
    if colon and path and not drive and not files.exists(home / text):
        return home / path, column.strip()
    return home / text, None


def _locate_column(table: Table, name: str | None) -> tuple[int, int]:
    """The index of the cell that holds the length, and of the first row that has one."""
    header = [cell.strip() for cell in table.rows[0]]
    numbers = all(_is_number(cell) for cell in header)
    if name is not None:
        if numbers:
            raise SpecError(f"has no header, so no column {name!r}", path=table.path, line=table.lines[0])
        if name not in header:
            unknown = UnknownNameError("column", name, [cell for cell in header if cell], list_all=True)
            raise SpecError(str(unknown), path=table.path, line=table.lines[0])
        return header.index(name), 1
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


def _cell_length(table: Table, row: int, index: int) -> int:
    cells = table.rows[row]
    try:
        if index < len(cells) and cells[index].isdecimal() and (value := int(cells[index])) and value < 2**53:
            return value
        return parse_count(cells[index].strip() if index < len(cells) else "", "a length", minimum=1)
    except UnitError as error:
        raise SpecError(str(error), path=table.path, line=table.lines[row]) from None


FIXED = DistributionFamily("", "1024", "1024", "the same length each time", _read_fixed)
UNIFORM = DistributionFamily(
    "uniform",
    "uniform:LO:HI",
    "uniform:128:2k",
    "every whole length from LO to HI, both included, equally likely",
    _read_uniform,
)
FILE = DistributionFamily(
    "file",
    "file:PATH[:COLUMN]",
    "file:lengths.txt",
    "each line of a file equally likely: one whole number per line, or a column of a CSV file with a header",
    _read_file,
)
