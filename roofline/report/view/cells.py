"""Numbers as cells: a text to read and the number behind it."""

from __future__ import annotations

from collections.abc import Sequence

from roofline import formatting
from roofline.formatting import percent
from roofline.predict.result import Duration
from roofline.report.figure import Cell, Column, Table
from roofline.report.summary import GIB

NOTHING = Cell(text="–")


def words(text: str) -> Cell:
    """A cell of words."""
    return Cell(text=text)


def seconds(value: float | None, digits: int = 3) -> Cell:
    """A time."""
    return NOTHING if value is None else Cell(text=formatting.seconds(value, digits), value=value)


def amount(value: float | None, unit: str, digits: int = 3) -> Cell:
    """A quantity with a decimal prefix."""
    return NOTHING if value is None else Cell(text=formatting.quantity(value, unit, digits).strip(), value=value)


def whole(value: float | None) -> Cell:
    """A whole number."""
    return NOTHING if value is None else Cell(text=f"{value:,.0f}", value=value)


def figure(value: float | None) -> Cell:
    """A number in three digits, without an exponent."""
    if value is None:
        return NOTHING
    return Cell(text=formatting.number(value, 3), value=value)


def share(value: float | None, sign: bool = False) -> Cell:
    """A fraction, in percent."""
    if value is None:
        return NOTHING
    return Cell(text=percent(value, 1, sign=sign), value=value)


def gibibytes(value: float | None) -> Cell:
    """Bytes, in GiB."""
    if value is None:
        return NOTHING
    size = value / GIB
    return Cell(text=f"{size:.2g}" if 0 < abs(size) < 0.01 else f"{size:,.2f}", value=value)


def best(span: Duration) -> float | None:
    """The estimate where there is one, else the bound."""
    return span.bound if span.estimate is None else span.estimate


def table(key: str, title: str, note: str, names: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Table:
    """A table whose columns are numbers where any of their cells is one."""
    columns = tuple(
        Column(name=name, number=any(row[index].value is not None for row in rows)) for index, name in enumerate(names)
    )
    return Table(key=key, title=title, note=note, columns=columns, rows=tuple(rows))
