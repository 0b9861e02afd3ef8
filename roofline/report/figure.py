"""What a page shows, as plain data: cells, tables, figures and sections, independent of how they are drawn.

One function makes all of it from a state; Python writes it as HTML and SVG, the browser makes it again from the translation of
the same function. Values are in base units (seconds, bytes, FLOP); ticks and texts get their prefixes when they are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A text to show and the unrounded number behind it, in base units; None for text alone."""

    text: str
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The head of a column; columns of numbers are aligned right."""

    name: str
    number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells under columns: each row has as many cells as there are columns. `key` is unique on a page."""

    key: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a figure. Without `low` and `high`, in base units of `unit`, its range is that of the data.

    With a `unit` that takes SI prefixes ("s", "B", "FLOP/s") each tick shows prefix and unit; "%" shows fractions in percent;
    any other unit ("FLOP/byte", "tokens", "GiB") is shown once, after the title. Categories are in the order in which the
    series name them, from left to right and from top to bottom.
    """

    title: str
    scale: Literal["linear", "log", "category"]
    low: float | None = None
    high: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, set of points, set of bars, band or heat map of a figure; values are in base units of the axes.

    `role` says what it is ("prefill", "roof", "kv") and decides colour, dash, symbol and hatch together. Bars need one axis of
    categories, a heat map needs two.
    """

    name: str
    kind: Literal["line", "points", "bars", "band", "heat"]
    role: str
    x: tuple[float | str, ...]
    y: tuple[float | str | None, ...]
    base: tuple[float, ...] = ()
    """Bars: where each starts, 0 if empty. With categories on y bars lie, and x is their length."""
    size: tuple[float, ...] = ()
    """Points: area as a share of the largest, 0 to 1."""
    labels: tuple[str, ...] = ()
    """A text per point, shown under the pointer."""
    short: tuple[str, ...] = ()
    """A few characters per point, drawn next to it or in its bar where they fit; at points with line feeds between lines."""
    along: tuple[str, ...] = ()
    """Lines: a text per stroke, written along it; "" for none."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Bands: the edges, in units of y."""
    x_high: tuple[float, ...] = ()
    """Bands: x of the points of the upper edge, where it is another than that of the lower one."""
    z: tuple[tuple[float | None, ...], ...] = ()
    texts: tuple[tuple[str, ...], ...] = ()
    hatched: tuple[tuple[bool, ...], ...] = ()
    """Heat: value, text and hatch of each cell, rows by y, columns by x."""
    hatched_name: str = ""
    """Heat: what a hatched cell means, for the legend."""
    shades: tuple[tuple[float, str], ...] = ()
    """Heat: values and texts of the legend, rising; from the first to the last go the shades. Empty: those of its cells."""
    keys: tuple[str, ...] = ()
    """A key per point, for what a click on it opens."""
    variant: int | None = None
    """Which of several things of one role this is, such as a second hardware; None counts the series of a kind and role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across the figure, in units of its axis: vertical at x, horizontal at y; without a label if the text is ""."""

    text: str
    x: float | None = None
    y: float | None = None
    role: str = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A shaded rectangle of a figure, in units of its axes. A side that is None reaches to the edge."""

    text: str
    role: str
    x0: float | None = None
    x1: float | None = None
    y0: float | None = None
    y1: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle of a schematic, in units of its axes. Its text has a line per line feed, inside it or to the right of it."""

    text: str
    role: str
    x0: float
    x1: float
    y0: float
    y1: float
    strong: bool = False
    beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a plot draws, and the table with the same numbers that is shown with it. `key` is unique on a page.

    A schematic has blocks alone, on linear axes with both ends, of which y is in pixels; the axes are not drawn.
    """

    key: str
    title: str
    note: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    zones: tuple[Zone, ...] = ()
    blocks: tuple[Block, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page under a heading."""

    key: str
    title: str
    note: str
    figure: Figure | None
    tables: tuple[Table, ...]
    half: bool = False
    """Whether it takes half of the width of a wide window, beside another such section."""
    folded: bool = False
    """Whether only its title is seen until a reader opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for the shell, to copy, and what it does."""

    label: str
    text: str
    repeats: bool = False
    """Whether it prints in a terminal what the page shows, with the settings of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """An estimate between the ends of its interval, and a bound, as shares (0 to 1) of an axis that begins at zero."""

    role: str
    low: float
    high: float
    value: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a stacked bar: what it is, its role, where it begins and how long it is as shares (0 to 1) of the bar."""

    name: str
    role: str
    start: float
    length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One headline number in large type, with its label and a note in small type; under it a gauge or a stacked bar."""

    label: str
    cell: Cell
    note: str
    meaning: str = ""
    """What the label stands for, in words: "time per output token"."""
    gauge: Gauge | None = None
    parts: tuple[Part, ...] = ()
    """Of a stacked bar, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """The number that a control stands for while it is at zero, in its unit: the datasheet's, say. `key` is the control's."""

    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that a page shows of one state. With an `error`, nothing else is shown."""

    title: str
    subtitle: str
    answer: tuple[str, ...]
    fits: bool
    error: str
    tiles: tuple[Tile, ...]
    commands: tuple[Command, ...]
    sections: tuple[Section, ...]
    assumptions: Table
    not_modelled: tuple[str, ...]
    verdict: str = ""
    """The answer in one sentence; with it the sentences of `answer` are folded, to be opened by who wants them."""
    defaults: tuple[Default, ...] = ()
    """Of controls that are shown prefilled."""


PARTS_OF_A_VIEW = (
    View,
    Default,
    Section,
    Figure,
    Table,
    Column,
    Cell,
    Tile,
    Gauge,
    Part,
    Command,
    Axis,
    Series,
    Mark,
    Zone,
    Block,
)
