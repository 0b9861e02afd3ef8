"""Thousands of wrong inputs, and no internal error: commands answer, or refuse with one message.

`ROOFLINE_FUZZ=20 pytest tests/fuzz` runs 20 times as many; `ROOFLINE_FUZZ_SEED` gives others.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fuzz.kinds import KINDS, Case, known

from roofline.cli.app import main

resource = pytest.importorskip("resource", reason="limits of memory are those of POSIX")
SEED = os.environ.get("ROOFLINE_FUZZ_SEED", "20261122")
TIMES = float(os.environ.get("ROOFLINE_FUZZ", "1"))
_LIMIT_S = 20.0
"""CPU seconds of a command: many times what the slowest takes."""
_MEMORY = 3 * 2**30
"""Bytes of address space that a command may take beyond what the process has."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COUNTED = re.compile(r"(^|_)(flops|bytes|tokens|requests|replicas|devices|batch|time_s|ttft_s|tpot_s|itl_s|e2e_s)$")
"""Keys of what cannot be negative."""


class TooLongError(BaseException):
    """Past every `except Exception`: a command that does not come to an end."""


@dataclass(frozen=True)
class Left:
    """What a command wrote, and how it left."""

    code: Any
    out: str
    err: str


@contextlib.contextmanager
def confined(limit_s: float) -> Iterator[None]:
    """With a limit of CPU time and of memory, where the system has them."""

    def stop(*_: object) -> NoReturn:
        raise TooLongError

    statm = Path("/proc/self/statm")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    if statm.exists():
        now = int(statm.read_text().split()[0]) * resource.getpagesize()
        most = now + _MEMORY if hard == resource.RLIM_INFINITY else min(now + _MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def call(arguments: list[str], limit_s: float = _LIMIT_S) -> Left:
    """Run the command line in this process, for so many CPU seconds at most."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given, sys.argv = sys.argv, ["roofline", *arguments]
    code: Any = "no SystemExit"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), confined(limit_s):
            main()
    except SystemExit as left:
        code = left.code or 0
    except TooLongError:
        code = f"ran longer than {limit_s:g} CPU seconds"
    except BaseException:  # noqa: BLE001 - which is what is looked for
        code = traceback.format_exc(limit=-3)
    finally:
        sys.argv = given
    return Left(code, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)))


def problem(left: Left, *, as_json: bool) -> str | None:
    """What is wrong with how a command answered; None: nothing."""
    if left.code not in (0, 1, 2, 3, 4):
        return f"left with {left.code}"
    if sign := _CONTROL.search(left.out + left.err):
        return f"a control character on the terminal: {sign[0]!r}"
    if left.code in (2, 3):
        if left.out:
            return "a refusal with something on stdout"
        first, *rest = left.err.splitlines() or [""]
        if not re.match(r"error: \S", first) or any(line.startswith("error:") for line in rest):
            return "a refusal that is not one message"
    if left.code in (0, 1) and as_json:
        try:
            json.loads(left.out, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_object)
        except ValueError as error:
            return f"JSON on stdout: {error}"
    return None


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or (value == 0 and text.startswith("-")):
        _refuse(text)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _refuse(f"a key twice in {list(found)}")
    for key, value in pairs:
        counted = (
            value.items() if key == "series" and isinstance(value, dict) else [(key, value)] if _COUNTED.search(key) else []
        )
        for name, entry in counted:
            if any(one < 0 for one in (entry if isinstance(entry, list) else [entry]) if isinstance(one, int | float)):
                _refuse(f"{name} is negative")
    return found


def shell_line(arguments: Sequence[str]) -> str:
    """The command line as it is typed; bytes that are no text are escaped."""
    parts = (part.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for part in arguments)
    return f"roofline {shlex.join(parts)}"


def _answer(case: Case, folder: Path) -> tuple[Left, str | None]:
    """How a case is answered, for which its files are put into a folder of their own, and what is wrong with that."""
    folder.mkdir(parents=True)
    case.write(folder)
    arguments = [*case.arguments, *case.last, "--json"]
    with contextlib.chdir(folder):
        left = call(arguments)
    if (wrong := problem(left, as_json=not {"-h", "--help", "--version"} & set(arguments))) is None:
        return left, None
    line = shell_line(arguments)
    (folder / "command.txt").write_text(f"{line}\n", encoding="utf-8")
    return left, f"{wrong}\n  cd {folder} && {line[:2000]}\n  stderr: {left.err[:2000]}\n  stdout: {left.out[:200]}"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packages of the user's, no network, a traceback for what is not foreseen."""
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ROOFLINE_DEBUG", "1")


@pytest.mark.parametrize("kind", KINDS)
def test_valid_inputs_are_answered(kind: str, tmp_path: Path) -> None:
    """What is mutated is right at first: else nothing behind the reader would be tested."""
    for index, case in enumerate(KINDS[kind].seeds()):
        left, wrong = _answer(case, tmp_path / str(index))
        assert wrong is None, wrong
        assert left.code in (0, 1), left.err


@pytest.mark.parametrize("name", known())
def test_what_was_wrong_once(name: str, tmp_path: Path) -> None:
    """Internal errors that were found are refusals or answers now."""
    _, wrong = _answer(known()[name], tmp_path / "case")
    assert wrong is None, wrong


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_inputs_are_refused_or_answered(kind: str, tmp_path: Path) -> None:
    """Exit code 0 to 4, one message where it is 2, strict JSON where it is 0 or 1, no control characters."""
    wrong = []
    for index in range(max(round(KINDS[kind].n * TIMES), 1)):
        folder = tmp_path / str(index)
        _, problems = _answer(KINDS[kind].mutant(kind, SEED, index), folder)
        if problems is None:
            shutil.rmtree(folder)
        else:
            wrong.append(f"index {index}: {problems}")
    again = f"ROOFLINE_FUZZ_SEED={SEED} ROOFLINE_FUZZ={TIMES:g} pytest tests/fuzz -k 'wrong_inputs and {kind}'"
    assert not wrong, f"{len(wrong)} of {index + 1}; again by {again}\n" + "\n".join(wrong[:10])
