"""Cells and tables of a page: a text to read and the number behind it; their CSV, and keys of points."""

from __future__ import annotations

from collections.abc import Sequence

from roofline import formatting
from roofline.formatting import percent
from roofline.predict.duration import Duration
from roofline.report.figure import Cell, Column, Table, View
from roofline.report.summary import gib
from roofline.text import Table as TextTable

NOTHING = Cell(text="–")


def text_cell(text: str) -> Cell:
    """A cell that is text alone, without a number."""
    return Cell(text=text)


def seconds(value: float | None, digits: int = 3) -> Cell:
    """A time in seconds as a cell, such as "12.3 ms", with `digits` significant digits; a dash for None."""
    return NOTHING if value is None else Cell(text=formatting.seconds(value, digits), value=value)


def about_time(value: float | None) -> Cell:
    """An estimated time in seconds as a cell, with the two or three digits that an estimate deserves; a dash for None."""
    return NOTHING if value is None else Cell(text=formatting.about(value), value=value)


def about_count(value: float | None) -> Cell:
    """An estimated number without a unit as a cell, with two or three digits; a dash for None."""
    return NOTHING if value is None else Cell(text=formatting.about_number(value), value=value)


def amount(value: float | None, unit: str, digits: int = 3) -> Cell:
    """A quantity in base units of `unit` as a cell, with an SI prefix and `digits` significant digits; a dash for None."""
    return NOTHING if value is None else Cell(text=formatting.quantity(value, unit, digits).strip(), value=value)


def whole(value: float | None) -> Cell:
    """A number as a cell, rounded to a whole one with thousands separators; a dash for None."""
    return NOTHING if value is None else Cell(text=f"{value:,.0f}", value=value)


def number_cell(value: float | None) -> Cell:
    """A number as a cell, in three significant digits and without an exponent; a dash for None."""
    return NOTHING if value is None else Cell(text=formatting.number(value, 3), value=value)


def share(value: float | None, sign: bool = False) -> Cell:
    """A fraction as a cell in percent, with one decimal and, if `sign`, with its sign; a dash for None."""
    return NOTHING if value is None else Cell(text=percent(value, 1, sign=sign), value=value)


def gibibytes(value: float | None) -> Cell:
    """A size as a cell whose text is the number of GiB, and whose value is still in bytes; a dash for None."""
    return NOTHING if value is None else Cell(text=gib(value), value=value)


def best(span: Duration) -> float | None:
    """The estimate of a duration where there is one, else its bound, in seconds; None if it has neither."""
    return span.bound if span.estimate is None else span.estimate


def table(key: str, title: str, note: str, names: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Table:
    """A table under the heads `names`; a column counts as numeric if any of its cells has a value."""
    columns = tuple(
        Column(name=name, number=any(row[index].value is not None for row in rows)) for index, name in enumerate(names)
    )
    return Table(key=key, title=title, note=note, columns=columns, rows=tuple(rows))


def text_table(key: str, listed: TextTable) -> Table:
    """A text table as one of cells, with its columns aligned as they are there."""
    columns = tuple(Column(name=name, number=right) for name, right in zip(listed.columns, listed.right, strict=True))
    rows = tuple(tuple(map(text_cell, row)) for row in listed.rows)
    return Table(key=key, title=listed.title, note=listed.note, columns=columns, rows=rows)


# CSV of all tables of a page

_COMMANDS = "=+-@"
"""With which a cell begins that spreadsheets would run."""


def csv_text(view: View) -> str:
    """All tables of a view as CSV: a row per cell with table, row, column, unrounded value (base units), and text."""
    tables: list[Table] = []
    for section in view.sections:
        if section.figure is not None and section.figure.table is not None:
            tables.append(section.figure.table)
        tables += section.tables
    lines = ["table,row,column,value,text"]
    lines += [
        ",".join(["tiles", "0", _quoted(tile.label), _number(tile.cell.value), _quoted(tile.cell.text)]) for tile in view.tiles
    ]
    for table in [*tables, view.assumptions]:
        for index, row in enumerate(table.rows):
            for column, cell in zip(table.columns, row, strict=True):
                parts = [_quoted(table.key), f"{index}", _quoted(column.name), _number(cell.value), _quoted(cell.text)]
                lines.append(",".join(parts))
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    """All digits of a value."""
    return "" if value is None else f"{value:.17g}"


def _quoted(text: str) -> str:
    """Text as a cell; what a spreadsheet would take for a formula begins with an apostrophe."""
    safe = f"'{text}" if text and text[0] in _COMMANDS else text
    if any(mark in safe for mark in (",", '"', "\n", "\r")):
        return '"' + safe.replace('"', '""') + '"'
    return safe


# Ids of what a click on a point opens

_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def op_key(phase: str, path: str) -> str:
    """The key of an operator of a phase: letters, digits and dashes; different operators have different keys.

    >>> op_key("decode", "layers/attention/q_proj"), op_key("decode", "layers/attention/q-proj")
    ('decode--layers--attention--q-5f-proj', 'decode--layers--attention--q-2d-proj')
    """
    return "".join([_spelled(letter) for letter in f"{phase}/{path}"])


def _spelled(letter: str) -> str:
    """A letter as it is, a slash as two dashes, anything else as its code between dashes: read from the left, no two clash."""
    return letter if letter in _PLAIN else "--" if letter == "/" else f"-{ord(letter):x}-"
