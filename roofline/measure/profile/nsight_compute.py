"""Reports of Nsight Compute in CSV: hardware counters of kernels, which ran one at a time.

Counters are those of NVIDIA's metrics reference (https://docs.nvidia.com/nsight-compute/ProfilingGuide/#metrics-reference).
A counter is taken as its sum, else as its rate times what it is a rate of: "per_second" the duration, "per_cycle_elapsed" the
cycles, which is what the sections of rooflines collect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from roofline.errors import SpecError
from roofline.measure.bench.counters import BYTES, TENSOR_OPS
from roofline.measure.profile.csv_tables import CsvTable, number, open_table, scale, whole
from roofline.measure.profile.nsight_systems import operator_or_name
from roofline.measure.profile.trace import Annotation, HostOperator, Index, Trace

_PROFILE = "ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum PROGRAM"
_NVTX = "Push/Pop_Range"
_NAME, _UNIT, _VALUE = "Metric Name", "Metric Unit", "Metric Value"
_DEVICE_NAME = "device__attribute_display_name"
# Labels of the details page, of the two that are read. "Memory Throughput" is a rate or a percentage.
_LABELS = {"Duration": "gpu__time_duration.sum", "Memory Throughput": "dram__bytes.sum.per_second"}
_SECTOR = 32
"""Bytes of a sector of device memory and of L2."""

# Counters by what a trace calls them: metrics without ".sum", the first that was measured counts, times a factor.
_COUNTED: dict[str, dict[str, float]] = {
    name.removeprefix("counters_"): {metric.removesuffix(".sum"): 1.0} for metric, name in BYTES.items()
}
_COUNTED["dram_bytes"] = {"dram__bytes": 1.0}
_COUNTED["dram_read_bytes"]["dram__sectors_read"] = _SECTOR
_COUNTED["dram_write_bytes"]["dram__sectors_write"] = _SECTOR
_COUNTED["l2_bytes"]["lts__t_sectors"] = _SECTOR

# FLOP of a thread's instruction. The half precision ones count as NVIDIA's `flop_count_hp` does.
_VECTOR = {
    f"sass_thread_inst_executed_op_{letter}{name}_pred_on": flop
    for letter in "fhd"
    for name, flop in (("add", 1.0), ("mul", 1.0), ("fma", 2.0))
}
# Sections of rooflines have FMA as twice its rate per cycle. The one of "sm", without "sp", is the peak.
_FMA_TWICE = re.compile(r"derived__(smsp__sass_thread_inst_executed_op_[fhd]fma_pred_on)_x2$")
_READ = re.compile(
    r"gpu__time_duration\.(sum|avg|max)$|(sm|smsp|dram|lts)__cycles_elapsed\.(avg|max)(\.per_second)?$"
    r"|dram__(bytes|sectors)(_read|_write)?\.sum(\.|$)|lts__t_(bytes|sectors)\.sum(\.|$)|.*pipe_tensor"
    rf"|{_FMA_TWICE.pattern}|(sm|smsp)__sass_thread_inst_executed_op_\w+_pred_on\.sum(\.|$)|{TENSOR_OPS}\w+\.sum(\.|$)"
)


@dataclass(slots=True)
class _Launch:
    """One kernel of a report: cells of the columns that describe it, and its metrics in seconds, bytes and counts."""

    line: int
    cells: dict[str, str]
    metrics: dict[str, float] = field(default_factory=dict)
    device_name: str = ""

    @property
    def duration_s(self) -> float | None:
        """Its time on the device, seconds; None where it was not measured."""
        for name in ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max"):
            if (value := self.metrics.get(name)) is not None:
                return value
        cycles, rate = self._cycles("sm"), self.metrics.get("sm__cycles_elapsed.avg.per_second")
        return cycles / rate if cycles is not None and rate else None

    def _cycles(self, unit: str) -> float | None:
        for statistic in ("avg", "max"):
            if (value := self.metrics.get(f"{unit}__cycles_elapsed.{statistic}")) is not None:
                return value
        return None

    def total(self, metric: str) -> float | None:
        """The sum of a counter over the kernel; None where it was not measured."""
        if (value := self.metrics.get(f"{metric}.sum")) is not None:
            return value
        if (rate := self.metrics.get(f"{metric}.sum.per_second")) is not None and (seconds := self.duration_s) is not None:
            return rate * seconds
        if (rate := self.metrics.get(f"{metric}.sum.per_cycle_elapsed")) is None:
            return None
        unit = metric.partition("__")[0]
        if unit == "smsp" and self._cycles(unit) is None and f"{unit}__cycles_elapsed.avg.per_second" not in self.metrics:
            unit = "sm"  # a quarter of it, of the same clock
        cycles, frequency = self._cycles(unit), self.metrics.get(f"{unit}__cycles_elapsed.avg.per_second")
        if cycles is None and frequency is not None and (seconds := self.duration_s) is not None:
            cycles = frequency * seconds
        return None if cycles is None else rate * cycles

    def counters(self) -> dict[str, float]:
        """What was counted, by the names of `Kernels.counters`."""
        counters = {}
        for name, metrics in _COUNTED.items():
            for metric, factor in metrics.items():
                if (value := self.total(metric)) is not None:
                    counters[name] = factor * value
                    break
        parts = [counters[name] for name in ("dram_read_bytes", "dram_write_bytes") if name in counters]
        if len(parts) == 2:
            counters.setdefault("dram_bytes", sum(parts))
        if (flops := self._flops()) is not None:
            counters["flops"] = flops
        return counters

    def _flops(self) -> float | None:
        """FLOP of vector and matrix units; None where the part that matters is not known."""
        tensor, vector = self._tensor_flops(), self._vector_flops()
        if tensor is None or (vector is None and tensor == 0):
            return None
        return tensor + (vector or 0.0)

    def _vector_flops(self) -> float | None:
        parts = []
        for name, flop in _VECTOR.items():
            value = next((value for unit in ("sm", "smsp") if (value := self.total(f"{unit}__{name}")) is not None), None)
            if value is not None:
                parts.append(flop * value)
        return sum(parts) if parts else None

    def _tensor_flops(self) -> float | None:
        """FLOP of the matrix units; None where they ran, or may have run, and were not counted."""
        names = sorted({metric.partition(".")[0] for metric in self.metrics if metric.startswith(TENSOR_OPS)})
        # one by source and destination ("..._fp8_dst_fp32"), or by sparsity, is a part of the one without
        names = [name for name in names if not any(name.startswith(f"{other}_") for other in names)]
        values = [value for name in names if (value := self.total(name)) is not None]
        active = {metric: value for metric, value in self.metrics.items() if "pipe_tensor" in metric}
        if values and (sum(values) > 0 or not any(active.values())):
            return sum(values)
        generation = int(major) if (major := self.cells.get("CC", "").partition(".")[0]).isdecimal() else 99
        if generation < 7:
            return 0.0
        # counters by instruction ("..._op_hmma") do not have those of Hopper and later
        is_whole = generation < 9 or any("_op_" not in metric for metric in active)
        return 0.0 if active and not any(active.values()) and is_whole else None


def is_header(cells: list[str]) -> bool:
    """Return whether cells are the header of a report of Nsight Compute."""
    return "ID" in cells and "Kernel Name" in cells and len(cells) > 3


def read_nsight_compute(path: Path) -> Trace:
    """Read a report of Nsight Compute in CSV: the raw page, or the details page in its long form.

    Kernels are put end to end, since the report has no times of them. Of its NVTX ranges, those that PyTorch's `emit_nvtx`
    makes are host operators, the others annotations; ranges of one name that follow each other at once are one.

    Args:
        path: what `ncu --csv` printed, with anything before and between the rows.

    Returns:
        `serialized`, with the counters "dram_bytes", "dram_read_bytes", "dram_write_bytes", "l2_bytes" and "flops" that were
        measured. FLOP are those of the instructions that were counted, and NaN where tensor cores may have run uncounted.

    Raises:
        SpecError: no such file, empty, no report of Nsight Compute, one without a kernel or without durations.
    """
    import numpy as np

    trace = Trace(path, "Nsight Compute", serialized=True)
    names, operators, calls, ranges = Index[str](), Index[HostOperator](), Index[str](), _Ranges()
    columns: list[dict[str, float]] = []
    clock, untimed, unknown_flops, device_names = 0.0, 0, 0, dict[int, str]()
    with open_table(path, is_header) as table:
        if not table.header:
            raise SpecError(_no_report(table), path=path)
        for launch in _launches(table):
            duration = launch.duration_s
            if duration is None or duration < 0:
                untimed += 1
                continue
            operator, text, stack = ranges.parse(launch.cells.get(_NVTX, ""))
            ranges.move_to(stack, clock)
            device = whole(launch.cells.get("Device", ""), 1024)
            if launch.device_name:
                device_names[device] = launch.device_name
            trace.kernels.append(
                names(launch.cells["Kernel Name"]),
                clock,
                duration,
                operator=-1 if operator is None else operators(operator),
                call=calls(text) if ", op_id = " in text else -1,
                device=device,
                stream=whole(launch.cells.get("Stream", ""), 2**31),
            )
            columns.append(launch.counters())
            unknown_flops += "flops" not in columns[-1] and launch._vector_flops() is not None  # noqa: SLF001 - same module
            clock += duration
        trace.notes += table.notes
        if not columns:
            raise SpecError(_no_kernel(table, untimed), path=path, line=table.line)
    ranges.move_to([], clock)
    trace.annotations = sorted(ranges.closed, key=lambda annotation: annotation.start_s)
    trace.kernels.names, trace.kernels.operators = names.values, operators.values
    trace.kernels.counters = {
        name: np.array([row.get(name, np.nan) for row in columns])
        for name in (*_COUNTED, "flops")
        if any(name in row for row in columns)
    }
    trace.device_names = [device_names.get(device, "") for device in range(max(device_names, default=-1) + 1)]
    if untimed:
        trace.notes.append(f"kernels without a duration (gpu__time_duration.sum), which are left out: {untimed:,}")
    if unknown_flops:
        trace.notes.append(
            f"kernels whose FLOP are not known, for those of tensor cores were not counted: {unknown_flops:,} "
            f"(add --metrics regex:{TENSOR_OPS}.*sum)"
        )
    return trace


def _no_report(table: CsvTable) -> str:
    if table.errors:
        return f"Nsight Compute printed no table, but an error: {table.errors[0]:.200}"
    return f'no report of Nsight Compute: no row has the columns "ID" and "Kernel Name". Profile with {_PROFILE}'


def _no_kernel(table: CsvTable, untimed: int) -> str:
    notes = "".join(f"; {note}" for note in table.notes)
    if not untimed:
        return f"the report has a header and no kernels{notes}"
    return f"no kernel has a duration (gpu__time_duration.sum){notes}. Profile with {_PROFILE}"


def _launches(table: CsvTable) -> Iterator[_Launch]:
    return _long(table) if _VALUE in table.header else _raw(table)


def _describing(table: CsvTable) -> dict[str, int]:
    """Positions of the columns that describe a kernel, the NVTX one by its short name."""
    wanted = ("ID", "Process ID", "Kernel Name", "Stream", "Device", "CC")
    columns = {name: index for name in wanted if (index := table.index(name)) is not None}
    nvtx = next((index for index, name in enumerate(table.header) if _NVTX in name), None)
    return columns if nvtx is None else {**columns, _NVTX: nvtx}


def _raw(table: CsvTable) -> Iterator[_Launch]:
    """The raw page: a row of units, then a row of each kernel with a column of each metric."""
    described = _describing(table)
    metrics = [(index, name) for index, name in enumerate(table.header) if _READ.match(name)]
    width, identity, device_name = len(table.header), described["ID"], table.index(_DEVICE_NAME)
    units: list[str] = []

    def is_row(cells: list[str]) -> bool:
        return len(cells) == width and (cells[identity].isdigit() or not (units or cells[identity]))

    for line, cells in table.rows(is_row):
        if not cells[identity]:
            units = cells
            continue
        launch = _Launch(line, {name: cells[index] for name, index in described.items()})
        for index, name in metrics:
            _measure(table, launch, name, units[index] if units else _base_unit(name), cells[index])
        if device_name is not None:
            launch.device_name = cells[device_name]
        yield launch


def _base_unit(metric: str) -> str:
    """The unit of a metric in a table that lost its row of units."""
    return "ns" if metric.startswith("gpu__time") else ""


def _long(table: CsvTable) -> Iterator[_Launch]:
    """The details page: a row of each metric of each kernel, those of one kernel together."""
    described = _describing(table)
    places = [table.index(name) for name in (_NAME, _UNIT, _VALUE)]
    if None in places:
        missing = ", ".join(name for name, place in zip((_NAME, _UNIT, _VALUE), places, strict=True) if place is None)
        raise SpecError(f"the table lacks the column {missing}", path=table.path, line=table.line)
    metric, unit, value = (place for place in places if place is not None)
    identity, width = described["ID"], max(metric, unit, value, *described.values()) + 1
    current: _Launch | None = None
    key: tuple[str, ...] = ()

    def is_row(cells: list[str]) -> bool:
        return len(cells) >= width and cells[identity].isdigit()

    for line, cells in table.rows(is_row):
        if (this := (cells[identity], cells[described.get("Process ID", identity)])) != key:
            if current is not None:
                yield current
            key, current = this, _Launch(line, {name: cells[index] for name, index in described.items()})
        assert current is not None  # noqa: S101 - narrows the type: the key of the first row is new
        name = _LABELS.get(cells[metric], cells[metric])
        if name == _DEVICE_NAME:
            current.device_name = cells[value]
        elif _READ.match(name) and not (name == _LABELS["Memory Throughput"] and "/" not in cells[unit]):
            _measure(table, current, name, cells[unit], cells[value], line)
    if current is not None:
        yield current


def _measure(table: CsvTable, launch: _Launch, name: str, unit: str, cell: str, line: int = 0) -> None:
    """Take a cell as a metric of a kernel, in base units."""
    try:
        value = number(cell)
    except ValueError as error:
        raise SpecError(f"{name}: {error}", path=table.path, line=line or launch.line) from None
    if value is None:
        return
    if (factor := scale(unit)) is None:
        note = f"{name} is not read: its unit {unit!r} is not known"
        if note not in table.notes:
            table.notes.append(note)
        return
    if (twice := _FMA_TWICE.match(name)) is not None:
        name, factor = f"{twice[1]}.sum.per_cycle_elapsed", factor / 2
    launch.metrics[name] = value * factor


# A cell has the thread, then each open range in quotation marks, the outermost first:
# 13416  "<default domain>:aten::mm, op_id = 3:none:none:none:none:none:none"
# with the domain before the name, and six fields of payload, color and message after it.
_RANGE = re.compile(r'"[^":]*:(?P<name>[^"]*?)(?:(?::[^":]*){6}|(?::none)*)"')


class _Ranges:
    """NVTX ranges around kernels: those that are open, and annotations of those that have closed."""

    def __init__(self) -> None:
        self._open: list[tuple[str, float]] = []
        self.closed: list[Annotation] = []

    def parse(self, cell: str) -> tuple[HostOperator | None, str, list[str]]:
        """The innermost operator, the text of its range, and the names of the other ranges in a cell, the outermost first."""
        operator, text, stack = None, "", []
        for match in _RANGE.finditer(cell):
            this = operator_or_name(match["name"])
            if isinstance(this, HostOperator):
                operator, text = this, match["name"]
            else:
                stack.append(this)
        return operator, text, stack

    def move_to(self, stack: list[str], time_s: float) -> None:
        """Close and open ranges so that these are open."""
        same = 0
        while same < min(len(stack), len(self._open)) and self._open[same][0] == stack[same]:
            same += 1
        while len(self._open) > same:
            name, start = self._open.pop()
            self.closed.append(Annotation(name, start, time_s - start))
        self._open += [(name, time_s) for name in stack[same:]]
