"""Runs from end to end on the host: records, resuming, interruption, what a folder may hold."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.errors import InputError
from roofline.measure.bench.point import Point
from roofline.measure.bench.records_file import RecordsFile
from roofline.measure.bench.run import Request, execute
from roofline.measure.bench.suites import Scope, plan
from roofline.measure.records.columns import COLUMNS
from roofline.specs.library import load_hardware

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
pytestmark = pytest.mark.slow


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "roofline", *map(str, arguments)]


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=1200)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "records.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def identities(folder: Path) -> list[tuple[str, ...]]:
    names = [name for name in COLUMNS if not name.startswith(("latency", "counters")) and name != "notes"]
    return [tuple(row[name] for name in names) for row in rows(folder)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ceilings of the machine, however slow it is, and what a short run of the other suites adds.

    Runs are short, and repeated on slow machines: of a minute until nine of ten ceilings are measured, or left out because they
    would take too long there, and of seconds until attention is among the operators.
    """
    folder = tmp_path_factory.mktemp("records")
    for suite, budgets in (("ceilings", (60, 120, 300, 600)), ("operators,transfers,collectives", (12, 30, 60, 300))):
        for budget in budgets:
            had = len(rows(folder)) if (folder / "records.csv").exists() else 0
            done = bench("bench", "run", "--suite", suite, "--device", "cpu", "--budget", budget, "-o", folder, "--json")
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert report["outcome"] in ("budget", "done")
            assert suite != "ceilings" or report["before"] == had
            assert had + report["records"] == len(rows(folder))
            assert report["hardware"] is True
            through = report["before"] + report["records"] + len(report["not_run"]) >= 0.9 * report["points"]
            if through if suite == "ceilings" else "attention_decode" in {row["op"] for row in rows(folder)}:
                break
        else:
            pytest.fail(f"suite {suite}: not measured in {sum(budgets)} s")
    return folder


def test_records_have_the_columns_of_the_schema(measured: Path) -> None:
    """In order; with a source, a device, an op, a latency between its percentiles, and how it was timed."""
    found = rows(measured)
    assert list(found[0]) == list(COLUMNS)
    assert len(found) >= 15
    for row in found:
        assert row["source"] == "roofline"
        assert 0 < float(row["latency_p10_us"]) <= float(row["latency_us"]) <= float(row["latency_p90_us"])
        assert row["cache"] in ("cold", "warm")
        assert "samples" in row["notes"] or "clock" in row["notes"]
    assert len({row["gpu"] for row in found}) == 1


def test_environment(measured: Path) -> None:
    """Device, libraries, noise of the clock, one entry a run with the state before and after."""
    found = json.loads((measured / "environment.json").read_text(encoding="utf-8"))
    assert found["device"]["kind"] == "cpu"
    assert found["libraries"]["torch"].startswith("2.")
    assert 0 < found["noise"]["timer_s"] < 1e-4
    assert len(found["runs"]) >= 2
    run = found["runs"][-1]
    assert run["outcome"] in ("budget", "done")
    assert run["before"]["free_bytes"] > 0
    assert run["after"] is not None


def test_the_machine_as_measured_is_a_hardware_file(measured: Path) -> None:
    """It loads, its id is what the records carry, and its figures are the best that the records show."""
    hardware, _ = load_hardware(measured / "hardware.yaml")
    found = rows(measured)
    assert hardware.name == found[0]["gpu"]
    best = max(
        2 * int(row["m"]) * int(row["n"]) * int(row["k"]) / float(row["latency_p10_us"]) * 1e6
        for row in found
        if row["op"] == "gemm" and row["dtype"] == "fp32"
    )
    assert hardware.peak("fp32") == pytest.approx(best, rel=1e-3)
    copies = [
        (1 if row["kernel"] in ("read", "write") else 2) * int(row["bytes"]) / float(row["latency_p10_us"]) * 1e6
        for row in found
        if row["op"] == "copy_d2d" and row["cache"] == "cold"
    ]
    assert hardware.bandwidth >= max(copies) * 0.999


def test_validate_against_the_machine_as_measured(measured: Path) -> None:
    """Its table is printed, all rows are used, and no cold point that is not noise beats the ceilings."""
    done = bench("validate", measured, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["refused"]) == (len(rows(measured)), 0)
    assert [entry for entry in found["beneath_bound_reasons"] if entry["why"] == "unexplained"] == []
    table = bench("validate", measured)
    assert "predicted / measured" in table.stdout
    assert "attention_decode" in table.stdout


def test_show(measured: Path) -> None:
    """What the folder holds."""
    done = bench("bench", "show", measured)
    assert done.returncode == 0
    assert f"{len(rows(measured))} records" in done.stdout
    found = json.loads(bench("bench", "show", measured, "--json").stdout)
    assert found["records"] == len(rows(measured))
    assert sum(entry["n"] for entry in found["ops"]) == found["records"]


def _heeds_interrupts() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(folder: Path) -> subprocess.Popen[bytes]:
    """A run that has written a few records more than there were."""
    path = folder / "records.csv"
    before = path.read_bytes().count(b"\n") if path.exists() else 1
    process = subprocess.Popen(
        command("bench", "run", "--suite", "ceilings,operators", "--device", "cpu", "-o", folder),
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        preexec_fn=_heeds_interrupts,  # noqa: PLW1509 - this process has no threads of its own
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= before + 3:
            return process
        time.sleep(0.05)
    pytest.fail(f"no record after ten minutes; the run ended with {process.poll()}")


@pytest.mark.night
def test_no_finished_record_is_lost(tmp_path: Path) -> None:
    """Ctrl-C, a polite kill and a rough one, in one folder; each next run keeps what there is and repeats none of it."""
    kept: list[tuple[str, ...]] = []
    for number, code in ((signal.SIGINT, 4), (signal.SIGTERM, 4), (signal.SIGKILL, -9)):
        process = started(tmp_path)
        before = identities(tmp_path)
        process.send_signal(number)
        process.communicate(timeout=600)
        assert process.returncode == code
        assert before[: len(kept)] == kept
        kept = identities(tmp_path)
        assert kept[: len(before)] == before
    again = bench("bench", "run", "--suite", "ceilings,operators", "--device", "cpu", "--budget", "5", "-o", tmp_path, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["before"] == len(kept)
    found = identities(tmp_path)
    assert found[: len(kept)] == kept
    assert len(set(found)) == len(found)
    outcomes = [run["outcome"] for run in json.loads((tmp_path / "environment.json").read_text())["runs"]]
    assert outcomes[:3] == ["interrupted", "interrupted", "killed"]


CRASHES = """
import json, os, resource, signal, sys
from pathlib import Path
from roofline.measure.bench import run
from roofline.measure.bench.devices import Timing
from roofline.measure.bench.records_file import RecordsFile

folder = Path(sys.argv[1])
points = run.plan(("operators",), run.scope_of(run.find_device("cpu"), ()))[:40]
run.plan = lambda *_: points
# records that can be compared: a point takes as many microseconds as its place in the plan
run.measure = lambda point, *_: Timing((points.index(point) + 1) * 1e-6, 1e-6, 9e-5, 10, 1, "by its place")
append = RecordsFile._append
appended = 0

def dies(at, length):
    def half(self, cells):
        global appended
        appended += 1
        if appended == at:
            self._file.write(",".join(cells)[:length].encode())
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, cells)
    RecordsFile._append = half

def full():
    size = (folder / "killed" / "records.csv").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))  # Python ignores SIGXFSZ

def execute(name, before=lambda: None):
    if (child := os.fork()) == 0:
        try:
            before()
            run.execute(run.Request(folder / name, ("operators",), "cpu"), lambda _: None)
        except run.InputError as error:
            print(error, flush=True)
            os._exit(2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

codes = [execute("whole"), execute("killed", lambda: dies(11, 0)), execute("killed", lambda: dies(15, 30))]
codes += [execute("killed", full), execute("killed")]
print(json.dumps(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_kill_or_a_full_disk_the_same_command_ends_with_the_same_records(tmp_path: Path) -> None:
    """SIGKILL before a record, SIGKILL inside one, a disk that is full within one; then 40 records as in a run without."""
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, str(tmp_path)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    said, codes = done.stdout.splitlines()
    assert json.loads(codes) == [0, -signal.SIGKILL, -signal.SIGKILL, 2, 0]
    file = tmp_path / "killed" / "records.csv"
    more = "the records in it are whole, and the same command goes on with them"
    assert said == f"cannot write {file}: File too large; {more}"
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    whole_header, *whole = (tmp_path / "whole" / "records.csv").read_text(encoding="utf-8").splitlines()
    assert (header, sorted(lines)) == (whole_header, sorted(whole))
    assert len(lines) == 40
    assert sorted(path.name for path in file.parent.iterdir()) == ["environment.json", "records.csv"]
    content = json.loads((file.parent / "environment.json").read_text(encoding="utf-8"))
    # ten records before the first kill; those of the second run, before its kill, are on the disk too
    assert [run["outcome"] for run in content["runs"]] == ["killed", "killed", "failed", "done"]
    assert len(content["suspects"]) == 2


def test_half_a_line_is_cut_away(tmp_path: Path) -> None:
    """A record that was being written when the machine went down is no record."""
    records_file = RecordsFile(tmp_path)
    columns = Point("operators", "gemm", "fp32", {"m": 1, "n": 2, "k": 3}).columns("somewhere", "2.13.0")
    records_file.add({**columns, "latency_us": "5.0"})
    records_file.close()
    whole = records_file.path.read_bytes()
    records_file.path.write_bytes(whole + whole.splitlines()[-1][:30])
    again = RecordsFile(tmp_path)
    assert again.cut_off
    assert columns in again
    again.close()
    assert records_file.path.read_bytes() == whole


def test_two_runs_into_one_folder(tmp_path: Path) -> None:
    """The second is refused."""
    records_file = RecordsFile(tmp_path)
    with pytest.raises(InputError, match="another run is writing"):
        RecordsFile(tmp_path)
    records_file.close()
    RecordsFile(tmp_path).close()


@pytest.mark.parametrize(
    ("gpu", "version", "words"), [("a100-sxm-80gb", "", "holds records of a100-sxm-80gb"), ("", "2.4.0", "torch 2.4.0")]
)
def test_a_folder_of_another_machine(gpu: str, version: str, words: str, tmp_path: Path) -> None:
    """Records of two devices, or of two versions of torch, are not mixed."""
    import torch

    from roofline.measure.bench.devices import device
    from roofline.measure.bench.machine import gpu_id

    records_file = RecordsFile(tmp_path)
    point = Point("operators", "gemm", "fp32", {"m": 1, "n": 2, "k": 3})
    records_file.add(point.columns(gpu or gpu_id(device("cpu")), version or torch.__version__) | {"latency_us": "5.0"})
    records_file.close()
    with pytest.raises(InputError, match="name another folder") as refused:
        execute(Request(tmp_path, ("ceilings",), "cpu", budget=5.0), lambda _: None)
    assert words in str(refused.value)


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "\x00\xff", "nothing\n"])
def test_a_folder_with_another_table(content: str, tmp_path: Path) -> None:
    """What is no table of records is not appended to."""
    (tmp_path / "records.csv").write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match="name another folder"):
        RecordsFile(tmp_path)
    assert (tmp_path / "records.csv").read_text(encoding="latin-1") == content


@pytest.mark.parametrize("scope", [Scope("cuda", 60 * 2**20, ("bf16",), 4), Scope("cpu", 32 * 2**20, ("fp32",))])
def test_the_plan(scope: Scope) -> None:
    """Every point once; ceilings before all else; all ops among the first; nothing cold that cannot be."""
    points = plan(("ceilings", "operators", "transfers", "collectives"), scope)
    assert len({str(point) for point in points}) == len(points)
    tiers = [point.tier for point in points]
    ceilings = [index for index, point in enumerate(points) if point.suite == "ceilings" and point.tier == 0]
    assert ceilings == list(range(len(ceilings)))
    assert tiers == sorted(tiers)
    first = {point.op for point in points if point.tier == 0}
    assert first >= {
        "gemm",
        "attention_prefill",
        "attention_decode",
        "moe",
        "rmsnorm",
        "layer",
        "step",
        "copy_d2d",
        "all_reduce",
    }
    largest: dict[object, tuple[float, float]] = {}
    for point in points:
        if point.cache == "cold":
            assert point.cost.bytes * 1024 >= 4 * scope.cache_bytes
        # of one kernel none with less of everything comes after one with more: what is large is known to be before it is tried
        key = (point.suite == "ceilings" and point.tier == 0, point.tier, point.kind)
        flops, moved = largest.get(key, (0.0, 0.0))
        assert point.cost.matrix_flops >= flops or point.cost.bytes >= moved
        largest[key] = (float(point.cost.matrix_flops), float(point.cost.bytes))


@pytest.mark.parametrize("backend", ["sdpa-flash", "flash-attn-2", "flash-attn-3", "flashinfer"])
def test_passes_that_engines_have(backend: str) -> None:
    """Of a datacenter device: verification of 1 to 8 drafts, chunks of prompts after up to 128 Ki tokens, windows."""
    points = plan(("operators",), Scope("cuda", 50 * 2**20, ("bf16",)))
    passes = [point.numbers for point in points if point.backend == backend and point.op == "attention_prefill"]
    verified = [one for one in passes if 2 <= one["q_len"] <= 9]
    assert {one["q_len"] - 1 for one in verified} >= {1, 2, 3, 5, 8}
    assert {one["batch"] for one in verified} >= {1, 4, 16, 64}
    assert {one["kv_len"] for one in verified} >= {1024, 8192, 32768}
    chunks = {(one["q_len"], one["kv_len"]) for one in passes if 64 <= one["q_len"] < one["kv_len"] and one["batch"] == 1}
    assert {new for new, _ in chunks} >= {128, 512, 2048, 8192}
    assert {kv for new, kv in chunks if new == 2048} >= {8192, 32768, 131072}
    windows = {point.numbers["window"] for point in points if point.backend == backend and "window" in point.numbers}
    assert windows == {0, 128, 1024, 4096}
    # torch's flash attention takes no mask: its passes are of windows that hide nothing
    masked = [one for one in passes if 0 < one["window"] < one["kv_len"]]
    assert bool(masked) == (backend != "sdpa-flash")


SHORTENED = """#!/bin/sh
# Python, which runs a benchmark for five seconds instead of its budget
echo "$*" >> "$CALLS"
case "$*" in
*--budget*)
  all=$*; after=${all#*--budget }
  exec "$REAL" ${all%%--budget *} --budget 5 ${after#* } ;;
*) exec "$REAL" "$@" ;;
esac
"""


@pytest.mark.night
def test_the_script_of_the_whole_plan(measured: Path, tmp_path: Path) -> None:
    """Two calls of nine minutes into one folder: the second goes on where the first stopped, both end with the comparison.

    Budgets are those of nine minutes: a sixth for ceilings, then what the first benchmarks left, less a fifteenth for the
    summary. The folder has records already, and what runs takes five seconds of each budget.
    """
    python, calls, folder = tmp_path / "python", tmp_path / "calls", tmp_path / "records"
    python.write_text(SHORTENED, encoding="utf-8")
    python.chmod(0o755)
    folder.mkdir()
    for name in ("records.csv", "environment.json", "hardware.yaml"):
        (folder / name).write_bytes((measured / name).read_bytes())
    environment = {**ENVIRONMENT, "DEVICE": "cpu", "PYTHON": str(python), "REAL": sys.executable, "CALLS": str(calls)}
    environment.pop("BUDGET", None)
    script = ROOT / "measurements" / "measure"
    known, runs = identities(folder), []
    for part in ("1", "2"):
        done = subprocess.run(
            [str(script), part, str(folder)], capture_output=True, text=True, check=False, env=environment, timeout=1200
        )
        assert done.returncode == 0, done.stderr
        assert "predicted / measured" in done.stdout
        now = identities(folder)
        assert now[: len(known)] == known
        assert len(set(now)) == len(now)
        known = now
        lines = calls.read_text(encoding="utf-8").splitlines()
        runs += [line.split() for line in lines if "--suite" in line]
        assert sum(" bench serve " in f" {line} " for line in lines) == (part == "1")
        calls.unlink()
    entries = [json.loads((path / "environment.json").read_text(encoding="utf-8"))["runs"] for path in (measured, folder)]
    assert [run["outcome"] in ("budget", "done") for run in entries[1][len(entries[0]) :]] == [True] * 3
    assert [words[words.index("--suite") + 1] for words in runs] == ["ceilings", "ceilings,transfers,operators", "all"]
    assert ["--counters" in words for words in runs] == [False, True, False]
    budgets = [int(words[words.index("--budget") + 1]) for words in runs]
    assert budgets[0] == 540 // 6
    assert all(200 < budget <= 540 - 540 // 15 for budget in budgets[1:])
    assert subprocess.run([str(script)], capture_output=True, check=False, env=environment).returncode == 2


def test_collectives_between_processes() -> None:
    """Two processes on the host, over gloo: a time for each point, in order."""
    from roofline.measure.bench.collectives import groups
    from roofline.measure.bench.devices import Timing

    points = [point for point in plan(("collectives",), Scope("cpu", 32 * 2**20, ("fp32",))) if point.numbers["bytes"] == 65536]
    (group,) = groups(points)
    found = list(group.run("cpu", 60.0))
    assert [point for point, _ in found] == points
    assert {point.op for point in points} == {"all_reduce", "all_gather", "p2p"}
    for _, timing in found:
        assert isinstance(timing, Timing)
        assert 0 < timing.p10 <= timing.median <= timing.p90 < 1
    assert not group.stopped


def test_a_point_that_killed_a_run_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that died left the name of the point it was in: the next one measures everything else before it.

    Of the ceilings the copies and reads of a few KiB, which take no time on any machine.
    """
    small = [point for point in plan(("ceilings",), Scope("cpu", 32 * 2**20, ())) if point.numbers.get("bytes", 2**30) <= 2**16]
    first = small[0]
    assert len(small) >= 4
    monkeypatch.setattr("roofline.measure.bench.run.plan", lambda suites, scope: small)
    (tmp_path / ".at").write_text(str(first), encoding="utf-8")
    assert execute(Request(tmp_path, ("ceilings",), "cpu"), lambda _: None).outcome == "done"
    environment = json.loads((tmp_path / "environment.json").read_text(encoding="utf-8"))
    assert environment["suspects"] == [str(first)]
    assert not (tmp_path / ".at").exists()
    found = [(row["kernel"], int(row["bytes"])) for row in rows(tmp_path)]
    assert found == [(point.texts["kernel"], point.numbers["bytes"]) for point in [*small[1:], first]]


def test_what_an_earlier_run_measured_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GEMM that took 10 s says that one of 8 times the work is not worth a try within a budget of a minute.

    What an earlier run could not run comes after what it did not come to.
    """
    import torch

    from roofline.measure.bench.devices import device
    from roofline.measure.bench.machine import gpu_id

    small, copy, large = (
        Point("operators", "gemm", "fp32", {"m": 64, "n": 64, "k": 64}),
        Point("transfers", "copy_d2d", "fp32", {"bytes": 4096}, {"kernel": "copy"}, cache="warm"),
        Point("operators", "gemm", "fp32", {"m": 128, "n": 128, "k": 128}),
    )
    records_file = RecordsFile(tmp_path)
    records_file.add(small.columns(gpu_id(device("cpu")), torch.__version__) | {"latency_us": "10e6"})
    records_file.close()
    monkeypatch.setattr("roofline.measure.bench.run.plan", lambda suites, scope: [small, large, copy])
    order: list[str] = []
    for _ in range(2):
        report = execute(Request(tmp_path, ("operators",), "cpu", budget=60.0), lambda progress: order.append(progress.words))
        assert report.not_run == [{"point": str(large), "why": "would take about 400 s on this device: left out"}]
    # 4 times the bytes of the small one, 8 times its FLOP: the smaller of the two estimates, ten calls of it
    assert order == [str(large), str(copy), "", str(large), ""]
    assert [row["op"] for row in rows(tmp_path)] == ["gemm", "copy_d2d"]
    new = Point("transfers", "copy_d2d", "fp32", {"bytes": 8192}, {"kernel": "copy"}, cache="warm")
    monkeypatch.setattr("roofline.measure.bench.run.plan", lambda suites, scope: [small, large, new])
    order.clear()
    execute(Request(tmp_path, ("operators",), "cpu", budget=60.0), lambda progress: order.append(progress.words))
    assert order == [str(new), str(large), ""]


def test_a_table_that_all_sets_share_is_in_memory_once() -> None:
    """A table of 20,000 rows of 256 B, of which a call reads 64: 5 MB once, and 64 rows and indices for each of 250 sets.

    A cache of 1 MiB, eight times, over 33 kB a call; in 64 MiB of memory, which with a table for each set would be too small.
    """
    from roofline.measure.bench.devices import SamplingBudget
    from roofline.measure.bench.devices.cpu import Cpu
    from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory
    from roofline.measure.bench.measure import SeenRates, measure

    class Small(Cpu):
        free = 64 * 2**20

        def free_bytes(self) -> int:
            return self.free

    device = Small()
    device.cache_bytes = 2**20
    point = Point("operators", "embedding", "fp32", {"tokens": 64, "hidden": 64, "n": 20_000})
    arguments = (device, TensorFactory("cpu"), SamplingBudget(0.02), SeenRates(30.0))
    assert measure(point, *arguments).median > 0
    device.free = 8 * 2**20  # 4 MB of rows that are given back are more than three tenths of it
    with pytest.raises(NotRunnableError, match="too little memory"):
        measure(point, *arguments)


def test_a_package_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reason for all its points, and a record of it by an earlier run, with a version of its own, is no other torch."""
    import torch

    from roofline.measure.bench.devices import device
    from roofline.measure.bench.machine import gpu_id

    numbers = {"batch": 1, "q_len": 1, "kv_len": 64, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8}
    decodes = [
        Point("operators", "attention_decode", "bf16", {**numbers, "batch": batch}, {}, "flash-attn-3") for batch in (1, 2, 4)
    ]
    copy = Point("transfers", "copy_d2d", "fp32", {"bytes": 4096}, {"kernel": "copy"}, cache="warm")
    gpu = gpu_id(device("cpu"))
    records_file = RecordsFile(tmp_path)
    records_file.add(decodes[0].columns(gpu, "3.0.0") | {"latency_us": "5.0"})
    records_file.close()
    monkeypatch.setitem(sys.modules, "flash_attn_interface", None)
    monkeypatch.setattr("roofline.measure.bench.run.plan", lambda suites, scope: [*decodes, copy])
    report = execute(Request(tmp_path, ("operators",), "cpu", budget=60.0), lambda _: None)
    why = "flash-attn-3: the package flash-attn-3 is not installed: 3 points left out"
    assert report.not_run == [{"point": str(decodes[0]), "why": why}]
    assert (report.outcome, report.records, report.before, report.points) == ("done", 1, 0, 2)
    assert [(row["op"], row["version"]) for row in rows(tmp_path)] == [
        ("attention_decode", "3.0.0"),
        ("copy_d2d", torch.__version__),
    ]


@pytest.mark.parametrize("content", ["[]", '{"runs": 5}', '{"runs": [1]}', '{"suspects": [1]}', "{", ""])
def test_a_broken_environment(content: str, tmp_path: Path) -> None:
    """Is not written over."""
    (tmp_path / "environment.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="is not the environment of a run"):
        execute(Request(tmp_path, ("ceilings",), "cpu", budget=6.0), lambda _: None)
    assert (tmp_path / "environment.json").read_text(encoding="utf-8") == content


def test_what_is_refused_ends_with_2(tmp_path: Path) -> None:
    """With the reason on stderr, and nothing else."""
    (tmp_path / "environment.json").write_text("{", encoding="utf-8")
    done = bench("bench", "run", "--suite", "ceilings", "--device", "cpu", "--budget", "6", "-o", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not the environment of a run" in done.stderr
