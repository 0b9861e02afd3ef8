"""Plots: what the report draws, as a picture that stands still, with its numbers in a table beside it.

A page shows the picture in its own colours, light and dark; a notebook and the folder of slides get one that has its colours
in it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from roofline import formatting
from roofline.errors import InputError
from roofline.report.axes import axis_title
from roofline.report.cells import figure as digits
from roofline.report.figure import Axis, Figure, Mark, Series
from roofline.report.html import escape
from roofline.report.svg import svg
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.plain_svg import plain_svg
from roofline.teach.lessons.prose import checked, inline_of
from roofline.teach.lessons.tabled import Tabled

Scale = Literal["linear", "log"]
_PREFIXED = ("s", "B", "FLOP", "FLOP/s", "B/s")


class Drawn(Item):
    """A figure."""

    def __init__(self, figure: Figure) -> None:
        checked(figure.note)
        self.figure = figure

    def html(self, ids: Ids) -> str:
        """Caption, picture, numbers."""
        key = ids.once(self.figure.key)
        shown = replace(self.figure, key=key)
        note = f'<span class="note">{inline_of(shown.note)}</span>\n' if shown.note else ""
        return (
            f'<figure id="figure-{key}">\n<figcaption>\n<span class="title">{escape(shown.title)}</span>\n{note}</figcaption>\n'
            f'<div class="still" role="group" tabindex="0" aria-label="{escape(shown.title)}">{svg(shown)}</div>\n'
            f'<details class="numbers">\n<summary>Numbers: {escape(shown.title)}</summary>\n'
            f"{self.numbers().html(ids)}</details>\n</figure>\n"
        )

    def markdown(self) -> str:
        """The picture as a notebook holds it."""
        data = b64encode(plain_svg(svg(self.figure)).encode()).decode()
        return f"**{self.figure.title}**\n\n![{self.figure.title}](data:image/svg+xml;base64,{data})\n\n{self.figure.note}"

    def plain(self) -> str:
        """The numbers."""
        return self.numbers().plain()

    def numbers(self) -> Tabled:
        """What is drawn: the figure's own table, or one row a value across."""
        own = self.figure.table
        if own is not None:
            rows = [tuple(cell.text for cell in row) for row in own.rows]
            return Tabled([column.name for column in own.columns], rows, own.title, own.note)
        figure = self.figure
        lies = figure.y.scale == "category"
        axis, values = (figure.y, figure.x) if lies else (figure.x, figure.y)
        heads = list(dict.fromkeys(spot for series in figure.series for spot in (series.y if lies else series.x)))
        listed = [
            dict(zip(series.y if lies else series.x, series.x if lies else series.y, strict=True)) for series in figure.series
        ]
        rows = [(_said(head, axis), *(_said(found.get(head), values) for found in listed)) for head in heads]
        return Tabled([axis_title(axis) or "what", *(series.name for series in figure.series)], rows, figure.title, "")


def _said(value: float | str | None, axis: Axis) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return formatting.quantity(value, axis.unit).strip() if axis.unit in _PREFIXED else digits(value).text


def figure(drawn: Figure) -> Drawn:
    """A figure of the report's kind: made by `curves` or `bars`, or by one of the report's own functions."""
    return Drawn(drawn)


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
    """Lines by name, each its values across and up. `across` and `up` are (title, unit); units s, B, FLOP/s take prefixes.

    `roles` give the looks, one a line (`prefill`, `decode`, `weights`, `kv`, `compute`, `memory`, ...), `marks` labelled lines
    at a value of an axis, `low` where the axis that goes up begins.
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
        else _said(value, Axis(title="", scale="linear", unit=unit)) + (f" {unit}" if unit and unit not in _PREFIXED else "")
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
    """Lying bars: `groups` maps the name of a series to its bars by category. `along` is (title, unit) of their length."""
    chosen = list(roles) or ["estimate"] * len(groups)
    if len(chosen) != len(groups):
        raise InputError(f"{key}: {len(groups)} groups and {len(chosen)} roles")
    series = tuple(
        Series(
            name=name,
            kind="bars",
            role=role,
            x=tuple(found.values()),
            y=tuple(found),
            labels=tuple(f"{category}, {name}: {_at(value, along[1])}" for category, value in found.items()),
            short=tuple(_at(value, along[1]) for value in found.values()),
        )
        for (name, found), role in zip(groups.items(), chosen, strict=True)
    )
    return Figure(
        key=key,
        title=title,
        note=note,
        x=Axis(title=along[0], scale="linear", unit=along[1], low=0.0),
        y=Axis(title="", scale="category"),
        series=series,
    )
