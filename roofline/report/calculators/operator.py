"""The calculator of one operator: its state, which the controls set, and the view of it. Translated to JavaScript."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.predict.engine_command import shell_line
from roofline.predict.op import OpResult, op
from roofline.predict.operator_query import Dimension, OperatorQuery, operator_query
from roofline.report import operator_page
from roofline.report.analysis.view import OVERRIDE_CONTROLS, figure_section
from roofline.report.cells import table, text_cell
from roofline.report.figure import Command, Figure, Mark, Section, View

Values = dict[str, Any]
"""What the controls hold, by key: `operator`, dimensions as OPERATOR.NAME, formats, hardware."""

OVERRIDES = tuple(figure for figure in OVERRIDE_CONTROLS if figure.option != "memory")
"""Figures of the datasheet that matter to one operator."""
OPTIONAL = ("batch", "q_len", "kv_heads")
"""Dimensions with a default that have a control all the same."""
_BELOW, _ABOVE = 7, 5
"""Doublings of a curve below and above the value that is set."""


def dimensions(query: OperatorQuery) -> list[Dimension]:
    """The dimensions that have a control."""
    return [
        entry for entry in query.dimensions if entry.kind in ("count", "bytes") and (entry.required or entry.name in OPTIONAL)
    ]


def swept(query: OperatorQuery) -> list[str]:
    """The dimensions that a curve can be over: counts of what is worked on, the usual one first."""
    names = [entry.name for entry in dimensions(query)]
    over = [name for name in names if name in _OVER]
    first = query.grows if query.grows in over else next((name for name in _OVER if name in over), "")
    return [first, *(name for name in over if name != first)] if first else []


_OVER = ("tokens", "rows", "bytes", "m", "batch", "sequences", "kv_len", "q_len", "elements", "n", "k")


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    query = operator_query(values["operator"])
    set_to: Values = {entry.name: int(values[f"{query.name}.{entry.name}"]) for entry in dimensions(query)}
    shape: Values = {entry.name: set_to[entry.name] for entry in dimensions(query) if set_to[entry.name] != entry.default}
    options = _options(values)
    result = op(query.name, hardware=values["hardware"], **shape, **options)
    sections = [figure_section(operator_page.resources_figure(result)), _details(result)]
    over = values[f"{query.name}.curve"]
    if over:
        along = f"{over}={','.join([str(value) for value in _curve_values(query, over, set_to)])}"
        curve = op(query.name, hardware=values["hardware"], sweep=along, **_without(shape, over), **options)
        sections = [figure_section(_curve(curve, over, set_to[over])), *sections]
    if result.cost.matrix_flops:
        sections = [figure_section(operator_page.roofline_figure(result)), *sections]
    return View(
        title=operator_page.title(result),
        subtitle=operator_page.settings(result),
        answer=(),
        fits=True,
        error="",
        tiles=operator_page.tiles(result),
        commands=(
            Command(label="Reproduce in a terminal, with formulas", text=_in_terminal(query, values, shape), repeats=True),
        ),
        sections=tuple(sections),
        assumptions=operator_page.assumptions(result),
        not_modelled=operator_page.NOT_MODELLED,
        verdict=operator_page.verdict(result),
    )


def _options(values: Values) -> Values:
    """The options of `op` that a state stands for, in base units."""
    names = (("dtype", "dtype"), ("kv", "kv_cache_dtype"), ("backend", "backend"))
    chosen: Values = {option: values[key] for key, option in names if values[key]}
    for figure in OVERRIDES:
        if values[figure.key]:
            chosen[figure.option] = values[figure.key] * figure.scale
    return chosen


def _without(shape: Values, name: str) -> Values:
    return {other: value for other, value in shape.items() if other != name}


def _curve_values(query: OperatorQuery, name: str, shape: Values) -> list[int]:
    """Powers of two around the value that is set, and that value."""
    value, least = shape[name], query.dimension(name).minimum
    if name == "kv_len":
        least = shape.get("q_len", 1)
    most = shape["kv_len"] if name == "q_len" and "kv_len" in shape else 2**40
    powers = [2**power for power in range(41) if value / 2**_BELOW <= 2**power <= value * 2**_ABOVE]
    return sorted({value, *[power for power in powers if least <= power <= most]})


def _curve(result: OpResult, name: str, value: int) -> Figure:
    """The curve with the value that is set."""
    assert result.sweep is not None  # noqa: S101 - narrows the type
    drawn = operator_page.curve_figure(result, result.sweep)
    marks = tuple(mark for mark in drawn.marks if mark.x != value)
    return replace(drawn, marks=(*marks, Mark(text=f"{name} = {value:,}", x=float(value), role="slo")))


def _details(result: OpResult) -> Section:
    """The numbers besides those of the tiles."""
    rows = [(text_cell(label), text_cell(text)) for label, text in operator_page.lines(result)]
    listed = table("answer-lines", "The operator", "", ("quantity", "value"), rows)
    return Section(key="details", title="Details", note="", figure=None, tables=(listed,), half=True)


def _in_terminal(query: OperatorQuery, values: Values, shape: Values) -> str:
    """The command that prints the same."""
    line = ["roofline", "op", query.name, *(f"{name}={value}" for name, value in shape.items())]
    line += ["--hardware", str(values["hardware"])]
    units = {figure.option: figure for figure in OVERRIDES}
    for name, value in _options(values).items():
        text = f"{value / units[name].scale:.10g} {units[name].unit}" if name in units else str(value)
        line += [f"--{name.replace('_', '-')}", text]
    return shell_line((*line, "-v"))
