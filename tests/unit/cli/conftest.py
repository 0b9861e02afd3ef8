"""Running the command line: in this process (fast), or in one of its own (as a user does)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from roofline.cli.app import main
from roofline.specs.library import shipped

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Answer:
    """What a command said and how it left."""

    code: int
    out: str
    err: str

    def refused(self) -> str:
        """The message of a command that left with 2: nothing on stdout, one message and no traceback on stderr."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("error: ") == 1
        assert self.err.endswith("\n")
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").rstrip("\n")


Run = Callable[..., Answer]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("analyze", "gpt2", ...)` in this process."""
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["roofline", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return Answer(int(left.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def process() -> Run:
    """The same in a process of its own; `cwd`, `env` and a `limit` of memory in bytes may be given."""

    def call(
        *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, limit: int | None = None
    ) -> Answer:
        def confine() -> None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # type: ignore[arg-type]

        done = subprocess.run(
            [sys.executable, "-m", "roofline", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            cwd=cwd,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            preexec_fn=confine if limit else None,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def evil_model(tmp_path: Path) -> Path:
    """GPT-2 under a title that tries to colour terminals, break tables, and be a formula."""
    text = (shipped("models") / "gpt2.yaml").read_text(encoding="utf-8")
    title = r'"=cmd|\e[31mred\e[0m\u202e\a<b>bold</b>\u009b"'
    layer = r'"=1+1|\e[31m<i>"'  # the name of a layer type becomes part of every path
    path = tmp_path / "evil.yaml"
    text = text.replace("title: GPT-2 small", f"title: {title}")
    path.write_text(text.replace("  decoder:", f"  {layer}:").replace("pattern: [decoder]", f"pattern: [{layer}]"))
    return path
