"""Reading what the profiler prints, and saying in one line why there is nothing to read."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.measure.bench import counters
from roofline.measure.bench.point import Point

POINT = Point("operators", "gemm", "bf16", {"m": 8, "n": 8, "k": 8})
HEADER = ",".join(f'"{name}"' for name in ("ID", "Process ID", "Kernel Name", *counters.BYTES, counters.FLOPS[0]))
PRINTED = f"""==PROF== Connected to process 7
{HEADER}
"","","","byte","byte","byte",""
"0","7","spin_kernel(long)","0","0","32","0"
"1","7","gemm_a","1,000","200","5000","64"
"2","7","gemm_b","1","2","3","n/a"
"3","7","spin_kernel(long)","0","0","32","0"
"4","7","spin_kernel(long)","0","0","32","0"
"5","7","spin_kernel(long)","0","0","32","0"
"6","7","spin_kernel(long)","0","0","32","0"
"7","7","copy","10","20","30","0"
"8","7","spin_kernel(long)","0","0","32","0"
"""


def test_sums_between_marks() -> None:
    """Two kernels of the first point are added up; the second ran none; the third moved 10 and 20 bytes."""
    found = counters.parse(PRINTED, ["first", "second", "third"])
    assert found["first"] == {
        "counters_dram_read_bytes": 1001.0,
        "counters_dram_write_bytes": 202.0,
        "counters_l2_bytes": 5003.0,
        "counters_flops": 64.0,
        "counters_dram_bytes": 1203.0,
    }
    assert "second" not in found
    assert found["third"]["counters_dram_bytes"] == 30.0


def test_no_table() -> None:
    """Whatever else is printed gives nothing."""
    assert counters.parse("==ERROR== no kernels were profiled\n", ["first"]) == {}


def fake_profiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_profiler_that_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of a profiler on the PATH becomes counters by point."""
    (tmp_path / "printed").write_text(PRINTED, encoding="utf-8")
    fake_profiler(tmp_path, f"cat {tmp_path}/printed", monkeypatch)
    found = counters.count([POINT], "cuda", None)
    assert found.by_point[str(POINT)]["counters_dram_bytes"] == 1203.0
    assert found.note == ""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >&2; exit 1", "permission"),
        ("echo '==ERROR== something else' >&2; exit 3", "something else"),
        ("echo 'sm__other'; exit 0", "no kernel"),
    ],
)
def test_profiler_that_cannot(script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, no error."""
    fake_profiler(tmp_path, script, monkeypatch)
    found = counters.count([POINT], "cuda", None)
    assert found.by_point == {}
    assert words in found.note
    assert "\n" not in found.note


def test_only_counters_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown one would end the profile: the chip is asked first."""
    metric = counters.FLOPS[0].removesuffix(".sum")
    fake_profiler(tmp_path, f"echo '{metric}   Counter  inst  # of ops'; echo '{metric}_more  x'", monkeypatch)
    assert counters._known(str(tmp_path / "ncu"), counters.FLOPS) == [counters.FLOPS[0]]


def test_at_the_deadline_all_processes_are_ended(tmp_path: Path) -> None:
    """Also those that the profiler started."""
    begin = time.monotonic()
    text, said = counters._run(["sh", "-c", "echo begun; sleep 600 & sleep 600"], time.monotonic() + 1)
    assert time.monotonic() - begin < 300
    assert text == "begun\n"
    assert "in time" in said


def test_no_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on the PATH nor where it is usually installed."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(counters, "_PLACES", ())
    assert "not installed" in counters.count([POINT], "cuda", None).note
    assert "CUDA" in counters.count([POINT], "cpu", None).note
