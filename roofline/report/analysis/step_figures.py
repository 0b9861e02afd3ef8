"""Figures of one step: the roofline, where its time goes, and the memory of each device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofline import formatting
from roofline.predict.request import ResolvedRequest
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report.cells import amount, best, gibibytes, number_cell, op_key, seconds, share, table, text_cell
from roofline.report.figure import Axis, Block, Cell, Column, Figure, Mark, Series, Table, Zone
from roofline.report.summary import GIB, gib, memory_note, memory_rows, phase_title

_MARGIN = 3.0
"""By so much a roof goes on beyond the outermost operator."""
_SMALL, _NAMED = 0.01, 0.03
"""Shares of a phase's time from which on a product is drawn, and any operator, with its name beside it."""
_LAUNCH = 30.0
"""Operators that take this many times their bound are launches and little else: far below the plane."""


def roofline_figure(
    request: ResolvedRequest, result: Analysis, others: Sequence[tuple[ResolvedRequest, Analysis]] = ()
) -> Figure:
    """The roofline plot: FLOP/s against FLOP/byte of the operators that take time, and the roofs.

    Args:
        request: the deployment, whose operators have their names at their points.
        result: its analysis.
        others: more hardware in the same plane, each with its roof.
    """
    cards = [(request, result), *others]
    drawn = [(number, phase, _long(phase)) for number, (_, one) in enumerate(cards) for phase in one.steps]
    points = [_intensity(op) for _, _, listed in drawn for op in listed]
    ridges = [one.hardware.peak(dtype) / one.hardware.bandwidth for one, each in cards for dtype in _formats(each)]
    low = min([*points, *[ridge / 10 for ridge in ridges]], default=1.0) / _MARGIN
    high = max([*points, *ridges], default=1.0) * _MARGIN
    reached = [_attained(op, _took(op)) for _, _, listed in drawn for op in listed if _took(op)]
    peaks = [one.hardware.peak(dtype) for one, each in cards for dtype in _formats(each)]
    bottom = min(reached, default=1.0) / 3
    names = [str(each.hardware["name"]) for _, each in cards]
    series: list[Series] = []
    for number, (one, each) in enumerate(cards):
        series += _ceilings(one, each, number, len(cards) > 1, low, high)
    series += _bounds([op for number, _, listed in drawn if number == 0 for op in listed])
    wholes = [_whole(phase) for _, phase, _ in drawn]
    parts = [_share(op, whole) for (_, _, listed), whole in zip(drawn, wholes, strict=True) for op in listed]
    longest = max(parts, default=1.0) or 1.0
    for number, phase, listed in drawn:
        if len(listed) > 0:
            series.append(_operators(phase, listed, number, names, longest))
    return Figure(
        key="roofline",
        title="Roofline",
        note=f"What each operator attains{_basis(result)}. Area: share of the phase's time.{_left_out(result)}",
        x=Axis(title="arithmetic intensity", scale="log", low=low, high=high, unit="FLOP/byte"),
        y=Axis(title="attained FLOP/s", scale="log", low=bottom, high=2 * max([*peaks, *reached], default=10.0), unit="FLOP/s"),
        series=tuple(series),
        table=_points([(_titled(phase, number, names), op) for number, phase, listed in drawn for op in listed]),
    )


def _intensity(op: OperatorResult) -> float:
    moved: float = op.cost.bytes
    return _work(op) / moved


def _work(op: OperatorResult) -> float:
    """FLOP that a roof bounds: those of the matrix units, which the peak is of; of an operator without them all."""
    work: float = op.cost.matrix_flops or op.cost.flops
    return work


def _attained(op: OperatorResult, time: float) -> float:
    return _work(op) / time if time else 0.0


def _whole(phase: Phase) -> float:
    """Seconds of all operators of a phase."""
    return sum(_took(one) for one in phase.operators)


def _share(op: OperatorResult, whole: float) -> float:
    """The share of a time."""
    return _took(op) / whole if whole else 0.0


def _counted(phase: Phase) -> list[OperatorResult]:
    """Operators that a roof bounds: with FLOP and bytes, and without a link, which is slower than both."""
    return [op for op in phase.operators if op.cost.flops and op.cost.bytes and not op.cost.link_bytes]


def _long(phase: Phase) -> list[OperatorResult]:
    """Operators that are drawn: products from `_SMALL` of the phase's time on, others from `_NAMED`; no mere launches."""
    counted = _counted(phase)
    working, whole = [op for op in counted if _took(op) < _LAUNCH * op.times.bound], _whole(phase)
    return [op for op in working if _share(op, whole) >= (_SMALL if op.cost.matrix_flops else _NAMED)] or working or counted


def _basis(result: Analysis) -> str:
    """What times the points are at."""
    estimated = any(phase.time.estimate is not None for phase in result.steps)
    return " by the estimate; hollow: at its bound" if estimated else " at its bound"


def _left_out(result: Analysis) -> str:
    """How many operators the plane leaves out, and what they take."""
    count, most = 0, 0.0
    for phase in result.steps:
        drawn, whole = {op.path for op in _long(phase)}, _whole(phase)
        rest = [op for op in _counted(phase) if op.path not in drawn]
        count, most = count + len(rest), max(most, sum([_share(op, whole) for op in rest]))
    if count == 0:
        return ""
    return f" Not drawn: {count} short operators, {formatting.percent(most, 0)} of a phase at most."


_CLOSE = 0.14
"""Points nearer to each other than this power of ten on both axes have one text."""
_LINES = 4


def _names(phase: Phase, listed: list[OperatorResult]) -> list[str]:
    """The text beside each point: name and share of the longest operators, those of points on one spot in one text."""
    names = [_name(op, phase.operators) for op in listed]
    order = sorted(range(len(listed)), key=lambda index: -_took(listed[index]))
    whole = _whole(phase)
    waiting = [index for index in order if _share(listed[index], whole) >= _NAMED]
    texts = ["" for _ in listed]
    while len(waiting) > 0:
        first = waiting[0]
        near = [index for index in waiting if _near(listed[first], listed[index])]
        waiting = [index for index in waiting if index not in near]
        shares: dict[str, float] = {}
        for index in near:
            shares[names[index]] = shares.get(names[index], 0.0) + _share(listed[index], whole)
        lines = [f"{name} {formatting.percent(part, 0)}" for name, part in shares.items()]
        if len(lines) > _LINES:
            rest = sum([part for index, part in enumerate(shares.values()) if index >= _LINES - 1])
            lines = [*lines[: _LINES - 1], f"{len(shares) - _LINES + 1} others {formatting.percent(rest, 0)}"]
        texts[first] = "\n".join(lines)
    return texts


def _near(one: OperatorResult, other: OperatorResult) -> bool:
    across = _intensity(one) / _intensity(other)
    up = _attained(one, _took(one)) / _attained(other, _took(other))
    return abs(math.log10(across)) < 2 * _CLOSE and abs(math.log10(up)) < _CLOSE


def _name(op: OperatorResult, among: Sequence[OperatorResult]) -> str:
    """The last part of a path, with the part before it where others have the same name; the core of attention has its."""
    before, _, name = op.path.rpartition("/")
    part = before.rpartition("/")[2]
    if name == "core":
        return part
    same = [one.path.rpartition("/") for one in among if one.path.endswith(f"/{name}")]
    return name if all(other.rpartition("/")[2] == part for other, _, _ in same) else f"{part} {name}"


def _took(op: OperatorResult) -> float:
    """Seconds of an operator: the estimate where there is one."""
    return best(op.time) or op.times.bound


def _label(title: str, op: OperatorResult) -> str:
    rate = formatting.quantity(_attained(op, _took(op)), "FLOP/s", 3)
    intensity = f"{_intensity(op):,.3g} FLOP/byte"
    most = f", at most {formatting.quantity(_attained(op, op.times.bound), 'FLOP/s', 3)}" if op.times.bound else ""
    return f"{title} {op.path}: {rate}{most}, {intensity}, {formatting.seconds(_took(op))}, bound by {op.bound_by}"


def _operators(phase: Phase, listed: list[OperatorResult], card: int, names: Sequence[str], longest: float) -> Series:
    """The points of a phase on one card; on the first with their names."""
    title, whole = _titled(phase, card, names), _whole(phase)
    return Series(
        name=title,
        kind="points",
        role=phase.name if card == 0 else f"{phase.name}-card",
        x=tuple(_intensity(op) for op in listed),
        y=tuple(_attained(op, _took(op)) if _took(op) else None for op in listed),
        size=tuple(_share(op, whole) / longest for op in listed),
        labels=tuple(_label(title, op) for op in listed),
        short=tuple(_names(phase, listed)) if card == 0 else (),
        keys=tuple(op_key(phase.name, op.path) for op in listed) if card == 0 else (),
        variant=card,
    )


def _titled(phase: Phase, card: int, names: Sequence[str]) -> str:
    return phase.name if len(names) == 1 else f"{phase.name}, {names[card]}"


def _bounds(listed: list[OperatorResult]) -> list[Series]:
    """Where operators would be at their bounds, each joined with its point."""
    above = [op for op in listed if op.times.bound and _took(op) > 1.02 * op.times.bound]
    if len(above) == 0:
        return []
    ways: list[tuple[float, float | None]] = []
    for op in above:
        at = _intensity(op)
        ways += [(at, _attained(op, _took(op))), (at, _attained(op, op.times.bound)), (at, None)]
    return [
        Series(name="", kind="line", role="gap", x=tuple(x for x, _ in ways), y=tuple(y for _, y in ways)),
        Series(
            name="roofline bound",
            kind="points",
            role="at-bound",
            x=tuple(_intensity(op) for op in above),
            y=tuple(_attained(op, op.times.bound) for op in above),
            labels=tuple(_label("bound of", op) for op in above),
        ),
    ]


def _formats(result: Analysis) -> list[str]:
    """The formats that are multiplied."""
    return sorted({op.dtype for phase in result.steps for op in phase.operators if op.cost.matrix_flops})


def _ceilings(request: ResolvedRequest, result: Analysis, card: int, named: bool, low: float, high: float) -> list[Series]:
    """A roof for each format that is multiplied, of the datasheet; of one card also as far as kernels reach it."""
    hardware, ceilings = request.hardware, []
    products = [op for phase in result.steps for op in phase.operators if op.cost.matrix_flops]
    longest = max(_formats(result), key=lambda dtype: sum(_took(op) for op in products if op.dtype == dtype), default="")
    for index, dtype in enumerate(_formats(result)):
        peak, bandwidth = hardware.peak(dtype), hardware.bandwidth
        variant = card if named else index
        memory = formatting.quantity(bandwidth, "B/s", 3) if index == 0 else ""
        matrix = f"{formatting.quantity(peak, 'FLOP/s', 3)} {dtype}"
        name = f"{hardware.name} roof" if named and index == 0 else f"{dtype} roof"
        ceilings.append(_ceiling(name, "roof", variant, peak, bandwidth, low, high, (memory, matrix)))
        fits = request.estimator.applies and not named and dtype == longest
        fitted = request.estimator.fits.find(f"gemm/{dtype}") if fits else None
        if fitted is not None and "compute" in fitted.values and "memory" in fitted.values:
            compute, reached = fitted.values["compute"] * peak, fitted.values["memory"] * bandwidth
            name = f"achievable, {formatting.quantity(reached, 'B/s', 3)}"
            ceilings.append(_ceiling(name, "roof-achievable", 0, min(compute, peak), reached, low, high, ()))
    return ceilings


def _ceiling(
    name: str, role: str, variant: int, peak: float, bandwidth: float, low: float, high: float, along: tuple[str, ...]
) -> Series:
    xs = (low, peak / bandwidth, high)
    return Series(
        name=name,
        kind="line",
        role=role,
        x=xs,
        y=tuple(min(peak, bandwidth * x) for x in xs),
        along=along,
        variant=variant,
    )


def _points(drawn: list[tuple[str, OperatorResult]]) -> Table:
    rows = [
        (
            text_cell(title),
            text_cell(op.path),
            number_cell(_intensity(op)),
            amount(_attained(op, _took(op)) if _took(op) else None, "FLOP/s"),
            amount(_attained(op, op.times.bound) if op.times.bound else None, "FLOP/s"),
            seconds(_took(op)),
            text_cell(op.bound_by),
        )
        for title, op in drawn
    ]
    names = ("phase", "operator", "FLOP/byte", "attained", "at the bound", "time", "binds")
    return table("roofline-points", "Points of the roofline", "all operators: see Operators", names, rows)


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
    note = "Rows are totals over x layers."
    if result.hardware["devices"] > 1:
        note += f" One device of {result.hardware['devices']}."
    made = table(f"operators-{phase.name}", title, note, (*names, "binds"), rows)
    # a column is a column of numbers also where no cell is one
    columns = tuple(Column(name=entry.name, number=entry.name not in ("operator", "binds")) for entry in made.columns)
    return Table(key=made.key, title=made.title, note=made.note, columns=columns, rows=made.rows)


# Time and memory

PARTS = {
    "KV cache": "kv",
    "vision tower": "tower",
    "audio tower": "tower",
    "towers": "tower",
    "free": "free",
    "missing": "missing",
}
"""Roles of parts of the memory whose name is another."""


_BARS = 10
"""Operators with a bar of their own, at most."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """Operators of one name, or all the short ones: seconds that they take, their bound, and what each resource needs."""

    name: str
    key: str
    took: float
    bound: float
    resources: tuple[float, float, float]


def time_budget(phase: Phase) -> Figure:
    """Bar plot of the seconds of a phase's operators, the longest first, with a mark at the bound of each."""
    listed = [op for op in phase.operators if _took(op) > 0]  # what overlap hides is no bar
    bars = _ranked([_bar_of(_name(op, listed), op_key(phase.name, op.path), op) for op in listed])
    whole_time = sum([bar.took for bar in bars])
    basis = "estimate" if phase.time.estimate is not None else "bound"
    shares = [formatting.percent(bar.took / whole_time if whole_time else None, 0) for bar in bars]
    texts = [formatting.about(bar.took) if basis == "estimate" else formatting.fixed(bar.took, "s", 3) for bar in bars]
    series = [
        Series(
            name=basis,
            kind="bars",
            role=f"{phase.name}-time",
            x=tuple(bar.took for bar in bars),
            y=tuple(bar.name for bar in bars),
            labels=tuple(_time_label(bar, basis) for bar in bars),
            short=tuple(f"{text}, {part}" for text, part in zip(texts, shares, strict=True)),
            keys=tuple(bar.key for bar in bars),
        )
    ]
    if basis == "estimate":
        series.append(
            Series(
                name="roofline bound",
                kind="points",
                role="bound-mark",
                x=tuple(bar.bound for bar in bars),
                y=tuple(bar.name for bar in bars),
                labels=tuple(f"{bar.name}: bound {formatting.seconds(bar.bound)}" for bar in bars),
            )
        )
    rows = [
        (
            text_cell(bar.name),
            seconds(bar.took),
            share(bar.took / whole_time if whole_time else None),
            seconds(bar.bound),
            *(seconds(value) for value in bar.resources),
        )
        for bar in bars
    ]
    mark = ", with a mark at its roofline bound" if basis == "estimate" else ""
    names = ("operator", "time", "share", "bound", "compute", "memory", "link")
    return Figure(
        key=f"time-{phase.name}",
        title=f"Where the {phase.name} time goes",
        note=f"The {basis} of each operator in all layers, longest first{mark}.",
        x=Axis(title="time", scale="linear", low=0.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        table=table(
            f"time-{phase.name}-rows", f"Time of the {phase.name} step", f"longest first; time is the {basis}", names, rows
        ),
    )


def _bar_of(name: str, key: str, op: OperatorResult) -> _Bar:
    times = op.times
    return _Bar(name, key, _took(op), times.bound, (times.matrix + times.vector, times.memory, times.link))


def _ranked(bars: list[_Bar]) -> list[_Bar]:
    """Bars of the same name as one, the longest first, and the shortest together at the end."""
    names: dict[str, list[_Bar]] = {}
    for bar in bars:
        names.setdefault(bar.name, []).append(bar)
    ranked = sorted([_together(name, same[0].key, same) for name, same in names.items()], key=lambda bar: -bar.took)
    if len(ranked) <= _BARS:
        return ranked
    rest = ranked[_BARS - 1 :]
    return [*ranked[: _BARS - 1], _together(f"{len(rest)} others", "", rest)]


def _together(name: str, key: str, bars: list[_Bar]) -> _Bar:
    resources = [sum([bar.resources[index] for bar in bars]) for index in range(3)]
    took, bound = sum([bar.took for bar in bars]), sum([bar.bound for bar in bars])
    return _Bar(name, key, took, bound, (resources[0], resources[1], resources[2]))


def _time_label(bar: _Bar, basis: str) -> str:
    needed = zip(("compute", "memory", "link"), bar.resources, strict=True)
    parts = [f"{name} {formatting.seconds(value)}" for name, value in needed if value]
    return f"{bar.name}: {basis} {formatting.seconds(bar.took)}; at the datasheet's rates {', '.join(parts) or '0 s'}"


def memory_budget(results: list[Analysis]) -> Figure:
    """Bar plot of what fills the memory of each device in GiB, a bar per hardware."""
    parts: list[str] = []
    for result in results:
        parts += [name for name, _, _ in memory_rows(result) if name not in parts and name != "missing"]
    series = [
        Series(
            name=part,
            kind="bars",
            role=PARTS.get(part, part),
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
        marks.append(Mark(text=f"engine's share {gib(one.budget_bytes)} GiB", x=one.budget_bytes / GIB))
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


# The device

_LINE, _PAD = 15.0, 14.0
"""Pixels of a line of text in a block of the schematic, and of what its lines have around them."""
_PIPE, _CACHE, _WIDEST = 34.0, 26.0, 46.0
"""Pixels of the height of a pipe and of the cache; share of the width, in percent, that the widest pipe takes."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A part of a device: its name, role and rate, and the seconds that it works in each phase at that rate."""

    name: str
    role: str
    rate: str
    times: list[float]
    limits: list[bool]


def schematic(request: ResolvedRequest, result: Analysis, key: str = "device") -> Figure:
    """Schematic of a device: compute, the last cache, memory and link, each with the time that it works in each phase.

    Times are the work over the datasheet's rates. What bounds most of a phase, operator by operator, has a thick outline: its
    own time need not be the longest, since others work while it does. Pipes are as wide as their bytes per second.
    """
    hardware, phases = request.hardware, [phase for phase in result.steps if phase.time.bound is not None]
    matrix, vector, memory, link = _units(request, phases)
    linked = sum(link.times) > 0
    tall = _PAD + _LINE * (2 + len(phases))
    rates = [hardware.bandwidth, *([_link_rate(request)] if linked else [])]
    blocks: list[Block] = []
    top = float(5 * linked) + tall + (tall + _PIPE) * linked + _PIPE + _CACHE + tall + 4
    low = top - 2 - tall
    blocks.append(_block_of(matrix, 0.0, 62.0, low, low + tall, phases))
    blocks.append(_block_of(vector, 64.0, 100.0, low, low + tall, phases))
    low -= _CACHE
    cache = hardware.accelerator.l2
    size = f", {formatting.binary(cache.value, 3)}" if cache is not None else ""
    blocks.append(Block(text=f"last-level cache{size}", role="free", x0=0.0, x1=100.0, y0=low + 3, y1=low + _CACHE - 3))
    low -= _PIPE
    blocks.append(_pipe(memory, rates[0] / max(rates), low, low + _PIPE))
    low -= tall
    blocks.append(_block_of(memory, 0.0, 100.0, low, low + tall, phases))
    if linked:
        low -= _PIPE
        blocks.append(_pipe(link, rates[1] / max(rates), low, low + _PIPE))
        low -= tall
        blocks.append(_block_of(link, 0.0, 100.0, low, low + tall, phases))
    units = [matrix, vector, memory, *([link] if linked else [])]
    rows = [
        (
            text_cell(unit.name),
            text_cell(unit.rate),
            *(seconds(needed) for needed in unit.times),
            text_cell(" and ".join([phase.name for phase, limits in zip(phases, unit.limits, strict=True) if limits])),
        )
        for unit in units
    ]
    names = ("part", "rate", *(f"{phase.name}" for phase in phases), "limits")
    name = result.hardware["name"]
    share_of = f" One of {result.hardware['devices']} devices." if result.hardware["devices"] > 1 else ""
    return Figure(
        key=key,
        title=f"Time of each part of {name}",
        note=f"Work of each part over its rate on the datasheet. Thick: what bounds most of a phase.{share_of}",
        x=Axis(title="", scale="linear", low=-0.5, high=100.5),
        y=Axis(title="", scale="linear", low=0.0, high=top),
        series=(),
        blocks=tuple(blocks),
        table=table(f"{key}-rows", "Parts of the device", "", names, rows),
    )


def _units(request: ResolvedRequest, phases: list[Phase]) -> tuple[_Unit, _Unit, _Unit, _Unit]:
    """Matrix units, vector units, memory and link."""
    hardware = request.hardware
    products = [op for phase in phases for op in phase.operators if op.cost.matrix_flops]
    dtypes = sorted({op.dtype for op in products})
    dtype = max(dtypes, key=lambda name: sum([op.times.matrix for op in products if op.dtype == name]), default="")
    peak = f"{formatting.quantity(hardware.peak(dtype), 'FLOP/s', 3)} {dtype}" if dtype else ""
    vector_peak = hardware.vector_peak
    vector_rate = formatting.quantity(vector_peak, "FLOP/s", 3) if vector_peak else "rate not known"
    matrix = [sum([op.times.matrix for op in phase.operators]) for phase in phases]
    vector = [sum([op.times.vector for op in phase.operators]) for phase in phases]
    memory = [sum([op.times.memory for op in phase.operators]) for phase in phases]
    link = [sum([op.times.link for op in phase.operators]) for phase in phases]
    pairs = list(zip(phases, matrix, vector, strict=True))
    stored = f"{hardware.accelerator.memory.type} {formatting.binary(hardware.memory_bytes, 3)}"
    rate = formatting.quantity(_link_rate(request), "B/s", 3) if sum(link) > 0 else ""
    return (
        _Unit("matrix units", "compute", peak, matrix, [one.bound_by == "compute" and of >= other for one, of, other in pairs]),
        _Unit("vector units", "compute", vector_rate, vector, [one.bound_by == "compute" and of < by for one, of, by in pairs]),
        _Unit(
            stored,
            "memory",
            formatting.quantity(hardware.bandwidth, "B/s", 3),
            memory,
            [p.bound_by == "memory" for p in phases],
        ),
        _Unit("links to the other devices", "link", rate, link, [phase.bound_by == "link" for phase in phases]),
    )


def _link_rate(request: ResolvedRequest) -> float:
    """Byte/s in one direction of the links between the devices of one group."""
    deployment = request.deployment
    sizes = (deployment.tensor_parallel_size, deployment.expert_parallel_size, 2)
    joined = request.hardware.connection(next(size for size in sizes if size > 1))
    return 0.0 if joined is None else joined.within(joined.together - 1)


def _block_of(unit: _Unit, x0: float, x1: float, y0: float, y1: float, phases: list[Phase]) -> Block:
    """The block of a part, with a line for each phase."""
    lines = [unit.name, unit.rate]
    for phase, needed, limits in zip(phases, unit.times, unit.limits, strict=True):
        lines.append(f"{phase.name} {formatting.quantity(needed, 's', 3)}{' (limits)' if limits else ''}")
    return Block(text="\n".join(lines), role=unit.role, x0=x0, x1=x1, y0=y0, y1=y1, strong=any(unit.limits))


def _pipe(unit: _Unit, part: float, y0: float, y1: float) -> Block:
    """A pipe whose width is its share of the widest one's, with its rate beside it."""
    half = _WIDEST * part / 2
    return Block(
        text=unit.rate, role=unit.role, x0=30.0 - half, x1=30.0 + half, y0=y0, y1=y1, strong=any(unit.limits), beside=True
    )
