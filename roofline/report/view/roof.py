"""The roofline: every operator by its intensity and its rate, under the roofs of its formats."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.request import Request
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report.figure import Axis, Column, Figure, Series, Table
from roofline.report.keys import op_key
from roofline.report.summary import phase_title
from roofline.report.view.cells import amount, best, figure, seconds, table, words

_ROOM = 3.0
"""By so much a roof goes on beyond the outermost operator."""


def roofline_figure(request: Request, result: Analysis) -> Figure:
    """Operators of all phases that compute anything."""
    drawn = [(phase, [op for op in phase.operators if op.cost.flops and op.cost.bytes]) for phase in result.phases]
    points = [op.cost.flops / op.cost.bytes for _, listed in drawn for op in listed]
    low, high = min(points, default=1.0) / _ROOM, max(points, default=1.0) * _ROOM
    series = _roofs(request, result, low, high)
    longest = max((_took(op) for _, listed in drawn for op in listed), default=0.0)
    for phase, listed in drawn:
        if not listed:
            continue
        series.append(
            Series(
                name=phase.name,
                kind="points",
                role=phase.name,
                x=tuple(op.cost.flops / op.cost.bytes for op in listed),
                y=tuple(op.cost.flops / _took(op) if _took(op) else None for op in listed),
                size=tuple(_took(op) / longest if longest else 0.0 for op in listed),
                labels=tuple(_label(phase, op) for op in listed),
                short=tuple(op.path.rpartition("/")[2] for op in listed),
                keys=tuple(op_key(phase.name, op.path) for op in listed),
            )
        )
    return Figure(
        key="roofline",
        title="Roofline",
        note="One device. Each point is an operator: FLOP per byte of memory traffic against the FLOP/s that it reaches; its "
        "area is its share of the time. What lies left of a roof's edge waits for memory, what lies right of it computes.",
        x=Axis(title="arithmetic intensity", scale="log", low=low, high=high, unit="FLOP/byte"),
        y=Axis(title="rate", scale="log", unit="FLOP/s"),
        series=tuple(series),
        table=_points(result),
    )


def _took(op: OperatorResult) -> float:
    """Seconds of an operator: the estimate where there is one."""
    return best(op.time) or op.times.bound


def _label(phase: Phase, op: OperatorResult) -> str:
    reached = op.cost.flops / _took(op) if _took(op) else 0.0
    rate = formatting.quantity(reached, "FLOP/s", 3)
    intensity = f"{op.cost.flops / op.cost.bytes:,.3g} FLOP/byte"
    return f"{phase.name} {op.path}: {rate}, {intensity}, {formatting.seconds(_took(op))}, bound by {op.bound_by}"


def _roofs(request: Request, result: Analysis, low: float, high: float) -> list[Series]:
    """A roof for each format that is multiplied, of the datasheet and as far as fitted kernels reach it."""
    hardware = request.hardware
    formats = sorted({op.dtype for phase in result.phases for op in phase.operators if op.cost.matrix_flops})
    found = []
    for index, dtype in enumerate(formats):
        peak = hardware.peak(dtype)
        found.append(_roof(f"{dtype} datasheet", "roof", index, peak, hardware.bandwidth, low, high))
        fitted = request.estimator.fits.find(f"gemm/{dtype}") if request.estimator.applies else None
        if fitted is not None and "compute" in fitted.values and "memory" in fitted.values:
            compute, memory = fitted.values["compute"] * peak, fitted.values["memory"] * hardware.bandwidth
            found.append(_roof(f"{dtype} achievable", "roof-achievable", index, min(compute, peak), memory, low, high))
    return found


def _roof(name: str, role: str, variant: int, peak: float, bandwidth: float, low: float, high: float) -> Series:
    edge = peak / bandwidth
    xs = sorted({low, min(max(edge, low), high), high})
    return Series(
        name=f"{name}: {formatting.quantity(peak, 'FLOP/s', 3)}, {formatting.quantity(bandwidth, 'B/s', 3)}",
        kind="line",
        role=role,
        x=tuple(xs),
        y=tuple(min(peak, bandwidth * x) for x in xs),
        short=(*("" for _ in xs[1:]), name),
        variant=variant,
    )


def _points(result: Analysis) -> Table:
    rows = [
        (
            words(phase.name),
            words(op.path),
            figure(op.cost.flops / op.cost.bytes),
            amount(op.cost.flops / _took(op) if _took(op) else None, "FLOP/s"),
            seconds(_took(op)),
            words(op.bound_by),
        )
        for phase in result.phases
        for op in phase.operators
        if op.cost.flops and op.cost.bytes
    ]
    names = ("phase", "operator", "FLOP/byte", "reached", "time", "binds")
    return table("roofline-points", "Points of the roofline", "", names, rows)


def operators_table(result: Analysis, phase: Phase) -> Table:
    """The operators of a phase on one device."""
    linked, estimated = bool(phase.cost.link_bytes), phase.time.estimate is not None
    names = ["operator", "x", "FLOP", "bytes"]
    names += (["link"] if linked else []) + ["FLOP/byte", "bound"] + (["estimate"] if estimated else [])
    rows = []
    for op in phase.operators:
        row = [words(op.path.removeprefix("layers/")), figure(op.repeat), amount(op.cost.flops, ""), amount(op.cost.bytes, "B")]
        if linked:
            row.append(amount(op.cost.link_bytes, "B") if op.cost.link_bytes else words(""))
        row.append(figure(op.cost.flops / op.cost.bytes) if op.cost.bytes else words(""))
        row.append(seconds(op.time.bound))
        if estimated:
            row.append(seconds(op.time.estimate))
        rows.append((*row, words(op.bound_by)))
    title = f"Operators. {phase_title(phase)}"
    note = "Layers' operators have their number of layers in them (x)."
    if result.hardware["devices"] > 1:
        note += f" One device of {result.hardware['devices']}."
    made = table(f"operators-{phase.name}", title, note, (*names, "binds"), rows)
    # a column is a column of numbers also where no cell is one
    columns = tuple(Column(name=entry.name, number=entry.name not in ("operator", "binds")) for entry in made.columns)
    return Table(key=made.key, title=made.title, note=made.note, columns=columns, rows=made.rows)
