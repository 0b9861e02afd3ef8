"""Where the time of a step goes, and where the memory of a device."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report.figure import Axis, Cell, Figure, Mark, Series, Zone
from roofline.report.keys import op_key
from roofline.report.summary import GIB, gib, memory_note, memory_rows
from roofline.report.view.cells import best, gibibytes, seconds, share, table, words

_LANES = (("compute", "matrix and vector units"), ("memory", "device memory"), ("link", "link to other devices"))
_PARTS = {"KV cache": "kv", "free": "free", "missing": "missing"}


def time_budget(phase: Phase) -> Figure:
    """An operator after the other, and how long each resource works in the time that it takes."""
    listed = [op for op in phase.operators if _slot(op)]
    starts: list[float] = []
    at = 0.0
    for op in listed:
        starts.append(at)
        at += _slot(op)
    series = [_lane("operators", "overhead", listed, starts, [_slot(op) for op in listed], phase)]
    for name, _ in _LANES:
        busy = [_busy(op, name) for op in listed]
        if any(busy):
            series.append(_lane(name, name, listed, starts, busy, phase))
    rows = [
        (
            words(op.path),
            seconds(_slot(op)),
            share(_slot(op) / at if at else None),
            *(seconds(_busy(op, name)) for name, _ in _LANES),
        )
        for op in sorted(listed, key=lambda op: -_slot(op))
    ]
    basis = "estimate" if phase.time.estimate is not None else "bound"
    names = ("operator", basis, "share", "compute", "memory", "link")
    return Figure(
        key=f"time-{phase.name}",
        title=f"Where a {phase.name} step's time goes",
        note=f"Operators one after another, each as long as its {basis}; under it how long each resource works meanwhile, at "
        "the datasheet's rate. White space in all lanes is time of no resource: launches, waves, what kernels miss.",
        x=Axis(title="time", scale="linear", low=0.0, high=at or 1.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        table=table(f"time-{phase.name}-rows", f"Time of the {phase.name} step", "longest first", names, rows),
    )


def _slot(op: OperatorResult) -> float:
    return best(op.time) or op.times.bound


def _busy(op: OperatorResult, lane: str) -> float:
    times = op.times
    busy: dict[str, float] = {"compute": times.matrix + times.vector, "memory": times.memory, "link": times.link}
    return busy[lane]


def _lane(
    name: str, role: str, listed: list[OperatorResult], starts: list[float], lengths: list[float], phase: Phase
) -> Series:
    kept = [index for index, length in enumerate(lengths) if length]
    labels = [f"{listed[index].path}: {name} {formatting.seconds(lengths[index])}" for index in kept]
    return Series(
        name=name,
        kind="bars",
        role=role,
        x=tuple(lengths[index] for index in kept),
        y=tuple(name for _ in kept),
        base=tuple(starts[index] for index in kept),
        labels=tuple(labels),
        short=tuple(listed[index].path.rpartition("/")[2] for index in kept),
        keys=tuple(op_key(phase.name, listed[index].path) for index in kept),
    )


def memory_budget(results: list[Analysis]) -> Figure:
    """What fills a device's memory, a bar a hardware."""
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
            rows.append((words(_bar(result)), words(name), gibibytes(size), words(remark)))
        rows.append((words(_bar(result)), words("budget"), gibibytes(result.memory.budget_bytes), words(memory_note(result))))
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
