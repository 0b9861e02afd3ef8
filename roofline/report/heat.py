"""The cells of a heat: how dark each is, and what its legend says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.report.figure import Series
from roofline.report.spans import drawable

STEPS = 9
"""Shades of a heat, as many as its tables of colours hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The range of a heat's values; wide ranges are shaded by their logarithm."""

    low: float
    high: float
    log: bool

    def shade(self, value: float | None) -> int | None:
        """The shade of a value, 0 to 8; None for no value.

        >>> [Ramp(low=1, high=1000, log=True).shade(value) for value in (1, 30, 1000, None)]
        [0, 4, 8, None]
        """
        if value is None or not drawable(value):
            return None
        if self.low == self.high:
            return STEPS // 2
        part = (value - self.low) / (self.high - self.low)
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        return min(max(math.floor(part * STEPS), 0), STEPS - 1)

    def edge(self, shade: int) -> float:
        """Where a shade begins, as a share of the range of values; shade 9 would begin at 1."""
        if not self.log:
            return shade / STEPS
        grown: float = (self.high / self.low) ** (shade / STEPS)
        return (grown - 1) / (self.high / self.low - 1)


def ramp(series: Series) -> Ramp:
    """The range of the values that are shown in colour: hatched cells have none."""
    values = [value for value, _ in _coloured(series)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return Ramp(low=low, high=high, log=low > 0 and high >= 8 * low)


def is_hatched(series: Series, row: int, column: int) -> bool:
    """Whether a cell is hatched; series without hatches have none."""
    return len(series.hatched) > 0 and series.hatched[row][column]


def cell_text(series: Series, row: int, column: int) -> str:
    """What stands in a cell, lines apart by line feeds."""
    return series.texts[row][column] if len(series.texts) > 0 else ""


def steps(series: Series) -> list[tuple[int, str]]:
    """Shades with the text of a cell that has each: of the lowest, the middle and the highest value, for a legend."""
    cells = sorted(_coloured(series), key=lambda cell: cell[0])
    scale = ramp(series)
    found: list[tuple[int, str]] = []
    for index in (0, len(cells) // 2, len(cells) - 1):
        if 0 <= index < len(cells):
            value, text = cells[index]
            shade = scale.shade(value)
            if shade is not None and shade not in [seen for seen, _ in found]:
                found.append((shade, text.split("\n")[0]))
    return found


def _coloured(series: Series) -> list[tuple[float, str]]:
    """Value and text of every cell that has a colour."""
    return [
        (value, cell_text(series, row, column))
        for row, values in enumerate(series.z)
        for column, value in enumerate(values)
        if value is not None and drawable(value) and not is_hatched(series, row, column)
    ]
