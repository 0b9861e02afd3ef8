"""`roofline claim` as a command: words and flags, codes, forms of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
JEWEL = "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"
FLAGS = ("llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--tokens-per-s", "3500", "--batch", "1", "--dtype", "fp16")


def test_words(run: Run) -> None:
    """Verdict first; the whole page on stdout with exit code 1."""
    answer = run("claim", JEWEL)
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("Impossible: Llama 3.1 8B on one NVIDIA A100 SXM4 80GB can reach at most 135.8 tok/s")
    assert "weights read each step: 15.01 GB / 2.039 TB/s = 7.361 ms" in answer.out


@pytest.mark.slow
def test_words_and_flags_agree(run: Run) -> None:
    """The same claim gives the same figures."""
    words, flags = (json.loads(run("claim", *given, "--json").out) for given in ((JEWEL,), FLAGS))
    for name in ("verdict", "ceiling", "ratio", "claimed", "unit", "likely_mistakes", "derivation"):
        assert words[name] == flags[name]


@pytest.mark.slow
def test_json(run: Run) -> None:
    """The keys of the contract; the whole object with exit code 1."""
    answer = run("claim", *FLAGS, "--json")
    found = json.loads(answer.out)
    assert answer.code == 1
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert {entry["name"] for entry in found["inputs"].values()} == {"llama-3.1-8b", "a100-sxm-80gb"}
    assert found["verdict"] == "impossible"
    assert found["ceiling"] == pytest.approx(135.8, rel=0.01)
    assert found["ratio"] > 1
    assert found["likely_mistakes"]
    assert {note["origin"] for note in found["assumptions"]} <= {"given", "default", "assumed", "transferred"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("llama-3.1-8b", "-H", "a100-sxm-80gb", "--tokens-per-s", "95", "--batch", "1"), 0),
        (("llama-3.1-8b", "-H", "a100-sxm-80gb", "--tokens-per-s", "95 tok/s", "--per-user"), 0),
        (("llama-3.1-8b", "-H", "a100-sxm-80gb", "--tpot", "1 ms"), 1),
        (("llama-3.1-70b", "-H", "h100-sxm", "--ttft", "10 ms", "--input-len", "100k"), 1),
        (("llama-3.1-70b", "-H", "h100-sxm", "--fits", "--dtype", "fp16"), 1),
        (("llama-3.1-70b", "-H", "h100-sxm", "--fits", "--dtype", "fp16", "--tp", "2"), 0),
        (("-H", "h100-sxm", "--peak-flops", "1979 TFLOP/s", "--dtype", "bf16"), 1),
        (("-H", "h100-sxm", "--peak-flops", "989 TFLOP/s", "--dtype", "bf16"), 0),
        (("-H", "h100-sxm", "--peak-flops", "1979 TFLOP/s", "--dtype", "fp8"), 0),
        (("Llama 3.1 8B", "-H", "H100 SXM5", "--tokens-per-s", "100"), 0),
        (("2500 tok/s at batch 32", "llama-3.1-8b", "-H", "h100-sxm"), 0),
        (("llama-3.1-8b", "2500 tok/s at batch 32", "-H", "h100-sxm"), 0),
    ],
)
def test_codes(run: Run, arguments: tuple[str, ...], code: int) -> None:
    """1 when it is impossible, else 0."""
    answer = run("claim", *arguments)
    assert answer.code == code, answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing is claimed"),
        (("a blazing llama-3.1-8b on h100-sxm: 95 tok/s",), "'blazing'"),
        (("llama-3.1-8b", "--tokens-per-s", "95"), "hardware"),
        (("-H", "h100-sxm", "--tokens-per-s", "95"), "model"),
        (("llama-3.1-8b", "-H", "a100", "--tokens-per-s", "95"), "a100-sxm-80gb"),
        (("llama-3.1-8b on A100: 95 tok/s",), "a100-pcie-40gb"),
        (("llama-9-8b", "-H", "h100-sxm", "--tokens-per-s", "95"), "unknown model"),
        (("llama-3.1-8b", "-H", "h100-sxm", "--ttft", "10"), "unit"),
        (("95 tok/s now", "96 tok/s then"), "two texts"),
    ],
)
def test_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, one message, nothing on stdout."""
    assert message in run("claim", *arguments).refused()


def test_help_has_the_grammar(run: Run) -> None:
    """Where the messages send a reader."""
    answer = run("claim", "--help")
    assert answer.code == 0
    assert "batch 32 | batch size 32" in answer.out
    assert "989 dense bf16 TFLOP/s" in answer.out


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".csv", ".md"])
def test_files(run: Run, tmp_path: Path, suffix: str) -> None:
    """The answer in a file by its suffix, with the same exit code."""
    file = tmp_path / f"claim{suffix}"
    answer = run("claim", JEWEL, "-o", file)
    assert (answer.code, answer.out) == (1, "")
    assert "impossible" in file.read_text(encoding="utf-8").lower()
