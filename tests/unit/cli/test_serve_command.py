"""`roofline bench serve` as a command: its document, its streams, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the bench runs through torch")

ROOT = Path(__file__).resolve().parents[3]
HARDWARE = ROOT / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"
Run = Callable[..., Any]

TINY = """\
schema_version: 1
name: tiny
title: Tiny
hidden_size: 64
vocab_size: 512
max_position_embeddings: 128
tie_word_embeddings: true
dtype: bf16
layer_types:
  decoder:
    mixer: {kind: gqa, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16}
    mlp: {kind: gated_mlp, intermediate_size: 128}
layers:
  - {pattern: [decoder], repeat: 2}
sources:
  made: {title: made for a test}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.mark.slow
def test_document(run: Run, tiny: Path) -> None:
    """With fits there are estimates too, each in its interval and the sum of its kinds; stderr has the progress alone."""
    words = ("--batch", "2", "--input-len", "8", "--steps", "3", "--device", "cpu", "--budget", "20", "--json")
    answer = run("bench", "serve", tiny, *words, "--hardware", "h100-sxm", "--dtype", "bf16")
    assert answer.code == 0
    assert "USDT" not in answer.err
    document = json.loads(answer.out)
    assert (document["model"], document["hardware"], document["dtype"]) == ("tiny", "h100-sxm", "bf16")
    assert (document["batch"], document["input_len"], document["steps"]) == (2, 8, 3)
    assert set(document["inputs"]) >= {"model", "hardware"}
    predicted = document["step"]["predicted_s"]
    assert predicted["floor"] <= predicted["bound"] <= predicted["estimate"]
    assert predicted["low"] <= predicted["estimate"] <= predicted["high"]
    assert document["step"]["launch_s"] is None
    assert document["step"]["tokens_per_s"] * document["step"]["launching"][0]["time_s"]["median"] == pytest.approx(2)
    estimates = [row["estimate_s"] for row in document["kinds"] if row["estimate_s"] is not None]
    # operators that one kernel of an engine computes are estimated apart here: a launch each more
    assert sum(estimates) == pytest.approx(predicted["estimate"], rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--batch", "1000000"),
            r"--batch 1000000: tiny in fp32 with 13 tokens per sequence needs about .* batch that fits is",
        ),
        (("--input-len", "200"), r"--input-len 200 and --steps 5: tiny has 128 positions"),
        (("--dtype", "int8"), "unknown dtype 'int8'. Known: bf16, fp16, fp32"),
        (("--device", "tpu"), "--device must be cuda or cpu, not 'tpu'"),
        (("--budget", "soon"), "--budget"),
        (("--hardware", "h101"), "unknown hardware 'h101'"),
    ],
)
def test_bad_usage(run: Run, tiny: Path, arguments: tuple[str, ...], words: str) -> None:
    """One message, which says what would do, and nothing on stdout."""
    first = ("bench", "serve", tiny, "--device", "cpu", "--input-len", "8", "--steps", "5", "-q")
    answer = run(*first, "--hardware", HARDWARE, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert re.search(words, answer.err)
    assert len(answer.err.splitlines()) == 1


def test_a_model_that_the_loop_cannot_run(run: Run) -> None:
    """It says why."""
    answer = run("bench", "serve", "deepseek-v2-lite", "--device", "cpu", "--hardware", HARDWARE)
    assert answer.code == 2
    assert "deepseek-v2-lite: its attention is not plain grouped-query attention" in answer.err


def test_without_torch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3, and the extra's name."""
    monkeypatch.setitem(sys.modules, "torch", None)
    answer = run("bench", "serve", "gpt2")
    assert (answer.code, answer.out) == (3, "")
    assert "roofline[bench]" in answer.err
