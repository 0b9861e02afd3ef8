"""Windows and macOS, as far as a machine of another kind can tell: what only some systems have, paths, names, encodings."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest

from roofline import files
from roofline.blocks.model_files import load_model
from roofline.cli import app as application
from roofline.errors import InputError, SpecError
from roofline.serving.traffic.lengths.discrete import _path_and_column
from roofline.specs import library

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "roofline").rglob("*.py"))
POSIX = {
    "modules": {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"},
    "os": {
        "chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getuid",
        "killpg", "mkfifo", "mknod", "nice", "openpty", "pread", "pwrite", "sched_getaffinity", "sched_setaffinity", "setsid",
        "statvfs", "sysconf", "uname", "wait", "wait4", "waitid",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGPROF", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1",
        "SIGUSR2", "SIGVTALRM", "SIGXCPU", "SIGXFSZ", "alarm", "pause", "pthread_kill", "pthread_sigmask", "setitimer",
        "siginterrupt", "sigwait",
    },
    "time": {"pthread_getcpuclockid", "tzset"},
}  # fmt: skip
"""What Windows has not; macOS has all but the affinity of processes."""
LINUX_ALONE = {
    ("measure/bench/counters.py", "killpg"): "ends Nsight Compute, which is started for Linux alone",
    ("measure/bench/counters.py", "SIGKILL"): "likewise",
    ("measure/bench/collectives.py", "sched_getaffinity"): "behind a list of cores that is empty elsewhere",
    ("measure/bench/collectives.py", "sched_setaffinity"): "likewise",
}


_WORDS = "|".join(sorted(set().union(*POSIX.values()), key=len))
_WORTH = re.compile(rf"(?:\.|import )(?:{_WORDS})\b|(?:read_text|write_text|open|TextIOWrapper)\(")


@cache
def _trees() -> dict[Path, ast.Module]:
    """The modules in which one of the names is at all: to parse all of them takes ten times as long."""
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    return {path: ast.parse(text) for path, text in texts.items() if _WORTH.search(text)}


def _special(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that only some systems have, with their lines; those behind `hasattr` or `except ImportError` are left out."""
    asked = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hasattr" and isinstance(node.args[1], ast.Constant)
    }
    tried = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.Try)
        and any(isinstance(one.type, ast.Name) and one.type.id == "ImportError" for one in block.handlers)
        for node in block.body
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in tried:
            names = [node.module] if isinstance(node, ast.ImportFrom) else [entry.name for entry in node.names]
            yield from ((node.lineno, name) for name in names if name in POSIX["modules"])
        elif (
            isinstance(node, ast.Attribute)
            and node.attr not in asked
            and node.attr in POSIX.get(getattr(node.value, "id", ""), ())
        ):
            yield node.lineno, node.attr


def _unencoded(tree: ast.Module) -> Iterator[int]:
    """Lines that read or write text in the encoding of the machine."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(entry.arg in ("encoding", None) for entry in node.keywords):
            continue
        called = node.func
        owner = getattr(called.value, "id", "") if isinstance(called, ast.Attribute) else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        modes = [*node.args[:2], *(entry.value for entry in node.keywords if entry.arg == "mode")]
        as_text = any(isinstance(mode, ast.Constant) and mode.value in ("r", "w", "a") for mode in modes)
        # `files.read_text` and functions of ours have UTF-8 for their default, as has `importlib.metadata`
        if (name in ("read_text", "write_text") and owner not in (None, "files", "distribution")) or (
            (name == "open" and as_text) or (name == "TextIOWrapper" and len(node.args) < 2)
        ):
            yield node.lineno


@pytest.mark.slow
@pytest.mark.same_calls
def test_nothing_that_only_some_systems_have() -> None:
    """Neither at import nor later, but for what is asked for first or runs on Linux alone."""
    used = {
        (path.relative_to(ROOT / "roofline").as_posix(), name): line
        for path, tree in _trees().items()
        for line, name in _special(tree)
    }
    assert {place: line for place, line in used.items() if place not in LINUX_ALONE} == {}
    assert LINUX_ALONE.keys() - used.keys() == set()


@pytest.mark.same_calls
def test_text_is_utf_8_everywhere() -> None:
    """Python before 3.15 reads and writes text on Windows in cp1252, unless told otherwise."""
    assert [f"{path}:{line}" for path, tree in _trees().items() for line in _unencoded(tree)] == []


def test_the_probes_see_what_they_look_for() -> None:
    """A name that Windows has not, a module that it has not, text without its encoding."""
    source = (
        'import os, pwd\nos.fork()\nif hasattr(os, "nice"):\n    os.nice(1)\ntry:\n    import fcntl\nexcept ImportError: pass\n'
    )
    assert sorted(_special(ast.parse(source))) == [(1, "pwd"), (2, "fork")]
    text = 'p.read_text()\np.read_text(encoding="utf-8")\nopen(p, "w")\np.open("rb")\nfiles.read_text(p, 1)\n'
    assert sorted(_unencoded(ast.parse(text))) == [1, 3]


RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
FOLDERS = (
    "roofline", "hardware", "models", "engines", "prices", "kernels", "reports", "docs", "lessons", "measurements", "tests",
    "benchmarks",
)  # fmt: skip


def test_names_of_files_are_possible_everywhere() -> None:
    """Windows reserves some and forbids signs; there and on macOS `A` and `a` are one file; a path has at most 260 signs."""
    seen: dict[str, str] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" in path.parts or "_generated" in path.parts:
                continue
            name = path.relative_to(ROOT).as_posix()
            assert path.name.partition(".")[0].lower() not in RESERVED, name
            assert not re.search(r'[<>:"\\|?*\x00-\x1f]|[. ]$', path.name), name
            assert len(name) <= 120, name
            assert seen.setdefault(name.casefold(), name) == name


@pytest.mark.parametrize(
    ("name", "on_windows", "elsewhere"),
    [
        ("llama-3.1-8b", False, False), ("8xh100-sxm", False, False), ("models\\mine", True, False), ("~", True, True),
        ("C:\\models\\mine", True, False), ("meta-llama/Llama-3.1-8B", True, True), ("mine.YAML", True, True),
        ("models/mine", True, True),
    ],
)  # fmt: skip
def test_what_is_a_path(name: str, on_windows: bool, elsewhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slash separates everywhere, a backslash on Windows too; an id is none."""
    assert library.is_path(name) is elsewhere
    monkeypatch.setattr(library, "os", SimpleNamespace(sep="\\"))
    monkeypatch.setattr(library, "Path", PureWindowsPath)
    assert library.is_path(name) is on_windows


@pytest.mark.parametrize(
    ("text", "path", "column"),
    [
        (r"C:\lengths.txt", r"C:\lengths.txt", None), (r"C:\lengths.csv:prompt", r"C:\lengths.csv", "prompt"),
        ("c:/lengths.csv:prompt", "c:/lengths.csv", "prompt"), ("c:/lengths.csv", "c:/lengths.csv", None),
        ("a:prompt", "a", "prompt"),
    ],
)  # fmt: skip
def test_the_colon_of_a_drive(text: str, path: str, column: str | None) -> None:
    """It ends no name of a file of lengths, that of its column does."""
    assert _path_and_column(text, None) == (Path(path), column)


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["", "byte order mark"])
def test_files_as_editors_of_windows_write_them(start: str, tmp_path: Path) -> None:
    """Lines that end in CR and LF, a mark at the start: the same model, and errors in the same place."""
    text = (ROOT / "models" / "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    (tmp_path / "unix.yaml").write_bytes(text.encode())
    (tmp_path / "windows.yaml").write_bytes((start + text.replace("\n", "\r\n")).encode())
    assert load_model(tmp_path / "windows.yaml")[0] == load_model(tmp_path / "unix.yaml")[0]
    wrong = text.replace("hidden_size", "hiden_size")
    places = []
    for name, content in (("unix", wrong), ("windows", start + wrong.replace("\n", "\r\n"))):
        (tmp_path / f"{name}.yaml").write_bytes(content.encode())
        with pytest.raises(SpecError) as refused:
            load_model(tmp_path / f"{name}.yaml")
        places.append((refused.value.line, refused.value.column))
    assert places[0] == places[1]


def _on_stdout(encoding: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> bytes:
    """What a command writes to a stdout of an encoding."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["roofline", *words])
    with pytest.raises(SystemExit) as left:
        application.main()
    assert left.value.code in (0, None)
    return raw.getvalue()


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "cp932", "ascii"])
def test_stdout_of_a_pipe_on_windows(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text has question marks for what the encoding lacks; JSON has all signs, and is what a pipe in UTF-8 gets."""
    text = _on_stdout(encoding, monkeypatch, "analyze", "gpt2", "-H", "t4", "-v").decode(encoding)
    assert text.startswith("GPT-2")
    words = ("explain", "gpt2", "kv_bytes_per_token", "--json")
    document: dict[str, Any] = json.loads(_on_stdout(encoding, monkeypatch, *words).decode(encoding))
    assert document == json.loads(_on_stdout("utf-8", monkeypatch, *words).decode())
    listed = ("hardware", "list", "--json")
    assert json.loads(_on_stdout(encoding, monkeypatch, *listed).decode("ascii"))


def test_a_file_that_another_program_has_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows does not replace it: one message with its name, the old content, nothing left beside it."""

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Access is denied", str(self), None, str(target))

    out = tmp_path / "out.csv"
    out.write_text("old", encoding="utf-8")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InputError, match=r"^cannot write .*out\.csv: Access is denied$"):
        files.write_whole(out, b"new")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("out.csv", "old")]
