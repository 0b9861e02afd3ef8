"""Reports of Nsight Systems: SQLite exports, and the tables of `nsys stats` in CSV.

The layout of an export is that of its documentation (https://docs.nvidia.com/nsight-systems/UserGuide/#sqlite-schema-reference).
Tables and columns came over the years: of a trace only the kernels with their times and names are required.
"""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

from roofline import files
from roofline.errors import SpecError
from roofline.measure.profile.csv_tables import CsvTable, number, open_table, scale, whole
from roofline.measure.profile.kineto import MAX_BYTES
from roofline.measure.profile.trace import ACTIVITIES, Activity, Annotation, HostOperator, Index, Trace, as_shape

MAGIC = b"SQLite format 3\0"
_PROFILE = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node PROGRAM"
_SOURCE = "Nsight Systems"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_NVTX = "NVTX_EVENTS"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_DEVICE_TABLES: dict[str, Activity] = {
    _KERNELS: "kernel",
    _GRAPHS: "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
}
_KERNEL_NAMES = ("demangledName", "shortName", "mangledName", "name")
# CUpti_ActivityMemcpyKind
_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_PUSH_POP, _START_END = (59, 70), (60, 71)
"""Types of NVTX events that are ranges: of one thread, which nest, and free ones; the second of each is an imported one."""
_WAITS = (1, 3, 4)
"""Types of synchronization in which the host waits: for an event, a stream, a context. Type 2 is a stream that waits."""
_WAIT_CALLS = re.compile(r"(cuda(Device|Stream|Event|Thread)|cu(Ctx|Stream|Event))Synchronize(_|$)")
_PID = 24
"""Bits of the thread in a serialized identifier; above them is the process."""
_MOST_INSTANCES = 50_000_000
_LONGEST_VALUE = 2**26
"""Bytes of a text of an export; templates of kernels have thousands."""

# NVTX


def operator_or_name(text: str) -> HostOperator | str:
    """The operator that an NVTX range of PyTorch's `emit_nvtx` stands for, with shapes if any; the name of any other range.

    >>> operator_or_name("aten::addmm, seq = 5, op_id = 9, sizes = [[1024], [8, 512], [512, 1024]]").shapes
    ((1024,), (8, 512), (512, 1024))
    >>> operator_or_name("decode, op_id = 12")  # of `record_function`
    'decode'
    """
    # "aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0), ]", each part where there is one
    rest, _, _ = text.partition(", input_op_ids = ")
    rest, has_sizes, sizes = rest.partition(", sizes = ")
    name, *numbers = rest.split(", ")
    if not all(part.startswith(("seq = ", "op_id = ")) for part in numbers):
        return text
    has_sequence = bool(numbers) and numbers[0].startswith("seq")
    if has_sequence or name.startswith("aten::") or ("::" in name and (numbers or has_sizes)):
        return _operator(name, sizes)
    return name


@lru_cache(maxsize=65536)
def _operator(name: str, sizes: str) -> HostOperator:
    try:
        shapes = json.loads(sizes) if sizes else []
    except ValueError:  # cut off
        shapes = []
    return HostOperator(name, tuple(as_shape(part) for part in shapes) if isinstance(shapes, list) else ())


# SQLite


def read_nsight_systems(path: Path) -> Trace:
    """Read a report of Nsight Systems: `nsys export --type sqlite`, or `nsys stats --format csv` of kernels.

    Ranges of PyTorch's `emit_nvtx` are the host operators of the kernels that their thread launched inside them, the innermost
    one; other NVTX ranges are annotations. The kernels of a CUDA graph have no operator. A launch of a graph of which only the
    whole was traced is one kernel, "CUDA graph ...".

    Args:
        path: a SQLite export, or a CSV of `cuda_gpu_trace` or `cuda_gpu_kern_sum`. A summary has no times: each kernel is
            its number of instances of its average, end to end, and the trace is `serialized`.

    Raises:
        SpecError: no such file, empty, no report of Nsight Systems, one without kernels, a damaged one.
    """
    with files.open_input(path, MAX_BYTES, "a profiler trace") as file:
        is_database = file.peek(len(MAGIC)).startswith(MAGIC)
    return _Export(path).read() if is_database else _read_csv(path)


class _Export:
    """A SQLite export, of which rows are read in order, none kept."""

    def __init__(self, path: Path) -> None:
        self.trace = Trace(path, _SOURCE)
        self.columns: dict[str, list[str]] = {}
        self._names, self._operators = Index[str](), Index[HostOperator]()
        self._processes = Index[int]()
        self._zero, self._end_s = 0, 0.0
        self._by_process = False
        # of each kernel its process and call of the host, of each of those its time, operator and the call of that
        self._kernel_keys = array("q")
        self._call_keys, self._call_starts, self._call_operators = array("q"), array("q"), array("i")
        self._operator_calls = array("q")
        self._bad_times = 0

    def read(self) -> Trace:
        """Everything in it."""
        try:
            with closing(self._connect(f"{self.trace.path.resolve().as_uri()}?mode=ro")) as self._database:
                self._database.text_factory = lambda raw: raw.decode("utf-8", "replace")
                self._distrust()
                self._read_tables()
        except (TypeError, ValueError, OverflowError) as error:
            raise self._error(f"has values that an export does not have ({error})") from None
        self._join()
        self.trace.kernels.names, self.trace.kernels.operators = self._names.values, self._operators.values
        self.trace.kernels.order()
        self.trace.annotations.sort(key=lambda annotation: annotation.start_s)
        if self._bad_times:
            self.trace.notes.append(
                f"events without an end, or with one before their start, which are left out: {self._bad_times:,}"
            )
        return self.trace

    def _read_tables(self) -> None:
        self._read_layout()
        self._zero = self._first_event()
        devices = self._read_devices()
        for table, activity in _DEVICE_TABLES.items():
            if table in self.columns:
                self._read_activities(table, ACTIVITIES.index(activity), devices)
        if not len(self.trace.kernels):
            raise self._error(f"its tables have no kernels. Profile with {_PROFILE}")
        self._read_host()
        self._read_waits()

    def _connect(self, address: str) -> sqlite3.Connection:
        try:
            return sqlite3.connect(address, uri=True)
        except sqlite3.Error as error:
            raise self._error(f"cannot be opened: {error}") from None

    def _distrust(self) -> None:
        """What SQLite advises for files of others (https://www.sqlite.org/security.html): a schema may hold code too."""
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)

    def _error(self, message: str) -> SpecError:
        return SpecError(message, path=self.trace.path)

    def _rows(self, table: str, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a query about a table.

        Raises:
            SpecError: with the table and the number of rows before it, where the file is damaged.
        """
        count = 0
        try:
            for count, row in enumerate(self._database.execute(query, values), 1):  # noqa: B007 - the error has it
                yield row
        except sqlite3.Error as error:
            raise self._error(
                f"{table} cannot be read after {count:,} rows ({error}): the file is truncated or damaged. "
                "Export it again with nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"
            ) from None

    def _read_layout(self) -> None:
        # a table without a page is made up by a module of SQLite, which an export needs none of
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        tables = [name for (name,) in self._rows("the list of its tables", query)]
        for table in tables:
            quoted = table.replace('"', '""')
            self.columns[table] = [row[1] for row in self._rows(table, f'PRAGMA table_info("{quoted}")')]
        if _KERNELS not in tables and _GRAPHS not in tables:
            if "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL" in tables:
                raise self._error("is a profile of nvprof, which is not read; profile with Nsight Systems")
            if _NVTX in tables or "StringIds" in tables or any(table.startswith("TARGET_INFO") for table in tables):
                raise self._error(f"the table {_KERNELS} is missing: no CUDA kernel was traced. Profile with {_PROFILE}")
            few = ", ".join(tables[:8]) or "none"
            raise self._error(f"is a SQLite database, but no export of Nsight Systems; its tables: {few:.200}")
        self._by_process = self._has(_KERNELS, "globalPid") and self._has(_RUNTIME, "globalTid")
        for table in _DEVICE_TABLES:
            if table not in self.columns:
                continue
            missing = [name for name in ("start", "end") if name not in self.columns[table]]
            if table == _KERNELS and not any(name in self.columns[table] for name in _KERNEL_NAMES):
                missing.append(f"{_KERNEL_NAMES[0]} or {_KERNEL_NAMES[1]}")
            if missing:
                raise self._error(f"the table {table} lacks {', '.join(missing)}; it has {', '.join(self.columns[table]):.200}")

    def _column(self, table: str, *names: str) -> str:
        """The first of these columns that a table has, for a query; NULL if none."""
        return next((f'"{name}"' for name in names if name in self.columns.get(table, ())), "NULL")

    def _has(self, table: str, *names: str) -> bool:
        return table in self.columns and all(name in self.columns[table] for name in names)

    def _first_event(self) -> int:
        starts = []
        for table in (*_DEVICE_TABLES, _RUNTIME, _SYNC, _NVTX):
            if self._has(table, "start"):
                starts += [start for (start,) in self._rows(table, f"SELECT MIN(start) FROM {table}") if start is not None]  # noqa: S608 - own names
        return min(starts, default=0)

    def _seconds(self, time: int) -> float:
        return (time - self._zero) * 1e-9

    def _read_devices(self) -> dict[tuple[int, int], int]:
        """Names of the devices; numbers of devices by process and the process's own number."""
        names: dict[int, str] = {}
        for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
            if self._has(table, "name") and (key := self._column(table, "id", "deviceId")) != "NULL":
                rows = self._rows(table, f"SELECT {key}, name FROM {table}")  # noqa: S608
                names |= {device: name for device, name in rows if name and 0 <= device < 1024}
        self.trace.device_names = [names.get(device, "") for device in range(max(names, default=-1) + 1)]
        table = "TARGET_INFO_CUDA_DEVICE"
        if not self._has(table, "gpuId", "cudaId", "pid"):
            return {}
        return {(pid, cuda): gpu for pid, cuda, gpu in self._rows(table, f"SELECT pid, cudaId, gpuId FROM {table}")}  # noqa: S608

    def _name(self, table: str, value: object, texts: dict[object, int]) -> int:
        """The number of the name of a kernel, copy or fill; `texts` are those of this table by what stands in its column."""
        if (index := texts.get(value)) is not None:
            return index
        if table == _GRAPHS:
            text = f"CUDA graph {value}"
        elif table.endswith("MEMCPY"):
            text = f"Memcpy {_COPIES[value]}" if isinstance(value, int) and value in _COPIES else "Memcpy"
        elif table.endswith("MEMSET"):
            text = "Memset"
        else:
            text = self._text(value)
        texts[value] = index = self._names(text)
        return index

    def _text(self, value: object) -> str:
        """A text of the export: the string itself, or the one of this number."""
        if isinstance(value, str):
            return value
        if value is not None and self._has("StringIds", "id", "value"):
            for (text,) in self._rows("StringIds", "SELECT value FROM StringIds WHERE id = ?", (value,)):
                return str(text)
        return "(no name)"

    def _read_activities(self, table: str, activity: int, devices: dict[tuple[int, int], int]) -> None:
        """What ran on devices, of one table."""
        kernels, texts = self.trace.kernels, dict[object, int]()
        name = {_KERNELS: _KERNEL_NAMES, _GRAPHS: ("graphId", "graphExecId")}.get(table, ("copyKind",))
        columns = ("deviceId",), ("streamId",), ("correlationId",), ("globalPid",), name, ("graphNodeId",), ("bytes",)
        chosen = ", ".join(["start", '"end"', *(self._column(table, *names) for names in columns)])
        whole_graphs, count = table == _GRAPHS, 0
        for start, end, device, stream, call, process, text, node, size in self._rows(
            table,
            f"SELECT {chosen} FROM {table} ORDER BY start",  # noqa: S608 - own names, and NULL
        ):
            if start is None or end is None or end < start:
                self._bad_times += 1
                continue
            pid = None if process is None else process >> _PID
            kernels.append(
                self._name(table, text, texts),
                self._seconds(start),
                (end - start) * 1e-9,
                activity=activity,
                device=devices.get(((pid or 0) & 0xFFFFFF, device), device or 0),
                stream=stream or 0,
                in_graph=bool(node) or whole_graphs,
                bytes=float("nan") if size is None else float(size),
            )
            self._kernel_keys.append(-1 if call is None else self._key(pid, call))
            count += 1
            self._end_s = max(self._end_s, self._seconds(end))
        if whole_graphs and count:
            self.trace.notes.append(
                f"launches of CUDA graphs that are one kernel each, for the kernels inside were not traced: {count:,} "
                "(profile with --cuda-graph-trace=node)"
            )

    def _key(self, pid: int | None, call: int) -> int:
        """A number for a call of a process. Calls are numbered in each process anew."""
        return self._processes(pid if pid is not None and self._by_process else -1) << 40 | call

    def _read_host(self) -> None:
        """Calls of the host, each with the innermost operator around it, and annotations."""
        ranges = self._ranges()
        if not self._has(_RUNTIME, "start", "correlationId"):
            self.trace.notes.append(
                f"no calls of the host are in it (the table {_RUNTIME}): launches and operators are not known"
            )
        else:
            thread = self._column(_RUNTIME, "globalTid")
            query = f"SELECT {thread}, start, correlationId FROM {_RUNTIME} WHERE correlationId IS NOT NULL ORDER BY 1, 2"  # noqa: S608
            for tid, start, call in self._rows(_RUNTIME, query):
                operator, operator_call = (-1, -1) if tid is None else ranges.around(tid, start)
                self._call_operators.append(operator)
                self._operator_calls.append(operator_call)
                self._call_starts.append(start)
                self._call_keys.append(self._key(None if tid is None else tid >> _PID, call))
        ranges.finish()

    def _ranges(self) -> _Ranges:
        if not self._has(_NVTX, "start", "end"):
            self.trace.notes.append(
                "no NVTX ranges are in it: operators and steps are not known. Profile with --trace=cuda,nvtx, and PyTorch "
                "under torch.autograd.profiler.emit_nvtx(record_shapes=True)"
            )
            return _Ranges(self, iter(()), iter(()))
        has_texts = self._has(_NVTX, "textId") and self._has("StringIds", "id", "value")
        text, join = self._column(_NVTX, "text"), ""
        if has_texts:
            text, join = (
                f"COALESCE({text}, s.value)" if text != "NULL" else "s.value",
                "LEFT JOIN StringIds s ON s.id = n.textId",
            )
        thread = self._column(_NVTX, "globalTid")
        columns = f'{thread} AS thread, n.start AS begun, n."end" AS ended, {text} AS label'
        has_types = self._has(_NVTX, "eventType")

        def query(types: tuple[int, ...], order: str) -> Iterator[tuple[Any, ...]]:
            of_type = f"n.eventType IN {types}" if has_types else 'n."end" IS NOT NULL'
            return self._rows(
                _NVTX,
                f"SELECT {columns} FROM {_NVTX} n {join} WHERE {of_type} AND label <> '' ORDER BY {order}",  # noqa: S608
            )

        nested = query(_PUSH_POP, "thread, begun, ended IS NOT NULL, ended DESC")
        return _Ranges(self, nested, query(_START_END, "begun") if has_types else iter(()))

    def annotate(self, name: str, start: int, end: int | None) -> None:
        """Add an annotation, of one that did not end to the end of the last kernel."""
        start_s = self._seconds(start)
        end_s = self._end_s if end is None else self._seconds(end)
        self.trace.annotations.append(Annotation(name, start_s, max(end_s - start_s, 0.0)))

    def operator(self, operator: HostOperator) -> int:
        """The number of an operator."""
        return self._operators(operator)

    def _read_waits(self) -> None:
        """Times in which the host waited: as traced, else the calls that wait."""
        waits: list[tuple[float, float]] = []
        if self._has(_SYNC, "start", "end"):
            kinds = f" AND syncType IN {_WAITS}" if self._has(_SYNC, "syncType") else ""
            query = f'SELECT start, "end" FROM {_SYNC} WHERE "end" >= start{kinds} ORDER BY start'  # noqa: S608
            waits = [(self._seconds(start), (end - start) * 1e-9) for start, end in self._rows(_SYNC, query)]
        if not waits and self._has(_RUNTIME, "start", "end", "nameId") and self._has("StringIds", "id", "value"):
            texts = self._rows("StringIds", "SELECT id, value FROM StringIds WHERE value LIKE '%Synchronize%'")
            calls = [identifier for identifier, text in texts if _WAIT_CALLS.match(text)]
            marks = ", ".join("?" * len(calls))
            query = f'SELECT start, "end" FROM {_RUNTIME} WHERE "end" >= start AND nameId IN ({marks}) ORDER BY start'  # noqa: S608
            waits = [(self._seconds(start), (end - start) * 1e-9) for start, end in self._rows(_RUNTIME, query, calls)]
        self.trace.syncs = waits

    def _join(self) -> None:
        """Launches and operators of kernels by the calls that launched them."""
        import numpy as np

        if not self._call_keys:
            return
        kernels = self.trace.kernels
        calls, wanted = np.frombuffer(self._call_keys, np.int64), np.frombuffer(self._kernel_keys, np.int64)
        by_key = np.argsort(calls, kind="stable")
        place = by_key[np.minimum(np.searchsorted(calls[by_key], wanted), len(calls) - 1)]
        known = calls[place] == wanted
        starts = (np.frombuffer(self._call_starts, np.int64)[place] - self._zero) * 1e-9
        kernels.launch_s = array("d", np.where(known, starts, np.nan).tobytes())
        known &= np.frombuffer(kernels.in_graph, np.int8) == 0
        operators, operator_calls = np.frombuffer(self._call_operators, np.int32), np.frombuffer(self._operator_calls, np.int64)
        kernels.operator = array("i", np.where(known, operators[place], -1).astype(np.int32).tobytes())
        kernels.call = array("q", np.where(known, operator_calls[place], -1).astype(np.int64).tobytes())


class _Ranges:
    """NVTX ranges in the order of their threads and starts, and the operators among them that are open."""

    def __init__(self, export: _Export, nested: Iterator[tuple[Any, ...]], free: Iterator[tuple[Any, ...]]) -> None:
        self._export, self._nested, self._free = export, nested, free
        self._next = next(nested, None)
        self._thread: int | None = None
        self._open: list[tuple[float, int, int]] = []
        self._count = 0

    def around(self, thread: int, time: int) -> tuple[int, int]:
        """The innermost operator around a time on a thread, and the number of this call of it; -1 if there is none.

        In the order of threads and times.
        """
        while self._next is not None and (self._next[0] is None or (self._next[0], self._next[1]) <= (thread, time)):
            self._take(*self._next)
        self._close(thread, time)
        return self._open[-1][1:] if self._open else (-1, -1)

    def finish(self) -> None:
        """Annotate what is left."""
        while self._next is not None:
            self._take(*self._next)
        for _, start, end, text in self._free:
            name = operator_or_name(str(text))
            self._export.annotate(name.name if isinstance(name, HostOperator) else name, start, end)

    def _take(self, thread: int | None, start: int, end: int | None, text: str) -> None:
        self._next = next(self._nested, None)
        this = operator_or_name(str(text))
        if isinstance(this, str):
            self._export.annotate(this, start, end)
        if thread is None:
            return
        self._close(thread, start)
        operator, call = self._open[-1][1:] if self._open else (-1, -1)
        if isinstance(this, HostOperator):
            operator, call = self._export.operator(this), self._count
            self._count += 1
        self._open.append((float("inf") if end is None else end, operator, call))

    def _close(self, thread: int, time: int) -> None:
        """Close what ended before a time, and everything of another thread."""
        if thread != self._thread:
            self._thread, self._open = thread, []
        while self._open and self._open[-1][0] < time:
            self._open.pop()


# CSV

_HEADER = re.compile(r"(?P<name>[^(]*?)\s*(?:\((?P<unit>[^)]+)\))?")
_TIMELINE = {"Start", "Duration", "GrdX", "Strm", "Name"}
_DEVICE = re.compile(r"(?P<name>.*?)\s*\((?P<number>\d{1,4})\)")
_MEMORY = re.compile(r"\[CUDA (?P<kind>memcpy|memset)\s*(?P<what>[^\]]*)\]")


def _columns(header: list[str]) -> dict[str, tuple[int, str]]:
    """Position and unit of each column of a header such as "Duration (ns)"."""
    matches = [_HEADER.fullmatch(name) for name in header]
    return {match["name"]: (index, match["unit"] or "") for index, match in enumerate(matches) if match is not None}


def is_timeline(cells: list[str]) -> bool:
    """Return whether cells are the header of `cuda_gpu_trace`."""
    return _columns(cells).keys() >= _TIMELINE


def is_summary(cells: list[str]) -> bool:
    """Return whether cells are the header of `cuda_gpu_kern_sum`, or of `cuda_gpu_sum`, which has copies too."""
    columns = _columns(cells).keys()
    return "Instances" in columns and ("Name" in columns or {"Category", "Operation"} <= columns)


def _read_csv(path: Path) -> Trace:
    for is_header, read in ((is_timeline, _read_timeline), (is_summary, _read_summary)):
        with open_table(path, is_header) as table:
            if table.header:
                trace = read(table)
                trace.notes += table.notes
                if not len(trace.kernels):
                    raise SpecError(
                        "; ".join(["the report has a header and no kernels", *table.notes]), path=path, line=table.line
                    )
                return trace
    raise SpecError(
        "no report of Nsight Systems that can be read: neither a SQLite export nor a CSV of cuda_gpu_trace or "
        "cuda_gpu_kern_sum. Export with nsys export --type sqlite REPORT.nsys-rep",
        path=path,
    )


def _activity(name: str) -> tuple[str, Activity]:
    """The name of an activity of a report as a trace has it, and what it is."""
    if (match := _MEMORY.fullmatch(name)) is None:
        return name, "kernel"
    if match["kind"] == "memset":
        return "Memset", "memset"
    # "Host-to-Device" of later versions is "HtoD"
    what = re.sub(r"(\w)\w*-to-(\w)\w*", r"\1to\2", match["what"])
    return f"Memcpy {what}".strip(), "memcpy"


def _value(table: CsvTable, line: int, cells: list[str], column: tuple[int, str] | None) -> float | None:
    """The number in a column in seconds or bytes; None where there is none."""
    if column is None:
        return None
    index, unit = column
    factor = scale(unit)
    if factor is None:
        raise SpecError(f"the unit of {table.header[index]!r} is not known", path=table.path, line=table.line)
    try:
        value = number(cells[index])
    except ValueError as error:
        raise SpecError(f"{table.header[index]}: {error}", path=table.path, line=line) from None
    return None if value is None else value * factor


def _read_timeline(table: CsvTable) -> Trace:
    """The report `cuda_gpu_trace`: a row of each kernel, copy and fill."""
    trace, names, width = Trace(table.path, _SOURCE), Index[str](), len(table.header)
    columns = _columns(table.header)
    start, duration, name = columns["Start"], columns["Duration"], columns["Name"][0]
    stream, device, size = columns["Strm"][0], columns.get("Device"), columns.get("Bytes")
    devices, device_names = Index[str](), dict[int, str]()

    def is_row(cells: list[str]) -> bool:
        return len(cells) == width and cells[start[0]][:1].isdigit() and cells[duration[0]][:1].isdigit()

    for line, cells in table.rows(is_row, to_empty_line=True):
        begun, seconds = _value(table, line, cells, start), _value(table, line, cells, duration)
        if begun is None or seconds is None:
            continue
        text, activity = _activity(cells[name])
        card = 0
        if device is not None and (label := cells[device[0]]):
            match = _DEVICE.fullmatch(label)
            card = int(match["number"]) if match else devices(label)
            device_names[card] = match["name"] if match else label
        # 0 in a larger unit is less than its last digit
        moved = None if activity == "kernel" else _value(table, line, cells, size) or None
        trace.kernels.append(
            names(text),
            begun,
            seconds,
            activity=ACTIVITIES.index(activity),
            device=card,
            stream=whole(cells[stream], 2**31),
            bytes=float("nan") if moved is None else moved,
        )
    zero = min(trace.kernels.start_s, default=0.0)
    trace.kernels.start_s = array("d", [begun - zero for begun in trace.kernels.start_s])
    trace.kernels.names = names.values
    trace.kernels.order()
    trace.device_names = [device_names.get(card, "") for card in range(max(device_names, default=-1) + 1)]
    trace.notes.append(
        "the report has kernels alone: launches, operators, steps and waits are not known; a SQLite export has them"
    )
    return trace


def _read_summary(table: CsvTable) -> Trace:
    """The report `cuda_gpu_kern_sum`: a row of each name with its sum."""
    trace, names, width = Trace(table.path, _SOURCE, serialized=True), Index[str](), len(table.header)
    columns = _columns(table.header)
    instances, total = columns["Instances"], columns.get("Total Time")
    average = next((columns[column] for column in ("Avg", "Average") if column in columns), None)
    name = columns.get("Name", columns.get("Operation", (0, "")))[0]
    if total is None and average is None:
        raise SpecError("the table has neither Total Time nor Avg", path=table.path, line=table.line)
    clock, count = 0.0, 0

    def is_row(cells: list[str]) -> bool:
        return len(cells) == width and cells[instances[0]][:1].isdigit()

    for line, cells in table.rows(is_row, to_empty_line=True):
        number_of, seconds = int(_value(table, line, cells, instances) or 0), _value(table, line, cells, total)
        mean = seconds / number_of if seconds is not None and number_of else _value(table, line, cells, average)
        if mean is None or not number_of:
            continue
        if (count := count + number_of) > _MOST_INSTANCES:
            raise SpecError(f"more than {_MOST_INSTANCES:,} kernels are in it", path=table.path, line=line)
        text, activity = _activity(cells[name])
        index = names(text)
        for _ in range(number_of):
            trace.kernels.append(index, clock, mean, activity=ACTIVITIES.index(activity))
            clock += mean
    trace.kernels.names = names.values
    trace.notes.append(
        "the report has sums alone: each kernel is as many instances of its average, and the time between kernels, launches, "
        "operators and steps are not known; a SQLite export has them"
    )
    return trace
