"""Traces of PyTorch's profiler, written by hand: a few events each, and what is wrong with some."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, SpecError
from roofline.measure.profile import kineto
from roofline.measure.profile.kineto import read_kineto


def kernel(name: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
    """A kernel as Kineto writes it: microseconds."""
    listed = {"device": 0, "stream": 7, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration, "args": listed}


def launch(start: float, correlation: int, name: str = "cudaLaunchKernel", **args: Any) -> dict[str, Any]:
    """A call of the runtime."""
    listed = {"correlation": correlation, **args}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 9, "ts": start, "dur": 2.0, "args": listed}


def operator(name: str, start: float, duration: float, number: int, dims: list[Any] | None = None) -> dict[str, Any]:
    """An operator of the host."""
    args: dict[str, Any] = {"External id": number}
    if dims is not None:
        args |= {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration, "args": args}


def annotation(name: str, start: float, duration: float, category: str = "user_annotation") -> dict[str, Any]:
    """A named range."""
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration, "args": {}}


MM = [[4, 8], [8, 16]]
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}},
    operator("aten::mm", 100.0, 20.0, 5, MM),
    launch(105.0, 31),
    kernel("gemm_a", 130.0, 10.0, correlation=31, **{"External id": 5}),
    launch(150.0, 32, "cudaGraphLaunch"),
    kernel("in_graph_b", 160.0, 5.0, correlation=32),
    {"ph": "s", "id": 31, "pid": 9, "tid": 9, "ts": 105.0, "cat": "ac2g", "name": "ac2g"},
    kernel("without_launch_c", 120.0, 4.0, correlation=77),
]


def write(path: Path, events: list[Any], **header: Any) -> Path:
    """A trace with these events."""
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], **header}
    text = json.dumps({**document, "traceEvents": events, "traceName": "x"})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_kernels_have_their_operator_and_launch(tmp_path: Path, name: str) -> None:
    """By external id and by correlation; the clock starts at the first of all events (100 us), kernels are in their order."""
    trace = read_kineto(write(tmp_path / name, EVENTS))
    kernels = trace.kernels
    assert [kernels.names[at] for at in kernels.name] == ["without_launch_c", "gemm_a", "in_graph_b"]
    assert list(kernels.start_s) == pytest.approx([20e-6, 30e-6, 60e-6])
    assert list(kernels.duration_s) == pytest.approx([4e-6, 10e-6, 5e-6])
    assert kernels.launch_s[0] != kernels.launch_s[0]  # NaN
    assert list(kernels.launch_s)[1:] == pytest.approx([5e-6, 50e-6])
    assert list(kernels.in_graph) == [0, 0, 1]
    assert list(kernels.operator)[::2] == [-1, -1]  # of neither is the operator known
    host = kernels.operators[kernels.operator[1]]
    assert (host.name, host.shapes) == ("aten::mm", ((4, 8), (8, 16)))
    assert trace.device_names == ["NVIDIA H100 80GB HBM3"]
    assert not trace.notes


def test_old_traces_have_the_operator_on_the_launch_alone(tmp_path: Path) -> None:
    """The external id of the runtime's call is that of the kernel."""
    events = [
        operator("aten::mm", 0.0, 9.0, 5, MM),
        launch(1.0, 31, **{"External id": 5}),
        kernel("k", 4.0, 1.0, correlation=31),
    ]
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert trace.kernels.operators[trace.kernels.operator[0]].name == "aten::mm"


def test_a_list_of_events_without_its_end_is_a_trace(tmp_path: Path) -> None:
    """Chrome's format: a list alone, which may stop anywhere."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps(EVENTS)[:-1] + ",", encoding="utf-8")
    trace = read_kineto(path)
    assert len(trace.kernels) == 3
    assert trace.notes == ["the file ends early, after event 8: 8 events before it could be read"]


@pytest.mark.parametrize("cut", range(150, 1500, 90))
def test_a_truncated_file_gives_what_is_whole(tmp_path: Path, cut: int) -> None:
    """All events that end before the cut, and a note; without anything that ran in them an error says that it ends early."""
    whole = write(tmp_path / "whole.json", EVENTS).read_text(encoding="utf-8")
    path = tmp_path / "cut.json"
    path.write_text(whole[:cut], encoding="utf-8")
    ends = [whole.index(text) + len(text) for text in map(json.dumps, EVENTS)]
    left = [event for event, end in zip(EVENTS, ends, strict=True) if end <= cut]
    ran = sum(event.get("cat") == "kernel" for event in left)
    called = sum(event.get("cat") == "cpu_op" for event in left)
    if not (ran or called):
        with pytest.raises(InputError, match="ends early"):
            read_kineto(path)
        return
    trace = read_kineto(path)
    assert len(trace.kernels) == (ran or called)
    assert cut >= len(whole) or "ends early" in trace.notes[0]


def test_a_damaged_gzip_gives_what_came_before(tmp_path: Path) -> None:
    """The note says that the compressed file is damaged."""
    many = EVENTS + [kernel(f"k{number}", 200.0 + number, 0.5) for number in range(30_000)]
    path = write(tmp_path / "t.json.gz", many)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    trace = read_kineto(path)
    assert 3 < len(trace.kernels) < 30_003
    assert "the compressed file is damaged or ends early" in trace.notes[0]


@pytest.mark.parametrize(
    ("filler", "why"),
    [
        (b" ", "the compressed file holds more than 400 times its size"),
        (b'{"ph": "M", "name": "%s"}, ' % (b"x" * 4096), "the compressed file holds more than 400 times its size"),
        (b'{"name": "' + b"a" * 2**20, "a value has more than 131,072 characters"),
        (b"[" * 2**17, "a value is nested too deep"),
    ],
    ids=["space", "events", "text", "depth"],
)
def test_a_compressed_file_cannot_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filler: bytes, why: str) -> None:
    """32 MB of one thing in 32 kB: it is read up to a limit, and what came before it is kept. The limits are lowered here."""
    for name, value in {"_FREE_UNPACKED": 2**21, "_LONGEST": 2**17, "_CHUNK": 2**16, "_PIECE": 2**14}.items():
        monkeypatch.setattr(kineto, name, value)
    path = tmp_path / "t.json.gz"
    listed = b",".join(json.dumps(event).encode() for event in EVENTS)
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + listed + b"," + filler * (2**25 // len(filler)), 6))
    assert path.stat().st_size < 150_000
    tracemalloc.start()
    trace = read_kineto(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trace.kernels) == 3
    assert why in trace.notes[0]
    assert peak < 2**23


def test_an_event_that_is_no_json_is_mended_or_skipped(tmp_path: Path) -> None:
    """`inf` as a number, which Kineto writes of a bandwidth over no time, and an event that is broken."""
    text = write(tmp_path / "whole.json", EVENTS).read_text(encoding="utf-8")
    broken = '{"ph": "X", "cat": "gpu_memset", "name": "Memset", "ts": 170.0, "dur": 0.0, "args": {"bytes": 4, "GB/s": inf}}, '
    worse = '{"ph": "X", "cat": kernel, "name": "lost", "ts": 1, "dur": 2}, '
    first = text.index('{"ph": "X", "cat": "cpu_op"')
    path = tmp_path / "t.json"
    path.write_text(text[:first] + broken + worse + text[first:], encoding="utf-8")
    trace = read_kineto(path)
    assert [trace.kernels.names[at] for at in trace.kernels.name][-1] == "Memset"
    assert trace.kernels.bytes[-1] == 4
    assert trace.notes == ["1 event skipped: not JSON"]


def test_events_without_a_field_are_counted(tmp_path: Path) -> None:
    """A kernel without a duration is no kernel; the others stay."""
    lost = kernel("lost", 5.0, 1.0)
    del lost["dur"]
    trace = read_kineto(write(tmp_path / "t.json", [*EVENTS, lost]))
    assert len(trace.kernels) == 3
    assert trace.notes == ["1 event skipped: no name, start or duration, or a negative one"]


@pytest.mark.parametrize("event", EVENTS[1:4], ids=lambda event: event["cat"])
def test_an_event_whose_arguments_are_none_has_none(tmp_path: Path, event: dict[str, Any]) -> None:
    """Arguments that are a number are as good as no arguments: the event stays."""
    with_number, without = ([*EVENTS[4:], {**event, "args": args}] for args in (7, {}))
    traces = [read_kineto(write(tmp_path / "t.json", events)) for events in (with_number, without)]
    assert [len(trace.kernels) for trace in traces] == [2 + (event["cat"] == "kernel")] * 2
    assert traces[0].notes == traces[1].notes == []


@pytest.mark.parametrize("change", [{"ts": 1e308}, {"dur": float("nan")}, {"ts": -1e19}, {"dur": -0.5}])
def test_a_time_that_no_clock_has_is_no_time(tmp_path: Path, change: dict[str, float]) -> None:
    """Differences of such times are infinite, or nothing; what ends before it begins would take time away from others."""
    trace = read_kineto(write(tmp_path / "t.json", [*EVENTS, {**kernel("lost", 5.0, 1.0), **change}]))
    assert len(trace.kernels) == 3
    assert trace.notes == ["1 event skipped: no name, start or duration, or a negative one"]


@pytest.mark.parametrize("argument", ["device", "stream", "correlation", "External id"])
def test_a_number_of_too_many_bits_is_none(tmp_path: Path, argument: str) -> None:
    """A kernel with a number of 2^70 is the kernel without one, and those after it are what they were."""
    events = [kernel("wide", 90.0, 1.0, **{argument: 2**70}), *EVENTS]
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert [trace.kernels.names[at] for at in trace.kernels.name] == ["wide", "without_launch_c", "gemm_a", "in_graph_b"]
    assert list(trace.kernels.duration_s) == pytest.approx([1e-6, 4e-6, 10e-6, 5e-6])


def test_a_run_on_the_host_has_operators_with_their_own_time(tmp_path: Path) -> None:
    """Linear (10 us) calls t (1 us) and addmm (6 us), which calls copy_ (2 us): own times 3, 1, 4 and 2, in all 10."""
    events = [
        operator("aten::linear", 0.0, 10.0, 1),
        operator("aten::t", 1.0, 1.0, 2),
        operator("aten::addmm", 3.0, 6.0, 3),
        operator("aten::copy_", 4.0, 2.0, 4),
    ]
    trace = read_kineto(write(tmp_path / "t.json", events))
    own = {trace.kernels.names[name]: time for name, time in zip(trace.kernels.name, trace.kernels.duration_s, strict=True)}
    wrappers = {"aten::linear (calling others)": 3e-6, "aten::addmm (calling others)": 4e-6}
    assert own == pytest.approx({**wrappers, "aten::t": 1e-6, "aten::copy_": 2e-6})
    assert len(set(trace.kernels.call)) == 1  # all of them are one call of linear


def test_the_message_of_a_collective(tmp_path: Path) -> None:
    """The larger of its two buffers: 4 x 1,024 elements of 2 bytes, over 4 ranks."""
    args = {"In msg nelems": 1024, "Out msg nelems": 4096, "Group size": 4, "dtype": "BFloat16"}
    trace = read_kineto(write(tmp_path / "t.json", [kernel("ncclDevKernel_AllGather_RING_LL", 0.0, 9.0, **args)]))
    assert (trace.kernels.bytes[0], trace.kernels.world[0]) == (8192, 4)


def test_names_of_annotations_and_waits(tmp_path: Path) -> None:
    """Ranges of the host and of the device, and the host's waits for the device."""
    events = [
        *EVENTS,
        annotation("ProfilerStep#3", 100.0, 80.0),
        annotation("ProfilerStep#3", 120.0, 45.0, "gpu_user_annotation"),
        launch(170.0, 40, "cudaStreamSynchronize"),
    ]
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert [(entry.name, entry.on_device) for entry in trace.annotations] == [
        ("ProfilerStep#3", False),
        ("ProfilerStep#3", True),
    ]
    assert trace.annotations[1].start_s == pytest.approx(20e-6)
    assert trace.syncs == [(pytest.approx(70e-6), pytest.approx(2e-6))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no trace of PyTorch's profiler, which is JSON: it is empty"),
        ("step,time\n1,2\n", "it begins with 'step,time"),
        ('{"hello": 1}', "none of its 0 events is a kernel"),
        ('{"traceEvents": []}', "none of its 0 events is a kernel"),
        ('{"traceEvents": [{"ph": "M"}]}', "none of its 1 event is a kernel"),
        ("{nonsense}", "not JSON"),
    ],
)
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, content: str, message: str) -> None:
    """It names the file and says what is there."""
    path = tmp_path / "t.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_kineto(path)
    assert message in str(error.value)
    assert "t.json" in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """As of every other input."""
    with pytest.raises(SpecError, match="no such file"):
        read_kineto(tmp_path / "none.json")


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_not_kept(tmp_path: Path) -> None:
    """40 MB of Python frames and arrows, which no table needs, take a tenth of their size."""
    frame = {"ph": "X", "cat": "python_function", "name": "m" * 300, "pid": 1, "tid": 1, "ts": 1.0, "dur": 1.0, "args": {}}
    path = tmp_path / "t.json"
    with path.open("w", encoding="utf-8") as file:
        file.write('{"traceEvents": [' + json.dumps(EVENTS)[1:-1])
        for _ in range(100):
            file.write("".join("," + json.dumps(frame) for _ in range(1000)))
        file.write("]}")
    assert path.stat().st_size > 40e6
    tracemalloc.start()
    read_kineto(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 0.6 * path.stat().st_size


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory a process has had")
@pytest.mark.night
def test_a_large_trace_takes_little_memory(tmp_path: Path) -> None:
    """100 MB: kernels, operators and their launches in 130,000 groups, read by a process that stays below 300 MB.

    NB: `ru_maxrss` would count the process that starts it, too.
    """
    path = tmp_path / "t.json"
    padding = "x" * 250
    with path.open("w", encoding="utf-8") as file:
        file.write('{"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [{"ph": "M"}')
        for number in range(130_000):
            start = 10.0 * number
            events = [
                operator("aten::mm", start, 5.0, number, MM),
                launch(start + 1, number),
                kernel("gemm_" + padding, start + 4, 3.0, correlation=number, **{"External id": number}),
            ]
            file.write("".join("," + json.dumps(event) for event in events))
        file.write("]}")
    assert path.stat().st_size > 100e6
    code = (
        "import re, sys; from pathlib import Path; from roofline.measure.profile.kineto import read_kineto; "
        "trace = read_kineto(Path(sys.argv[1])); "
        "print(len(trace.kernels), re.search('VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    count, most = map(int, done.stdout.split())
    assert count == 130_000
    assert most < 300 * 1024  # kB


def test_collectives_are_named_by_what_recorded_them(tmp_path: Path) -> None:
    """The operator of all of them is `record_param_comms`, with the name of the collective among its arguments."""
    recorded = operator("record_param_comms", 100.0, 20.0, 5)
    recorded["args"]["Collective name"] = "_allgather_base"
    events = [recorded, launch(105.0, 31), kernel("ncclDevKernel_Generic_4", 130.0, 10.0, correlation=31, **{"External id": 5})]
    trace = read_kineto(write(tmp_path / "trace.json", events))
    assert [entry.name for entry in trace.kernels.operators] == ["nccl:_allgather_base"]
