"""How latencies are distributed, and what share of the requests keeps to what is set on the page.

It runs in Python and, translated, in the page.
"""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.report.figure import Axis, Cell, Figure, Mark, Section, Series, Table, View
from roofline.report.simulation.told import Curve, Told, Values
from roofline.report.view.cells import seconds, share, table, words

_ROWS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def view(told: Told, values: Values) -> View:
    """Everything that the page shows."""
    base = told.base
    return View(
        title=base.title,
        subtitle=base.subtitle,
        answer=base.answer,
        fits=base.fits,
        error="",
        tiles=base.tiles,
        commands=base.commands,
        sections=(*_sections(told, values), *base.sections),
        assumptions=base.assumptions,
        not_modelled=base.not_modelled,
    )


def within(curve: Curve, most: float) -> float:
    """Share that takes at most so long; between two points in proportion.

    >>> curve = Curve(key="ttft", name="TTFT", of="requests", seconds=(1.0, 2.0, 4.0), share=(0.0, 0.5, 1.0))
    >>> [within(curve, at) for at in (0.5, 1.5, 2.0, 3.0, 9.0)]
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    found = 0.0
    for index, at in enumerate(curve.seconds):
        if at > most:
            before = curve.seconds[index - 1] if index > 0 else at
            if index > 0 and at > before:
                found = curve.share[index - 1] + (curve.share[index] - curve.share[index - 1]) * (most - before) / (at - before)
            return found
        found = curve.share[index]
    return found


def at_share(curve: Curve, part: float) -> float:
    """Seconds within which such a share is.

    >>> at_share(Curve(key="ttft", name="TTFT", of="requests", seconds=(1.0, 2.0, 4.0), share=(0.0, 0.5, 1.0)), 0.75)
    3.0
    """
    for index, reached in enumerate(curve.share):
        if reached >= part:
            if index == 0:
                return curve.seconds[0]
            low, high = curve.seconds[index - 1], curve.seconds[index]
            before = curve.share[index - 1]
            return low + (high - low) * (part - before) / (reached - before) if reached > before else high
    return curve.seconds[len(curve.seconds) - 1]


def _sections(told: Told, values: Values) -> list[Section]:
    marks = _marks(told, values)
    whole = Figure(
        key="distribution",
        title="Share of the requests that take at most so long",
        note="ITL: share of the tokens." if any(curve.of == "tokens" for curve in told.curves) else "",
        x=Axis(title="seconds", scale="log", unit="s"),
        y=Axis(title="share", scale="linear", low=0.0, high=1.02, unit="%"),
        series=tuple([_line(curve, curve.share, "take at most") for curve in told.curves]),
        marks=marks,
        table=_rows(told),
    )
    tail = Figure(
        key="tail",
        title="Share of the requests that take longer",
        note="The same from above: what is left beyond a time.",
        x=Axis(title="seconds", scale="log", unit="s"),
        y=Axis(title="share that takes longer", scale="log", unit="%"),
        series=tuple([_line(curve, tuple([1 - part for part in curve.share]), "take longer than") for curve in told.curves]),
        marks=marks,
    )
    first = Section(key="latency", title="Latencies", note="", figure=whole, tables=(*told.latencies, *_read(told, values)))
    return [first, Section(key="tail", title="The slowest", note="", figure=tail, tables=())] if told.tail else [first]


def _line(curve: Curve, shares: tuple[float, ...], how: str) -> Series:
    return Series(
        name=curve.name,
        kind="line",
        role="roof",
        x=curve.seconds,
        y=shares,
        labels=tuple([
            f"{curve.name}: {percent(part)} of the {curve.of} {how} {formatting.seconds(at)}"
            for at, part in zip(curve.seconds, shares, strict=True)
        ]),
    )  # fmt: skip


def _part(part: float, digits: int) -> Cell:
    return Cell(text=f"{part * 100:.{digits}g} %", value=part)


def _set(told: Told, values: Values) -> list[tuple[Curve, float]]:
    """Where lines are set, in seconds."""
    return [(curve, values[curve.key] / 1000) for curve in told.curves if curve.key in values]


def _marks(told: Told, values: Values) -> tuple[Mark, ...]:
    """What was given as objectives, and what is set on the page where it is something else."""
    moved = []
    for curve, at in _set(told, values):
        given = [mark.x or 0.0 for mark in told.objectives if mark.text.startswith(f"{curve.name} ")]
        if not any(abs(each - at) <= 1e-9 * at for each in given):
            moved.append(Mark(text=f"{curve.name} {formatting.seconds(at)}", x=at, role="critical"))
    return (*told.objectives, *moved)


def _read(told: Told, values: Values) -> tuple[Table, ...]:
    """The shares at the lines."""
    rows = [
        (words(curve.name), seconds(at), _part(within(curve, at), 4), _part(1 - within(curve, at), 2))
        for curve, at in _set(told, values)
    ]
    if len(rows) == 0:
        return ()
    note = "Each by itself; requests that keep to both are fewer than either. The lines can be moved on the page."
    if len(rows) == 1:
        note = "The line can be moved on the page."
    return (table("within", "Share within", note, ("latency", "at most", "share", "take longer"), rows),)


def _rows(told: Told) -> Table:
    rows: list[tuple[Cell, ...]] = [(share(part), *[seconds(at_share(curve, part)) for curve in told.curves]) for part in _ROWS]
    names = ("share", *[curve.name for curve in told.curves])
    return table("distribution-rows", "Within which a share is", "", names, rows)
