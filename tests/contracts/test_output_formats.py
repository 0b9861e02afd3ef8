"""The help of `--output` lists the formats that a command writes, and no others."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys

import pytest

from roofline.cli.app import main

LINES = {
    "analyze": "gpt2 -H t4",
    "limits": "gpt2 -H t4",
    "report": "gpt2 -H t4",
    "compare": "--engine-log docs/examples/vllm.log --bench docs/examples/vllm-bench.json -H h100-sxm",
    "trace": "docs/examples/trace.csv",
    "preempt": "gpt2 -H t4 --tokens 512",
    "simulate": "gpt2 -H t4 --rate 2 --input-len 30 --output-len 4 --requests 3",
    "validate": "measurements",
    "explain": "gpt2 parameters",
    "claim": "gpt2 -H t4 --fits",
    "plan": "gpt2 -H t4 --rate 2 --input-len 30 --output-len 6",
    "op": "gemm 512 8192 28672 -H h100-sxm",
    "models list": "",
    "models show": "gpt2",
    "models check": "gpt2",
    "sweep": "gpt2 -H t4 --batch 1,2",
    "worksheet": "kv-cache --seed 1",
    "hardware list": "",
    "hardware show": "t4",
    "hardware check": "t4",
    "bench show": "measurements/amd-epyc-x2/2026-11-20",
    "schema": "model",
    "doctor": "",
}
"""A complete line of each command with `--output`."""


def run(line: str) -> tuple[str, str]:
    """Stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["roofline", *shlex.split(line)])
        patch.setenv("COLUMNS", "400")
        patch.setenv("NO_COLOR", "1")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit):
            main()
    return out.getvalue(), err.getvalue()


def extensions(text: str) -> set[str]:
    """The extensions that a text names."""
    return set(re.findall(r"\.(?:csv|html|ipynb|json|md|parquet|pdf|png|svg|tex|txt|xml|ya?ml|zip)\b", text))


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_help_lists_what_is_written(command: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A file of no format is refused with the formats that there are: those of the help."""
    monkeypatch.chdir(request.config.rootpath)
    (described,) = re.findall(r"--output FILE (.*?)\n  -", run(f"{command} --help")[0], re.DOTALL)
    _, refused = run(f"{command} {LINES[command]} -o nothing.of-no-format")
    assert extensions(described) == extensions(refused.rpartition("cannot write")[2]) != set()
