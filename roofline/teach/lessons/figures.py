"""Static SVG figures for lessons, each with a table of its numbers.

On a page a figure follows the light or dark theme; for notebooks and slides `plain_svg` writes the colours into it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from roofline import formatting
from roofline.errors import InputError
from roofline.report.axes import axis_title
from roofline.report.cells import number_cell as digits
from roofline.report.figure import Axis, Figure, Mark, Series
from roofline.report.figure_files import plain_svg
from roofline.report.html import escape
from roofline.report.svg import HAND, svg
from roofline.teach.lessons.items import Item, Table
from roofline.teach.markdown import Ids, checked, inline_of

Scale = Literal["linear", "log"]
_PREFIXED = ("s", "B", "FLOP", "FLOP/s", "B/s")


class Plot(Item):
    """A static figure with its caption and numbers."""

    def __init__(self, figure: Figure) -> None:
        checked(figure.note)
        self.figure = figure

    def html(self, ids: Ids) -> str:
        """Caption, picture and table."""
        key = ids.once(self.figure.key)
        figure = replace(self.figure, key=key)
        note = f'<span class="note">{inline_of(figure.note)}</span>\n' if figure.note else ""
        title = escape(figure.title)
        return (
            f'<figure id="figure-{key}">\n<figcaption>\n<span class="title">{title}</span>\n{note}</figcaption>\n'
            f'<div class="still" role="group" tabindex="0" aria-label="{title}">{_pictures(figure)}</div>\n'
            f'<details class="numbers">\n<summary>Numbers: {title}</summary>\n'
            f"{self.numbers().html(ids)}</details>\n</figure>\n"
        )

    def markdown(self) -> str:
        """The picture as data in the notebook."""
        data = b64encode(plain_svg(svg(self.figure)).encode()).decode()
        return f"**{self.figure.title}**\n\n![{self.figure.title}](data:image/svg+xml;base64,{data})\n\n{self.figure.note}"

    def plain(self) -> str:
        """The table of numbers."""
        return self.numbers().plain()

    def numbers(self) -> Table:
        """The numbers as a table: the figure's own, or one row per value of the axis."""
        own = self.figure.table
        if own is not None:
            rows = [tuple(cell.text for cell in row) for row in own.rows]
            return Table([column.name for column in own.columns], rows, own.title, own.note)
        figure = self.figure
        horizontal = figure.y.scale == "category"
        axis, values = (figure.y, figure.x) if horizontal else (figure.x, figure.y)
        heads = list(dict.fromkeys(spot for series in figure.series for spot in (series.y if horizontal else series.x)))
        listed = [
            dict(zip(series.y if horizontal else series.x, series.x if horizontal else series.y, strict=True))
            for series in figure.series
        ]
        rows = [(_cell_text(head, axis), *(_cell_text(points.get(head), values) for points in listed)) for head in heads]
        return Table([axis_title(axis) or "what", *(series.name for series in figure.series)], rows, figure.title, "")


def _pictures(figure: Figure) -> str:
    """The picture twice, with letters of one size: for wide columns, and for phones. The page's style shows one of them."""
    return svg(figure) + svg(replace(figure, key=f"{figure.key}-hand"), HAND)


def _cell_text(value: float | str | None, axis: Axis) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return formatting.quantity(value, axis.unit).strip() if axis.unit in _PREFIXED else digits(value).text


def figure(plotted: Figure) -> Plot:
    """Return a figure as an item of a lesson: made by `curves`, `bars`, or a function of `roofline.report`.

    Raises:
        InputError: its note has a formula that is typed, or an unknown symbol.
    """
    return Plot(plotted)


def curves(
    key: str,
    title: str,
    across: tuple[str, str],
    up: tuple[str, str],
    lines: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
    *,
    roles: Sequence[str] = (),
    scales: tuple[Scale, Scale] = ("log", "log"),
    marks: Iterable[tuple[str, Literal["x", "y"], float]] = (),
    note: str = "",
    low: float | None = None,
) -> Figure:
    """Return a line plot.

    Args:
        key: its name on the page, used once.
        title: the caption.
        across: (title, unit) of the x axis; the units s, B and FLOP/s take prefixes.
        up: the same for the y axis.
        lines: x and y values by the name of the line.
        roles: the style of each line (`prefill`, `decode`, `weights`, `kv`, `compute`, `memory`, ...).
        scales: of the x and the y axis.
        marks: (label, axis, value) of lines at a value of an axis.
        note: a remark below the caption.
        low: where the y axis begins.

    Raises:
        InputError: there are roles, but not one per line.
        ValueError: a line has not as many x as y values.
    """
    chosen = list(roles) or ["estimate"] * len(lines)
    if len(chosen) != len(lines):
        raise InputError(f"{key}: {len(lines)} lines and {len(chosen)} roles")
    series = tuple(
        Series(
            name=name,
            kind="line",
            role=role,
            x=tuple(xs),
            y=tuple(ys),
            labels=tuple(f"{name}: {_at(x, across[1])}, {_at(y, up[1])}" for x, y in zip(xs, ys, strict=True)),
        )
        for (name, (xs, ys)), role in zip(lines.items(), chosen, strict=True)
    )
    return Figure(
        key=key,
        title=title,
        note=note,
        x=Axis(title=across[0], scale=scales[0], unit=across[1]),
        y=Axis(title=up[0], scale=scales[1], unit=up[1], low=low),
        series=series,
        marks=tuple(
            Mark(text=text, x=value if side == "x" else None, y=value if side == "y" else None) for text, side, value in marks
        ),
    )


def _at(value: float | None, unit: str) -> str:
    return (
        "–"
        if value is None
        else _cell_text(value, Axis(title="", scale="linear", unit=unit))
        + (f" {unit}" if unit and unit not in _PREFIXED else "")
    )


def bars(
    key: str,
    title: str,
    along: tuple[str, str],
    groups: Mapping[str, Mapping[str, float]],
    *,
    roles: Sequence[str] = (),
    note: str = "",
) -> Figure:
    """Return horizontal bars.

    Args:
        key: its name on the page, used once.
        title: the caption.
        along: (title, unit) of their length.
        groups: lengths by category, by the name of the series.
        roles: the style of each series.
        note: a remark below the caption.

    Raises:
        InputError: there are roles, but not one per series.
    """
    chosen = list(roles) or ["estimate"] * len(groups)
    if len(chosen) != len(groups):
        raise InputError(f"{key}: {len(groups)} groups and {len(chosen)} roles")
    series = tuple(
        Series(
            name=name,
            kind="bars",
            role=role,
            x=tuple(lengths.values()),
            y=tuple(lengths),
            labels=tuple(f"{category}, {name}: {_at(value, along[1])}" for category, value in lengths.items()),
            short=tuple(_at(value, along[1]) for value in lengths.values()),
        )
        for (name, lengths), role in zip(groups.items(), chosen, strict=True)
    )
    return Figure(
        key=key,
        title=title,
        note=note,
        x=Axis(title=along[0], scale="linear", unit=along[1], low=0.0),
        y=Axis(title="", scale="category"),
        series=series,
    )
