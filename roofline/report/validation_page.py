"""The page of `roofline validate`: predicted against measured times, errors by group, the worst predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.formatting import number, percent, plural
from roofline.formulas.javascript import translated
from roofline.measure.validate import sentences
from roofline.report.cells import seconds, share, table, text_cell, whole
from roofline.report.controls import FIRST_STATE, Choice, Control, PageState, values_of, with_state
from roofline.report.figure import PARTS_OF_A_VIEW, Axis, Command, Figure, Mark, Section, Series, Table, Tile, View
from roofline.report.page import live_page
from roofline.report.page_program import OF_A_RESULT, page_script, view_program

if TYPE_CHECKING:
    import pandas as pd

    from roofline.formulas.javascript import Program

_MAX_POINTS = 1000
"""Points of a figure; of more records, these are drawn at random."""
_ALL = "all"
_KINDS = 4
"""Operators that have a symbol of their own where all are shown: those with most records."""
_NOT_MODELLED = (
    "Whether the records are right: a bound that is beaten is a wrong count, unit or peak, or a measurement of something else.",
    "The engine around the kernels: scheduling, sampling, launches that overlap.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPoints:
    """Records of one operator: measured and predicted seconds, and the hover text of each."""

    op: str
    measured: tuple[float, ...]
    predicted: tuple[float, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationData:
    """The view without its figures, and their points, the operators with the most records first."""

    base: View
    points: tuple[RecordPoints, ...]


def validation_page(frame: pd.DataFrame, result: dict[str, Any], line: str) -> str:
    """The page as a complete HTML document.

    Args:
        frame: a row per record with `measured_s`, `bound_s` and `estimate_s`, as of `roofline.measure.validate.validate`.
        result: what `roofline validate --json` gives.
        line: the command that writes the page again.
    """
    return page_of(_page_data(frame, result, line), line)


def page_of(page: ValidationData, line: str, opened: PageState = FIRST_STATE) -> str:
    """The page as a complete HTML document.

    Args:
        page: what it shows.
        line: the command that writes it again.
        opened: what its controls are set to, where they have another state than at first.

    Raises:
        ValueError: a control cannot be set so.
    """
    choices = (Choice(value=_ALL, text="all"), *(Choice(value=one.op, text=one.op) for one in page.points))
    first = (Control(key="op", label="Operator", kind="choice", value=_ALL, choices=choices, group="Records"),)
    settings = with_state(first, opened.state)
    script, data = translated(_program, lambda into: {"page": into.encode(page)})
    return live_page(
        _view(page, values_of(settings)), settings, page_script(script, OF_A_RESULT), data, line,
        settings_title="Filter", saved={"kind": "validation"}, pinned=opened.pinned,
    )  # fmt: skip


def first_view(frame: pd.DataFrame, result: dict[str, Any]) -> View:
    """What the page shows before an operator is chosen; arguments are those of `validation_page`."""
    return _view(_page_data(frame, result, ""), {"op": _ALL})


def _program() -> Program:
    return view_program(_view, (ValidationData, RecordPoints, *PARTS_OF_A_VIEW))


def _view(page: ValidationData, values: dict[str, Any]) -> View:
    """What the page shows: with figures of one operator, or of all. Translated to JavaScript."""
    chosen = [one for one in page.points if values["op"] in (_ALL, one.op)]
    sections = (_parity(chosen), _residuals(chosen), *page.base.sections)
    return replace(page.base, sections=sections)


def _parity(points: list[RecordPoints]) -> Section:
    ends = (min([min(one.measured) for one in points]), max([max(one.measured) for one in points]))
    equal = Series(name="equal", kind="line", role="roof", x=ends, y=ends)
    figure = Figure(
        key="parity",
        title="Predicted against measured",
        note="On the line both are equal; below it the kernel took longer than predicted.",
        x=Axis(title="measured", scale="log", unit="s"),
        y=Axis(title="predicted", scale="log", unit="s"),
        series=(equal, *[_series(name, index, listed, False) for index, (name, listed) in enumerate(_kinds(points))]),
    )
    return Section(key="parity", title=figure.title, note="", figure=figure, tables=(), half=True)


def _residuals(points: list[RecordPoints]) -> Section:
    figure = Figure(
        key="residuals",
        title="Residuals",
        note="1 is exact, 2 predicts twice the time.",
        x=Axis(title="measured", scale="log", unit="s"),
        y=Axis(title="predicted / measured", scale="log"),
        series=tuple([_series(name, index, listed, True) for index, (name, listed) in enumerate(_kinds(points))]),
        marks=(Mark(text="exact", y=1.0, role="critical"),),
    )
    return Section(key="residuals", title=figure.title, note="", figure=figure, tables=(), half=True)


def _kinds(points: list[RecordPoints]) -> list[tuple[str, list[RecordPoints]]]:
    """Operators with a series of their own, and the others together."""
    kinds = [(one.op, [one]) for one in points[:_KINDS]]
    others = points[_KINDS:]
    return [*kinds, ("others", others)] if len(others) > 0 else kinds


def _series(name: str, index: int, points: list[RecordPoints], residual: bool) -> Series:
    measured = [time for one in points for time in one.measured]
    predicted = [time for one in points for time in one.predicted]
    return Series(
        name=name,
        kind="points",
        role="estimate",
        x=tuple(measured),
        y=tuple([p / m for p, m in zip(predicted, measured, strict=True)] if residual else predicted),
        size=tuple([0.0 for _ in measured]),
        labels=tuple([label for one in points for label in one.labels]),
        variant=index,
    )


def _page_data(frame: pd.DataFrame, result: dict[str, Any], line: str) -> ValidationData:
    """Data of the page, from records with their predictions; of more than 1,000 records a random sample is drawn."""
    count = len(frame)
    sample = frame.sample(_MAX_POINTS, random_state=0) if count > _MAX_POINTS else frame
    predicted = sample["estimate_s"].where(sample["estimate_s"].notna(), sample["bound_s"])
    ops = sample["op"].astype(str).value_counts()
    points = []
    for op in sorted(ops.index, key=lambda op: (-ops[op], op)):
        rows = sample["op"].astype(str) == op
        names = zip(sample[rows]["backend"], sample[rows]["kernel"], strict=True)
        pairs = list(zip(map(float, sample[rows]["measured_s"]), map(float, predicted[rows]), strict=True))
        points.append(
            RecordPoints(
                op=op,
                measured=tuple(measured for measured, _ in pairs),
                predicted=tuple(time for _, time in pairs),
                labels=tuple(
                    f"{op}, {' '.join(f'{backend} {kernel}'.split())}: measured {formatting.seconds(measured)}, "
                    f"predicted {formatting.seconds(time)}"
                    for (backend, kernel), (measured, time) in zip(names, pairs, strict=True)
                ),
            )
        )
    drawn = plural(count, "record") if count == len(sample) else f"{len(sample):,} of {count:,} records, drawn at random"
    base = View(
        title=f"Predicted and measured: {', '.join(sorted(set(map(str, frame['hardware']))))}",
        subtitle=f"In the figures: {drawn}",
        answer=(),
        verdict=" ".join(sentences(result["overall"])),
        fits=True,
        error="",
        tiles=_tiles(count, result["overall"]),
        commands=(Command(label="Reproduce in a terminal", text=line.partition(" --output ")[0]),),
        sections=(
            Section(key="groups", title="Errors by group", note="", figure=None, tables=(_groups(result["groups"]),)),
            Section(key="worst", title="Furthest off", note="", figure=None, tables=(_worst(result["worst"]),)),
        ),
        assumptions=_unused(result),
        not_modelled=_NOT_MODELLED,
    )
    return ValidationData(base=base, points=tuple(points))


def _tiles(count: int, overall: dict[str, Any]) -> tuple[Tile, ...]:
    tiles = [Tile(label="Records", cell=whole(count), note="")]
    estimate = overall["estimate"]
    if estimate["median_ape"] is not None:
        bias = f"bias {percent(estimate['bias'], 1, sign=True)}"
        tiles.append(Tile(label="Median error, estimate", cell=share(estimate["median_ape"]), note=bias))
        tiles.append(Tile(label="In the 80 % interval", cell=share(overall["coverage"]), note="of the measurements"))
    bias = f"bias {percent(overall['bound']['bias'], 1, sign=True)}"
    return (*tiles, Tile(label="Median error, bound", cell=share(overall["bound"]["median_ape"]), note=bias))


def _groups(groups: list[dict[str, Any]]) -> Table:
    rows = [
        (
            *(text_cell(str(group[name])) for name in ("hardware", "op", "dtype", "backend", "regime")),
            whole(group["n"]),
            *(share(group["bound"][name]) for name in ("median_ape", "mape")),
            *(share(group["estimate"][name]) for name in ("median_ape", "mape")),
            share(group["estimate"]["bias"], sign=True),
            share(group["coverage"]),
        )
        for group in groups
    ]
    columns = (
        "hardware", "op", "dtype", "backend", "regime", "n", "bound: median error", "mean",
        "estimate: median error", "mean", "bias", "in the interval",
    )  # fmt: skip
    return table("groups", "Errors by group", "Error: |predicted/measured - 1|.", columns, rows)


def _worst(rows: list[dict[str, Any]]) -> Table:
    cells = []
    for row in rows:
        predicted = row["estimate_s"] or row["bound_s"]
        dims = " ".join(f"{name}={value}" for name, value in row["dims"].items())
        ratio = replace(whole(predicted / row["measured_s"]), text=f"{predicted / row['measured_s']:.2f}")
        names = (text_cell(row["hardware"]), text_cell(row["op"]), text_cell(row["backend"]), text_cell(dims))
        cells.append((*names, seconds(row["measured_s"]), seconds(predicted), ratio))
    columns = ("hardware", "op", "backend", "dimensions", "measured", "predicted", "ratio")
    return table("worst", "Furthest off", "", columns, cells)


def _unused(result: dict[str, Any]) -> Table:
    """Records that were not compared, and columns that were not read."""
    rows = [(text_cell("refused"), text_cell(number(result["refused"])), text_cell("see --json for file and line"))]
    rows += [
        (text_cell("other hardware"), text_cell(f"{count:,}"), text_cell(name))
        for name, count in result["other_hardware"].items()
    ]
    rows += [
        (text_cell("other backend"), text_cell(f"{count:,}"), text_cell(name))
        for name, count in result["other_backend"].items()
    ]
    if result["ignored_columns"]:
        rows.append((text_cell("columns"), text_cell(""), text_cell(", ".join(result["ignored_columns"]))))
    return table("unused", "Records and columns that were not used", "", ("what", "records", "which"), rows)
