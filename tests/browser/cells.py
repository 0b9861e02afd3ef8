"""Cells of the tables of a page."""

from __future__ import annotations


def cell(table: str, row: int, column: int) -> str:
    """The selector of a cell in the body of a table, by the key of the table; rows and columns count from 0."""
    return f"#table-{table} tbody tr:nth-child({row + 1}) > :nth-child({column + 1})"


CELLS = """() => {
  const all = (place, selector) => [...place.querySelectorAll(selector)];
  const content = ({ textContent, dataset: { value } }) => [textContent, value === undefined ? null : Number(value)];
  const tiles = all(document, ".tile .value").map((tile) => [tile.dataset.cell, ...content(tile)]);
  const ofRow = (row, name) => [...row.children].map((cell, column) => [`${name}/${column}`, ...content(cell)]);
  const tables = all(document, ".table").flatMap((table) =>
    all(table, "tbody tr").flatMap((row, index) => ofRow(row, `${table.id.slice("table-".length)}/${index}`)));
  return [...tiles, ...tables];
}"""
"""A function in JavaScript: the name, the text and the number (or null) of every tile and of every cell of a table."""
