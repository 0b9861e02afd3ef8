"""`roofline study` as a command: its folder, its page, a kill in the middle, and `report --from`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FILE = """\
schema_version: 1
kind: study
options: {model: llama-3.1-8b, hardware: a100-sxm-80gb, input_len: 200, output_len: 20, requests: 200, ttft: 60 ms}
policies: [vllm-v1, sarathi]
rates: [5, 10]
seeds: 5
"""
pytestmark = pytest.mark.slow


def command(*words: str) -> list[str]:
    """The command line of another process."""
    return [sys.executable, "-m", "roofline", *words]


def finished(*words: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended."""
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


@pytest.mark.night
def test_a_killed_study_goes_on(tmp_path: Path) -> None:
    """SIGKILL after some runs; no worker outlives it, the same command does the rest, and the page is made of the folder."""
    (tmp_path / "study.yaml").write_text(FILE)
    out = tmp_path / "out"
    words = ("study", str(tmp_path / "study.yaml"), "--executor", "processes:2", "-o", str(out))
    with subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        limit = time.monotonic() + 120
        while len(list(out.glob("runs/*.json"))) < 3:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.02)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = [int(one) for one in children.read_text(encoding="utf-8").split()] if children.exists() else []
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.json")}
    assert 3 <= len(before) < 20
    while any(Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes() for worker in workers):
        assert time.monotonic() < limit
        time.sleep(0.1)
    done = finished(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    result = json.loads(done.stdout)
    assert result["runs"] == len(result["table"]) == 20
    assert list(result)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert "<html" in (out / "comparison.html").read_text()
    written = finished("report", "--from", str(out), "-o", str(tmp_path / "page.html"))
    assert written.returncode == 0, written.stderr
    assert "Share of the requests within the SLO" in (tmp_path / "page.html").read_text()
    figure = finished("report", "--from", str(out / "study.json"), "--figure", "ttft-p99", "-o", str(tmp_path / "tail.svg"))
    assert figure.returncode == 0, figure.stderr


def test_what_is_refused(tmp_path: Path) -> None:
    """No folder, a wrong key with its place, an unknown executor."""
    path = tmp_path / "study.yaml"
    path.write_text(FILE)
    done = finished("study", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "-o FOLDER" in done.stderr
    path.write_text(FILE.replace("seeds", "sedes"))
    done = finished("study", str(path), "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"{path}:6:1" in done.stderr
    path.write_text(FILE)
    done = finished("study", str(path), "-o", str(tmp_path / "out"), "--executor", "threads")
    assert done.returncode == 2
    assert "unknown executor 'threads'" in done.stderr
