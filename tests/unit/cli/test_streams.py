"""What goes where, and how it looks in a pipe."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
BOX = re.compile("[\u2500-\u259f]")
COMMANDS = [
    ("analyze", "llama-3.1-8b", "-H", "h100-sxm"),
    ("analyze", "llama-3.1-70b", "-H", "h100-sxm"),
    ("models", "list"),
    ("models", "show", "gpt2"),
    ("hardware", "list"),
    ("hardware", "show", "dgx-h100"),
    ("--help",),
    ("analyze", "--help"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_plain_in_a_pipe(run: Run, command: tuple[str, ...]) -> None:
    """No colours, no lines around tables, no bars in what another program reads."""
    out = run(*command).out
    assert out
    assert "\x1b" not in out
    assert BOX.findall(out) == []


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[3]], ids=" ".join)
def test_forced_colour_does_not_reach_a_pipe_uninvited(process: Run, command: tuple[str, ...]) -> None:
    """In a process of its own the same holds."""
    out = process(*command, env={"TERM": "xterm-256color", "COLORTERM": "truecolor"}).out
    assert out
    assert "\x1b" not in out
    assert BOX.findall(out) == []


def _on_a_terminal(*arguments: str, **env: str) -> str:
    """What a command writes to a terminal."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "120", **env}
    for name in ("NO_COLOR", "CI", "FORCE_COLOR"):
        if name not in env:
            environment.pop(name, None)
    child = subprocess.Popen(
        [sys.executable, "-m", "roofline", *arguments], stdout=follower, stderr=follower, stdin=follower, env=environment
    )
    os.close(follower)
    seen, ends = b"", time.monotonic() + 600
    while time.monotonic() < ends:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
    child.wait(timeout=600)
    os.close(leader)
    return seen.decode()


def test_terminal_has_colours() -> None:
    """On a terminal the title is bold; its text is that of a pipe, with the plot where tables are wanted too."""
    seen = _on_a_terminal("analyze", "llama-3.1-8b", "-H", "h100-sxm", "-v")
    assert "\x1b[1m" in seen
    assert "Roofline" in seen


def test_no_color() -> None:
    """NO_COLOR takes the colours away; bold and the plot may stay."""
    seen = _on_a_terminal("analyze", "llama-3.1-8b", "-H", "h100-sxm", NO_COLOR="1")
    codes = {code for part in re.findall(r"\x1b\[([\d;]*)m", seen) for code in part.split(";")}
    assert not {code for code in codes if re.fullmatch(r"[349][0-7]|10[0-7]|[34]8", code)}


def test_dumb_terminal() -> None:
    """TERM=dumb understands no codes: plain text."""
    assert "\x1b" not in _on_a_terminal("analyze", "gpt2", "-H", "t4", TERM="dumb")


@pytest.mark.slow
def test_json_is_one_object(run: Run) -> None:
    """--json writes one object and a newline, and it begins with the versions."""
    for command in (COMMANDS[0], COMMANDS[2], COMMANDS[4], ("models", "check"), ("hardware", "check")):
        out = run(*command, "--json").out
        assert out.endswith("}\n")
        assert list(json.loads(out))[:4] == ["schema_version", "tool_version", "data_version", "inputs"]


@pytest.mark.slow
def test_a_reader_that_stops() -> None:
    """`roofline ... | head -1` is no error."""
    command = f"{sys.executable} -m roofline models list --json | head -c 10"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stderr == ""


def test_other_encodings(process: Run) -> None:
    """A terminal without Unicode is no reason for a traceback."""
    answer = process(
        "analyze", "llama-3.1-8b", "-H", "h100-sxm", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    )
    assert "Traceback" not in answer.err
    assert answer.code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("models show gpt2 >&-", 2, "error: cannot write the result: stdout is closed\n"),
        ("analyze gpt2 -H t4 --json >&-", 2, "error: cannot write the result: stdout is closed\n"),
        ("--version >&-", 2, "error: cannot write the result: stdout is closed\n"),
        ("--help >&-", 2, "error: cannot write the result: stdout is closed\n"),
        ("models show gpt2 >/dev/full", 2, "error: cannot write the result: No space left on device\n"),
        ("analyze gpt2 -H t4 -o out.json --quiet >&- <&-", 0, ""),
        ("models show gpt2 --quiet >/dev/null 2>&-", 0, ""),
        ("analyze gpt3 -H t4 2>&-", 2, ""),
        ("analyze gpt3 -H t4 2>/dev/full", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path: Path, words: str, code: int, said: str) -> None:
    """A result that cannot be written is 2, which says nothing of the result; a file needs no stdout."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m roofline {words}"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, said)
    for path in tmp_path.iterdir():
        assert json.loads(path.read_text(encoding="utf-8"))["model"]["name"] == "gpt2"


def test_a_process_without_stdout() -> None:
    """Such as a service, or pythonw: the application can be imported."""
    code = "import sys; sys.stdout = sys.stderr = None; import roofline.cli.app"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 0
    )
