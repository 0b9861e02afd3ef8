"""Reports of Nsight Systems: exports of several versions, operators by ranges and threads, graphs, waits, tables in CSV."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, SpecError
from roofline.measure.profile.nsight_systems import read_nsight_systems
from roofline.measure.profile.profile import profile
from roofline.measure.profile.trace import ACTIVITIES, HostOperator, Trace

# The layout of an export of version 2024.6 (schema 3.16), columns that are read and a few that are not.
KERNEL = (
    'start, "end", deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, mangledName, gridX, '
    "graphNodeId"
)
MEMCPY = 'start, "end", deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind, graphNodeId'
MEMSET = 'start, "end", deviceId, contextId, streamId, correlationId, globalPid, value, bytes, graphNodeId'
RUNTIME = 'start, "end", eventClass, globalTid, correlationId, nameId, returnValue'
SYNC = 'start, "end", deviceId, contextId, streamId, correlationId, globalPid, syncType, eventId'
NVTX = 'start, "end", eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, domainId'
GRAPH = 'start, "end", deviceId, contextId, streamId, correlationId, globalPid, graphId, graphExecId'
GPU = "vmId, id, name, busLocation, smCount, cuDevice"

STRINGS = {
    1: "void gemm<(int)128>(T1, T2)",
    2: "gemm",
    3: "norm",
    4: "cudaLaunchKernel_v7000",
    5: "cudaDeviceSynchronize_v3020",
}
STRINGS |= {6: "execute_context_1(512)_generation_3(3)", 7: "cudaGraphLaunch_v10000"}
PROCESS = 4242 << 24
"""A serialized process; a thread of it is in the lower 24 bits."""


def export(path: Path, tables: dict[str, tuple[str, Sequence[tuple[Any, ...]]]], strings: dict[int, str] | None = None) -> Path:
    """A SQLite export with these tables: columns, and rows."""
    with closing(sqlite3.connect(path)) as database, database:
        if strings is not None:
            database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", strings.items())
        for table, (columns, rows) in tables.items():
            database.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - the test's own names
    return path


def kernel(
    start: int, end: int, call: int, name: int = 1, *, stream: int = 7, process: int = PROCESS, node: int | None = None
) -> Any:
    return (start, end, 0, 1, stream, call, process, name, 2, None, 80, node)


def nvtx(start: int, end: int | None, text: str | None, thread: int, *, kind: int = 59, text_id: int | None = None) -> Any:
    return (start, end, kind, None, None, None, text, thread, None, text_id, 0)


def call(start: int, number: int, thread: int, name: int = 4, *, length: int = 50) -> Any:
    return (start, start + length, 0, thread, number, name, 0)


def operator_of(trace: Trace) -> list[str]:
    return [trace.kernels.operators[index].name if index >= 0 else "" for index in trace.kernels.operator]


def names_of(trace: Trace) -> list[str]:
    return [trace.kernels.names[index] for index in trace.kernels.name]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """An export with everything; times in ns, the first event at 1,000."""
    a, b = PROCESS + 1, PROCESS + 2
    return export(
        tmp_path / "report.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [
                kernel(9_000, 12_000, 21), kernel(12_500, 13_000, 22, 3), kernel(14_000, 15_000, 23, 3, stream=8),
                kernel(20_000, 21_000, 30, node=77), kernel(21_000, 21_500, 30, 3, node=78), kernel(30_000, 29_000, 31),
            ]),
            "CUPTI_ACTIVITY_KIND_MEMCPY": (MEMCPY, [(8_000, 8_400, 0, 1, 7, 20, PROCESS, 4096, 1, 1, 2, None)]),
            "CUPTI_ACTIVITY_KIND_MEMSET": (MEMSET, [(8_500, 8_600, 0, 1, 7, 19, PROCESS, 0, 256, None)]),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (RUNTIME, [
                call(2_600, 20, a), call(3_100, 21, a), call(3_600, 22, a), call(3_650, 23, b), call(5_000, 30, a, 7),
                call(3_200, 21, (99 << 24) + 1),
            ]),
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (SYNC, [
                (22_000, 23_000, 0, 1, 7, 40, PROCESS, 3, 0), (5_500, 5_600, 0, 1, 7, 41, PROCESS, 2, 1),
                (6_000, 7_500, 0, 1, 0, 42, PROCESS, 4, 0),
            ]),
            "NVTX_EVENTS": (NVTX, [
                nvtx(1_000, 1_000, "an NVTX domain", a, kind=75),
                nvtx(2_000, 6_000, None, a, text_id=6),
                nvtx(2_500, 4_000, "aten::linear, seq = 5, op_id = 9, sizes = [[512, 64], [8, 64], [8]]", a),
                nvtx(3_000, 3_300, "aten::addmm, seq = 5, op_id = 10, sizes = [[8], [512, 64], [64, 8]]", a),
                nvtx(3_500, 3_700, "layer, op_id = 11", a),
                nvtx(4_500, None, "open", b, kind=60),
            ]),
            "TARGET_INFO_GPU": (GPU, [(0, 1, "NVIDIA H200", "", 132, 1), (0, 0, "NVIDIA H100 80GB HBM3", "", 132, 0)]),
        },
        STRINGS,
    )  # fmt: skip


def test_what_ran(whole: Path) -> None:
    """Kernels, copies and fills by start, from the first event; one that ends before it starts is left out."""
    trace = read_nsight_systems(whole)
    assert (trace.source, trace.serialized) == ("Nsight Systems", False)
    assert trace.device_names == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    gemm = "void gemm<(int)128>(T1, T2)"
    assert names_of(trace) == ["Memcpy HtoD", "Memset", gemm, "norm", "norm", gemm, "norm"]
    kernels = trace.kernels
    assert [ACTIVITIES[index] for index in kernels.activity] == ["memcpy", "memset", *["kernel"] * 5]
    assert list(kernels.start_s) == pytest.approx([7e-6, 7.5e-6, 8e-6, 11.5e-6, 13e-6, 19e-6, 20e-6])
    assert list(kernels.duration_s) == pytest.approx([0.4e-6, 0.1e-6, 3e-6, 0.5e-6, 1e-6, 1e-6, 0.5e-6])
    assert list(kernels.bytes[:2]) == [4096, 256]
    assert math.isnan(kernels.bytes[2])
    assert list(kernels.stream) == [7, 7, 7, 7, 8, 7, 7]
    assert list(kernels.in_graph) == [0, 0, 0, 0, 0, 1, 1]
    assert trace.notes == ["events without an end, or with one before their start, which are left out: 1"]


def test_launches_and_operators(whole: Path) -> None:
    """A kernel has the innermost operator around its launch on that thread.

    A call of the same number in another process did not launch it, and a kernel of a graph has no operator.
    """
    trace = read_nsight_systems(whole)
    assert operator_of(trace) == ["aten::linear", "", "aten::addmm", "aten::linear", "", "", ""]
    calls = list(trace.kernels.call)
    assert calls[0] == calls[3] >= 0  # the same call of aten::linear
    assert calls[2] not in {calls[0], -1}
    assert [calls[1], *calls[4:]] == [-1] * 4
    assert HostOperator("aten::addmm", ((8,), (512, 64), (64, 8))) in trace.kernels.operators
    launches = list(trace.kernels.launch_s)
    assert math.isnan(launches[1])  # no call 19
    expected = [1.6e-6, 2.1e-6, 2.6e-6, 2.65e-6, 4e-6, 4e-6]
    assert [launches[0], *launches[2:]] == pytest.approx(expected)


def test_annotations_and_waits(whole: Path) -> None:
    """Ranges that are no operators; an open one ends with the last kernel, at 21,500. A stream that waits is no wait."""
    trace = read_nsight_systems(whole)
    assert [annotation.name for annotation in trace.annotations] == ["execute_context_1(512)_generation_3(3)", "layer", "open"]
    times = [(annotation.start_s, annotation.duration_s) for annotation in trace.annotations]
    assert times == [pytest.approx(pair) for pair in [(1e-6, 4e-6), (2.5e-6, 0.2e-6), (3.5e-6, 17e-6)]]
    assert trace.syncs == [pytest.approx((5e-6, 1.5e-6)), pytest.approx((21e-6, 1e-6))]


def test_an_export_of_2019(tmp_path: Path) -> None:
    """No processes, no types of ranges, no graphs; the device by another table; waits by the calls that wait."""
    path = export(
        tmp_path / "old.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": ('start, "end", deviceId, contextId, streamId, correlationId, shortName', [
                (500, 900, 0, 1, 7, 3, 2), (1_000, 1_100, 0, 1, 7, 4, 3),
            ]),
            "CUPTI_ACTIVITY_KIND_RUNTIME": ('start, "end", globalTid, correlationId, nameId, returnValue', [
                (200, 250, PROCESS + 1, 3, 4, 0), (300, 310, PROCESS + 1, 4, 4, 0), (400, 1_200, PROCESS + 1, 5, 5, 0),
            ]),
            "NVTX_EVENTS": ('start, "end", text, globalTid', [
                (100, 260, "addmm, seq = 1, sizes = [[2], [3, 4], [4, 2]]", PROCESS + 1), (120, None, "a mark", PROCESS + 1),
                (100, 2_000, "other thread", PROCESS + 2),
            ]),
            "TARGET_INFO_CUDA_GPU": ("deviceId, name", [(0, "Tesla V100-SXM2-16GB")]),
        },
        STRINGS,
    )  # fmt: skip
    trace = read_nsight_systems(path)
    assert trace.device_names == ["Tesla V100-SXM2-16GB"]
    assert names_of(trace) == ["gemm", "norm"]
    assert operator_of(trace) == ["addmm", ""]
    assert list(trace.kernels.launch_s) == pytest.approx([100e-9, 200e-9])
    assert trace.syncs == [pytest.approx((300e-9, 800e-9))]
    assert [annotation.name for annotation in trace.annotations] == ["other thread"]


def test_kernels_alone(tmp_path: Path) -> None:
    """All that is required; what is not known is noted."""
    path = export(
        tmp_path / "least.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": ('start, "end", name', [(5, 15, "k"), (20, 21, None)])}
    )
    trace = read_nsight_systems(path)
    assert names_of(trace) == ["k", "(no name)"]
    assert list(trace.kernels.duration_s) == pytest.approx([10e-9, 1e-9])
    assert [note.split(":")[0].split(" (")[0] for note in trace.notes] == [
        "no NVTX ranges are in it", "no calls of the host are in it",
    ]  # fmt: skip


def test_whole_graphs(tmp_path: Path) -> None:
    """Graphs of which the kernels were not traced: their time is not lost."""
    path = export(
        tmp_path / "graphs.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [kernel(100, 200, 1)]),
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (GRAPH, [
                (300, 800, 0, 1, 7, 2, PROCESS, 109, 110), (900, 1_400, 0, 1, 7, 3, PROCESS, 109, 110),
            ]),
        },
        STRINGS,
    )  # fmt: skip
    trace = read_nsight_systems(path)
    assert names_of(trace) == ["void gemm<(int)128>(T1, T2)", "CUDA graph 109", "CUDA graph 109"]
    assert list(trace.kernels.in_graph) == [0, 1, 1]
    assert "--cuda-graph-trace=node" in trace.notes[0]


def test_processes_with_a_device_each(tmp_path: Path) -> None:
    """Each process sees its device as 0; calls have the same numbers in both."""
    other = 4343 << 24
    path = export(
        tmp_path / "ranks.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [kernel(100, 200, 1), kernel(110, 210, 1, process=other)]),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (RUNTIME, [call(50, 1, other + 5), call(40, 1, PROCESS + 5)]),
            "TARGET_INFO_CUDA_DEVICE": ("gpuId, cudaId, pid", [(2, 0, 4242), (3, 0, 4343)]),
        },
        STRINGS,
    )  # fmt: skip
    kernels = read_nsight_systems(path).kernels
    assert list(kernels.device) == [2, 3]
    assert list(kernels.launch_s) == pytest.approx([0, 10e-9])


def test_a_schema_that_computes_or_loads(tmp_path: Path) -> None:
    """A column that a table computes is none of an export's, and neither is a table that a module of SQLite makes up."""
    path = export(tmp_path / "report.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": ('start, "end", shortName', [(5, 15, "k")])})
    with closing(sqlite3.connect(path)) as database, database:
        columns = 'type INT, "end" INT, rangeId INT, text AS (hex(zeroblob(100000000))), start INT, "eventType" INT'
        database.execute(f"CREATE TABLE NVTX_EVENTS ({columns})")
        database.execute('INSERT INTO NVTX_EVENTS (start, "end", "eventType") VALUES (1, 90, 59)')
        try:
            database.execute('CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_MEMCPY USING fts5(start, "end", copyKind)')
        except sqlite3.OperationalError:
            pytest.skip("SQLite has no module fts5")
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 3)")
    trace = read_nsight_systems(path)
    assert names_of(trace) == ["k"]
    assert all("0000" not in annotation.name for annotation in trace.annotations)


def test_a_text_that_is_too_long(tmp_path: Path) -> None:
    """SQLite itself refuses it: 80 MB of one kernel's name."""
    path = export(tmp_path / "report.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": ('start, "end", shortName', [])})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 15, zeroblob(80000000))")
    with pytest.raises(SpecError, match="too big"):
        read_nsight_systems(path)


def test_a_truncated_export(whole: Path, tmp_path: Path) -> None:
    """The error has the table and what to do."""
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole.read_bytes()[: 4096 * 3])
    with pytest.raises(InputError) as error:
        read_nsight_systems(path)
    assert all(word in str(error.value) for word in ["cut.sqlite", "truncated or damaged", "nsys export"])


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"users": ("id", [])}, ["no export of Nsight Systems", "users"]),
        ({"NVTX_EVENTS": (NVTX, [])}, ["CUPTI_ACTIVITY_KIND_KERNEL is missing", "--trace=cuda,nvtx"]),
        ({"CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": ("start", [])}, ["nvprof"]),
        ({"CUPTI_ACTIVITY_KIND_KERNEL": ("start, gridX", [])}, ["lacks end, demangledName or shortName", "start, gridX"]),
        ({"CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [])}, ["no kernels"]),
        ({"CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [("a", "b", *[0] * 10)])}, ["values that an export does not have"]),
    ],
)  # fmt: skip
def test_broken_exports(tables: dict[str, tuple[str, list[tuple[Any, ...]]]], words: list[str], tmp_path: Path) -> None:
    """One error that says what is missing."""
    with pytest.raises(InputError) as error:
        read_nsight_systems(export(tmp_path / "broken.sqlite", tables))
    assert all(word in str(error.value) for word in ["broken.sqlite", *words]), error.value


TIMELINE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
CARD = "NVIDIA A100-SXM4-80GB (0),1,"
PREAMBLE = (
    "\nNOTICE: Existing SQLite export found: x.sqlite\n        It is assumed, from x.nsys-rep\n\n"
    "Processing [x.sqlite] with [cuda_gpu_trace.py]... \n"
)


def read_csv(folder: Path, content: str) -> Trace:
    path = folder / "stats.csv"
    path.write_text(content, encoding="utf-8")
    return read_nsight_systems(path)


def test_a_timeline_in_csv(tmp_path: Path) -> None:
    """From the first kernel, in the order of starts; sizes of copies; what comes after an empty line is another report."""
    rows = (
        f'1170,50,12,3,1,1,32,1,1,18,0.000,0.016,,,,,{CARD},8,"void attention<float, 64>(float *)"\n'
        f"1100,30,11,2,1,1,64,1,1,24,0.000,0.000,,,,,{CARD},7,norm\n"
        f"1240,5,13,,,,,,,,,,4.096,819.2,Pinned,Device,{CARD},7,[CUDA memcpy Host-to-Device]\n"
        f"1250,4,14,,,,,,,,,,0.000,0.1,Device,,{CARD},7,[CUDA memset]\n"
    )
    trace = read_csv(
        tmp_path, PREAMBLE + TIMELINE + rows + "\nTime (%),Total Time (ns),Instances,Avg (ns),Name\n1,1,1,1,other\n"
    )
    assert names_of(trace) == ["norm", "void attention<float, 64>(float *)", "Memcpy HtoD", "Memset"]
    assert list(trace.kernels.start_s) == pytest.approx([0, 70e-9, 140e-9, 150e-9])
    assert list(trace.kernels.duration_s) == pytest.approx([30e-9, 50e-9, 5e-9, 4e-9])
    assert list(trace.kernels.stream) == [7, 8, 7, 7]
    assert trace.kernels.bytes[2] == pytest.approx(4.096e6)
    assert math.isnan(trace.kernels.bytes[3])  # less than 0.0005 MB
    assert trace.device_names == ["NVIDIA A100-SXM4-80GB"]
    assert len(trace.notes) == 1


def test_a_timeline_of_2021(tmp_path: Path) -> None:
    """Starts in seconds, durations in nanoseconds, the older names of copies."""
    header = (
        "Start(sec),Duration(nsec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem,DymSMem,Bytes,Thru,SrcMemKd,DstMemKd,"
    )
    rows = (
        "0.5,2000,1,1,1,1,1,1,1,1,0,0,,,,,Tesla V100 (0),1,7,k\n0.75,1000,2,,,,,,,,,,64,1,Device,Device,Tesla V100 (0),1,7,{}\n"
    )
    trace = read_csv(tmp_path, header + "Device,Ctx,Strm,Name\n" + rows.format("[CUDA memcpy DtoD]"))
    assert list(trace.kernels.start_s) == pytest.approx([0, 0.25])
    assert list(trace.kernels.duration_s) == pytest.approx([2e-6, 1e-6])
    assert names_of(trace) == ["k", "Memcpy DtoD"]
    assert trace.kernels.bytes[1] == 64


@pytest.mark.parametrize(
    "header",
    [
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name",
        "Time(%),Total Time (ns),Instances,Average (ns),-,-,-,-,Name",
        "Time (%),-,Instances,Avg (ns),-,-,-,-,Name",
    ],
)
def test_a_summary_in_csv(header: str, tmp_path: Path) -> None:
    """As many instances of the average as there were, end to end, with a note of what it cannot have."""
    rows = '60.0,6000,3,2000.0,1,1,1,1,"gemm<1, 2>"\n40.0,4000,1,4000.0,1,1,1,1,norm\n'
    trace = read_csv(tmp_path, f"{header}\n{rows}")
    assert trace.serialized
    assert names_of(trace) == ["gemm<1, 2>"] * 3 + ["norm"]
    assert list(trace.kernels.duration_s) == pytest.approx([2e-6] * 3 + [4e-6])
    assert list(trace.kernels.start_s) == pytest.approx([0, 2e-6, 4e-6, 6e-6])
    assert "sums alone" in trace.notes[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["the file is empty"]),
        ("Start (ns),End (ns),Name\n1,2,k\n", ["no report of Nsight Systems", "nsys export --type sqlite"]),
        (TIMELINE, ["stats.csv:1", "a header and no kernels"]),
        (TIMELINE + f"1100,30,11,2,1,1,64,1,1,24,0.000,0.000,,,,,{CARD}", ["a header and no kernels", "line 2 is cut off"]),
        (TIMELINE.replace("Duration (ns)", "Duration (weeks)") + f"1,3,{'0,' * 14}{CARD},7,k\n", ["'Duration (weeks)'"]),
        ("Total Time (ns),Instances,Avg (ns),Name\n9,99999999999,1,k\n", ["stats.csv:2", "more than 50,000,000 kernels"]),
        ("Instances,Name\n1,k\n", ["neither Total Time nor Avg"]),
    ],
)  # fmt: skip
def test_broken_tables(content: str, words: list[str], tmp_path: Path) -> None:
    """One error with the line, and what could be read."""
    with pytest.raises(InputError) as error:
        read_csv(tmp_path, content)
    assert all(word in str(error.value) for word in ["stats.csv", *words]), error.value


def test_a_truncated_timeline_keeps_its_rows(tmp_path: Path) -> None:
    """The last row is cut off within its cells."""
    row = f"1100,30,11,2,1,1,64,1,1,24,0.000,0.000,,,,,{CARD},7,k\n"
    trace = read_csv(tmp_path, TIMELINE + row + row[:40])
    assert len(trace.kernels) == 1
    assert any("line 3 is cut off" in note for note in trace.notes)


def test_free_ranges_are_steps(tmp_path: Path) -> None:
    """A step may be a range that starts on one thread and ends on another: two of them, a kernel launched in each."""
    thread = PROCESS + 1
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [kernel(9_000, 12_000, 21), kernel(13_000, 14_000, 22, 3)]),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (RUNTIME, [call(2_500, 21, thread), call(4_500, 22, thread)]),
        "NVTX_EVENTS": (NVTX, [
            nvtx(2_000, 4_000, "[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 0 gen reqs", thread, kind=60),
            nvtx(4_000, 6_000, "[Executor] _forward_step 8: 0 ctx reqs, 0 ctx tokens, 3 gen reqs", thread, kind=60),
        ]),
    }  # fmt: skip
    steps = profile(read_nsight_systems(export(tmp_path / "report.sqlite", tables, STRINGS))).steps
    assert [(step.kind, step.batch, step.new_tokens, len(step.kernels)) for step in steps] == [
        ("prefill", 1, 512, 1),
        ("decode", 3, None, 1),
    ]
