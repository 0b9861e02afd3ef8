"""Figures of one step: the roofline, where its time goes, and the memory of each device."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.request import ResolvedRequest
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report.cells import amount, best, gibibytes, number_cell, op_key, seconds, share, table, text_cell
from roofline.report.figure import Axis, Cell, Column, Figure, Mark, Series, Table, Zone
from roofline.report.summary import GIB, gib, memory_note, memory_rows, phase_title

_MARGIN = 3.0
"""By so much a roof goes on beyond the outermost operator."""


def roofline_figure(request: ResolvedRequest, result: Analysis) -> Figure:
    """The roofline plot: FLOP/s against FLOP/byte of every operator of all phases that has both, and the ceilings."""
    drawn = [(phase, [op for op in phase.operators if op.cost.flops and op.cost.bytes]) for phase in result.phases]
    points = [op.cost.flops / op.cost.bytes for _, listed in drawn for op in listed]
    low, high = min(points, default=1.0) / _MARGIN, max(points, default=1.0) * _MARGIN
    series = _ceilings(request, result, low, high)
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


def _ceilings(request: ResolvedRequest, result: Analysis, low: float, high: float) -> list[Series]:
    """A roof for each format that is multiplied, of the datasheet and as far as fitted kernels reach it."""
    hardware = request.hardware
    formats = sorted({op.dtype for phase in result.phases for op in phase.operators if op.cost.matrix_flops})
    ceilings = []
    for index, dtype in enumerate(formats):
        peak = hardware.peak(dtype)
        ceilings.append(_ceiling(f"{dtype} datasheet", "roof", index, peak, hardware.bandwidth, low, high))
        fitted = request.estimator.fits.find(f"gemm/{dtype}") if request.estimator.applies else None
        if fitted is not None and "compute" in fitted.values and "memory" in fitted.values:
            compute, memory = fitted.values["compute"] * peak, fitted.values["memory"] * hardware.bandwidth
            ceilings.append(_ceiling(f"{dtype} achievable", "roof-achievable", index, min(compute, peak), memory, low, high))
    return ceilings


def _ceiling(name: str, role: str, variant: int, peak: float, bandwidth: float, low: float, high: float) -> Series:
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
            text_cell(phase.name),
            text_cell(op.path),
            number_cell(op.cost.flops / op.cost.bytes),
            amount(op.cost.flops / _took(op) if _took(op) else None, "FLOP/s"),
            seconds(_took(op)),
            text_cell(op.bound_by),
        )
        for phase in result.phases
        for op in phase.operators
        if op.cost.flops and op.cost.bytes
    ]
    names = ("phase", "operator", "FLOP/byte", "reached", "time", "binds")
    return table("roofline-points", "Points of the roofline", "", names, rows)


def operators_table(result: Analysis, phase: Phase) -> Table:
    """Table of a phase's operators on one device: FLOP, bytes, intensity and times."""
    linked, estimated = bool(phase.cost.link_bytes), phase.time.estimate is not None
    names = ["operator", "x", "FLOP", "bytes"]
    names += (["link"] if linked else []) + ["FLOP/byte", "bound"] + (["estimate"] if estimated else [])
    rows = []
    for op in phase.operators:
        row = [
            text_cell(op.path.removeprefix("layers/")),
            number_cell(op.repeat),
            amount(op.cost.flops, ""),
            amount(op.cost.bytes, "B"),
        ]
        if linked:
            row.append(amount(op.cost.link_bytes, "B") if op.cost.link_bytes else text_cell(""))
        row.append(number_cell(op.cost.flops / op.cost.bytes) if op.cost.bytes else text_cell(""))
        row.append(seconds(op.time.bound))
        if estimated:
            row.append(seconds(op.time.estimate))
        rows.append((*row, text_cell(op.bound_by)))
    title = f"Operators. {phase_title(phase)}"
    note = "Layers' operators have their number of layers in them (x)."
    if result.hardware["devices"] > 1:
        note += f" One device of {result.hardware['devices']}."
    made = table(f"operators-{phase.name}", title, note, (*names, "binds"), rows)
    # a column is a column of numbers also where no cell is one
    columns = tuple(Column(name=entry.name, number=entry.name not in ("operator", "binds")) for entry in made.columns)
    return Table(key=made.key, title=made.title, note=made.note, columns=columns, rows=made.rows)


# Time and memory

_RESOURCES = (("compute", "matrix and vector units"), ("memory", "device memory"), ("link", "link to other devices"))
_PARTS = {"KV cache": "kv", "free": "free", "missing": "missing"}


def time_budget(phase: Phase) -> Figure:
    """Bar plot of the seconds of a phase's operators one after another, and how long each resource works in each."""
    listed = [op for op in phase.operators if _took(op) > 0]  # what overlap hides is no bar
    starts: list[float] = []
    at = 0.0
    for op in listed:
        starts.append(at)
        at += _took(op)
    series = [_resource_bars("operators", "overhead", listed, starts, [_took(op) for op in listed], phase)]
    for name, _ in _RESOURCES:
        lengths = [_resource_time(op, name) for op in listed]
        if any(lengths):
            series.append(_resource_bars(name, name, listed, starts, lengths, phase))
    rows = [
        (
            text_cell(op.path),
            seconds(_took(op)),
            share(_took(op) / at if at else None),
            *(seconds(_resource_time(op, name)) for name, _ in _RESOURCES),
        )
        for op in sorted(listed, key=lambda op: -_took(op))
    ]
    basis = "estimate" if phase.time.estimate is not None else "bound"
    names = ("operator", basis, "share", "compute", "memory", "link")
    return Figure(
        key=f"time-{phase.name}",
        title=f"Where a {phase.name} step's time goes",
        note=f"Operators one after another, each as long as its {basis}; under it how long each resource works meanwhile, at "
        "the datasheet's rate. White space in all rows is time of no resource: launches, waves, what kernels miss.",
        x=Axis(title="time", scale="linear", low=0.0, high=at or 1.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        table=table(f"time-{phase.name}-rows", f"Time of the {phase.name} step", "longest first", names, rows),
    )


def _resource_time(op: OperatorResult, lane: str) -> float:
    times = op.times
    seconds_of: dict[str, float] = {"compute": times.matrix + times.vector, "memory": times.memory, "link": times.link}
    return seconds_of[lane]


def _resource_bars(
    name: str, role: str, listed: list[OperatorResult], starts: list[float], lengths: list[float], phase: Phase
) -> Series:
    drawn = [index for index, length in enumerate(lengths) if length]
    labels = [f"{listed[index].path}: {name} {formatting.seconds(lengths[index])}" for index in drawn]
    return Series(
        name=name,
        kind="bars",
        role=role,
        x=tuple(lengths[index] for index in drawn),
        y=tuple(name for _ in drawn),
        base=tuple(starts[index] for index in drawn),
        labels=tuple(labels),
        short=tuple(listed[index].path.rpartition("/")[2] for index in drawn),
        keys=tuple(op_key(phase.name, listed[index].path) for index in drawn),
    )


def memory_budget(results: list[Analysis]) -> Figure:
    """Bar plot of what fills the memory of each device in GiB, a bar per hardware."""
    parts: list[str] = []
    for result in results:
        parts += [name for name, _, _ in memory_rows(result) if name not in parts and name != "missing"]
    series = [
        Series(
            name=part,
            kind="bars",
            role=_PARTS.get(part, part),
            x=tuple(_part(result, part) / GIB for result in results),
            y=tuple(_bar(result) for result in results),
            base=tuple(_before(result, part) / GIB for result in results),
            labels=tuple(f"{_bar(result)}: {part} {gib(_part(result, part))} GiB" for result in results),
            short=tuple(part for _ in results),
        )
        for part in parts
    ]
    one = results[0].memory
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for name, size, remark in memory_rows(result):
            rows.append((text_cell(_bar(result)), text_cell(name), gibibytes(size), text_cell(remark)))
        rows.append(
            (
                text_cell(_bar(result)),
                text_cell("budget"),
                gibibytes(result.memory.budget_bytes),
                text_cell(memory_note(result)),
            )
        )
    series.append(
        Series(
            name="capacity",
            kind="points",
            role="capacity",
            x=tuple(result.memory.capacity_bytes / GIB for result in results),
            y=tuple(_bar(result) for result in results),
            labels=tuple(f"{_bar(result)}: capacity {gib(result.memory.capacity_bytes)} GiB" for result in results),
        )
    )
    marks = []
    if len({result.memory.capacity_bytes for result in results}) == 1:
        marks.append(Mark(text=f"the engine's share {gib(one.budget_bytes)} GiB", x=one.budget_bytes / GIB))
    widest = max([result.memory.capacity_bytes for result in results] + [_filled(result) for result in results])
    beyond = [result for result in results if not result.memory.fits]
    zones = (
        (Zone(text="more than there is", role="missing", x0=one.budget_bytes / GIB, x1=None),)
        if beyond and len(results) == 1
        else ()
    )
    return Figure(
        key="memory",
        title="Memory of a device",
        note="; ".join(f"{_bar(result)}: {memory_note(result)}" for result in results) + ".",
        x=Axis(title="memory", scale="linear", low=0.0, high=widest / GIB * 1.02, unit="GiB"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        marks=tuple(marks),
        zones=zones,
        table=table("memory-rows", "Memory", "", ("hardware", "part", "GiB", "what"), rows),
    )


def _bar(result: Analysis) -> str:
    return str(result.hardware["name"])


def _part(result: Analysis, part: str) -> float:
    return sum(size for name, size, _ in memory_rows(result) if name == part)


def _before(result: Analysis, part: str) -> float:
    """Where the bar of a part begins."""
    total = 0.0
    for name, size, _ in memory_rows(result):
        if name == part:
            return total
        if name != "missing":
            total += size
    return total


def _filled(result: Analysis) -> float:
    return sum(size for name, size, _ in memory_rows(result) if name != "missing")
