"""All tables of a page as one CSV."""

from __future__ import annotations

from roofline.report.figure import Table, View

_COMMANDS = "=+-@"
"""With which a cell begins that spreadsheets would run."""


def csv_text(view: View) -> str:
    """A row a cell: table, row, column, the unrounded value, the text."""
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
