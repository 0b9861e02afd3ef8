"""SIGTERM, as a scheduler or a container sends it: what Ctrl-C keeps is kept, and nothing half-done is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no such signal")
SERVE = (
    "simulate", "llama-3.1-8b", "-H", "a100-sxm-80gb", "--rate", "4", "--input-len", "300", "--output-len", "20",
    "--requests", "100000000", "--json", "--quiet",
)  # fmt: skip


@contextmanager
def _begun(folder: Path, words: tuple[str, ...], sign: Callable[[], bool]) -> Iterator[subprocess.Popen[str]]:
    """A command in a folder, once there is a sign that it is at work."""
    with subprocess.Popen(
        [sys.executable, "-m", "roofline", *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's background jobs ignore it
    ) as process:  # fmt: skip
        try:
            until = time.monotonic() + 600
            while not sign():
                assert process.poll() is None, process.stderr
                assert time.monotonic() < until
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "times"), [(".csv", 1), (".parquet", 2)])
def test_a_simulation_keeps_what_was_served(tmp_path: Path, suffix: str, times: int) -> None:
    """4, rows that are whole, and no other file. `timeout` sends the signal to the process and to its group: twice."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")

    def rows_are_written() -> bool:
        return any(path.stat().st_size > 2**16 for path in tmp_path.iterdir())

    with _begun(tmp_path, (*SERVE, "-o", f"rows{suffix}"), rows_are_written) as process:
        for _ in range(times):
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (4, "stopped: the result is of what was served so far\n")
    assert [path.name for path in tmp_path.iterdir()] == [f"rows{suffix}"]
    import pandas as pd

    found = json.loads(out)
    assert found["interrupted"]
    path = tmp_path / f"rows{suffix}"
    frame = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
    assert len(frame) == found["requests"]["completed"] > 0


@pytest.mark.slow
def test_a_simulation_that_is_killed(tmp_path: Path, run: Callable[..., Any]) -> None:
    """SIGKILL: the old file is there, nothing half-done in its place; the next command removes what was left beside it."""
    old = tmp_path / "rows.csv"
    old.write_text("old", encoding="utf-8")

    def rows_are_written() -> bool:
        return any(path.stat().st_size > 2**16 for path in tmp_path.iterdir())

    with _begun(tmp_path, (*SERVE, "-o", "rows.csv"), rows_are_written) as process:
        process.kill()
        process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert old.read_text(encoding="utf-8") == "old"
    (left,) = set(tmp_path.iterdir()) - {old}
    assert left.name.startswith(".rows.csv.")
    assert run("models", "show", "gpt2", "-q", "-o", old).code == 0
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text(encoding="utf-8") != "old"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in its folders")
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGTERM, 143, "error: terminated\n"), (signal.SIGINT, 130, "error: interrupted\n")]
)
def test_a_command_without_a_part_of_a_result(tmp_path: Path, number: int, code: int, said: str) -> None:
    """One message, the usual code, no file but those that were there."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "out.json").write_text("old", encoding="utf-8")
    words = ("analyze", "./pipe.yaml", "-H", "t4", "-o", "out.json")
    opened: list[int] = []

    def it_reads() -> bool:
        try:
            opened.append(os.open(tmp_path / "pipe.yaml", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads yet
            return False
        return True

    with _begun(tmp_path, words, it_reads) as process:
        # Python sees a signal that comes just before a call that blocks only when the call ends: then one more is sent
        for _ in range(6):
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
                break
        out, err = process.communicate(timeout=600)
    os.close(opened[0])
    assert (process.returncode, out, err) == (code, "", said)
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "pipe.yaml"]


@pytest.mark.slow
def test_a_sweep_into_a_folder_goes_on(tmp_path: Path) -> None:
    """4, parts that are whole, and the message of Ctrl-C; the same command would go on with them."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    words = ("sweep", "gpt2", "-H", "t4", "--batch", "1:2000", "--context", "1:5000", "--part-rows", "1000", "-o", "parts")

    def parts() -> list[Path]:
        return sorted((tmp_path / "parts").glob("part-*.parquet"))

    with _begun(tmp_path, words, lambda: len(parts()) > 1) as process:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 4
    assert "stopped: the parts in parts are whole, and the same command goes on with them" in err
    assert [path.name for path in sorted((tmp_path / "parts").iterdir())] == ["_manifest.json", *(p.name for p in parts())]
    import pandas as pd

    assert {len(pd.read_parquet(path)) for path in parts()} == {1000}


def test_sent_while_a_file_is_written(tmp_path: Path) -> None:
    """The file beside its place is removed, whenever the signal comes."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from roofline import files\n"
        "from roofline.cli import app\n"
        "def work(*arguments, **options):\n"
        "    with files.writing(Path('out.json')) as file:\n"
        "        file.write(b'x' * 10**6)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        file.write(b'x' * 10**6)\n"
        "app.app = work\n"
        "app.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (143, "error: terminated\n")
    assert list(tmp_path.iterdir()) == []
