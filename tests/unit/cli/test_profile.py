"""`roofline profile` on a trace of a small Llama on the host, and on a kernel or two written by hand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
TRACE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "small-llama.json.gz"


def kernels(path: Path, *rows: dict[str, object]) -> str:
    """A trace of an H100 with these kernels."""
    events = [{"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}, **row} for row in rows]
    device = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    path.write_text(json.dumps({"deviceProperties": device, "traceEvents": events}), encoding="utf-8")
    return str(path)


def test_keys_of_the_document(run: Run) -> None:
    """Those that the documentation of the JSON names."""
    result = json.loads(run("profile", TRACE, "--json", "-q").out)
    assert {"kind", "batch", "new_tokens", "cached_tokens", "duration_s"} <= result["steps"][0].keys()
    assert {"n", "time_s", "understood_share"} <= result["kernels"].keys()
    figures = "kind n time_s share flops bytes attained_flops attained_bandwidth of_roof of_estimate"
    assert set(figures.split()) <= result["operators"][0].keys()
    assert {"idle_s", "launch_bound_s", "communication_exposed_s"} <= result["gaps"].keys()
    assert {"gains", "unknown", "alignment"} <= result.keys()
    assert [step["kind"] for step in result["steps"]] == ["prefill", "decode", "decode", "decode"]


def test_a_card_is_known_by_its_driver_name(tmp_path: Path, run: Run) -> None:
    """And an unknown kernel is named, not guessed."""
    rows = [
        {"name": "Memcpy DtoD (Device -> Device)", "cat": "gpu_memcpy", "ts": 0.0, "dur": 100.0, "args": {"bytes": 134217728}},
        {"name": "zzz_nobody_knows_kernel", "ts": 110.0, "dur": 50.0},
    ]
    result = json.loads(run("profile", kernels(tmp_path / "t.json", *rows), "--json").out)
    assert result["hardware"] == "h100-sxm"
    assert result["kernels"]["understood_share"] == pytest.approx(100 / 150)
    assert [entry["name"] for entry in result["unknown"]] == ["zzz_nobody_knows_kernel"]
    copy = next(entry for entry in result["operators"] if entry["kind"] == "copy")
    assert copy["bytes"] == 2 * 134217728  # read and written
    assert copy["attained_bandwidth"] == pytest.approx(2 * 134217728 / 100e-6)
    assert copy["of_roof"] == pytest.approx(2 * 134217728 / 3.35e12 / 100e-6)


def test_above_the_roof_says_why(tmp_path: Path, run: Run) -> None:
    """A copy of 8 MB in a microsecond comes from the L2 cache."""
    row = {"name": "Memcpy DtoD (Device -> Device)", "cat": "gpu_memcpy", "ts": 0.0, "dur": 1.0, "args": {"bytes": 8388608}}
    (entry,) = json.loads(run("profile", kernels(tmp_path / "t.json", row), "--json").out)["details"]
    assert entry["of_roof"] > 1
    assert "L2 cache" in entry["why_faster"]


@pytest.mark.slow
def test_records(tmp_path: Path, run: Run) -> None:
    """Products with their shapes, which `validate` reads; again nothing new."""
    folder = tmp_path / "records"
    answer = run("profile", TRACE, "-H", "epyc-9654", "-o", folder)
    assert answer.code == 0
    assert "wrote" in answer.err
    first = (folder / "records.csv").read_text(encoding="utf-8")
    assert ",gemm,fp32," in first
    assert run("profile", TRACE, "-H", "epyc-9654", "-o", folder).code == 0
    assert (folder / "records.csv").read_text(encoding="utf-8") == first
    assert run("validate", folder, "--json", "-q").code == 0


DIES = """
import os, signal, sys
from roofline.cli.app import main
from roofline.measure.bench.records_file import RecordsFile

append = RecordsFile._append
appended = 0

def half(self, cells):
    global appended
    appended += 1
    if appended == 5:  # the header, and three records
        self._file.write(",".join(cells)[:30].encode())
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, cells)

RecordsFile._append = half
sys.argv[1:1] = ["profile", "-q"]
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_after_a_kill_the_same_command_ends_with_the_same_records(tmp_path: Path, run: Run) -> None:
    """SIGKILL inside the fourth record: the three before it are whole, and the file is in the end that of a run without."""
    whole, killed = (tmp_path / name for name in ("whole", "killed"))
    command = [sys.executable, "-c", DIES, str(TRACE), "-o", f"{killed}/"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    half = (killed / "records.csv").read_text(encoding="utf-8")
    assert len(half.splitlines()) == 1 + 3 + 1
    assert not half.endswith("\n")
    for folder in (killed, whole):
        assert run("profile", TRACE, "-o", f"{folder}/").code == 0
    assert (killed / "records.csv").read_text(encoding="utf-8") == (whole / "records.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", [".html", ".csv", ".svg", ".json"])
def test_files(run: Run, tmp_path: Path, suffix: str) -> None:
    """Each format, of a trace with a device."""
    rows = [{"name": "Memcpy DtoD (Device -> Device)", "cat": "gpu_memcpy", "ts": 0.0, "dur": 9.0, "args": {"bytes": 4096}}]
    trace = kernels(tmp_path / "t.json", *rows)
    assert run("profile", trace, "-q", "-o", tmp_path / f"out{suffix}").code == 0
    assert (tmp_path / f"out{suffix}").stat().st_size > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "no such file"),
        ([str(TRACE), "qwen3-8b", "--model", "llama-3.1-8b"], "two models"),
        ([str(TRACE), "qwen3-8b"], "--hardware is needed with a model"),
        ([str(TRACE), "-H", "h1000"], "unknown hardware"),
        ([__file__], "test_profile.py"),
    ],
)
def test_errors(arguments: list[str], message: str, run: Run) -> None:
    """One clear line each."""
    assert message in run("profile", *arguments).refused()
