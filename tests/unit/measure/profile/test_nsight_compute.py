"""Reports of Nsight Compute: units, both pages, old and new columns, FLOP, NVTX ranges, broken files."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from roofline.errors import InputError
from roofline.measure.profile.nsight_compute import read_nsight_compute
from roofline.measure.profile.trace import Annotation, HostOperator, Trace

BASE = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]
NVTX = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
DURATION, READ, WRITE = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
CONNECTED = (
    '==PROF== Connected to process 1234 (/usr/bin/python3)\n==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes\n'
)


def described(number: int, kernel: str, *, cc: str = "9.0") -> list[str]:
    return [str(number), "1234", "python3", "127.0.0.1", kernel, "1", "7", "(128, 1, 1)", "(80, 1, 1)", "0", cc]


def text(*rows: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def raw(units: dict[str, str], *kernels: tuple[str, dict[str, str]], cc: str = "9.0") -> str:
    """The raw page: metrics and their units, then a kernel with the cells of its metrics in each row."""
    rows = [[*BASE, *units], [*[""] * len(BASE), *units.values()]]
    rows += [
        [*described(number, name, cc=cc), *(cells.get(key, "n/a") for key in units)]
        for number, (name, cells) in enumerate(kernels)
    ]
    return text(*rows)


def read(folder: Path, content: str) -> Trace:
    path = folder / "report.csv"
    path.write_text(content, encoding="utf-8")
    return read_nsight_compute(path)


def test_raw_page_with_automatic_units(tmp_path: Path) -> None:
    """Each cell times its unit; kernels end to end; lines of the profiler around the table are no rows."""
    units = {READ: "Mbyte", WRITE: "Kbyte", DURATION: "usecond", "lts__t_bytes.sum": "Mbyte", BF16: "", FFMA: "inst"}
    gemm = {READ: "2.50", WRITE: "1,024.00", DURATION: "12.50", "lts__t_bytes.sum": "10", BF16: "1,073,741,824", FFMA: "0"}
    norm = {READ: "0.5", WRITE: "500", DURATION: "2", "lts__t_bytes.sum": "1.5", BF16: "0", FFMA: "1,000"}
    end = "==PROF== Disconnected from process 1234\n"
    trace = read(
        tmp_path, CONNECTED + "a line, of the program\n" + raw(units, ("gemm", gemm), ("norm", norm), ("gemm", gemm)) + end
    )
    assert (trace.source, trace.serialized, trace.notes) == ("Nsight Compute", True, [])
    kernels = trace.kernels
    assert kernels.names == ["gemm", "norm"]
    assert list(kernels.name) == [0, 1, 0]
    assert list(kernels.duration_s) == pytest.approx([12.5e-6, 2e-6, 12.5e-6])
    assert list(kernels.start_s) == pytest.approx([0, 12.5e-6, 14.5e-6])
    assert set(kernels.stream) == {7}
    assert kernels.counters["dram_read_bytes"].tolist() == pytest.approx([2.5e6, 0.5e6, 2.5e6])
    assert kernels.counters["dram_write_bytes"].tolist() == pytest.approx([1.024e6, 0.5e6, 1.024e6])
    assert kernels.counters["dram_bytes"].tolist() == pytest.approx([3.524e6, 1e6, 3.524e6])
    assert kernels.counters["l2_bytes"].tolist() == pytest.approx([1e7, 1.5e6, 1e7])
    assert kernels.counters["flops"].tolist() == pytest.approx([2.0**30, 2000, 2.0**30])  # an FMA is two


@pytest.mark.parametrize(
    ("unit", "cell", "seconds"),
    [
        ("nsecond", "2,000,000", 2e-3), ("ns", "1504", 1.504e-6), ("us", "211.94", 211.94e-6), ("msecond", "1.5", 1.5e-3),
        ("ms", "0.25", 0.25e-3), ("second", "4.0e-05", 4e-5), ("s", "1", 1.0),
    ],
)  # fmt: skip
def test_units_of_time(unit: str, cell: str, seconds: float, tmp_path: Path) -> None:
    """As versions of the profiler and --print-units spell them."""
    assert read(tmp_path, raw({DURATION: unit}, ("k", {DURATION: cell}))).kernels.duration_s[0] == pytest.approx(seconds)


def test_details_page_of_2020(tmp_path: Path) -> None:
    """Labels instead of metrics, the time of day of a kernel, no device: traffic is the rate times the duration."""
    header = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"]
    header += ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    start = ["21524", "cfd_000", "127.0.0.1"]
    first, second = (
        ["0", *start, "step", "2020-Apr-07 17:01:05", "1", "7"],
        ["1", *start, "flux", "2020-Apr-07 17:01:06", "1", "8"],
    )
    content = text(
        header,
        [],
        [*first, "GPU Speed Of Light", "Elapsed Cycles", "cycle", "11733"],
        [*first, "GPU Speed Of Light", "Memory Throughput", "%", "39.60"],
        [*first, "GPU Speed Of Light", "Duration", "usecond", "20.00"],
        [*first, "Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "1,500.00"],
        [*second, "GPU Speed Of Light", "Duration", "msecond", "1.25"],
    )
    trace = read(tmp_path, content)
    assert trace.kernels.names == ["step", "flux"]
    assert list(trace.kernels.duration_s) == pytest.approx([20e-6, 1.25e-3])
    assert list(trace.kernels.stream) == [7, 8]
    counted = trace.kernels.counters["dram_bytes"].tolist()
    assert counted[0] == pytest.approx(1500e9 * 20e-6)
    assert math.isnan(counted[1])
    assert set(trace.kernels.counters) == {"dram_bytes"}


def test_details_page_with_metrics(tmp_path: Path) -> None:
    """Rows of a kernel belong together, and each process has its own kernel 0; rows of rules have other cells."""
    header = [*BASE, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description"]
    one, section = described(0, "gemm"), "Command line profiler metrics"
    other = [one[0], "99", *one[2:]]
    content = text(
        header,
        [*one, section, DURATION, "us", "8"],
        [*one, section, "dram__bytes.sum", "Mbyte", "12.5", "", ""],
        [*one, "SpeedOfLight", "", "", "", "Bottleneck", "OPT", 'a "long"\ndescription'],
        [*other, section, DURATION, "us", "4"],
    )
    trace = read(tmp_path, content)
    assert list(trace.kernels.duration_s) == pytest.approx([8e-6, 4e-6])
    assert trace.kernels.counters["dram_bytes"][0] == pytest.approx(12.5e6)
    assert trace.notes == []


def test_sections_of_rooflines_have_rates_per_cycle(tmp_path: Path) -> None:
    """10 us at 1.5 GHz are 15,000 cycles; (2 + 1) adds and products and an FMA rate of 8, doubled already, per cycle.

    The derived metric of "sm" is a peak, and is not counted.
    """
    fp32 = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    metrics = {
        DURATION: ("us", "10"),
        "dram__bytes.sum.per_second": ("Gbyte/second", "200"),
        "smsp__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.5"),
        fp32.format("fadd"): ("inst/cycle", "2"),
        fp32.format("fmul"): ("inst/cycle", "1"),
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": ("inst/cycle", "8"),
        "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": ("inst/cycle", "33,792"),
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", "0"),
    }
    units, cells = {name: unit for name, (unit, _) in metrics.items()}, {name: cell for name, (_, cell) in metrics.items()}
    counters = read(tmp_path, raw(units, ("k", cells))).kernels.counters
    assert counters["flops"][0] == pytest.approx(15_000 * (2 + 1 + 8))
    assert counters["dram_bytes"][0] == pytest.approx(200e9 * 10e-6)


def test_sectors_have_32_bytes(tmp_path: Path) -> None:
    """Where sectors were counted instead of bytes."""
    units = {
        DURATION: "us",
        "dram__sectors_read.sum": "sector",
        "dram__sectors_write.sum": "sector",
        "lts__t_sectors.sum": "sector",
    }
    counters = read(tmp_path, raw(units, ("k", dict(zip(units, ("1", "100", "50", "400"), strict=True))))).kernels.counters
    assert {name: values[0] for name, values in counters.items()} == {
        "dram_bytes": 150 * 32, "dram_read_bytes": 100 * 32, "dram_write_bytes": 50 * 32, "l2_bytes": 400 * 32,
    }  # fmt: skip


def test_duration_by_cycles(tmp_path: Path) -> None:
    """3,000 cycles at 1.5 GHz."""
    units = {"sm__cycles_elapsed.avg": "cycle", "sm__cycles_elapsed.avg.per_second": "Ghz"}
    trace = read(tmp_path, raw(units, ("k", dict(zip(units, ("3,000", "1.5"), strict=True)))))
    assert trace.kernels.duration_s[0] == pytest.approx(2e-6)


HMMA = "sm__inst_executed_pipe_tensor_op_hmma.sum"
TENSOR = "sm__inst_executed_pipe_tensor.sum"


@pytest.mark.parametrize(
    ("cells", "cc", "flops"),
    [
        ({FFMA: "10"}, "9.0", None),  # tensor cores may have run
        ({FFMA: "10"}, "6.1", 20),  # there are none
        ({FFMA: "10", TENSOR: "5"}, "9.0", None),  # they ran, and instructions are of several sizes
        ({FFMA: "10", TENSOR: "0"}, "9.0", 20),
        ({FFMA: "10", HMMA: "0"}, "8.0", 20),
        ({FFMA: "10", HMMA: "0"}, "9.0", None),  # Hopper has others
        ({FFMA: "10", BF16: "0", TENSOR: "5"}, "9.0", None),  # they ran on another format
        ({BF16: "0"}, "9.0", None),  # the vector units' are not counted
        ({BF16: "64"}, "9.0", 64),
        ({"sm__ops_path_tensor_src_fp8.sum": "96", "sm__ops_path_tensor_src_fp8_dst_fp32.sum": "96", BF16: "4"}, "9.0", 100),
    ],
)  # fmt: skip
def test_flops_only_where_they_are_known(cells: dict[str, str], cc: str, flops: float | None, tmp_path: Path) -> None:
    """A number that lacks the tensor cores' part would be wrong; by destination they are a part of the sum over it."""
    units = {DURATION: "us", **dict.fromkeys(cells, "inst")}
    trace = read(tmp_path, raw(units, ("k", {DURATION: "1", **cells}), cc=cc))
    assert ("flops" in trace.kernels.counters) == (flops is not None)
    if flops is not None:
        assert trace.kernels.counters["flops"].tolist() == [flops]
    assert any("tensor cores were not counted" in note for note in trace.notes) == (flops is None and FFMA in cells)


def test_nvtx_ranges(tmp_path: Path) -> None:
    """The innermost operator of emit_nvtx with its shapes; other ranges as annotations over the kernels inside them."""

    def ranges(*names: str) -> str:
        return "13416  " + "  ".join(f'"<default domain>:{name}:none:none:none:none:none:none"' for name in names) + " "

    linear = "aten::linear, op_id = 3, sizes = [[2, 8], [4, 8], []]"
    mm = "aten::mm, seq = 5, op_id = 4, sizes = [[2, 8], [8, 4]], input_op_ids = [(1,0), ]"
    again = mm.replace("op_id = 4", "op_id = 7")
    rows = [ranges("decode", linear, mm), ranges("decode", "layer:0"), ranges("decode", again), "", ranges("decode", again)]
    header = [*BASE[:4], NVTX, *BASE[4:], "device__attribute_display_name", DURATION]
    table = [header, [*[""] * (len(header) - 1), "us"]]
    for number, cell in enumerate(rows):
        kernel = described(number, "k")
        table.append([*kernel[:4], cell, *kernel[4:], "NVIDIA H100 80GB HBM3", "10"])
    trace = read(tmp_path, text(*table))
    assert trace.device_names == ["NVIDIA H100 80GB HBM3"]
    assert trace.kernels.operators == [HostOperator("aten::mm", ((2, 8), (8, 4)))]
    assert list(trace.kernels.operator) == [0, -1, 0, -1, 0]
    assert list(trace.kernels.call) == [0, -1, 1, -1, 1]  # by the number of the call
    expected = [("decode", 0.0, 30e-6), ("layer:0", 10e-6, 10e-6), ("decode", 40e-6, 10e-6)]
    assert [annotation.name for annotation in trace.annotations] == [name for name, _, _ in expected]
    for annotation, (_, start, duration) in zip(trace.annotations, expected, strict=True):
        assert isinstance(annotation, Annotation)
        assert (annotation.start_s, annotation.duration_s) == pytest.approx((start, duration))


def test_powershell_writes_utf16(tmp_path: Path) -> None:
    """What `ncu ... > report.csv` gives on Windows."""
    path = tmp_path / "report.csv"
    path.write_bytes(raw({DURATION: "µs"}, ("k", {DURATION: "3"})).encode("utf-16"))
    assert read_nsight_compute(path).kernels.duration_s[0] == pytest.approx(3e-6)


@pytest.mark.parametrize("cut", [3, 60])
def test_a_truncated_file_keeps_its_whole_rows(cut: int, tmp_path: Path) -> None:
    """Within the last cell, and some cells before it."""
    content = raw({READ: "byte", DURATION: "us"}, *[("k", {READ: "64", DURATION: "12"})] * 3)
    trace = read(tmp_path, content[:-cut])
    assert len(trace.kernels) == 2
    assert trace.notes == ["line 5 is cut off: the file is truncated, and what is before that line was read"]


def test_lines_of_the_program_between_rows(tmp_path: Path) -> None:
    """They are left out and counted; a kernel without a duration too."""
    lines = raw({READ: "byte", DURATION: "us"}, ("k", {READ: "64", DURATION: "1"}), ("k", {READ: "64"})).splitlines()
    trace = read(tmp_path, "\n".join([*lines[:3], "loss: 3.2", "done, at last", *lines[3:]]) + "\n")
    assert len(trace.kernels) == 1
    assert trace.notes == [
        "2 lines inside the table are no rows of it and are left out, the first at line 4",
        "kernels without a duration (gpu__time_duration.sum), which are left out: 1",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["the file is empty"]),
        ("a,b\n1,2\n", ['"ID" and "Kernel Name"', "ncu --csv --page raw"]),
        (CONNECTED + "==ERROR== ERR_NVGPUCTRPERM - no permission\n", ["printed no table", "ERR_NVGPUCTRPERM"]),
        (raw({DURATION: "us"}), ["report.csv:1", "a header and no kernels"]),
        (raw({READ: "byte"}, ("k", {READ: "1"})), ["no kernel has a duration", DURATION]),
        (raw({DURATION: "us"}, ("k", {DURATION: "211,94"})), ["report.csv:3", "'211,94' has a decimal comma", "LC_ALL=C"]),
        (raw({DURATION: "fortnight"}, ("k", {DURATION: "1"})), ["no kernel has a duration", "'fortnight' is not known"]),
        (text([*BASE, "Metric Name", "Metric Value"], [*described(0, "k"), DURATION, "1"]), ["lacks the column Metric Unit"]),
    ],
)  # fmt: skip
def test_broken_files(content: str, words: list[str], tmp_path: Path) -> None:
    """One error with the place and what is missing."""
    with pytest.raises(InputError) as error:
        read(tmp_path, content)
    assert all(word in str(error.value) for word in ["report.csv", *words]), error.value
